"""What the check found, as a value and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec

from fencepost.core.display import shown
from fencepost.testing.idempotency.effects import SUBMIT, Counts
from fencepost.testing.idempotency.trail import Point

PLACES_SHOWN = 5
KEYED = (
    "give it a key by which the other side knows a repeat (ctx.job_id is the same in every "
    "attempt), and name that key in effect(…, key=…)"
)


class Damage(StrEnum):
    """What a crash can do to a handler's work."""

    DOUBLE = "double"
    LOSS = "loss"
    DIFFERENCE = "difference"
    FAILURE = "failure"


class Seen(msgspec.Struct, frozen=True):
    """What a job has done by its end."""

    counts: Counts
    states: dict[str, Any]
    """What the world looks like, by what was looked at."""
    failure: str | None = None
    """Why the job did not complete; None if it did."""


class Flaw(msgspec.Struct, frozen=True):
    """Something that a crash at *point* did to the world."""

    kind: Damage
    effect: str
    """The call, the submission or the item; what was different; why it failed."""
    times: int
    expected: int
    """How often it happens without a crash."""
    point: Point

    def __str__(self) -> str:
        match self.kind:
            case Damage.DOUBLE | Damage.LOSS:
                return f"{self.effect} happened {_times(self.times)} instead of {self.expected}"
            case Damage.DIFFERENCE:
                return self.effect
            case Damage.FAILURE:
                return f"the job did not complete: {self.effect}"

    @property
    def advice(self) -> str:
        """What to do about it."""
        match self.kind:
            case Damage.DOUBLE if self.effect.startswith(SUBMIT):
                return (
                    "submit it with a key, using(key=…): a second submission then finds the first"
                )
            case Damage.DOUBLE:
                return KEYED
            case Damage.LOSS:
                return (
                    "do it before the checkpoint, or whatever else makes a second attempt skip it"
                )
            case Damage.DIFFERENCE:
                return "write the whole value, not a change to it; or complete_in one transaction"
            case Damage.FAILURE:
                return "let a second attempt find what the first has done, and go on from there"


class Report(msgspec.Struct, frozen=True):
    """What became of every crash."""

    task: str
    points: list[Point]
    """Where the handler was crashed, in order."""
    flaws: list[Flaw]

    @property
    def ok(self) -> bool:
        """True if no crash, at any point, did harm."""
        return not self.flaws

    @property
    def doubles(self) -> list[Flaw]:
        """The effects that happened more often than without a crash."""
        return [flaw for flaw in self.flaws if flaw.kind is Damage.DOUBLE]

    @property
    def losses(self) -> list[Flaw]:
        """The effects that happened less often than without a crash."""
        return [flaw for flaw in self.flaws if flaw.kind is Damage.LOSS]

    def __str__(self) -> str:
        count = len(self.points)
        crashes = "1 crash" if count == 1 else f"{count} crashes"
        if self.ok:
            return f"{self.task} is idempotent: {crashes} did no harm"
        harmful = len({flaw.point for flaw in self.flaws})
        lines = [f"{self.task} is not idempotent: {harmful} of {crashes} did harm"]
        places: dict[tuple[str, str], list[Point]] = {}
        for flaw in self.flaws:
            places.setdefault((str(flaw), flaw.advice), []).append(flaw.point)
        for (what, advice), points in places.items():
            lines += ["", f"{what} when it crashed"]
            lines += [f"  {point}" for point in points[:PLACES_SHOWN]]
            if len(points) > PLACES_SHOWN:
                lines.append(f"  and at {len(points) - PLACES_SHOWN} more points")
            lines.append(f"  -> {advice}")
        return "\n".join(lines)


def flaws(expected: Seen, seen: Seen, point: Point) -> list[Flaw]:
    """Return how the end of a job that crashed at *point* differs from that of one that did not."""
    found = [
        Flaw(kind, text, times, usual, point)
        for name in {**expected.counts, **seen.counts}
        for kind, text, times, usual in _differences(
            expected.counts.get(name, Counter()), seen.counts.get(name, Counter())
        )
    ]
    for name, usual in expected.states.items():
        if seen.states[name] != usual:
            text = f"{name} became {shown(seen.states[name])} instead of {shown(usual)}"
            found.append(Flaw(Damage.DIFFERENCE, text, 1, 0, point))
    if seen.failure is not None:
        found.append(Flaw(Damage.FAILURE, seen.failure, 1, 0, point))
    return found


def _differences(
    expected: Counter[str], seen: Counter[str]
) -> Iterator[tuple[Damage, str, int, int]]:
    """Yield what happened too often, and what too seldom.

    An effect may carry what differs from attempt to attempt, such as a time: one that is new takes
    the place of one that is missing. One of a kind that never happens without a crash, such as the
    repair that a second attempt makes, is no double.
    """
    fresh = seen - expected
    for text in fresh:
        if expected[text]:
            yield Damage.DOUBLE, text, seen[text], expected[text]
    unknown = [text for text in fresh.elements() if not expected[text]]
    missing = list((expected - seen).elements())
    stand_ins = min(len(unknown), len(missing))
    if expected:
        for text, extra in Counter(unknown[stand_ins:]).items():
            yield Damage.DOUBLE, text, 1 + extra, 1
    for text in dict.fromkeys(missing[stand_ins:]):
        yield Damage.LOSS, text, seen[text], expected[text]


def _times(count: int) -> str:
    return "1 time" if count == 1 else f"{count} times"
