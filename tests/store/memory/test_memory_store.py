"""What only the memory store does. All that stores have in common is in the conformance suite."""

from __future__ import annotations

import os
import sqlite3
import threading
from typing import Any

import pytest
from msgspec.structs import replace
from tests.store.memory.jobs import claim, submit

from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import Attempt, AttemptOutcome, Body, Category, Failure, Job, NewJob
from fencepost.core.job.lifecycle import Event, State
from fencepost.core.job.outcome import Decision, Released, Settlement, Succeeded, decide
from fencepost.errors import (
    ConfigurationError,
    DuplicateJobError,
    ForkedStoreError,
    StoreUnavailableError,
)
from fencepost.generators import delegate
from fencepost.store.interface.control import RetryRequest
from fencepost.store.interface.queue import Beat, Claim, ClaimRequest, Moved
from fencepost.store.interface.store import Topic
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.store.memory.store import MemoryStore
from fencepost.store.open import open_store
from fencepost.store.plan import Declaration, Effect, Operation, Plan, Row, Statement
from fencepost.store.sqlite.jobs import claim as claims
from fencepost.store.sqlite.jobs import upkeep
from fencepost.store.sqlite.jobs.catalog import Env
from fencepost.testing.clock import FakeClock

LONG = 10.0
"""Seconds before a test gives up; one that passes never waits so long."""


def everything(store: MemoryStore) -> dict[str, Any]:
    """Return all that can be seen of *store*."""
    jobs: list[Job] = store.run(store.reader.find(JobFilter(), PageRequest(1_000))).jobs
    attempts: list[list[Attempt] | None] = [
        store.run(store.reader.attempts(job.id)) for job in jobs
    ]
    return {
        "jobs": jobs,
        "attempts": attempts,
        "letters": store.run(store.reader.dead_letters(None, PageRequest(1_000))),
        "queues": store.run(store.overview.queues()),
        "types": store.run(store.overview.types()),
        "count": store.run(store.reader.count(JobFilter())),
        "situations": [store.run(store.reader.situation(job.id)) for job in jobs],
    }


# Ephemeral.


def test_each_store_is_fresh_and_private() -> None:
    """S0-6: what one store holds is in no other, under the same URL or not."""
    clock = FakeClock()
    first, second = open_store("memory://", clock=clock), open_store("memory://", clock=clock)
    first.run(first.queue.enqueue([NewJob(type="mail")]))
    assert second.run(second.reader.count(JobFilter())) == 0


def test_a_look_at_the_store_warns_that_it_forgets(store: MemoryStore) -> None:
    """S0-6."""
    finding, *rest = store.run(store.overview.inspect())
    assert (finding.level, finding.code) == ("warn", "ephemeral")
    assert {each.level for each in rest} == {"ok"}
    assert "for tests only" in finding.text


def test_there_is_nothing_to_migrate(store: MemoryStore) -> None:
    assert (store.migrate(), store.pending_migrations()) == ([], [])


def test_a_closed_store_is_unavailable(store: MemoryStore) -> None:
    listener = store.listen(Topic.READY)
    store.close()
    store.close()
    with pytest.raises(StoreUnavailableError):
        submit(store, NewJob(type="mail"))
    with pytest.raises(StoreUnavailableError):
        store.listen(Topic.READY)
    assert not listener.wait(LONG)


def test_a_forked_child_is_refused(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock may be held by a thread that the child does not have, so it is not touched."""
    child = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: child)
    with pytest.raises(ForkedStoreError):
        store.run(store.overview.queues())
    with pytest.raises(ForkedStoreError):
        store.listen(Topic.SETTLED)


def test_a_sqlite_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(ConfigurationError, match=r"3\.35 or newer"):
        MemoryStore(clock=FakeClock())


def test_what_sqlite_refuses_is_an_error_of_the_store(store: MemoryStore) -> None:
    def foreign() -> Plan[None]:
        yield Statement("select pg_notify('fencepost_ready', '')")

    with pytest.raises(StoreUnavailableError, match="memory://: no such function"):
        store.run(Operation(Declaration("foreign", Effect.READ), foreign))


# Threads.


def test_no_two_of_16_threads_claim_the_same_job(store: MemoryStore) -> None:
    """S0-21, S2-24: and none is left over."""
    submitted = submit(store, *[NewJob(type=f"t{n % 7}", queue=f"q{n % 3}") for n in range(2_000)])
    start = threading.Barrier(16)
    taken: list[list[str]] = [[] for _ in range(16)]

    def work(mine: list[str]) -> None:
        start.wait()
        while jobs := claim(store, 7).jobs:
            mine += [job.id for job in jobs]
            store.run(
                store.queue.settle(
                    [
                        Settlement(
                            job.id,
                            job.lease.token,
                            decide(job, Succeeded(Body(b"1")), store.clock.rng),
                        )
                        for job in jobs
                    ]
                )
            )

    threads = [threading.Thread(target=work, args=(mine,)) for mine in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert sorted(job for mine in taken for job in mine) == sorted(submitted)
    assert store.run(store.reader.count(JobFilter(states=(State.COMPLETED,)))) == 2_000


# One operation is one transaction.

BROKEN = Failure(Category.PERMANENT, "broken")
REJECT = Decision(Event.REJECT, State.FAILED, AttemptOutcome.FAILED, failure=BROKEN)


def furnished() -> MemoryStore:
    """Return a store with jobs in every state, keys, dead letters and attempts."""
    store = MemoryStore(clock=FakeClock())
    submit(store, NewJob(type="failed", key=Key("k")), NewJob(type="done"), NewJob(type="again"))
    taken = {job.type: job for job in claim(store).jobs}
    done = decide(taken["done"], Succeeded(Body(b"1")), store.clock.rng)
    again = decide(taken["again"], Released(), store.clock.rng)
    for type, decision in (("failed", REJECT), ("done", done), ("again", again)):
        job = taken[type]
        store.run(store.queue.settle([Settlement(job.id, job.lease.token, decision)]))
    submit(store, NewJob(type="live", key=Key("k")), NewJob(type="later", delay=5.0))
    submit(store, NewJob(type="running", queue="other"))
    claim(store, queues={"other": 1})
    return store


class Fault(BaseException):
    """Raised in the middle of an operation; no chore of a claim survives it."""


def failing(operation: Operation[Any], count: int) -> Operation[Any]:
    """Return *operation*, but it fails after *count* statements, or before its commit."""

    def start() -> Plan[Any]:
        left = count

        def counted(statement: Statement) -> Plan[list[Row]]:
            nonlocal left
            if not left:
                raise Fault
            left -= 1
            return (yield statement)

        yield from delegate(operation.start(), counted)
        raise CommitError

    return replace(operation, start=start)


class CommitError(Fault):
    """Raised when everything was done."""


def check_undone(store: MemoryStore, operation: Operation[Any]) -> None:
    """Let *operation* fail at each of its statements; nothing may have changed."""
    before = everything(store)
    for count in range(100):
        with pytest.raises(Fault) as fault:
            store.run(failing(operation, count))
        assert everything(store) == before, f"after {count} statements"
        if fault.type is CommitError:
            assert count > 3
            return
    raise AssertionError("it never ends")


def test_a_rejected_duplicate_takes_the_whole_batch_back() -> None:
    store = furnished()
    before = everything(store)
    held = Key("k", on_duplicate=OnDuplicate.REJECT)
    batch = [NewJob(type="new", queue="new", key=Key("n")), NewJob(type="live", key=held)]
    listener = store.listen(Topic.READY)
    with pytest.raises(DuplicateJobError):
        store.run(store.queue.enqueue(batch, atomic=True))
    assert everything(store) == before
    assert not listener.wait(0.0)
    assert len(submit(store, batch[0])) == 1, "the key is free again"


def test_a_fault_in_the_middle_of_an_operation_changes_nothing() -> None:
    """A claim takes back what it recovered, expired and promoted as well."""
    store = furnished()
    assert isinstance(store.clock, FakeClock)
    later = store.run(store.reader.find(JobFilter(type="later"), PageRequest())).jobs[0]
    [dead] = store.run(store.reader.dead_letters(None, PageRequest())).letters
    check_undone(store, store.queue.enqueue([NewJob(type="new", key=Key("n"), tags={"a": "1"})]))
    check_undone(store, store.control.cancel([later.id]))
    check_undone(store, store.control.replay([dead.job_id]))
    store.clock.advance(600.0)
    check_undone(store, store.queue.claim(ClaimRequest(worker="w", limit=10)))
    after = claim(store)
    assert [job.type for job in after.jobs] == ["again", "live", "later"]
    assert (after.promoted, len(after.recovered)) == (1, 1)
    store.clock.advance(100_000.0)
    prune = PruneRequest(keep=dict.fromkeys(State, 0.0), limit=10)
    check_undone(store, store.upkeep.prune(prune))
    assert store.run(store.upkeep.prune(prune)).count == 2


def test_one_unusable_settlement_takes_the_whole_batch_back(store: MemoryStore) -> None:
    submit(store, NewJob(type="a"), NewJob(type="b"))
    first, second = claim(store).jobs
    before = everything(store)
    absurd = Decision(Event.SNOOZE, State.DELAYED, AttemptOutcome.SNOOZED, delay=float("nan"))
    with pytest.raises(ValueError, match="NaN"):
        store.run(
            store.queue.settle(
                [
                    Settlement(first.id, first.lease.token, REJECT),
                    Settlement(second.id, second.lease.token, absurd),
                ]
            )
        )
    assert everything(store) == before
    [beat] = store.run(store.queue.heartbeat([Beat(first.id, first.lease.token, 900.0)]))
    assert beat.job_id == first.id


def test_what_a_chore_of_a_claim_did_before_it_failed_is_undone(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2-12: no operation of the contract makes a chore fail after its first write."""

    def recover_and_fail(env: Env, limit: int, now: int) -> Plan[list[Moved]]:
        moved = yield from upkeep.recover(env, limit, now=now)
        assert moved
        raise RuntimeError("after all was written")

    monkeypatch.setattr(claims, "recover", recover_and_fail)
    submit(store, NewJob(type="lost"))
    claim(store)
    assert isinstance(store.clock, FakeClock)
    store.clock.advance(600.0)
    before = everything(store)
    assert claim(store).recovered == []
    assert everything(store) == before


def test_callers_cannot_reach_into_the_store(store: MemoryStore) -> None:
    tags = {"a": "1"}
    [job_id] = submit(store, NewJob(type="mail", tags=tags))
    tags["b"] = "2"
    [seen] = store.run(store.reader.get([job_id]))
    assert seen is not None
    seen.tags["c"] = "3"
    [seen] = store.run(store.reader.get([job_id]))
    assert seen is not None
    assert seen.tags == {"a": "1"}


# The same calls give the same answers.


def test_equal_clocks_and_calls_give_equal_answers() -> None:
    def history() -> tuple[dict[str, Any], Claim]:
        store = furnished()
        [dead] = store.run(store.reader.dead_letters(None, PageRequest())).letters
        store.run(store.control.retry([RetryRequest(dead.job_id)]))
        return everything(store), claim(store)

    assert history() == history()
