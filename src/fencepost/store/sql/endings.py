"""Jobs that end, and what that means for the jobs that wait for them: rules of both SQL engines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Generic, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from fencepost.core.flows.dependents import MET, Parent, judge, step
from fencepost.core.job.job import Failure
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import RELEASED, Decision, decide, failed_with
from fencepost.core.job.policy import Policy
from fencepost.core.job.timeouts import run_out
from fencepost.store.interface.queue import LeaseLost, Moved
from fencepost.store.plan import Plan
from fencepost.store.sql.codec import MODES, SqlEnv


class Live(Protocol):
    """A live job, as far as an engine has read it."""

    @property
    def seq(self) -> int: ...
    @property
    def job_id(self) -> str: ...
    @property
    def lane(self) -> int: ...
    @property
    def state(self) -> State: ...
    @property
    def attempt(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...


J = TypeVar("J", bound=Live)
Reply = TypeVar("Reply")


class Ending(NamedTuple, Generic[J]):
    """A job, how its attempt ends, and the token that settles it; None if it was not its worker."""

    job: J
    decision: Decision
    settled_token: str | None = None


class _Standing(NamedTuple):
    attempt: int
    max_attempts: int
    policy: Policy


def lease_ended(
    job: Live, policy: Policy, rng: Random, *, is_overdue: bool, has_started: bool = True
) -> Decision:
    """Return what becomes of a running job whose lease has expired."""
    if not has_started:
        return RELEASED
    standing = _Standing(job.attempt, job.max_attempts, policy)
    return decide(standing, run_out(policy, is_overdue=is_overdue), rng)


def moved(
    env: SqlEnv, endings: Sequence[Ending[J]], followed: tuple[Moved, ...] = ()
) -> Plan[list[Moved]]:
    """Return the moves of *endings*; the first carries those of all dependents."""
    lanes = yield from env.catalog.lanes({job.lane for job, _, _ in endings})
    moves = [
        Moved(job.job_id, lanes[job.lane].type, decision.state, job.state)
        for job, decision, _ in endings
    ]
    if followed:
        moves[0] = replace(moves[0], followed=followed)
    return moves


def informed(replies: list[Reply], states: Mapping[str, State]) -> list[Reply]:
    """Return *replies*, those about lost leases with the state of their job."""
    for index, reply in enumerate(replies):
        if isinstance(reply, LeaseLost):
            with_state = LeaseLost(reply.job_id, states.get(reply.job_id.lower()))
            replies[index] = with_state  # type: ignore[assignment]  # every Reply includes it
    return replies


class Ended(NamedTuple):
    """How a job ended that others may wait for."""

    state: State
    job_id: str = ""
    failure: Failure | None = None


def ended_of(endings: Iterable[Ending[J]]) -> dict[int, Ended]:
    """Return those jobs that have reached a terminal state, by number."""
    return {
        job.seq: Ended(decision.state, job.job_id, decision.failure)
        for job, decision, _ in endings
        if decision.state.is_terminal
    }


def failed_by(dependency: Ended | Parent) -> Decision:
    """Return how a job ends because of a dependency."""
    return failed_with(dependency.job_id, dependency.state, dependency.failure)


class Verdicts(NamedTuple):
    """How many jobs each job still waits for, and how those end that fail."""

    missing: dict[int, int]
    failing: dict[int, Decision]


def count_ended(
    waiting: Iterable[tuple[int, int, int, int]], ended: Mapping[int, Ended]
) -> Verdicts:
    """Return what becomes of jobs when those that they wait for have *ended*.

    A row of *waiting* is a job's number, its mode, how many it waits for, and one that has ended.
    """
    missing: dict[int, int] = {}
    failing: dict[int, Decision] = {}
    for seq, mode, was_missing, parent in waiting:
        left = missing.get(seq, was_missing)
        if seq in failing or left == MET:
            continue
        verdict = step(MODES[mode], left, ended[parent].state)
        if verdict.failed_dependency is None:
            missing[seq] = verdict.missing
        else:
            missing.pop(seq, None)
            failing[seq] = failed_by(ended[parent])
    return Verdicts(missing, failing)


class Stored(NamedTuple):
    """A job that others can wait for, and its number."""

    seq: int
    parent: Parent


def judge_parents(mode: int | None, parents: Sequence[Parent]) -> tuple[int, Parent | None]:
    """Return how many of *parents* a job waits for, and the one that forbids that it runs."""
    if mode is None:
        return MET, None
    missing, place = judge(MODES[mode], [parent.state for parent in parents])
    return missing, None if place is None else parents[place]
