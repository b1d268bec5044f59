"""What a caller's transaction holds up while it is open: nobody but who wants the very same.

Store-specific: no other store can join a transaction of the caller's. Whatever is awaited here is
awaited while the transaction is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace
from psycopg import IsolationLevel
from tests.servers.fixtures import FreshPostgres, postgres_sources
from tests.store.postgres.blocking import (
    DONE,
    REFUSED,
    open_transaction,
    settlement,
    waiting,
)
from tests.store.postgres.bridge import CONFLICTS, Caller, calling, join
from tests.worker.support import LONG

from fencepost.core.flows.dependencies import Dependencies, Mode
from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import Body, ClaimedJob, Encoding, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Outcome, Succeeded
from fencepost.core.job.policy import Policy, Priority
from fencepost.errors import StoreUnavailableError, UnknownDependencyError
from fencepost.store.interface.queue import (
    Beat,
    Claim,
    ClaimRequest,
    Duplicate,
    Enqueued,
    Extended,
    Moved,
    Settled,
)
from fencepost.store.interface.store import Store
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.store.plan import Operation
from fencepost.store.postgres.engine import runner
from fencepost.store.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres("migrated")

BYTES = Succeeded(Body(b"\0", Encoding.BINARY))


@pytest.fixture
def postgres_url(fresh_postgres: FreshPostgres) -> str:
    """With the schema of the test before: there are many tests here."""
    return fresh_postgres(postgres_sources()[0])


@pytest.fixture(params=["psycopg", "asyncpg"])
def conn(request: pytest.FixtureRequest, postgres_url: str) -> Iterator[Caller]:
    with calling(request.param, postgres_url) as connection:
        yield connection


def submit(store: PostgresStore, *jobs: NewJob) -> list[str]:
    replies = store.run(store.queue.enqueue(jobs))
    assert all(isinstance(reply, Enqueued) for reply in replies)
    return [reply.job_id for reply in replies]


def submit_in(store: PostgresStore, conn: Caller, *jobs: NewJob) -> list[str]:
    return [reply.job_id for reply in join(store, conn, lambda view: view.queue.enqueue(jobs))]


def claim(store: PostgresStore, limit: int = 10, **fields: Any) -> Claim:
    return store.run(store.queue.claim(ClaimRequest(worker="w", limit=limit, **fields)))


def settle(store: PostgresStore, job: ClaimedJob, outcome: Outcome = DONE) -> None:
    (reply,) = store.run(store.queue.settle([settlement(job, outcome)]))
    assert isinstance(reply, Settled)


def complete_in(
    store: PostgresStore, conn: Caller, job: ClaimedJob, outcome: Outcome = DONE
) -> None:
    def complete(view: Store) -> Operation[Any]:
        return view.queue.settle([settlement(job, outcome)])

    (reply,) = join(store, conn, complete, must_be_open=True)
    assert isinstance(reply, Settled)


def state(store: PostgresStore, job_id: str) -> State:
    (job,) = store.run(store.reader.get([job_id]))
    assert job is not None
    return job.state


# Waiting for a job that runs.


@pytest.mark.parametrize("outcome", [DONE, REFUSED], ids=["done", "failed"])
@pytest.mark.parametrize("is_late", [False, True], ids=["while open", "after the commit"])
def test_a_job_that_waits_for_a_running_one_holds_up_nobody(
    store: PostgresStore, conn: Caller, outcome: Outcome, is_late: bool
) -> None:
    """INV-21: neither the claim of that job nor its own end; and it is not forgotten."""
    submit(store, NewJob(type="parent"), NewJob(type="sibling"))
    parent, sibling = claim(store).jobs
    (child,) = submit_in(store, conn, NewJob(type="child", after=Dependencies((parent.id,))))
    beats = [Beat(job.id, job.lease.token, 900.0) for job in (parent, sibling)]
    replies = store.run(store.queue.heartbeat(beats))
    assert [type(reply) for reply in replies] == [Extended, Extended]
    settle(store, sibling)
    if not is_late:
        settle(store, parent, outcome)
        assert claim(store).jobs == []
    conn.commit()
    if is_late:
        settle(store, parent, outcome)
    jobs = claim(store).jobs
    if outcome is DONE:
        assert [job.id for job in jobs] == [child]
    else:
        assert jobs == []
        assert state(store, child) is State.FAILED


def test_what_is_let_go_after_the_commit_is_told_of(store: PostgresStore, conn: Caller) -> None:
    submit(store, NewJob(type="parent"))
    (parent,) = claim(store).jobs
    (child,) = submit_in(store, conn, NewJob(type="child", after=Dependencies((parent.id,))))
    settle(store, parent)
    conn.commit()
    assert claim(store).followed == [Moved(child, "child", State.SCHEDULED, State.PENDING)]
    assert claim(store).followed == []


def test_a_transaction_that_is_rolled_back_leaves_no_note(
    store: PostgresStore, conn: Caller
) -> None:
    submit(store, NewJob(type="parent"))
    (parent,) = claim(store).jobs
    submit_in(store, conn, NewJob(type="child", after=Dependencies((parent.id,))))
    conn.rollback()
    assert conn.execute("select count(*) from fencepost.unresolved").fetchone() == (0,)
    settle(store, parent)
    assert claim(store).followed == []


def test_one_that_inherits_a_priority_makes_no_lane_that_others_wait_for(
    store: PostgresStore, conn: Caller
) -> None:
    """INV-17, S1-37."""
    (parent,) = submit(store, NewJob(type="parent", priority=Priority.CRITICAL))
    child = NewJob(type="child", after=Dependencies((parent,)), priority=Priority.LOW)
    submit_in(store, conn, child)
    submit(store, NewJob(type="child", priority=Priority.CRITICAL))


def test_the_parent_may_end_in_another_open_transaction(
    store: PostgresStore, conn: Caller, postgres_url: str
) -> None:
    """INV-21: whichever of the two is committed first."""
    for is_child_first in (True, False):
        submit(store, NewJob(type="parent"))
        (parent,) = claim(store).jobs
        with open_transaction(postgres_url) as other:
            child = NewJob(type="child", after=Dependencies((parent.id,)))
            (child_id,) = submit_in(store, conn, child)
            complete_in(store, other, parent)
            for each in (conn, other) if is_child_first else (other, conn):
                assert claim(store).jobs == []
                each.commit()
        store.clock.sleep(0.2)  # longer than LEFT_PAUSE
        (job,) = claim(store).jobs
        assert job.id == child_id
        settle(store, job)


@pytest.mark.parametrize("mode", Mode)
def test_one_whose_dependency_is_pruned_before_the_commit_waits_for_the_others(
    store: PostgresStore, conn: Caller, mode: Mode
) -> None:
    """INV-21: only what has ended can have been pruned; no note goes round for ever."""
    submit(store, NewJob(type="first"), NewJob(type="second"))
    first, second = claim(store).jobs
    on = Dependencies((first.id, second.id), mode=mode)
    lonely = Dependencies((first.id,), mode=mode)
    jobs = [NewJob(type="both", after=on), NewJob(type="lonely", after=lonely)]
    both, alone = submit_in(store, conn, *jobs)
    settle(store, first)
    pruned = store.run(store.upkeep.prune(PruneRequest(keep={State.COMPLETED: 0.0}, limit=10)))
    assert pruned.count == 1
    conn.commit()
    met = {job.id for job in claim(store).jobs}
    assert conn.execute("select count(*) from fencepost.unresolved").fetchone() == (0,)
    assert met == ({both, alone} if mode is Mode.ANY else {alone})
    settle(store, second)
    assert met | {job.id for job in claim(store).jobs} == {both, alone}


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
def test_one_of_several_is_completed_by_the_second_transaction_above_read_committed(
    store: PostgresStore, conn: Caller, level: IsolationLevel
) -> None:
    """The first has looked before the job was put into a lease of its own."""
    submit(store, NewJob(type="mail"), NewJob(type="mail"))
    job, _ = claim(store).jobs
    conn.isolation_level = level
    conn.execute("select 1 from fencepost.submissions").fetchall()
    with pytest.raises(CONFLICTS):
        complete_in(store, conn, job)
    conn.rollback()
    conn.execute("select 1 from fencepost.submissions").fetchall()
    complete_in(store, conn, job)
    conn.commit()
    assert state(store, job.id) is State.COMPLETED


KINDS = {
    "plain": NewJob(type="new"),
    "tagged": NewJob(type="new", tags={"a": "b"}),
    "keyed": NewJob(type="new", key=Key("k")),
    "slotted": NewJob(type="new", concurrency_key="k", priority=Priority.LOW),
    "in a flow": NewJob(type="new", flow="f", node="n"),
    "in a flow, slotted": NewJob(type="new", flow="f", node="n", concurrency_key="k"),
    "waiting": NewJob(type="new", concurrency_key="k", after=Dependencies(("first",))),
}


@pytest.mark.parametrize("level", IsolationLevel)
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_job_of_its_type_joins_a_transaction_of_any_isolation_level(
    store: PostgresStore, conn: Caller, level: IsolationLevel, kind: str
) -> None:
    """Its lane and its policy are numbered apart: an old snapshot shows neither."""
    (first,) = submit(store, NewJob(type="old"))
    conn.isolation_level = level
    conn.execute("select 1 from fencepost.submissions").fetchall()
    job = replace(KINDS[kind], policy=Policy(max_attempts=7))
    if kind == "waiting":
        job = replace(job, after=Dependencies((first,)))
    (new,) = submit_in(store, conn, job)
    conn.commit()
    (old,) = claim(store, types=frozenset({"old"})).jobs
    settle(store, old)
    (claimed,) = claim(store).jobs
    assert (claimed.id, claimed.policy.max_attempts) == (new, 7)
    assert claimed.priority is job.priority


def test_the_first_job_of_its_type_cannot_be_waited_for_in_an_old_snapshot(
    store: PostgresStore, conn: Caller
) -> None:
    """It is refused, not forgotten; and the transaction goes on."""
    conn.isolation_level = IsolationLevel.REPEATABLE_READ
    conn.execute("select 1 from fencepost.submissions").fetchall()
    (parent,) = submit_in(store, conn, NewJob(type="parent"))
    child = NewJob(type="child", after=Dependencies((parent,)))
    with pytest.raises(UnknownDependencyError):
        submit_in(store, conn, child)
    conn.commit()
    submit_in(store, conn, child)
    conn.commit()
    assert [job.id for job in claim(store).jobs] == [parent]


def test_a_transaction_above_read_committed_fails_if_numbers_were_lost(
    store: PostgresStore, conn: Caller, postgres_url: str
) -> None:
    """The job would be lost with its lane; the next transaction finds another."""
    conn.isolation_level = IsolationLevel.REPEATABLE_READ
    for has_lost in (False, True, False):
        if has_lost:
            with psycopg.connect(postgres_url) as admin:
                admin.execute("delete from fencepost.ready")
                admin.execute("delete from fencepost.lanes")
            with pytest.raises(StoreUnavailableError, match="there is no lane"):
                submit_in(store, conn, NewJob(type="mail"))
            conn.rollback()
        else:
            (job_id,) = submit_in(store, conn, NewJob(type="mail"))
            conn.commit()
            assert job_id in [job.id for job in claim(store, 1).jobs]


# Completing a job.


def test_a_job_that_is_being_completed_holds_up_none_of_its_claim(
    store: PostgresStore, conn: Caller, postgres_url: str
) -> None:
    """S0-40: they are extended, settled and completed the same way meanwhile."""
    submit(store, *[NewJob(type="mail")] * 5)
    first, second, third, fourth, fifth = claim(store).jobs
    complete_in(store, conn, first)
    (reply,) = store.run(store.queue.heartbeat([Beat(second.id, second.lease.token, 900.0)]))
    assert isinstance(reply, Extended)
    settle(store, second)
    settle(store, third, REFUSED)
    with open_transaction(postgres_url) as other:
        complete_in(store, other, fourth)
        other.commit()
    store.run(store.control.cancel([fifth.id]))
    assert claim(store).jobs == []
    assert state(store, first.id) is State.RUNNING
    conn.commit()
    assert state(store, first.id) is State.COMPLETED


def test_of_a_key_whose_job_is_being_completed_others_start(
    store: PostgresStore, conn: Caller
) -> None:
    """INV-22: its slot is taken until the commit, the others are not."""
    policy = Policy(max_running_per_key=2)
    submit(store, *[NewJob(type="mail", concurrency_key="k", policy=policy)] * 4)
    first, second = claim(store).jobs
    complete_in(store, conn, first)
    settle(store, second)
    (third,) = claim(store).jobs
    conn.commit()
    (fourth,) = claim(store).jobs
    assert len({first.id, second.id, third.id, fourth.id}) == 4


@pytest.mark.parametrize("result", [DONE, BYTES], ids=["plain", "bytes"])
@pytest.mark.parametrize("mode", Mode)
def test_who_waits_for_several_is_let_go_though_one_is_being_completed(
    store: PostgresStore, conn: Caller, mode: Mode, result: Outcome
) -> None:
    """INV-21: the others end meanwhile, and the last one to be seen lets go."""
    submit(store, *[NewJob(type="parent")] * 3)
    first, second, third = claim(store).jobs
    on = Dependencies((first.id, second.id, third.id), mode=mode)
    (child,) = submit(store, NewJob(type="child", after=on))
    complete_in(store, conn, first, result)
    settle(store, second)
    settle(store, third)
    if mode is not Mode.ANY:
        assert claim(store).jobs == []
    conn.commit()
    assert [job.id for job in claim(store).jobs] == [child]


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
@pytest.mark.parametrize("outcome", [DONE, BYTES, REFUSED], ids=["plain", "bytes", "failed"])
def test_who_came_to_wait_after_the_snapshot_is_not_forgotten(
    store: PostgresStore,
    conn: Caller,
    level: IsolationLevel,
    outcome: Outcome,
) -> None:
    """INV-21: the transaction that ends the job cannot see who waits for it."""
    submit(store, NewJob(type="parent"))
    (parent,) = claim(store).jobs
    conn.isolation_level = level
    conn.execute("select 1 from fencepost.submissions").fetchall()
    (child,) = submit(store, NewJob(type="child", after=Dependencies((parent.id,))))
    complete_in(store, conn, parent, outcome)
    conn.commit()
    jobs = claim(store).jobs
    if outcome is REFUSED:
        assert state(store, child) is State.FAILED
    else:
        assert [job.id for job in jobs] == [child]


def test_who_waits_beside_a_lease_that_ran_out_while_its_job_is_completed_is_told_to_wait(
    store: PostgresStore, conn: Caller
) -> None:
    """Nobody can take it back before the transaction is over: to ask at once again is of no use."""
    submit(store, NewJob(type="mail"))
    (job,) = claim(store, lease_ttl=1.0).jobs
    complete_in(store, conn, job)
    store.clock.sleep(1.1)
    answers = [claim(store) for _ in range(10)]
    assert [answer.recovered for answer in answers] == [[]] * 10
    assert max(answer.wait or 0.0 for answer in answers) > 0.0
    conn.rollback()
    store.clock.sleep(0.2)  # longer than LEFT_PAUSE
    assert [each.job_id for each in claim(store).recovered] == [job.id]


def test_a_job_that_is_being_completed_is_not_ended_by_its_age(
    store: PostgresStore, conn: Caller, postgres_url: str
) -> None:
    """Claims do not wait for it either."""
    submit(store, NewJob(type="short", policy=Policy(lifetime=0.5)))
    (job,) = claim(store).jobs
    complete_in(store, conn, job)
    store.clock.sleep(0.6)
    submit(store, NewJob(type="mail"))
    assert [each.type for each in claim(store).jobs] == ["mail"]
    assert waiting(postgres_url) == 0
    conn.commit()
    assert state(store, job.id) is State.COMPLETED


# Keys.


def keyed(key: str | None) -> NewJob:
    held = None if key is None else Key(key, on_duplicate=OnDuplicate.RETURN)
    return NewJob(type="mail", key=held)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have those that wait apart wait for as long as it takes; others give up after 2 s."""
    monkeypatch.setattr(runner, "LOCK_TIMEOUT", LONG)


@pytest.mark.usefixtures("patient")
async def test_submissions_of_a_key_that_is_held_elsewhere_hold_up_no_others(
    store: PostgresStore, conn: Caller
) -> None:
    """Neither those without a key nor those with another one, however many wait."""
    (first,) = submit_in(store, conn, keyed("k"))
    stuck = [
        asyncio.create_task(store.run_async(store.queue.enqueue([keyed("k")]))) for _ in range(10)
    ]
    await asyncio.sleep(0)
    for n in range(10):
        for job in (keyed(None), keyed(f"other {n}")):
            (reply,) = await store.run_async(store.queue.enqueue([job]))
            assert isinstance(reply, Enqueued)
    assert not any(task.done() for task in stuck)
    conn.commit()
    for task in stuck:
        (reply,) = await task
        assert isinstance(reply, Duplicate)
        assert reply.job_id == first


async def test_whoever_wants_the_very_key_gives_up_in_time(
    store: PostgresStore, conn: Caller
) -> None:
    """Surely nothing was done then: it can be repeated."""
    submit_in(store, conn, keyed("k"))
    with pytest.raises(StoreUnavailableError, match="another transaction holds a lock"):
        store.run(store.queue.enqueue([keyed("k")]))
    with pytest.raises(StoreUnavailableError, match="another transaction holds a lock"):
        await store.run_async(store.queue.enqueue([keyed("k")]))
    conn.rollback()
    (reply,) = await store.run_async(store.queue.enqueue([keyed("k")]))
    assert isinstance(reply, Enqueued)


@pytest.mark.usefixtures("patient")
async def test_who_waits_for_a_job_that_is_being_completed_holds_up_no_others(
    store: PostgresStore, conn: Caller
) -> None:
    submit(store, NewJob(type="parent"))
    (parent,) = claim(store).jobs
    complete_in(store, conn, parent)
    child = NewJob(type="child", after=Dependencies((parent.id,)))
    stuck = [asyncio.create_task(store.run_async(store.queue.enqueue([child]))) for _ in range(5)]
    await asyncio.sleep(0)
    for _ in range(10):
        (reply,) = await store.run_async(store.queue.enqueue([keyed(None)]))
        assert isinstance(reply, Enqueued)
    assert not any(task.done() for task in stuck)
    conn.commit()
    for task in stuck:
        (reply,) = await task
        assert isinstance(reply, Enqueued)
        assert reply.state is State.SCHEDULED
