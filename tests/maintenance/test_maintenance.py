"""Maintenance: one leader by a lease, chores in bounded steps; correctness needs neither."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NoReturn, Self, cast
from uuid import uuid4

import pytest

from fencepost import NewJob, Retention, State
from fencepost.core.access.audit import make_action
from fencepost.core.access.tokens import Principal
from fencepost.core.bounds import (
    LEADER_TTL,
    PRUNE_BATCH,
    PRUNE_INTERVAL,
    PRUNE_PAUSE,
    PRUNE_ROUNDS,
    RECOVER_BATCH,
    RECOVER_INTERVAL,
)
from fencepost.core.events import NewEvent
from fencepost.core.filter import PageRequest
from fencepost.core.job.job import Body
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.core.job.policy import Backoff, Policy
from fencepost.maintenance import Maintenance
from fencepost.maintenance import maintenance as chores
from fencepost.observe.counters import Counters
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.interface.store import Store
from fencepost.store.interface.upkeep import Pruned, PruneRequest
from fencepost.store.memory.store import MemoryStore
from fencepost.store.sqlite.store import SqliteStore
from fencepost.store.wrappers.observed import observed
from fencepost.testing.clock import FakeClock

TTL = 30.0


@pytest.fixture
def counters() -> Counters:
    return Counters()


@pytest.fixture(params=["sqlite", "memory"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock, counters: Counters
) -> Iterator[Store]:
    if request.param == "memory":
        inner: Store = MemoryStore(clock=clock)
    else:
        inner = SqliteStore(str(tmp_path / "jobs.db"), clock=clock)
    yield observed(inner, counters)
    inner.close()


def candidate(store: Store, name: str, counters: Counters) -> Maintenance:
    return Maintenance(store, worker=name, retention=Retention(), counters=counters)


def enqueue(store: Store, count: int = 1, **fields: Any) -> list[str]:
    replies = store.run(store.queue.enqueue([NewJob(type="t", **fields)] * count))
    return [reply.job_id for reply in replies]


def claim(store: Store, limit: int = 500) -> list[Any]:
    return store.run(store.queue.claim(ClaimRequest(worker="w", limit=limit, lease_ttl=TTL))).jobs


def state(store: Store, job_id: str) -> State:
    [job] = store.run(store.reader.get([job_id]))
    assert job is not None
    return job.state


# The leader.


async def test_of_two_candidates_one_leads(store: Store, counters: Counters) -> None:
    """S4-2: the other waits for the term to run out, and does no chores."""
    first, second = candidate(store, "a", counters), candidate(store, "b", counters)
    enqueue(store, delay=0.0)
    assert 0 < await first.step() <= LEADER_TTL / 3
    before = counters.get("store.operation", operation="recover")
    assert await second.step() == LEADER_TTL / 2
    assert counters.get("store.operation", operation="recover") == before
    assert counters.get("leader.elected") == 1


async def test_a_leader_keeps_its_term_as_long_as_it_steps(
    store: Store, clock: FakeClock, counters: Counters
) -> None:
    first, second = candidate(store, "a", counters), candidate(store, "b", counters)
    for _ in range(30):
        clock.advance(await first.step())
        assert await second.step() == LEADER_TTL / 2
    assert counters.get("leader.elected") == 1


async def test_a_leader_that_dies_is_followed_when_its_term_runs_out(
    store: Store, clock: FakeClock, counters: Counters
) -> None:
    """S2-16: nobody has to notice that it died."""
    first, second = candidate(store, "a", counters), candidate(store, "b", counters)
    await first.step()
    clock.advance(LEADER_TTL - 0.001)
    assert await second.step() == LEADER_TTL / 2
    clock.advance(0.001)
    assert await second.step() < LEADER_TTL / 2
    assert await first.step() == LEADER_TTL / 2, "the old leader learns that it leads no more"
    assert (counters.get("leader.elected"), counters.get("leader.resigned")) == (2, 1)


async def test_a_leader_that_resigns_is_followed_at_once(store: Store, counters: Counters) -> None:
    first, second = candidate(store, "a", counters), candidate(store, "b", counters)
    await first.step()
    await first.resign()
    await first.resign()
    assert await second.step() < LEADER_TTL / 2
    await first.resign()
    assert await first.step() == LEADER_TTL / 2, "a resignation takes nobody else's term away"


async def test_chores_are_done_when_they_are_due(
    store: Store, clock: FakeClock, counters: Counters
) -> None:
    """S2-12, S4-20: each at its own interval, whatever the others need."""
    leader = candidate(store, "a", counters)
    elapsed = 0.0
    while elapsed < 60.0:
        pause = await leader.step()
        clock.advance(pause)
        elapsed += pause

    def done(name: str) -> float:
        return counters.get("store.operation", operation=name)

    assert 50 <= done("recover") <= 62
    assert 50 <= done("promote") <= 62
    assert 11 <= done("expire") <= 13
    assert 1 <= done("prune") <= 2


async def test_a_store_that_is_away_or_broken_does_not_end_maintenance(
    clock: FakeClock, counters: Counters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0-55, S4-2."""
    store = MemoryStore(clock=clock)
    leader = candidate(store, "a", counters)
    errors = [ConnectionError("a defect"), None]
    enough = asyncio.Event()
    recover = store.upkeep.recover

    def broken(limit: int) -> Any:
        error = errors.pop(0) if errors else None
        if error is not None:
            raise error
        enough.set()
        return recover(limit)

    monkeypatch.setattr(store.upkeep, "recover", broken)

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr(clock, "sleep_async", sleep)
    running = asyncio.create_task(leader.start())
    await asyncio.wait_for(enough.wait(), 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


# The chores.


class _Broken(Random):
    def uniform(self, a: float, b: float) -> NoReturn:
        raise RuntimeError("no chance")


async def test_a_chore_that_fails_keeps_no_other_from_being_done(
    store: Store, clock: FakeClock, counters: Counters
) -> None:
    """S2-12: one that fails each time is passed over every other time, for those behind it."""
    enqueue(store, policy=Policy(backoff=Backoff(jitter=0.5)))
    claim(store)
    (outlived,) = enqueue(store, policy=Policy(lifetime=60.0))
    clock.advance(600.0)
    clock.rng = _Broken()
    leader = candidate(store, "a", counters)
    with pytest.raises(RuntimeError):
        await leader.step()
    assert state(store, outlived) is State.SCHEDULED
    clock.advance(LEADER_TTL / 2)
    await leader.step()
    assert state(store, outlived) is State.DEAD_LETTER


async def test_expired_leases_are_taken_back_in_the_startup_flow(
    store: Store, clock: FakeClock
) -> None:
    """S4-13, S4-19, S4-23, S2-11, S2-13: drained until none is left, more than a batch of them."""
    ids = enqueue(store, RECOVER_BATCH + 50)
    assert len(claim(store)) == len(ids)
    recover = chores.recover(store)
    assert await recover.step() == 0, "a valid lease is never taken"
    clock.advance(TTL)
    assert [await recover.step() for _ in range(3)] == [RECOVER_BATCH, 50, 0]
    assert {state(store, each) for each in ids[:3] + ids[-3:]} == {State.RETRYING}
    clock.advance(1)
    assert [job.attempt for job in claim(store, 2)] == [2, 2]


async def test_expired_leases_are_taken_back_in_the_periodic_flow(
    store: Store, clock: FakeClock, counters: Counters
) -> None:
    """S2-11, S2-12, S2-13, S4-4, S4-16, S4-17, S4-20, S4-24: within an interval of expiry."""
    leader = candidate(store, "a", counters)
    [job_id] = enqueue(store)
    claim(store)
    expires_at = clock.monotonic() + TTL
    while clock.monotonic() < expires_at:
        assert state(store, job_id) is State.RUNNING
        clock.advance(await leader.step())
    while state(store, job_id) is State.RUNNING:
        clock.advance(await leader.step())
        assert clock.monotonic() <= expires_at + 2 * RECOVER_INTERVAL + 0.1
    [job] = store.run(store.reader.get([job_id]))
    assert job is not None
    assert (job.state, job.attempt, job.lease) == (State.RETRYING, 1, None)
    assert counters.get("lease.recovered") == 1


async def test_a_poison_job_that_kills_its_workers_ends_as_a_dead_letter(
    store: Store, clock: FakeClock, counters: Counters
) -> None:
    """S0-22, S4-18, C8: its last lease is counted as exhausted."""
    [job_id] = enqueue(store, policy=Policy(max_attempts=2))
    recover, promote = chores.recover(store), chores.promote(store)
    for expected in (State.RETRYING, State.DEAD_LETTER):
        assert len(claim(store)) == 1
        clock.advance(TTL)
        assert await recover.step() == 1
        assert state(store, job_id) is expected
        clock.advance(10)
        await promote.step()
    assert (counters.get("lease.recovered"), counters.get("lease.exhausted")) == (1, 1)


async def test_due_jobs_are_promoted(store: Store, clock: FakeClock, counters: Counters) -> None:
    """S1-22, S1-28."""
    [job_id] = enqueue(store, delay=60.0)
    promote = chores.promote(store)
    clock.advance(59.9)
    assert await promote.step() == 0
    clock.advance(0.1)
    assert await promote.step() == 1
    assert state(store, job_id) is State.SCHEDULED
    assert counters.get("job.promoted") == 1


async def test_jobs_past_their_lifetime_are_dead_letters(
    store: Store, clock: FakeClock, counters: Counters
) -> None:
    """S1-44, C22, C39: running, delayed and paused ones alike."""
    policy = Policy(lifetime=100.0)
    [running] = enqueue(store, policy=policy)
    claim(store)
    [delayed] = enqueue(store, policy=policy, delay=99.95)
    [waiting] = enqueue(store, policy=policy)
    expire = chores.expire(store)
    clock.advance(99.9)
    assert await expire.step() == 0
    clock.advance(0.1)
    assert await expire.step() == 3
    assert {state(store, each) for each in (running, delayed, waiting)} == {State.DEAD_LETTER}
    assert counters.get("job.expired", state="dead_letter") == 3


async def test_old_jobs_are_pruned_by_retention(
    store: Store, clock: FakeClock, counters: Counters
) -> None:
    """S0-3, S1-5: terminal ones only, each state after its own time."""
    done = enqueue(store, 3)
    for job in claim(store):
        decision = decide(job, Succeeded(Body(b"1")), clock.rng)
        store.run(store.queue.settle([Settlement(job.id, job.lease.token, decision)]))
    [cancelled] = enqueue(store)
    store.run(store.control.cancel([cancelled]))
    [live] = enqueue(store, policy=Policy(lifetime=3650 * 86_400.0))
    prune = chores.prune(store, Retention(completed="1d", cancelled="2d"))
    clock.advance("1d")
    assert await prune.step() == 3
    assert store.run(store.reader.get(done)) == [None] * 3
    clock.advance("1d")
    assert await prune.step() == 1
    clock.advance("365d")
    assert await prune.step() == 0
    assert state(store, live) is State.SCHEDULED
    assert counters.get("job.pruned") == 4


async def test_old_records_of_events_are_pruned_by_retention(
    store: Store, clock: FakeClock, counters: Counters
) -> None:
    """S1-5: by the leader too, among its other chores."""
    for _ in range(3):
        store.run(store.events.send(NewEvent("a"), []))
    prune = chores.prune_events(store, Retention(events="1d"))
    clock.advance("23h")
    assert await prune.step() == 0
    clock.advance("1h")
    assert await prune.step() == 3
    store.run(store.events.send(NewEvent("a"), []))
    clock.advance(Retention().events)
    await candidate(store, "a", counters).step()
    assert counters.get("event.pruned") == 4
    assert store.run(store.events.list(None, PageRequest())).events == []


async def test_the_old_end_of_the_audit_log_is_cut_off_by_retention(
    store: Store, clock: FakeClock, counters: Counters
) -> None:
    """By the leader too, after 90 days unless another time is set."""
    for number in range(3):
        action = make_action(Principal.local(), "queue.pause", id=f"{uuid4()}", target=f"{number}")
        store.run(store.audit.record(action))
    prune = chores.prune_actions(store, Retention(audit="1d"))
    clock.advance("23h")
    assert await prune.step() == 0
    await candidate(store, "a", counters).step()
    assert len(store.run(store.audit.list(PageRequest())).actions) == 3
    clock.advance("1h")
    assert await prune.step() == 3
    store.run(store.audit.record(action))
    clock.advance("90d")
    await candidate(store, "b", counters).step()
    assert store.run(store.audit.list(PageRequest())).actions == []
    assert counters.get("audit.pruned") == 4


async def test_pruning_events_is_bounded_and_goes_on_soon() -> None:
    """S1-5: twenty batches a pass; a pass that saw no end is followed within a second."""
    left = (PRUNE_ROUNDS + 1) * PRUNE_BATCH + 7

    class Full:
        """A store that has more to prune than one pass does."""

        @property
        def events(self) -> Self:
            return self

        def prune(self, keep: float, limit: int) -> int:
            return limit

        async def run_async(self, limit: int) -> int:
            nonlocal left
            pruned = min(limit, left)
            left -= pruned
            return pruned

    prune = chores.prune_events(cast(Store, Full()), Retention())
    assert prune.interval == PRUNE_INTERVAL
    assert await prune.step() == PRUNE_ROUNDS * PRUNE_BATCH
    assert prune.interval == PRUNE_PAUSE
    assert await prune.step() == PRUNE_BATCH + 7
    assert prune.interval == PRUNE_INTERVAL


async def test_a_pruning_pass_is_bounded_and_goes_on_where_it_stopped() -> None:
    """S1-5: twenty rounds a pass, and from the beginning once it has seen everything."""
    asked: list[PruneRequest] = []

    class Endless:
        """A store in which each stretch holds something to prune."""

        @property
        def upkeep(self) -> Self:
            return self

        def prune(self, request: PruneRequest) -> PruneRequest:
            asked.append(request)
            return request

        async def run_async(self, request: PruneRequest) -> Pruned:
            position = request.after + 1
            return Pruned(count=2, next=None if position > 25 else position)

    prune = chores.prune(cast(Store, Endless()), Retention())
    assert await prune.step() == 2 * PRUNE_ROUNDS
    assert await prune.step() == 2 * 6
    assert [request.after for request in asked] == list(range(26))
    assert {request.limit for request in asked} == {PRUNE_BATCH}
    assert set(asked[0].keep) == {
        State.COMPLETED,
        State.CANCELLED,
        State.FAILED,
        State.DEAD_LETTER,
    }
    await prune.step()
    assert asked[26].after == 0
