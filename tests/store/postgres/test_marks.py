"""Marks: claims skip what is dead, and never what lives, whoever commits late."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.store.postgres.patience import patiently

from fencepost.core.job.job import NewJob
from fencepost.core.job.outcome import Released, Settlement, Succeeded, decide
from fencepost.core.job.policy import Backoff, Policy, Priority
from fencepost.core.values.payload import NULL
from fencepost.store.interface.control import Edit
from fencepost.store.interface.queue import Claim, ClaimRequest, Enqueued
from fencepost.store.plan import Operation
from fencepost.store.postgres.joins.transaction import run_in
from fencepost.store.postgres.store import PostgresStore
from fencepost.testing.clock import FakeClock

pytestmark = pytest.mark.postgres("quiet", "migrated")

JOB = NewJob(type="mail")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def other(postgres_url: str, store: PostgresStore) -> Iterator[psycopg.Connection]:
    """Somebody else's connection, in a transaction once it is used."""
    with psycopg.connect(postgres_url) as connection:
        yield connection
        connection.rollback()


def submit(store: PostgresStore, count: int = 1, job: NewJob = JOB) -> list[str]:
    replies = store.run(store.queue.enqueue([job] * count))
    assert all(isinstance(reply, Enqueued) for reply in replies)
    return [reply.job_id for reply in replies]


def submit_in(connection: psycopg.Connection, store: PostgresStore) -> str:
    """Submit in a transaction that somebody else is to commit."""
    operation: Operation[list[Enqueued]] = store.queue.enqueue([JOB])  # type: ignore[assignment]
    [reply] = run_in(connection, operation)
    return reply.job_id


def claim(store: PostgresStore, limit: int = 500) -> Claim:
    return store.run(store.queue.claim(ClaimRequest(worker="w", limit=limit)))


def settle(store: PostgresStore, found: Claim) -> None:
    store.run(
        store.queue.settle(
            [
                Settlement(job.id, job.lease.token, decide(job, Succeeded(NULL), store.clock.rng))
                for job in found.jobs
            ]
        )
    )


def pass_through(store: PostgresStore, count: int) -> None:
    """Let jobs come, run and go."""
    submit(store, count)
    found = claim(store)
    assert len(found.jobs) == count
    settle(store, found)


def tidy(store: PostgresStore, times: int = 3) -> None:
    for _ in range(times):
        store.run(store.upkeep.tidy())


def low(url: str) -> str:
    with psycopg.connect(url) as connection:
        [(value,)] = connection.execute(
            "select min(low)::text from fencepost.marked_lanes"
        ).fetchall()
    return "" if value == "-infinity" else str(value)


def test_a_late_commit_is_found(
    store: PostgresStore, other: psycopg.Connection, clock: FakeClock, postgres_url: str
) -> None:
    """S2-26: submitted first, committed after hundreds of others came and went."""
    pass_through(store, 1)
    late = submit_in(other, store)
    for _ in range(5):
        clock.advance(1.0)
        pass_through(store, 100)
        tidy(store)
    other.commit()
    assert [job.id for job in claim(store).jobs] == [late]


def advance_mark(store: PostgresStore, clock: FakeClock, url: str, beyond: str) -> str:
    """Let jobs pass until the mark has; others on the same server may hold it up for a while."""
    mark = beyond
    for _ in patiently(url):
        clock.advance(0.01)
        pass_through(store, 1)
        tidy(store)
        mark = low(url)
        if mark > beyond:
            break
    return mark


def test_the_mark_waits_for_whoever_writes_and_passes_then(
    store: PostgresStore, other: psycopg.Connection, clock: FakeClock, postgres_url: str
) -> None:
    pass_through(store, 1)
    before = advance_mark(store, clock, postgres_url, low(postgres_url))
    submit_in(other, store)
    begun = str(clock.now())
    for _ in range(5):
        clock.advance(1.0)
        pass_through(store, 1)
        tidy(store)
    assert before <= low(postgres_url) <= begun
    other.rollback()
    advance_mark(store, clock, postgres_url, begun)


def test_the_mark_waits_for_a_transaction_that_is_newer_than_all_that_have_ended(
    store: PostgresStore, other: psycopg.Connection, clock: FakeClock
) -> None:
    """INV-16: it has its number, and no transaction with a higher one is over when the mark is set.

    The xmax of a snapshot is one past the last that has *ended*, and so this one's own number. On a
    quiet server: what others end at that moment would hide the gap.
    """
    pass_through(store, 1)
    tidy(store)
    submit(store, job=NewJob(type="mail", delay=1000.0))  # to be counted by the next tidying
    late = submit_in(other, store)
    for _ in range(3):
        clock.advance(1.0)
        tidy(store, 1)
        pass_through(store, 1)
    other.commit()
    assert [job.id for job in claim(store).jobs] == [late]


def test_an_old_snapshot_does_not_hold_the_mark_back(
    store: PostgresStore, other: psycopg.Connection, clock: FakeClock, postgres_url: str
) -> None:
    other.execute("set transaction isolation level repeatable read, read only")
    other.execute("select count(*) from fencepost.submissions")
    pass_through(store, 10)
    clock.advance(1.0)
    advance_mark(store, clock, postgres_url, str(clock.now()))


@pytest.mark.parametrize("how", ["released", "promoted", "moved"])
def test_what_goes_below_the_mark_lowers_it(
    store: PostgresStore, clock: FakeClock, how: str
) -> None:
    """C14, C23: a job that keeps its old place in line is found there."""
    if how == "promoted":
        [returning] = submit(store, job=NewJob(type="mail", delay=0.5))
    else:
        [returning] = submit(store, job=NewJob(type="mail", priority=Priority.BULK))
    held = claim(store) if how == "released" else None
    for _ in range(3):
        clock.advance(0.1)
        for priority in (Priority.NORMAL, Priority.LOW, Priority.BULK):
            if how != "moved" or priority is not Priority.BULK:
                submit(store, 5, NewJob(type="mail", priority=priority))
                settle(store, claim(store, 5))
        tidy(store)
    if how == "moved":
        store.run(store.control.edit([Edit(returning, Priority.LOW)]))
    if held is not None:
        [job] = held.jobs
        decision = decide(job, Released(), clock.rng)
        store.run(store.queue.settle([Settlement(job.id, job.lease.token, decision)]))
    clock.advance(1.0)
    tidy(store)
    assert [job.id for job in claim(store).jobs] == [returning]


def test_a_job_that_is_promoted_late_is_found_below_the_mark(
    store: PostgresStore, clock: FakeClock, postgres_url: str
) -> None:
    """C14: the mark has passed the time at which it was due before anybody looked."""
    [late] = submit(store, job=NewJob(type="mail", delay=0.5))
    due = str(clock.now() + timedelta(seconds=0.5))
    for _ in range(1_000):
        clock.advance(1.0)
        submit(store, job=NewJob(type="mail", delay=100_000.0))  # counted, and not in line
        tidy(store)
        if low(postgres_url) > due:
            break
    assert low(postgres_url) > due
    assert [job.id for job in claim(store).jobs] == [late]


@pytest.mark.parametrize("how", ["released", "promoted", "moved"])
def test_what_goes_into_line_while_the_mark_moves_is_found(
    store: PostgresStore, other: psycopg.Connection, clock: FakeClock, how: str
) -> None:
    """C14, C23: its transaction began before the mark was to move, and ends after."""
    for _ in range(2):
        pass_through(store, 1)
        tidy(store, 1)
        clock.advance(1.0)
    delay = 0.5 if how == "promoted" else 0.0
    priority = Priority.BULK if how == "moved" else Priority.NORMAL
    [returning] = submit(store, job=NewJob(type="mail", delay=delay, priority=priority))
    clock.advance(0.4)
    if how == "released":
        [held] = claim(store).jobs
        decision = decide(held, Released(), clock.rng)
        operation: Operation[Any] = store.queue.settle(
            [Settlement(held.id, held.lease.token, decision)]
        )
    elif how == "promoted":
        clock.advance(0.2)
        operation = store.upkeep.promote(10)
    else:
        operation = store.control.edit([Edit(returning, Priority.NORMAL)])
    submit(store, job=NewJob(type="mail", delay=1000.0))
    tidy(store, 1)
    clock.advance(0.5)
    run_in(other, operation)
    submit(store, job=NewJob(type="mail", delay=1000.0))
    tidy(store, 1)
    other.commit()
    assert [job.id for job in claim(store).jobs] == [returning]


def test_a_clock_that_was_set_back_hides_nothing_for_long(
    store: PostgresStore, clock: FakeClock, postgres_url: str
) -> None:
    """A thorough tidying looks below the marks."""
    for _ in range(3):
        pass_through(store, 5)
        tidy(store)
    behind = PostgresStore(postgres_url, clock=FakeClock(clock.now() - timedelta(hours=1), seed=7))
    [early] = submit(behind)
    behind.close()
    tidy(store, 40)
    assert [job.id for job in claim(store).jobs] == [early]


def test_marks_of_leases_and_due_times_let_nothing_slip(
    store: PostgresStore, clock: FakeClock
) -> None:
    """S4-7: recovered, delayed and promoted while the marks move on between every two steps."""
    policy = Policy(max_attempts=5, backoff=Backoff("constant", 1.0))
    [wanted] = submit(store, job=NewJob(type="mail", policy=policy))
    for attempt in range(1, 5):
        [job] = claim(store).jobs
        assert (job.id, job.attempt) == (wanted, attempt)
        for _ in range(3):
            pass_through(store, 3)
            tidy(store)
        clock.advance(400.0)
        assert [moved.job_id for moved in claim(store).recovered] == [wanted]
        tidy(store)
        clock.advance(2.0)
