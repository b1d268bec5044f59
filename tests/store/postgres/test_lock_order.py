"""Everybody locks in one order: whoever waits for a row holds none that comes after it.

Store-specific: see docs/internals/locks.md. Of each pair that locked in opposite orders, one is
held up here at the earlier of two rows; the later one must be free then, or the two would wait for
each other, until the server ended one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest
from tests.store.postgres.blocking import (
    DONE,
    REFUSED,
    answer,
    apart,
    open_transaction,
    see_waiting,
    settlement,
)

from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import Body, Encoding, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Outcome, Succeeded
from fencepost.core.job.policy import Policy, Priority
from fencepost.store.group_commit import Posted
from fencepost.store.interface.control import Edit, RetryRequest
from fencepost.store.interface.queue import Beat, ClaimRequest, Enqueued, QueueFacet, Settled, Spawn
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation, Plan, Statement, declaration_of
from fencepost.store.postgres.engine.group_commit import _Crew
from fencepost.store.postgres.jobs.lease import read_token
from fencepost.store.postgres.joins.operations import isolation
from fencepost.store.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres("migrated")

BYTES = Succeeded(Body(b"\0", Encoding.BINARY))
LEASE = "select 1 from fencepost.leases where (select seq from {job}) = any (seqs) for update"
PENDING = "select 1 from fencepost.pending where seq = (select seq from {job}) for update"
DONE_ROW = "select 1 from fencepost.done where seq = (select seq from {job}) for update"
JOB_ROW = "select 1 from fencepost.submissions where id = %s for update"
KEY = "select 1 from fencepost.idempotency where key = %s for update"
BY_ID = "fencepost.submissions where id = %s"


@pytest.fixture
def other(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with open_transaction(postgres_url) as connection:
        yield connection


def submit(store: PostgresStore, *jobs: NewJob) -> list[str]:
    replies = store.run(store.queue.enqueue(jobs))
    assert all(isinstance(reply, Enqueued) for reply in replies)
    return [reply.job_id for reply in replies]


def claim(store: PostgresStore, *types: str) -> list[Any]:
    request = ClaimRequest(worker="w", limit=10, types=frozenset(types) or None)
    return list(store.run(store.queue.claim(request)).jobs)


def lock(connection: psycopg.Connection[Any], sql: str, what: str, *, waits: bool = True) -> None:
    """Lock one row, which there must be; or fail if somebody has it."""
    text = sql.format(job=BY_ID) + ("" if waits else " nowait")
    assert len(connection.execute(text.encode(), (what,)).fetchall()) == 1


def check_order(
    other: psycopg.Connection[Any],
    url: str,
    act: Callable[[], Any],
    *,
    earlier: tuple[str, str],
    later: tuple[str, str],
) -> Any:
    """Have *act* wait for the earlier row, and see that it does not hold the later one."""
    lock(other, *earlier)
    future = apart(act)
    see_waiting(url)
    lock(other, *later, waits=False)
    other.commit()
    return answer(future)


def keyed(key: str, **fields: Any) -> NewJob:
    return NewJob(type="mail", key=Key(key, on_duplicate=OnDuplicate.RETURN), **fields)


def test_cancelling_against_completing(
    store: PostgresStore, postgres_url: str, other: psycopg.Connection[Any]
) -> None:
    """A settlement locks the lease, then who waits for the job; so does a cancel of both."""
    (parent,) = submit(store, NewJob(type="parent"))
    claim(store)
    (child,) = submit(store, NewJob(type="child", after=Dependencies((parent,))))
    replies = check_order(
        other,
        postgres_url,
        lambda: store.run(store.control.cancel([child, parent])),
        earlier=(LEASE, parent),
        later=(PENDING, child),
    )
    assert {reply.state for reply in replies} == {State.CANCELLED}


def test_expiring_against_completing(
    store: PostgresStore, postgres_url: str, other: psycopg.Connection[Any]
) -> None:
    policy = Policy(lifetime=0.2)
    (parent,) = submit(store, NewJob(type="parent", policy=policy))
    claim(store)
    (child,) = submit(store, NewJob(type="child", after=Dependencies((parent,)), policy=policy))
    store.clock.sleep(0.3)
    moved = check_order(
        other,
        postgres_url,
        lambda: store.run(store.upkeep.expire(10)),
        earlier=(LEASE, parent),
        later=(PENDING, child),
    )
    assert {move.job_id for move in moved} == {parent, child}


def test_ending_a_graph_against_ending_another_part_of_it(
    store: PostgresStore, postgres_url: str, other: psycopg.Connection[Any]
) -> None:
    """All that waits behind a job, by however many levels, is locked by number."""
    (root,) = submit(store, NewJob(type="root"))
    (near,) = submit(store, NewJob(type="near", after=Dependencies((root,))))
    (far,) = submit(store, NewJob(type="far", after=Dependencies((near,))))
    (late,) = submit(store, NewJob(type="late", after=Dependencies((root,))))
    (job,) = claim(store)
    check_order(
        other,
        postgres_url,
        lambda: store.run(store.queue.settle([settlement(job, REFUSED)])),
        earlier=(PENDING, far),
        later=(PENDING, late),
    )
    jobs = store.run(store.reader.get([near, far, late]))
    assert {each.state for each in jobs if each} == {State.FAILED}


def in_order_of_leases(*jobs: Any) -> list[Any]:
    return sorted(jobs, key=lambda job: read_token(job.lease.token, job.id).lease_token)


@pytest.mark.parametrize("ends", [REFUSED, BYTES], ids=["failed", "bytes"])
def test_settling_one_way_and_another_against_heartbeats(
    store: PostgresStore, postgres_url: str, other: psycopg.Connection[Any], ends: Outcome
) -> None:
    """The leases of all are locked by token, not first those of the successes."""
    submit(store, NewJob(type="a"), NewJob(type="b"))
    low, high = in_order_of_leases(*claim(store, "a"), *claim(store, "b"))
    replies = check_order(
        other,
        postgres_url,
        lambda: store.run(store.queue.settle([settlement(high), settlement(low, ends)])),
        earlier=(LEASE, low.id),
        later=(LEASE, high.id),
    )
    assert [type(reply) for reply in replies] == [Settled, Settled]


@pytest.mark.parametrize("ends", [REFUSED, BYTES], ids=["failed", "bytes"])
def test_settling_one_way_and_another_against_ending_who_waits(
    store: PostgresStore, postgres_url: str, other: psycopg.Connection[Any], ends: Outcome
) -> None:
    """Who waits for any of them is locked by number, not first who waits for the successes."""
    submit(store, NewJob(type="a"), NewJob(type="b"))
    first, second = claim(store)
    (early,) = submit(store, NewJob(type="early", after=Dependencies((second.id,))))
    (late,) = submit(store, NewJob(type="late", after=Dependencies((first.id,))))
    replies = check_order(
        other,
        postgres_url,
        lambda: store.run(store.queue.settle([settlement(first), settlement(second, ends)])),
        earlier=(PENDING, early),
        later=(PENDING, late),
    )
    assert [type(reply) for reply in replies] == [Settled, Settled]
    states = [job.state for job in store.run(store.reader.get([early, late])) if job]
    assert states == [State.FAILED if ends is REFUSED else State.SCHEDULED, State.SCHEDULED]


@pytest.mark.parametrize("outcome", [DONE, BYTES], ids=["plain", "bytes"])
def test_completing_in_a_transaction_against_expiring(
    store: PostgresStore, postgres_url: str, other: psycopg.Connection[Any], outcome: Outcome
) -> None:
    """Whoever ends jobs by their age locks the row of the job, then its lease."""
    submit(store, NewJob(type="mail"))
    (job,) = claim(store)

    def complete(view: Store) -> Operation[Any]:
        return view.queue.settle([settlement(job, outcome)])

    with open_transaction(postgres_url) as conn:
        (reply,) = check_order(
            other,
            postgres_url,
            lambda: store.run_in(conn, complete, must_be_open=True),
            earlier=(JOB_ROW, job.id),
            later=(LEASE, job.id),
        )
        assert isinstance(reply, Settled)
        conn.commit()


def test_preparing_to_complete_against_heartbeats(
    store: PostgresStore, postgres_url: str, other: psycopg.Connection[Any]
) -> None:
    """Parts of a lease are locked by their numbers, not by those of the jobs in them."""
    submit(store, NewJob(type="mail"), NewJob(type="mail"))
    kept, split = claim(store)
    store.run(store.queue.heartbeat([Beat(split.id, split.lease.token, 900.0)]))
    check_order(
        other,
        postgres_url,
        lambda: store.run(isolation(store._env, [settlement(kept), settlement(split)])),
        earlier=(LEASE, split.id),
        later=(LEASE, kept.id),
    )


def test_preparing_to_complete_says_which_leases_it_locks(store: PostgresStore) -> None:
    """So that a group has it in its place among those of others."""
    submit(store, NewJob(type="a"), NewJob(type="b"))
    low, high = in_order_of_leases(*claim(store, "a"), *claim(store, "b"))
    statement = next(isolation(store._env, [settlement(high), settlement(low)]).start())
    lease_tokens = [read_token(job.lease.token, job.id).lease_token for job in (low, high)]
    assert list(statement.leases) == lease_tokens


def test_spawning_against_completing_what_a_key_returned(
    store: PostgresStore, postgres_url: str, other: psycopg.Connection[Any]
) -> None:
    """Who gathers is locked after the jobs that a key returned in the place of new ones."""
    (spawner,) = submit(store, NewJob(type="spawner"))
    (job,) = claim(store)
    (gatherer,) = submit(
        store, NewJob(type="gatherer", after=Dependencies((spawner,), gathers=True))
    )
    (returned,) = submit(store, keyed("k"))
    claim(store, "mail")
    (reply,) = check_order(
        other,
        postgres_url,
        lambda: store.run(store.queue.spawn([Spawn(job.id, job.lease.token, (keyed("k"),))])),
        earlier=(LEASE, returned),
        later=(PENDING, gatherer),
    )
    assert [each.job_id for each in reply.replies] == [returned]


def test_spawning_against_editing_who_gathers(
    store: PostgresStore, postgres_url: str, other: psycopg.Connection[Any]
) -> None:
    """An edit locks the row of the job, then where it waits."""
    (spawner,) = submit(store, NewJob(type="spawner", priority=Priority.HIGH))
    (job,) = claim(store)
    (gatherer,) = submit(
        store, NewJob(type="gatherer", after=Dependencies((spawner,), gathers=True))
    )
    urgent = NewJob(type="urgent", priority=Priority.CRITICAL)
    check_order(
        other,
        postgres_url,
        lambda: store.run(store.queue.spawn([Spawn(job.id, job.lease.token, (urgent,))])),
        earlier=(JOB_ROW, gatherer),
        later=(PENDING, gatherer),
    )


@pytest.mark.parametrize("after", [None, "waiting"])
def test_taking_keys_against_taking_the_same_in_another_order(
    store: PostgresStore, postgres_url: str, other: psycopg.Connection[Any], after: str | None
) -> None:
    """Whatever the order of the jobs, of a flow or not."""
    holders = submit(store, keyed("a"), keyed("b"))
    on = None if after is None else Dependencies((holders[0],))
    replies = check_order(
        other,
        postgres_url,
        lambda: store.run(store.queue.enqueue([keyed("b", after=on), keyed("a", after=on)])),
        earlier=(KEY, "a"),
        later=(KEY, "b"),
    )
    assert [reply.job_id for reply in replies] == holders[::-1]


@pytest.mark.parametrize("how", ["retry", "replay"])
def test_running_a_job_again_against_submitting_its_key(
    store: PostgresStore, postgres_url: str, other: psycopg.Connection[Any], how: str
) -> None:
    """A submission takes its key first, then holds what it waits for."""
    (ended,) = submit(store, keyed("k"))
    (job,) = claim(store)
    store.run(store.queue.settle([settlement(job, REFUSED)]))
    again: dict[str, Callable[[], Operation[Any]]] = {
        "retry": lambda: store.control.retry([RetryRequest(ended)]),
        "replay": lambda: store.control.replay([ended]),
    }
    check_order(
        other,
        postgres_url,
        lambda: store.run(again[how]()),
        earlier=(KEY, "k"),
        later=(DONE_ROW, ended),
    )


@pytest.mark.parametrize("how", ["edit", "retry", "discard"])
def test_several_jobs_by_hand_against_the_same_in_another_order(
    store: PostgresStore, postgres_url: str, other: psycopg.Connection[Any], how: str
) -> None:
    first, second = submit(store, NewJob(type="mail"), NewJob(type="mail"))
    if how != "edit":
        for job in claim(store):
            store.run(store.queue.settle([settlement(job, REFUSED)]))
    asks: dict[str, Callable[[], Operation[Any]]] = {
        "edit": lambda: store.control.edit(
            [Edit(second, tags={"a": "b"}), Edit(first, tags={"a": "b"})]
        ),
        "retry": lambda: store.control.retry([RetryRequest(second), RetryRequest(first)]),
        "discard": lambda: store.control.discard([second, first]),
    }
    row = JOB_ROW if how == "edit" else DONE_ROW
    check_order(
        other,
        postgres_url,
        lambda: store.run(asks[how]()),
        earlier=(row, first),
        later=(row, second),
    )


# Group commit.


class _Sorter(_Crew):
    """A crew without a connection, to see in what order it would ask."""

    def __init__(self) -> None:
        pass


def posted(name: str, **fields: Any) -> Posted:
    def plan() -> Plan[None]:
        yield Statement(f"select {name}", alone=True, **fields)

    future: Any = None
    declaration = declaration_of(QueueFacet.operations[name.split()[0]])
    return Posted(Operation(declaration, plan), future, future)


def sorted_names(group: Sequence[Posted]) -> list[list[str]]:
    together, keyed_, apart_ = _Sorter()._sort(group)
    statements = [[each.statement.sql[7:] for each in part] for part in (together, keyed_)]
    return [*statements, [next(each.operation.start()).sql[7:] for each in apart_]]


def test_a_group_locks_leases_and_keys_in_one_order() -> None:
    """Not as they came: two processes may be asked the same in opposite orders."""
    group = [
        posted("claim 1"),
        posted("settle c", leases=["c"]),
        posted("enqueue z", keys=[("mail", "z")]),
        posted("enqueue plain"),
        posted("settle a d", leases=("a", "d")),
        posted("heartbeat b", leases=("b",)),
        posted("enqueue b a", keys=[("mail", "b"), ("mail", "a")]),
        posted("enqueue y", keys=[("mail", "y")]),
    ]
    assert sorted_names(group) == [
        ["enqueue plain", "heartbeat b", "settle c", "claim 1"],
        ["enqueue y", "enqueue z"],
        ["enqueue b a", "settle a d"],
    ]


def test_a_settlement_of_many_leases_shares_a_commit_with_what_locks_none() -> None:
    group = [posted("settle a d", leases=("a", "d")), posted("enqueue plain"), posted("claim 1")]
    assert sorted_names(group) == [["enqueue plain", "settle a d", "claim 1"], [], []]
