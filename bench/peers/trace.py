"""What the handlers of a worker noted, in a file that all its processes append to."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

STEPS_MIN = 8
STRIDE = 20
"""Of no-op jobs a process notes the first, and then every so manieth: ``programs/protocol.py``."""


class Step(NamedTuple):
    """How many no-op jobs all processes had noted by when, in microseconds since 1970."""

    ran: int
    at: int


class Trace(msgspec.Struct):
    """The lines read so far. A line that is only half there is left for the next reading."""

    path: Path
    steps: list[Step] = []
    began: dict[int, list[int]] = {}
    """When each numbered job began, once for every attempt."""
    ended: dict[int, int] = {}
    counts: dict[int, int] = {}
    """What each process noted last."""
    position: int = 0

    @property
    def ran(self) -> int:
        return self.steps[-1].ran if self.steps else 0

    @property
    def unseen(self) -> int:
        """How many more no-op jobs may have run than were noted."""
        return STRIDE * len(self.counts)

    def read(self) -> None:
        """Read what was appended since the last time."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self.position)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self.position += len(whole)
        for line in whole.splitlines():
            self._take(line.split())

    def _take(self, words: list[bytes]) -> None:
        if words[0] == b"ran":
            pid, number, at = map(int, words[1:])
            gained = number - self.counts.get(pid, 0)
            self.counts[pid] = number
            self.steps.append(Step(self.ran + gained, at))
        elif words[0] == b"began":
            self.began.setdefault(int(words[1]), []).append(int(words[2]))
        else:
            self.ended[int(words[1])] = int(words[2])


class Quarters(NamedTuple):
    """Jobs a second in the first and in the last quarter of what ran."""

    first: float
    last: float


def quarters(steps: list[Step]) -> Quarters | None:
    """Return the rates of the first and the last quarter; None if too few jobs ran for that.

    Not tenths: jobs begin in batches, of which a part must have many.
    """
    ordered = sorted(steps, key=lambda step: step.at)
    if len(ordered) < STEPS_MIN:
        return None
    # Several processes note in turns: their order by time is that of the counts but for a few.
    total = ordered[-1].ran - ordered[0].ran
    first_edge = next(step for step in ordered if step.ran - ordered[0].ran >= total / 4)
    last_edge = next(step for step in ordered if step.ran - ordered[0].ran >= total * 3 / 4)
    first, last = _rate(ordered[0], first_edge), _rate(last_edge, ordered[-1])
    return None if first is None or last is None else Quarters(first, last)


def _rate(start: Step, end: Step) -> float | None:
    return (end.ran - start.ran) / (end.at - start.at) * 1e6 if end.at > start.at else None
