"""``check_idempotent``: crash a handler at every point, run it again, compare its effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fencepost.core.display import shown
from fencepost.errors import ConfigurationError
from fencepost.testing.attempting import Turns, drive, drive_async
from fencepost.testing.idempotency.effects import EffectFunction, effect, places_of
from fencepost.testing.idempotency.records import KINDS, EffectRecord, record
from fencepost.testing.idempotency.report import Report, Seen, flaws
from fencepost.testing.idempotency.scenario import Life, World
from fencepost.testing.idempotency.trail import Point, Trail

if TYPE_CHECKING:
    from fencepost.app import TaskHandle

POINTS_MAX = 1_000

UNSTEADY = (
    "{task} does not do the same twice, so that the effects of a crash cannot be told; does it "
    "remember its work somewhere? Then put that back with setup=. Run again without any crash:\n"
    "  {differences}"
)


class NotIdempotentError(AssertionError):
    """A crash did harm; ``report`` says which, and where."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


class CheckIdempotent:
    """Finds out what a crash does to a handler's effects; ``aio`` is the same, awaited."""

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
        each run. *state* returns what else must be the same in the end; *setup* puts back what
        else there is, and is called before each run.

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
    world = World(places_of(calls, task.function), records, state, setup)
    life = Life(handle._session, task, handle.prepare(*args, **kwargs), world)
    name = _call_text(task.type, args, kwargs)
    try:
        usual, points = yield from _usual(life, task.function, name)
        found = []
        for number in range(1, len(points) + 1):
            trail = Trail(task.function, crash_at=number)
            seen = yield from life.live(trail)
            # A handler that took another way this time may not have come by.
            if trail.crashed_at is not None:
                found += flaws(usual, seen, trail.crashed_at)
        return Report(name, points, found)
    finally:
        world.put_back()


def _usual(life: Life, function: Callable[..., Any], name: str) -> Turns[tuple[Seen, list[Point]]]:
    """Return what the handler does without a crash, and what it comes by; it must be steady."""
    trail = Trail(function)
    usual = yield from life.live(trail)
    if usual.failure is not None:
        raise AssertionError(f"{name} fails without any crash: {usual.failure}") from life.error
    if len(trail.points) > POINTS_MAX:
        raise ConfigurationError(
            f"{name} can crash at {len(trail.points):,} points, more than {POINTS_MAX:,}; check it "
            f"with less to do"
        )
    again = yield from life.live(Trail(function))
    differences = flaws(usual, again, trail.points[-1])
    if differences:
        lines = "\n  ".join(map(str, differences))
        raise AssertionError(UNSTEADY.format(task=name, differences=lines)) from life.error
    return usual, trail.points


def _sorted(
    effects: Sequence[Any], handler: Callable[..., Any]
) -> tuple[list[EffectFunction], list[EffectRecord]]:
    """Tell the calls from the records."""
    if isinstance(effects, str) or not isinstance(effects, Sequence):
        raise ConfigurationError(f"effects must be a list, got {shown(effects)}")
    calls, records = [], []
    for number, each in enumerate(effects):
        if isinstance(each, KINDS):
            records.append(record(each, number, handler))
        else:
            calls.append(each if isinstance(each, EffectFunction) else effect(each))
    return calls, records


def _call_text(type: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    words = [*map(shown, args), *(f"{name}={shown(value)}" for name, value in kwargs.items())]
    return f"{type}({', '.join(words)})"
