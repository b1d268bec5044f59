"""What every slice said, one file each: a run that was broken off can be gone on with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from lab.torture.schedule import Record
from lab.torture.suites import Suite


class Archive:
    """The reports of a run, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "slices"
        self._clock = self._folder / "seconds"

    @property
    def seconds(self) -> float:
        """How long the run has lasted so far."""
        return float(self._clock.read_text("ascii")) if self._clock.exists() else 0.0

    def clear(self) -> None:
        """Forget an earlier run."""
        for path in (*self._folder.glob("*.json"), self._clock):
            path.unlink(missing_ok=True)

    def save(self, records: Iterable[Record], seconds: float) -> None:
        """Write what is not written yet, after so many *seconds* of the run."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._clock.write_text(f"{seconds:.1f}\n", "ascii")
        for record in records:
            for number, report in enumerate(record.reports):
                path = self._path(record.suite, number)
                if not path.exists():
                    path.write_bytes(msgspec.json.encode(report))

    def load(self, suites: Iterable[Suite]) -> list[Record]:
        """Return records that go on where the files end, with further seeds."""
        return [self._record(suite) for suite in suites]

    def _record(self, suite: Suite) -> Record:
        reports = [
            msgspec.json.decode(path.read_bytes(), type=suite.report) for path in self._paths(suite)
        ]
        return Record(suite, reports=reports, slices=len(reports))

    def _paths(self, suite: Suite) -> Sequence[Path]:
        return sorted(self._folder.glob(f"{suite.name}-[0-9]*.json"))

    def _path(self, suite: Suite, number: int) -> Path:
        return self._folder / f"{suite.name}-{number:05}.json"
