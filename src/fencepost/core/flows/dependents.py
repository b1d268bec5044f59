"""What becomes of a job that waits for others: the only place where that is decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec.structs import replace

from fencepost.core.flows.dependencies import Mode, Waits, check_depth
from fencepost.core.job.job import AttemptOutcome, Category, Dependency, Failure
from fencepost.core.job.lifecycle import Event, State, advance
from fencepost.core.job.outcome import Decision
from fencepost.core.job.priority import Priority
from fencepost.core.job.task import Task
from fencepost.core.values.payload import NULL, decode_result

MET = 0


class Parent(NamedTuple):
    """A job that another waits for, as far as it matters to that one."""

    job_id: str
    state: State
    priority: Priority
    depth: int = 1
    failure: Failure | None = None


class WaitVerdict(NamedTuple):
    """What a job still waits for, or that it never will be let go."""

    missing: int = MET
    doom: int | None = None
    """The place of the dependency that ends it."""


def judge(mode: Mode, states: Sequence[State]) -> WaitVerdict:
    """Return what a job waits for whose dependencies are in *states*."""
    open_ = sum(not state.is_terminal for state in states)
    match mode:
        case Mode.ANY:
            # Only what has ended can have been pruned, so that none left is no wait either.
            return WaitVerdict(1 if states and open_ == len(states) else MET)
        case Mode.ENDED:
            return WaitVerdict(open_)
        case Mode.ALL:  # pragma: no branch - exhaustive
            for place, state in enumerate(states):
                if state.is_terminal and state is not State.COMPLETED:
                    return WaitVerdict(doom=place)
            return WaitVerdict(open_)


def step(mode: Mode, missing: int, state: State) -> WaitVerdict:
    """Return what a waiting job waits for once one more of its dependencies ended in *state*."""
    assert state.is_terminal and missing > 0
    if mode is Mode.ANY:
        return WaitVerdict(MET)
    if mode is Mode.ALL and state is not State.COMPLETED:
        return WaitVerdict(doom=0)
    return WaitVerdict(missing - 1)


_PROPAGATED = {
    State.FAILED: (Event.REJECT, Category.PERMANENT, AttemptOutcome.FAILED),
    State.DEAD_LETTER: (Event.EXHAUST, Category.SYSTEM, AttemptOutcome.FAILED),
    State.CANCELLED: (Event.CANCEL, Category.CANCELLED, AttemptOutcome.CANCELLED),
}


def propagated(state: State, failure: Failure | None, job_id: str) -> Decision:
    """Return how a job ends that waited for *job_id*, which ended in *state* (S1-71 to S1-73).

    The failure names the first culprit, however long the way from there is.
    """
    event, category, outcome = _PROPAGATED[state]
    culprit = job_id if failure is None or failure.culprit is None else failure.culprit
    message = f"it waited for job {culprit}, which ended as {state}"
    reason = Failure(category, message, code="dependency_failed", culprit=culprit)
    return Decision(event, advance(State.PENDING, event), outcome, failure=reason)


class Entry(NamedTuple):
    """How a job with dependencies enters a store, or goes on waiting there."""

    waits: Waits
    priority: Priority
    """The most urgent of its own and those of its dependencies (S1-37)."""
    decision: Decision | None = None
    """Set when a dependency has ended in a way that ends the job at once."""


def enter(
    mode: Mode, priority: Priority, parents: Sequence[Parent], *, gathers: bool = False
) -> Entry:
    """Return how a job enters that waits for *parents*, or raise DependencyDepthError."""
    verdict = judge(mode, [parent.state for parent in parents])
    waits = Waits(mode, verdict.missing, 1, gathers, own_priority=priority)
    return _entered(waits, priority, parents, verdict.doom)


def gather(waits: Waits, priority: Priority, spawned: Sequence[Parent]) -> Entry:
    """Return how a waiting job goes on that is to wait for *spawned* too (S1-64, C29).

    It may have been let go by that, or ended: what was spawned may have ended already.
    """
    missing, doom = judge(waits.mode, [parent.state for parent in spawned])
    if waits.mode is not Mode.ANY:
        missing += waits.missing
    return _entered(replace(waits, missing=missing), priority, spawned, doom)


def _entered(
    waits: Waits, priority: Priority, parents: Sequence[Parent], doom: int | None
) -> Entry:
    depth = check_depth(max(waits.depth, 1 + max(parent.depth for parent in parents)))
    urgent = min(priority, *(parent.priority for parent in parents))
    decision = None
    if doom is not None:
        culprit = parents[doom]
        decision = propagated(culprit.state, culprit.failure, culprit.job_id)
    return Entry(replace(waits, depth=depth), urgent, decision)


def results_of(dependencies: Iterable[Dependency], tasks: Mapping[str, Task]) -> Mapping[str, Any]:
    """Return the results of those that completed, in order, by their names in the flow or ids.

    Each is read as the annotation of its task says, or as plain JSON if it is none of *tasks*.
    """
    results: dict[str, Any] = {}
    for each in dependencies:
        if each.state is not State.COMPLETED:
            continue
        task = tasks.get(each.type)
        kind = Any if task is None else task.signature.return_type
        # Jobs of two flows may have the same name there.
        name = each.job_id if each.node is None or each.node in results else each.node
        results[name] = decode_result(each.result or NULL, kind)
    return MappingProxyType(results)
