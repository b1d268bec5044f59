"""What a release was checked for: a line for each check, printed as it ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TextIO


class Result(Enum):
    """How a check ended."""

    OK = "ok"
    FAILED = "FAILED"
    SKIPPED = "not run"


class FailedError(Exception):
    """What is released is not as it must be; the text says in what."""


class SkippedError(Exception):
    """This machine cannot run a check; the text says why."""


@dataclass
class Report:
    """Runs checks, and says of each how it ended; a failed one does not stop those after it."""

    output: TextIO = field(default_factory=lambda: sys.stdout)
    results: list[Result] = field(default_factory=list)

    def check(self, name: str, run: Callable[[], str | None]) -> None:
        """Run a check, which returns a remark, and print its line."""
        started = time.monotonic()
        detail: str | None
        try:
            result, detail = Result.OK, run()
        except SkippedError as reason:
            result, detail = Result.SKIPPED, str(reason)
        except FailedError as error:
            result, detail = Result.FAILED, str(error)
        self.results.append(result)
        self._print(result, name, detail or "", time.monotonic() - started)

    def section(self, title: str) -> None:
        """Print the heading of the checks that follow."""
        self.output.write(f"\n{title}\n")

    @property
    def has_failed(self) -> bool:
        """Whether a check has failed."""
        return Result.FAILED in self.results

    def counts(self) -> str:
        """Return how many checks ended how, in words."""
        found = [(self.results.count(result), result.value) for result in Result]
        return ", ".join(f"{count} {word}" for count, word in found if count)

    def _print(self, result: Result, name: str, detail: str, seconds: float) -> None:
        first, *rest = detail.strip().splitlines() or [""]
        line = f"  {result.value:<8} {name}" + (f": {first}" if first else "")
        self.output.write(f"{line} ({seconds:.1f} s)\n" if seconds >= 1 else f"{line}\n")
        for each in rest:
            self.output.write(f"           {each}\n")
        self.output.flush()
