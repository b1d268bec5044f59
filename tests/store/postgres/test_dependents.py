"""The rule for dependents in SQL says what core says, in every case.

Store-specific: jobs that complete let their dependents go by a function of the schema
(``store/postgres/schema/functions/dependents.sql``), because a round trip to core would cost every
settlement. Failures are decided by core itself. Both are compared with core here, and mixed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import psycopg
import pytest
from tests.store.postgres.blocking import answer, apart, open_transaction, see_waiting, settlement

from fencepost.core.flows.dependencies import Dependencies, Mode
from fencepost.core.flows.dependents import MET, judge, step
from fencepost.core.job.job import Category, ClaimedJob, Failure, Job, NewJob
from fencepost.core.job.lifecycle import LIVE, State, first_state
from fencepost.core.job.outcome import Failed, Outcome, Succeeded, failed_with
from fencepost.core.job.policy import Policy
from fencepost.core.values.payload import NULL
from fencepost.store.interface.queue import ClaimRequest, Enqueued, EnqueueReply, Settled
from fencepost.store.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres("migrated")

PARENTS_MAX = 3
OPEN = State.RUNNING
ENDS = (OPEN, State.COMPLETED, State.FAILED, State.DEAD_LETTER, State.CANCELLED)
OUTCOMES: dict[State, Outcome] = {
    State.COMPLETED: Succeeded(NULL),
    State.FAILED: Failed(Failure(Category.PERMANENT, "no")),
    State.DEAD_LETTER: Failed(Failure(Category.TEMPORARY, "not now")),
}
ONCE = Policy(max_attempts=1)
KEYED = Policy(max_running_per_key=1)
LATER = 3600.0
BATCH = 500


class Kind(NamedTuple):
    """What else decides about a dependent: its time, and its concurrency key."""

    is_due: bool = True
    key: str | None = None


KINDS = (
    Kind(),
    Kind(is_due=False),
    Kind(key="free"),
    Kind(key="taken"),
    Kind(is_due=False, key="taken"),
)


class Case(NamedTuple):
    """A dependent, and how those that it waits for end."""

    mode: Mode
    ends: tuple[State, ...]
    kind: Kind


class Waiting(NamedTuple):
    """A case in the store."""

    case: Case
    job_id: str
    parents: tuple[str, ...]


ORDERS: dict[str, Callable[[int, State], tuple[int, ...]]] = {
    "together": lambda _, state: (state is State.CANCELLED,),
    "completed first": lambda _, state: (state is not State.COMPLETED, state is State.CANCELLED),
    "one by one": lambda place, state: (place, state is State.CANCELLED),
}
"""Which parents end in one batch: those of the same rank. Only cancellations have their own."""

SETS = [ends for count in range(1, PARENTS_MAX + 1) for ends in product(ENDS, repeat=count)]


def enqueue(store: PostgresStore, jobs: Sequence[NewJob]) -> list[str]:
    replies: list[EnqueueReply] = []
    for start in range(0, len(jobs), BATCH):
        stored = store.run(store.queue.enqueue(jobs[start : start + BATCH]))
        replies += stored
    assert all(isinstance(reply, Enqueued) for reply in replies)
    return [reply.job_id for reply in replies]


def submit(store: PostgresStore) -> tuple[list[tuple[str, ...]], list[Waiting]]:
    """Store every set of parents, and behind each set a dependent of every mode and kind."""
    parent = NewJob(type="parent", policy=ONCE)
    ids = iter(enqueue(store, [parent] * sum(map(len, SETS))))
    parents = [tuple(next(ids) for _ in ends) for ends in SETS]
    cases = [
        (Case(mode, ends, kind), own)
        for (ends, own), mode, kind in product(zip(SETS, parents, strict=True), Mode, KINDS)
    ]
    taken = [number for number, (case, _) in enumerate(cases) if case.kind.key == "taken"]
    holder = NewJob(type="child", queue="holders", policy=KEYED)
    enqueue(store, [replaced(holder, key_of(number)) for number in taken])
    children = [dependent(case, own, number) for number, (case, own) in enumerate(cases)]
    job_ids = enqueue(store, children)
    waiting = [
        Waiting(case, job_id, own) for (case, own), job_id in zip(cases, job_ids, strict=True)
    ]
    return parents, waiting


def key_of(number: int) -> str:
    return f"key-{number}"


def replaced(job: NewJob, key: str) -> NewJob:
    return NewJob(type=job.type, queue=job.queue, policy=job.policy, concurrency_key=key)


def dependent(case: Case, parents: tuple[str, ...], number: int) -> NewJob:
    mode, _, kind = case
    return NewJob(
        type="child",
        policy=KEYED if kind.key else ONCE,
        delay=0.0 if kind.is_due else LATER,
        concurrency_key=key_of(number) if kind.key else None,
        after=Dependencies(parents, mode),
    )


def claim(store: PostgresStore) -> dict[str, ClaimedJob]:
    claimed: dict[str, ClaimedJob] = {}
    request = ClaimRequest(worker="w", limit=BATCH, types=frozenset({"parent"}))
    while jobs := store.run(store.queue.claim(request)).jobs:
        claimed |= {job.id: job for job in jobs}
    return claimed


def end(store: PostgresStore, claimed: dict[str, ClaimedJob], ends: dict[str, State]) -> None:
    """Bring parents to their ends, in one batch if they fit."""
    settled = [
        settlement(claimed[job_id], OUTCOMES[state])
        for job_id, state in ends.items()
        if state is not State.CANCELLED
    ]
    for start in range(0, len(settled), BATCH):
        replies = store.run(store.queue.settle(settled[start : start + BATCH]))
        assert all(isinstance(reply, Settled) for reply in replies)
    cancelled = [job_id for job_id, state in ends.items() if state is State.CANCELLED]
    store.run(store.control.cancel(cancelled))


def expected(waiting: Waiting, batches: list[dict[str, State]]) -> set[tuple[State, int]]:
    """Return the states in which core sees a dependent, and how many it still waits for.

    Several, if parents that fail in one batch end it in different ways: any of them may be first.
    """
    mode, ends, kind = waiting.case
    missing = judge(mode, [OPEN] * len(ends)).missing
    for batch in batches:
        ended = {job_id: batch[job_id] for job_id in waiting.parents if job_id in batch}
        failed = {
            (failed_with(job_id, state, None).state, 0)
            for job_id, state in ended.items()
            if missing and step(mode, missing, state).failed_dependency is not None
        }
        if failed:
            return failed
        for state in ended.values():
            missing = step(mode, missing, state).missing if missing else MET
    if missing:
        return {(State.PENDING, missing)}
    if kind.is_due and kind.key == "taken":
        return {(State.PENDING, MET)}
    return {(first_state(is_due=kind.is_due), MET)}


def seen(job: Job) -> tuple[State, int]:
    assert job.waits is not None
    return job.state, job.waits.missing if job.state is State.PENDING else MET


def batches_of(how: str, parents: list[tuple[str, ...]]) -> list[dict[str, State]]:
    """Return which parents end together, and how; cancellations are batches of their own."""
    every = [
        (place, job_id, state)
        for own, ends in zip(parents, SETS, strict=True)
        for place, (job_id, state) in enumerate(zip(own, ends, strict=True))
        if state is not OPEN
    ]
    groups: dict[tuple[int, ...], dict[str, State]] = {}
    for place, job_id, state in every:
        groups.setdefault(ORDERS[how](place, state), {})[job_id] = state
    return [groups[rank] for rank in sorted(groups)]


@pytest.mark.parametrize("how", ORDERS)
def test_the_rule_in_sql_is_the_rule_of_core(store: PostgresStore, how: str) -> None:
    """S1-60, S1-61, S1-71 to S1-73, C26, C28: every mode, every end of up to three parents."""
    parents, waiting = submit(store)
    claimed = claim(store)
    batches = batches_of(how, parents)
    for batch in batches:
        end(store, claimed, batch)
    jobs: dict[str, Job] = {}
    for start in range(0, len(waiting), BATCH):
        found = store.run(store.reader.get([w.job_id for w in waiting[start : start + BATCH]]))
        jobs |= {job.id: job for job in found if job is not None}
    wrong = [
        f"{each.case}: core says {expected(each, batches)}, the store {seen(jobs[each.job_id])}"
        for each in waiting
        if seen(jobs[each.job_id]) not in expected(each, batches)
    ]
    assert not wrong, "\n".join(wrong[:20])
    assert len(waiting) == len(SETS) * len(Mode) * len(KINDS)


@pytest.mark.parametrize("mode", Mode)
def test_core_judges_one_by_one_as_it_judges_all(mode: Mode) -> None:
    """What the SQL counts down by is ``step``; what it is compared with above is ``judge``."""
    for ends in SETS:
        verdict = judge(mode, [OPEN] * len(ends))
        for state in ends:
            if state in LIVE or verdict.failed_dependency is not None or not verdict.missing:
                continue
            verdict = step(mode, verdict.missing, state)
        whole = judge(mode, ends)
        assert (verdict.missing, verdict.failed_dependency is None) == (
            whole.missing,
            whole.failed_dependency is None,
        )


def test_of_two_parents_that_end_at_once_the_second_sees_that_it_is_the_last(
    store: PostgresStore, postgres_url: str
) -> None:
    """Each counts one of two down; whoever has waited for the other looks again."""
    parents = enqueue(store, [NewJob(type="parent")] * 2)
    (child,) = enqueue(store, [NewJob(type="child", after=Dependencies(tuple(parents)))])
    number = "(select seq from fencepost.submissions where id = %s)"
    count_down = f"select fencepost.count_down(null, array[{number}], array[1])"

    def second() -> object:
        with psycopg.connect(postgres_url) as connection:
            return connection.execute(count_down, (child,)).fetchone()

    with open_transaction(postgres_url) as first:
        assert first.execute(count_down, (child,)).fetchone() == (None,)
        later = apart(second)
        see_waiting(postgres_url)
        first.commit()
        assert child in str(answer(later))
    (job,) = store.run(store.reader.get([child]))
    assert job is not None
    assert job.state is State.SCHEDULED
