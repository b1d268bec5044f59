"""What only the memory store does. All that stores have in common is in the conformance suite."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

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
from fencepost.store.interface.control import RetryRequest
from fencepost.store.interface.listener import Topic
from fencepost.store.interface.queue import Beat, Claim, ClaimRequest
from fencepost.store.interface.replies import Enqueued
from fencepost.store.interface.settings import Scope
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.store.memory.engine import line as line_module
from fencepost.store.memory.engine.line import Line
from fencepost.store.memory.jobs import lanes as lanes_module
from fencepost.store.memory.store import MemoryStore
from fencepost.store.open import open_store
from fencepost.store.plan import Declaration, Effect, Operation, Plan, Statement
from fencepost.testing.clock import FakeClock

LONG = 10.0
"""Seconds before a test gives up; one that passes never waits so long."""


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    store = MemoryStore(clock=FakeClock())
    yield store
    store.close()


def submit(store: MemoryStore, *jobs: NewJob) -> list[str]:
    replies = store.run(store.queue.enqueue(jobs))
    return [reply.job_id for reply in replies if isinstance(reply, Enqueued)]


def claim(store: MemoryStore, limit: int = 10, **fields: Any) -> Claim:
    return store.run(store.queue.claim(ClaimRequest(worker="w", limit=limit, **fields)))


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
    [finding] = store.run(store.overview.inspect())
    assert (finding.level, finding.code) == ("warn", "ephemeral")
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


def test_an_operation_of_another_engine_is_refused(store: MemoryStore) -> None:
    def foreign() -> Plan[None]:
        yield Statement("select 1")

    with pytest.raises(ConfigurationError, match="another store"):
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


class Fault(Exception):
    """Raised by a clock in the middle of an operation."""


def fail_after(monkeypatch: pytest.MonkeyPatch, clock: Any, name: str, count: int) -> None:
    """Have *clock* work *count* times more."""
    original, left = getattr(clock, name), iter(range(count))

    def draw() -> Any:
        if next(left, None) is None:
            raise Fault
        return original()

    monkeypatch.setattr(clock, name, draw)


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


def test_a_fault_in_the_middle_of_an_enqueue_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = furnished()
    store.run(
        store.control.cancel(
            [store.run(store.reader.find(JobFilter(type="later"), PageRequest())).jobs[0].id]
        )
    )
    before = everything(store)
    with monkeypatch.context() as patch:
        fail_after(patch, store.clock, "new_id", 2)
        with pytest.raises(Fault):
            submit(store, *[NewJob(type=f"new{n}", key=Key("k")) for n in range(3)])
    assert everything(store) == before


def test_a_fault_in_the_middle_of_a_claim_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovered leases, expired lifetimes and promoted jobs go back as well."""
    store = furnished()
    clock = store.clock
    assert isinstance(clock, FakeClock)
    clock.advance(600.0)
    before = everything(store)
    seed = clock.rng.getstate()
    with monkeypatch.context() as patch:
        fail_after(patch, clock, "new_token", 2)
        with pytest.raises(Fault):
            claim(store)
    assert everything(store) == before
    clock.rng.setstate(seed)
    after = claim(store)
    assert [job.type for job in after.jobs] == ["again", "live", "later"]
    assert (after.promoted, len(after.recovered)) == (1, 1)


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


def test_a_fault_while_replaying_or_pruning_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = furnished()
    [dead] = store.run(store.reader.dead_letters(None, PageRequest())).letters
    before = everything(store)
    with monkeypatch.context() as patch:
        fail_after(patch, store.clock, "new_id", 0)
        with pytest.raises(Fault):
            store.run(store.control.replay([dead.job_id]))
    assert everything(store) == before
    assert isinstance(store.clock, FakeClock)
    store.clock.advance(100_000.0)
    before = everything(store)

    def prune_and_fail() -> Plan[None]:
        keep = dict.fromkeys(State, 0.0)
        pruned = yield from store.upkeep.prune(PruneRequest(keep=keep, limit=10)).start()
        assert pruned.count == 2
        raise Fault

    with pytest.raises(Fault):
        store.run(Operation(Declaration("prune_and_fail", Effect.WRITE), prune_and_fail))
    assert everything(store) == before
    first_page = store.run(store.reader.find(JobFilter(), PageRequest(4)))
    found = store.run(store.reader.find(JobFilter(), PageRequest(4, first_page.next)))
    assert [job.type for job in found.jobs] == ["done", "failed"], "still in order"


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


# Work does not grow with what nobody can claim.


class Effort:
    """Counts the heap operations of the store's lines."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for module, names in (
            (line_module, ("heappush", "heappop", "heapify")),
            (lanes_module, ("heappop", "heapreplace", "heapify")),
        ):
            for name in names:
                patch.setattr(module, name, self._counting(getattr(module, name)))
        patch.setattr(Line, "_stands", self._counting(Line._stands))

    def _counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            self.count += 1
            return function(*args)

        return counted


def effort_of_ten_claims(store: MemoryStore, backlog: int) -> int:
    """Claim ten jobs of one type, one by one, beside a backlog that stands before them in line."""
    submit(store, *[NewJob(type="paused")] * backlog, *[NewJob(type="unknown")] * backlog)
    store.run(store.settings.pause(Scope.TYPE, "paused"))
    submit(store, *[NewJob(type="mine") for _ in range(10)])
    with pytest.MonkeyPatch.context() as patch:
        effort = Effort(patch)
        for _ in range(10):
            [job] = claim(store, 1, types=frozenset({"mine", "paused"})).jobs
            assert job.type == "mine"
        assert not claim(store, 1, types=frozenset({"mine", "paused"})).jobs
    return effort.count


def test_a_backlog_costs_other_claims_nothing(store: MemoryStore) -> None:
    """S1-87, S3-19: counted in heap operations, a claim does the same beside none and many."""
    alone = effort_of_ten_claims(MemoryStore(clock=FakeClock()), 0)
    assert 0 < effort_of_ten_claims(store, 20_000) <= alone
    assert store.run(store.reader.count(JobFilter(states=(State.SCHEDULED,)))) == 40_000


# The same calls give the same answers.


def test_equal_clocks_and_calls_give_equal_answers() -> None:
    def history() -> tuple[dict[str, Any], Claim]:
        store = furnished()
        [dead] = store.run(store.reader.dead_letters(None, PageRequest())).letters
        store.run(store.control.retry([RetryRequest(dead.job_id)]))
        return everything(store), claim(store)

    assert history() == history()
