"""``check_idempotent``: crash a handler at every point, run it again, compare its effects.

The findings are values, and texts that say what to do about them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from fencepost.core.display import shown
from fencepost.errors import ConfigurationError
from fencepost.testing.idempotency.effects import (
    SUBMIT,
    EffectFunction,
    call_text,
    effect,
    places_of,
)
from fencepost.testing.idempotency.scenario import (
    COLLECTIONS,
    EffectRecord,
    Scenario,
    Seen,
    Watched,
    record,
)
from fencepost.testing.idempotency.trail import Point, Trail
from fencepost.testing.runner import Turns, drive, drive_async

if TYPE_CHECKING:
    from fencepost.app import TaskHandle

POINTS_MAX = 1_000
PLACES_SHOWN = 5
KEYED = (
    "give it a key by which the other side recognises a repeat (ctx.job_id is the same in every "
    "attempt), and name that key in effect(…, key=…)"
)

UNSTEADY = (
    "{task} does not do the same twice, so the effects of a crash cannot be recognised; does it "
    "keep state somewhere? Then reset that with setup=. Run again without any crash:\n"
    "  {differences}"
)


class Damage(StrEnum):
    """What a crash can do to a handler's work."""

    DOUBLE = "double"
    LOSS = "loss"
    DIFFERENCE = "difference"
    FAILURE = "failure"


class Flaw(msgspec.Struct, frozen=True):
    """Harm that a crash at *point* did."""

    kind: Damage
    effect: str
    """The call, the submission or the item; or the difference; or the failure."""
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
    """The result of every crash."""

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


class NotIdempotentError(AssertionError):
    """A crash did harm; ``report`` says where, and what."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


class CheckIdempotent:
    """Shows what a crash does to a handler's effects; ``aio`` is the same, awaited."""

    def __call__(
        self,
        task: TaskHandle[..., Any],
        /,
        *args: Any,
        effects: Sequence[Any] = (),
        state: Callable[[], Any] | None = None,
        setup: Callable[[], object] | None = None,
        report: bool = False,
        **kwargs: Any,
    ) -> Report:
        """Run a job of *task* with these arguments, and once more for each point it can crash at.

        Watched are the jobs that it submits and its *effects*: functions (or ``effect(…)`` of one)
        whose calls count, and lists, dicts and sets that fakes write to, which are put back before
        each run. *state* returns what else must be the same in the end; *setup* is called before
        each run, to reset anything else.

        Raises NotIdempotentError, an AssertionError, if a crash made an effect happen twice or not
        at all; with *report*, returns what it found instead. The app's own store is not touched.
        """
        __tracebackhide__ = True
        turns = _turns(task, args, kwargs, effects=effects, state=state, setup=setup)
        return _judged(drive(turns), report)

    async def aio(
        self,
        task: TaskHandle[..., Any],
        /,
        *args: Any,
        effects: Sequence[Any] = (),
        state: Callable[[], Any] | None = None,
        setup: Callable[[], object] | None = None,
        report: bool = False,
        **kwargs: Any,
    ) -> Report:
        """Do the same on the running event loop."""
        __tracebackhide__ = True
        turns = _turns(task, args, kwargs, effects=effects, state=state, setup=setup)
        return _judged(await drive_async(turns), report)


check_idempotent = CheckIdempotent()


def _judged(report: Report, is_wanted: bool) -> Report:
    __tracebackhide__ = True
    if not report.ok and not is_wanted:
        raise NotIdempotentError(report)
    return report


def _turns(
    handle: TaskHandle[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    effects: Sequence[Any],
    state: Callable[[], Any] | None,
    setup: Callable[[], object] | None,
) -> Turns[Report]:
    task = handle._task
    calls, records = _sorted(effects, task.function)
    watched = Watched(places_of(calls, task.function), records, state, setup)
    scenario = Scenario(handle._session, task, handle.prepare(*args, **kwargs), watched)
    name = call_text(task.type, args, kwargs)
    try:
        usual, points = yield from _usual(scenario, task.function, name)
        found = []
        for number in range(1, len(points) + 1):
            trail = Trail(task.function, crash_at=number)
            seen = yield from scenario.run(trail)
            # A handler that takes another path this time may not pass the point.
            if trail.crashed_at is not None:
                found += flaws(usual, seen, trail.crashed_at)
        return Report(name, points, found)
    finally:
        watched.put_back()


def _usual(
    scenario: Scenario, function: Callable[..., Any], name: str
) -> Turns[tuple[Seen, list[Point]]]:
    """Return what the handler does without a crash, twice the same, and the points it passes."""
    trail = Trail(function)
    usual = yield from scenario.run(trail)
    if usual.failure is not None:
        raise AssertionError(f"{name} fails without any crash: {usual.failure}") from scenario.error
    if len(trail.points) > POINTS_MAX:
        raise ConfigurationError(
            f"{name} can crash at {len(trail.points):,} points, more than {POINTS_MAX:,}; check it "
            f"with less to do"
        )
    again = yield from scenario.run(Trail(function))
    differences = flaws(usual, again, trail.points[-1])
    if differences:
        lines = "\n  ".join(map(str, differences))
        raise AssertionError(UNSTEADY.format(task=name, differences=lines)) from scenario.error
    return usual, trail.points


def _sorted(
    effects: Sequence[Any], handler: Callable[..., Any]
) -> tuple[list[EffectFunction], list[EffectRecord]]:
    """Return the functions and the collections among *effects*."""
    if isinstance(effects, str) or not isinstance(effects, Sequence):
        raise ConfigurationError(f"effects must be a list, got {shown(effects)}")
    calls, records = [], []
    for number, each in enumerate(effects):
        if isinstance(each, COLLECTIONS):
            records.append(record(each, number, handler))
        else:
            calls.append(each if isinstance(each, EffectFunction) else effect(each))
    return calls, records


def flaws(expected: Seen, seen: Seen, point: Point) -> list[Flaw]:
    """Return how a run that crashed at *point* differs from one without a crash."""
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

    The text of an effect may differ between attempts, for example by a time: an unknown text stands
    in for a missing one. An effect of a kind that never happens without a crash, such as a repair
    by the second attempt, is not a double.
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
