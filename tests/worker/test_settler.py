"""The settler, step by step: nothing it was given is lost, and nothing holds up the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from tests.worker.flaky import FlakyStore, Times

from fencepost import NewJob, PermanentError, State
from fencepost.core.bounds import SETTLE_BYTES_MAX
from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.failure import classify
from fencepost.core.job.job import ClaimedJob
from fencepost.core.job.outcome import Outcome, Settlement, Succeeded, decide, settlement_of
from fencepost.core.values.payload import encode
from fencepost.observe.counters import Counters
from fencepost.store.interface.queue import ClaimRequest, QueueFacet
from fencepost.store.interface.store import Store
from fencepost.store.memory.store import MemoryStore
from fencepost.store.open import open_store
from fencepost.store.wrappers.observed import observed
from fencepost.testing.clock import FakeClock
from fencepost.worker.run.inflight import InFlight
from fencepost.worker.run.settler import Settler
from fencepost.worker.run.slots import WorkerSlots


class RecordedSlots(WorkerSlots):
    """Records how many settlements each group had."""

    def __init__(self, inflight: InFlight) -> None:
        super().__init__(1, inflight)
        self.written: list[int] = []

    def settled(self, settlements: Sequence[Settlement]) -> None:
        self.written.append(len(settlements))
        super().settled(settlements)


class Rig:
    """A settler, the jobs in its worker's hand, and a clock that does not wait."""

    def __init__(self, count: int) -> None:
        self.clock = FakeClock()
        self.counters = Counters()
        self.store = FlakyStore(observed(MemoryStore(clock=self.clock), self.counters))
        self.hand = InFlight()
        self.slots = RecordedSlots(self.hand)
        self.written = self.slots.written
        self.settler = Settler(cast(Store, self.store), self.hand, self.counters, self.slots)
        store = self.store.inner
        store.run(store.queue.enqueue([NewJob(type="t")] * count))
        self.jobs: list[ClaimedJob] = store.run(
            store.queue.claim(ClaimRequest(worker="w", limit=count))
        ).jobs
        self.hand.take(self.jobs, asked_at=0.0, answered_at=0.0)

    def add(self, job: ClaimedJob, outcome: Outcome | None = None) -> None:
        decided = decide(job, outcome or Succeeded(encode("done")), self.clock.rng)
        self.settler.add(Settlement(job.id, job.lease.token, decided))

    def states(self) -> list[State]:
        store = self.store.inner
        return [job.state for job in store.run(store.reader.get([j.id for j in self.jobs])) if job]


async def test_a_group_is_bounded_by_the_bytes_of_its_results() -> None:
    """A server has to take it all in at once; a single one goes, however large it is."""
    rig = Rig(6)
    large, half = "x" * SETTLE_BYTES_MAX, "x" * (SETTLE_BYTES_MAX // 2 - 2)
    for job, text in zip(rig.jobs, ("", half, half, large, large, ""), strict=True):
        rig.add(job, Succeeded(encode(text)))
    while not rig.settler.is_idle:
        await rig.settler.step()
    assert rig.written == [2, 1, 1, 1, 1]
    assert rig.states() == [State.COMPLETED] * 6


async def test_what_ended_meanwhile_is_written_as_one_group() -> None:
    """S0-30, S0-31, S2-33: successes and failures together; then they are out of hand."""
    rig = Rig(10)
    for number, job in enumerate(rig.jobs):
        rig.add(job, classify(ValueError("x")) if number % 2 else None)
    assert await rig.settler.step() == 10
    assert rig.settler.is_idle
    assert (len(rig.hand.held), rig.written) == (0, [10])
    assert rig.states() == [State.COMPLETED, State.RETRYING] * 5
    assert rig.counters.get("store.operation", operation="settle") == 1
    assert rig.counters.get("attempt.ended", outcome="succeeded") == 5
    assert rig.counters.get("attempt.ended", outcome="failed") == 5
    assert await rig.settler.step() == 0


async def test_an_outage_keeps_everything_pending_in_order() -> None:
    """S0-55: the jobs stay in hand, and are heartbeated, until the store has answered."""
    rig = Rig(3)
    rig.store.is_away = Times(QueueFacet.settle, 2)
    for job in rig.jobs:
        rig.add(job)
    before = rig.clock.monotonic()
    assert [await rig.settler.step(), await rig.settler.step()] == [0, 0]
    assert rig.clock.monotonic() > before, "it waits before it tries again"
    assert (len(rig.hand.held), rig.settler.is_idle) == (3, False)
    assert await rig.settler.step() == 3
    assert rig.states() == [State.COMPLETED] * 3
    assert rig.counters.get("attempt.ended", outcome="succeeded") == 3


async def test_an_unknown_outcome_is_repeated_with_the_same_token() -> None:
    """S0-57: the store has recorded it, and says so the second time."""
    rig = Rig(1)
    rig.store.loses_reply = Times(QueueFacet.settle, 1)
    rig.add(rig.jobs[0])
    assert await rig.settler.step() == 0
    assert await rig.settler.step() == 1
    assert rig.counters.get("settle.repeated") == 1
    assert rig.counters.get("job.settled") == 1
    assert len(rig.hand.held) == 0


async def test_a_stale_settlement_changes_nothing_and_is_let_go() -> None:
    """S0-40, S0-42, S0-49, S4-12: refused acks and nacks are counted by kind."""
    rig = Rig(2)
    rig.clock.advance("10m")
    rig.add(rig.jobs[0])
    rig.add(rig.jobs[1], classify(ValueError("x")))
    assert await rig.settler.step() == 2
    assert (len(rig.hand.held), rig.states()) == (0, [State.RUNNING] * 2)
    assert (rig.counters.get("stale.ack"), rig.counters.get("stale.nack")) == (1, 1)


async def test_one_settlement_that_cannot_be_written_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """S4-1: it is given up, so that its lease runs out, and it is said so."""
    rig = Rig(5)
    poison = rig.jobs[2].id
    settle = rig.store.inner.queue.settle

    def refuse(settlements: list[Settlement]) -> Any:
        if any(each.job_id == poison for each in settlements):
            raise TypeError("cannot be written")
        return settle(settlements)

    monkeypatch.setattr(rig.store.inner.queue, "settle", refuse)
    for job in rig.jobs:
        rig.add(job, classify(PermanentError("no")))
    while not rig.settler.is_idle:
        await rig.settler.step()
    assert rig.states() == [State.FAILED] * 2 + [State.RUNNING] + [State.FAILED] * 2
    assert (len(rig.hand.held), rig.counters.get("settle.failed")) == (0, 1)
    assert 0 in rig.written, "whoever waits for room in hand is told of what was given up, too"
    [record] = [
        each for each in caplog.records if vars(each).get("fencepost_event") == "settle.failed"
    ]
    assert vars(record)["fencepost_fields"]["id"] == poison
    rig.clock.advance("10m")
    store = rig.store.inner
    [moved] = store.run(store.upkeep.recover(10))
    assert moved.job_id == poison


async def test_a_stopping_worker_does_not_tear_a_write() -> None:
    """The step is cancelled, the write goes on."""
    rig = Rig(1)
    begun, finish = asyncio.Event(), asyncio.Event()
    inner = rig.store.inner

    class Slow(FlakyStore):
        async def run_async(self, operation: Any) -> Any:
            begun.set()
            await finish.wait()
            return await inner.run_async(operation)

    settler = Settler(cast(Store, Slow(inner)), rig.hand, rig.counters, rig.slots)
    job = rig.jobs[0]
    settler.add(
        Settlement(job.id, job.lease.token, decide(job, Succeeded(encode(1)), rig.clock.rng))
    )
    step = asyncio.create_task(settler.step())
    await begun.wait()
    step.cancel()
    finish.set()
    with pytest.raises(asyncio.CancelledError):
        await step
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert rig.states() == [State.COMPLETED]


async def test_whoever_let_others_go_is_told_at_once() -> None:
    """S1-62: the next of a chain is not to wait until a notification arrives."""
    rig = Rig(2)
    store = rig.store.inner
    parent, other = rig.jobs
    store.run(store.queue.enqueue([NewJob(type="t", after=Dependencies((parent.id,)))]))
    rig.add(other)
    await rig.settler.step()
    assert not rig.slots.news.is_set()
    rig.add(parent)
    await rig.settler.step()
    assert rig.slots.news.is_set()


async def test_what_is_posted_is_written_although_the_loop_does_not_turn(tmp_path: Path) -> None:
    """A claim in the loop's thread may hang: what has ended before goes on by itself."""
    store = open_store(f"sqlite:///{tmp_path}/jobs.db")
    store.run(store.queue.enqueue([NewJob(type="t")] * 3))
    jobs = store.run(store.queue.claim(ClaimRequest(worker="w", limit=3))).jobs
    hand = InFlight()
    hand.take(jobs, asked_at=0.0, answered_at=0.0)
    settler = Settler(store, hand, Counters(), WorkerSlots(3, hand))
    for job in jobs:
        settler.add(settlement_of(job, decide(job, Succeeded(encode("done")), store.clock.rng)))
    settler.post()
    states: set[State] = set()
    until = store.clock.monotonic() + 10
    while states != {State.COMPLETED} and store.clock.monotonic() < until:
        found = store.run(store.reader.get([job.id for job in jobs]))
        states = {job.state for job in found if job is not None}
    assert states == {State.COMPLETED}
    assert len(hand.held) == 3  # nobody has read the answer
    assert await settler.step() == 3
    assert settler.is_idle
    assert not hand.held
    store.close()


async def test_what_was_posted_is_written_again_if_the_settler_ended_before_the_answer() -> None:
    """A loop that is being closed cancels every task: the shutdown writes what is not known."""
    rig = Rig(2)
    for job in rig.jobs:
        rig.add(job)
    settling = asyncio.create_task(rig.settler.start())
    rig.settler.post()
    settling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await settling
    while not rig.settler.is_idle:
        await rig.settler.step()
    assert rig.states() == [State.COMPLETED] * 2
    assert not rig.hand.held
