"""A job that very many wait for ends in portions, and a chore that fails fails no claim.

Store-specific: the work is in the server's functions, of which one went through all of an array for
each of its elements: 20,000, 40,000 and 60,000 dependents took 2.4, 8.4 and 17 s to end, and
100,000 longer than a statement may take. Then no claim of the store went through any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest
from tests.store.postgres.blocking import DONE, REFUSED, settlement

from fencepost.core.bounds import FOLLOW_BATCH
from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Outcome
from fencepost.core.job.policy import Policy
from fencepost.store.interface.queue import ClaimRequest, Enqueued, Moved, Settled
from fencepost.store.plan import Operation, Plan, Row, Statement
from fencepost.store.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres("migrated")

BIG = 20_000
SUBMITTED = 5_000

FAIL = """
create function public.fail() returns trigger language plpgsql as $$
begin
  raise exception 'no more of this' using errcode = '22000';
end $$;
"""


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def fan(store: PostgresStore, count: int) -> None:
    """Store one job, and *count* that wait for it."""
    (root,) = store.run(store.queue.enqueue([NewJob(type="root")]))
    assert isinstance(root, Enqueued)
    leaf = NewJob(type="leaf", after=Dependencies((root.job_id,)))
    for start in range(0, count, SUBMITTED):
        store.run(store.queue.enqueue([leaf] * min(SUBMITTED, count - start)))


def settle_root(store: PostgresStore, outcome: Outcome) -> Operation[list[Any]]:
    request = ClaimRequest(worker="w", limit=1, types=frozenset({"root"}))
    (root,) = store.run(store.queue.claim(request)).jobs
    return store.queue.settle([settlement(root, outcome)])


def leaves(store: PostgresStore) -> dict[State, int]:
    (view,) = [view for view in store.run(store.overview.types()) if view.name == "leaf"]
    return view.counts


ENDS = pytest.mark.parametrize(
    ("outcome", "state"), [(REFUSED, State.FAILED), (DONE, State.SCHEDULED)], ids=["failed", "done"]
)


@ENDS
def test_a_big_fan_is_recorded(store: PostgresStore, outcome: Outcome, state: State) -> None:
    """INV-21: in one transaction, and each of those that waited is told of."""
    fan(store, BIG)
    (reply,) = store.run(settle_root(store, outcome))
    assert isinstance(reply, Settled)
    assert len(reply.followed) == BIG
    assert leaves(store) == {state: BIG}


@ENDS
def test_a_plan_that_was_made_for_few_jobs_is_good_for_many(
    store: PostgresStore, admin: psycopg.Connection[Any], outcome: Outcome, state: State
) -> None:
    """The server keeps plans. For a table with one row it likes to read the whole table, once for
    each job that is looked up: so many dependents then take more than the 30 s of a statement.
    """
    fan(store, 1)
    admin.execute("vacuum analyze")  # as the server does by itself
    store.run(settle_root(store, outcome))
    fan(store, 2 * BIG)
    store.run(settle_root(store, outcome))
    assert leaves(store) == {state: 1 + 2 * BIG}


def measured(operation: Operation[Any], seen: list[int]) -> Plan[Any]:
    """Run the plan of *operation*; note how much each of its statements was given."""
    plan = operation.start()
    rows: list[Row] = []
    try:
        statement = next(plan)
        while True:
            seen.append(_size(statement))
            rows = yield statement
            statement = plan.send(rows)
    except StopIteration as stop:
        return stop.value


def _size(statement: Statement) -> int:
    """Return how many jobs a statement names, or how long its text is in hundreds of letters."""
    lists = [len(each) for each in statement.params if isinstance(each, list | tuple)]
    texts = [len(each) // 1_000 for each in statement.params if isinstance(each, str)]
    return max([*lists, *texts, 0])


def test_no_statement_is_given_more_than_a_portion(store: PostgresStore) -> None:
    """Twice as many jobs are twice as many statements, none of which is longer."""
    counts = []
    for portions in (1, 2, 4):
        fan(store, portions * FOLLOW_BATCH)
        operation = settle_root(store, REFUSED)
        seen: list[int] = []
        store.run(Operation(operation.declaration, partial(measured, operation, seen)))
        assert max(seen) <= FOLLOW_BATCH
        counts.append(len(seen))
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])


def claim_all(store: PostgresStore) -> Any:
    return store.run(store.queue.claim(ClaimRequest(worker="w", limit=10)))


@pytest.mark.parametrize("chore", ["expire", "recover", "promote"])
def test_what_the_server_refuses_of_a_chore_fails_no_claim(
    store: PostgresStore, admin: psycopg.Connection[Any], chore: str
) -> None:
    """S2-12: nothing of the chore is left, and the claim is whole."""
    store.run(
        store.queue.enqueue([NewJob(type="stuck", policy=Policy(lifetime=0.2, lease_ttl=1.0))])
    )
    if chore == "expire":
        table = "done"
    elif chore == "recover":
        table = "attempts"
        store.run(store.queue.enqueue([NewJob(type="lost", policy=Policy(lease_ttl=1.0))]))
    else:
        table = "ready"
        store.run(store.queue.enqueue([NewJob(type="later", delay=0.2)]))
    claim_all(store) if chore == "recover" else None
    admin.execute("select pg_sleep(1.1)")
    store.run(store.queue.enqueue([NewJob(type="mail")] * 3))
    admin.execute(FAIL.encode())
    admin.execute(
        f"create trigger fail before insert on fencepost.{table} "
        "for each row execute function public.fail()".encode()
    )
    claims = [claim_all(store) for _ in range(3)]
    taken = [job.type for claim in claims for job in claim.jobs if job.type == "mail"]
    assert taken == ["mail"] * 3
    admin.execute(f"drop trigger fail on fencepost.{table}".encode())
    moved: list[Moved] = {
        "expire": lambda: store.run(store.upkeep.expire(10)),
        "recover": lambda: store.run(store.upkeep.recover(10)),
        "promote": lambda: store.run(store.upkeep.promote(10)),
    }[chore]()
    assert moved != []
