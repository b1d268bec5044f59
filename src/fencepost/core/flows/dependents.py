"""The rule for dependents: when a waiting job may run, and when it ends with a dependency.

PostgreSQL has a copy for dependencies that complete, in ``schema/functions/dependents.sql``; the
test ``tests/store/postgres/test_dependents.py`` compares the two in every case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec.structs import replace

from fencepost.core.flows.dependencies import Mode, Waits, check_depth
from fencepost.core.job.job import Dependency, Failure
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Decision, failed_with
from fencepost.core.job.policy import Priority
from fencepost.core.job.task import Task
from fencepost.core.values.payload import NULL, decode_result

MET = 0


class Parent(NamedTuple):
    """A dependency, as far as it matters to its dependent."""

    job_id: str
    state: State
    priority: Priority
    depth: int = 1
    failure: Failure | None = None


class WaitVerdict(NamedTuple):
    """How many dependencies are missing, or which one ends the job."""

    missing: int = MET
    failed_dependency: int | None = None
    """The place of the dependency that ends the job."""


def judge(mode: Mode, states: Sequence[State]) -> WaitVerdict:
    """Return the verdict for a job whose dependencies are in *states*."""
    open_ = sum(not state.is_terminal for state in states)
    match mode:
        case Mode.ANY:
            # If none is left, those that ended were pruned.
            return WaitVerdict(1 if states and open_ == len(states) else MET)
        case Mode.ENDED:
            return WaitVerdict(open_)
        case Mode.ALL:  # pragma: no branch - exhaustive
            for place, state in enumerate(states):
                if state.is_terminal and state is not State.COMPLETED:
                    return WaitVerdict(failed_dependency=place)
            return WaitVerdict(open_)


def step(mode: Mode, missing: int, state: State) -> WaitVerdict:
    """Return the verdict once one more dependency has ended in *state*."""
    assert state.is_terminal and missing > 0
    if mode is Mode.ANY:
        return WaitVerdict(MET)
    if mode is Mode.ALL and state is not State.COMPLETED:
        return WaitVerdict(failed_dependency=0)
    return WaitVerdict(missing - 1)


class Entry(NamedTuple):
    """How a job with dependencies is stored, or goes on waiting."""

    waits: Waits
    priority: Priority
    """The most urgent of its own and of its dependencies' (S1-37)."""
    decision: Decision | None = None
    """Set if a dependency that has ended already ends the job."""


def enter(
    mode: Mode, priority: Priority, parents: Sequence[Parent], *, gathers: bool = False
) -> Entry:
    """Return how a job that waits for *parents* is stored, or raise DependencyDepthError."""
    verdict = judge(mode, [parent.state for parent in parents])
    waits = Waits(mode, verdict.missing, 1, gathers, own_priority=priority)
    return _entered(waits, priority, parents, verdict.failed_dependency)


def gather(waits: Waits, priority: Priority, spawned: Sequence[Parent]) -> Entry:
    """Return how a waiting job goes on that also waits for *spawned* (S1-64, C29).

    If spawned jobs have ended already, it may be ready, or ended by that.
    """
    missing, failed_dependency = judge(waits.mode, [parent.state for parent in spawned])
    if waits.mode is not Mode.ANY:
        missing += waits.missing
    return _entered(replace(waits, missing=missing), priority, spawned, failed_dependency)


def _entered(
    waits: Waits, priority: Priority, parents: Sequence[Parent], failed_dependency: int | None
) -> Entry:
    depth = check_depth(max(waits.depth, 1 + max(parent.depth for parent in parents)))
    urgent = min(priority, *(parent.priority for parent in parents))
    decision = None
    if failed_dependency is not None:
        failed = parents[failed_dependency]
        decision = failed_with(failed.job_id, failed.state, failed.failure)
    return Entry(replace(waits, depth=depth), urgent, decision)


def results_of(dependencies: Iterable[Dependency], tasks: Mapping[str, Task]) -> Mapping[str, Any]:
    """Return the results of completed dependencies in order, by name in the flow or by id.

    Each is decoded as its task is annotated, or as plain JSON if *tasks* does not have it.
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
