"""The heartbeater, step by step, on a clock that only tests move."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest
from tests.worker.flaky import FlakyStore, nothing, only
from tests.worker.support import drain

from fencepost import App, NewJob, Retry, State
from fencepost.actions.options import retry_fields
from fencepost.core.bounds import HEARTBEAT_PAUSE_MAX
from fencepost.core.job.job import ClaimedJob
from fencepost.core.job.policy import Policy
from fencepost.observe.counters import Counters
from fencepost.store.interface.queue import ClaimRequest, QueueFacet
from fencepost.store.interface.store import Store
from fencepost.store.memory.store import MemoryStore
from fencepost.store.plan import Operation
from fencepost.store.wrappers.observed import observed
from fencepost.testing.clock import FakeClock
from fencepost.worker import Worker
from fencepost.worker.run.context import AttemptState
from fencepost.worker.run.heartbeater import Heartbeater
from fencepost.worker.run.inflight import InFlight, InFlightJob

TTL = 30.0


class Rig:
    """A heartbeater with some jobs in hand."""

    def __init__(self, *ttls: float) -> None:
        self.clock = FakeClock()
        self.counters = Counters()
        self.store = FlakyStore(observed(MemoryStore(clock=self.clock), self.counters))
        self.hand = InFlight()
        self.lost: list[tuple[str, str]] = []
        self.heart = Heartbeater(cast(Store, self.store), self.hand, self.counters, self._note)
        self.jobs: list[ClaimedJob] = [self.claim(ttl) for ttl in ttls or (TTL,)]

    def _note(self, held: InFlightJob, reason: str) -> None:
        self.lost.append((held.job.id, reason))
        self.lost_at = self.clock.monotonic()

    def claim(self, ttl: float) -> ClaimedJob:
        store = self.store.inner
        policy = Policy(**retry_fields(Retry()), lease_ttl=ttl)
        store.run(store.queue.enqueue([NewJob(type="t", policy=policy)]))
        asked_at = self.clock.monotonic()
        [job] = store.run(store.queue.claim(ClaimRequest(worker="w", limit=1))).jobs
        self.hand.take([job], asked_at=asked_at, answered_at=asked_at)
        return job

    def beats(self) -> int:
        return int(self.counters.get("store.operation", operation="heartbeat"))

    def expires_in(self, job: ClaimedJob) -> timedelta:
        store = self.store.inner
        [found] = store.run(store.reader.get([job.id]))
        assert found is not None
        assert found.lease is not None
        return found.lease.expires_at - self.clock.now()


def test_a_lease_is_extended_a_third_of_its_ttl_after_the_last_time() -> None:
    """S0-80, S2-7, S4-22: not before, and again after another third."""
    rig = Rig()
    assert rig.heart.step() == HEARTBEAT_PAUSE_MAX
    rig.clock.advance(TTL / 3 - 0.2)
    assert rig.heart.step() == pytest.approx(0.2)
    assert rig.beats() == 0
    rig.clock.advance(0.2)
    rig.heart.step()
    assert rig.beats() == 1
    assert rig.expires_in(rig.jobs[0]) == timedelta(seconds=TTL)
    rig.clock.advance(TTL / 3 - 0.1)
    rig.heart.step()
    assert rig.beats() == 1
    rig.clock.advance(0.1)
    rig.heart.step()
    assert rig.beats() == 2


def test_the_default_of_five_seconds_beats_every_1_67() -> None:
    """S0-75, S0-80: the fast-recovery setting."""
    rig = Rig(5.0)
    rig.clock.advance(1.0)
    assert rig.heart.step() == pytest.approx(5 / 3 - 1.0)


def test_a_job_can_be_kept_for_far_longer_than_its_ttl() -> None:
    """S0-90, S4-6, S4-27: ten minutes on leases of thirty seconds, and nobody can recover it."""
    rig = Rig()
    store = rig.store.inner
    while rig.clock.monotonic() < 600:
        rig.clock.advance(rig.heart.step())
        assert store.run(store.upkeep.recover(10)) == []
    assert rig.lost == []
    assert 58 <= rig.beats() <= 61


def test_jobs_of_different_ttls_beat_each_at_its_own_pace_and_together_when_due() -> None:
    rig = Rig(3.0, 30.0, 3.0)
    rig.clock.advance(1.0)
    rig.heart.step()
    assert rig.beats() == 1, "both short ones in one operation"
    assert [rig.expires_in(job) for job in rig.jobs] == [
        timedelta(seconds=3),
        timedelta(seconds=29),
        timedelta(seconds=3),
    ]


def test_a_lost_lease_is_let_go_of_and_reported_once() -> None:
    """S2-9, S2-35, S0-83: expired, so not revived, though nobody has taken it (C10)."""
    rig = Rig()
    rig.clock.advance(TTL)
    rig.heart.step()
    rig.heart.step()
    assert rig.lost == [(rig.jobs[0].id, "lease_lost")]
    assert len(rig.hand.held) == 0
    assert rig.counters.get("stale.heartbeat") == 1


def test_a_cancelled_job_is_reported_as_cancelled() -> None:
    """S3-9, C20."""
    rig = Rig()
    store = rig.store.inner
    store.run(store.control.cancel([rig.jobs[0].id]))
    rig.clock.advance(TTL / 3)
    rig.heart.step()
    assert rig.lost == [(rig.jobs[0].id, "cancelled")]


def test_a_job_that_is_out_of_hand_is_beaten_for_no_more() -> None:
    """S0-82."""
    rig = Rig()
    job = rig.jobs[0]
    rig.hand.drop(job.id, job.lease.token)
    rig.clock.advance(TTL)
    assert rig.heart.step() == HEARTBEAT_PAUSE_MAX
    assert (rig.beats(), rig.lost) == (0, [])


def test_an_outage_is_outlasted_until_the_lease_must_have_run_out() -> None:
    """S0-55, S2-32: by our own clock, from when the store last confirmed it."""
    rig = Rig()
    rig.store.is_away = only(QueueFacet.heartbeat)
    rig.clock.advance(TTL / 3)
    pauses = [rig.heart.step() for _ in range(20)]
    assert rig.lost == []
    assert all(0 < pause <= 5 for pause in pauses)
    assert pauses[-1] > pauses[0], "it grows patient"
    rig.clock.advance(TTL * 2 / 3 - 0.001)
    rig.heart.step()
    assert rig.lost == []
    rig.clock.advance(0.001)
    rig.heart.step()
    assert rig.lost == [(rig.jobs[0].id, "lease_lost")]


@pytest.mark.parametrize("ttl", [1.0, 5.0, 30.0])
def test_a_handler_is_interrupted_the_moment_its_lease_ends(ttl: float) -> None:
    """S2-32: however patient the heart has become with its store."""
    rig = Rig(ttl)
    rig.store.is_away = only(QueueFacet.heartbeat)
    while not rig.lost:
        rig.clock.advance(rig.heart.step())
    assert ttl <= rig.lost_at <= ttl + 0.03


def test_a_lease_lasts_from_when_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """S2-32: the store counts from when the beat came, and its answer may be long on its way."""
    rig = Rig()
    run = rig.store.run

    def run_slowly(operation: Operation[Any]) -> Any:
        reply = run(operation)
        rig.clock.advance(TTL / 3)
        return reply

    monkeypatch.setattr(rig.store, "run", run_slowly)
    rig.clock.advance(TTL / 3)
    rig.heart.step()
    assert rig.expires_in(rig.jobs[0]) == timedelta(seconds=TTL * 2 / 3)
    rig.store.is_away = only(QueueFacet.heartbeat)
    rig.clock.advance(TTL * 2 / 3 - 0.001)
    rig.heart.step()
    assert rig.lost == []
    rig.clock.advance(0.001)
    rig.heart.step()
    assert rig.lost == [(rig.jobs[0].id, "lease_lost")]


def test_after_a_short_outage_the_lease_is_extended_as_before() -> None:
    """S0-55."""
    rig = Rig()
    rig.store.is_away = only(QueueFacet.heartbeat)
    rig.clock.advance(TTL / 3)
    rig.heart.step()
    rig.store.is_away = nothing
    rig.clock.advance(5)
    rig.heart.step()
    assert (rig.beats(), rig.lost) == (1, [])
    assert rig.expires_in(rig.jobs[0]) == timedelta(seconds=TTL)


def test_a_defect_in_the_store_does_not_end_the_heart(monkeypatch: pytest.MonkeyPatch) -> None:
    """S4-1: an error of any kind is outlasted like an outage."""
    rig = Rig()

    def broken(beats: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(rig.store.inner.queue, "heartbeat", broken)
    rig.clock.advance(TTL / 3)
    assert rig.heart.step() > 0
    monkeypatch.undo()
    rig.heart.step()
    assert (rig.beats(), rig.lost) == (1, [])


def test_the_thread_wakes_early_for_a_job_that_cannot_wait() -> None:
    """S0-80: a TTL of 1 s is beaten for within a third of it, however long the heart rests."""
    rig = Rig()
    rig.heart.start()
    try:
        assert 1.0 < rig.heart.shortest_ttl <= TTL, "the fetcher wakes it for shorter leases"
        rig.heart.wake()
    finally:
        rig.heart.stop()


@pytest.mark.parametrize(("lease_ttl", "is_woken"), [(1.0, True), (30.0, False)])
async def test_a_worker_wakes_the_heart_for_a_lease_that_is_due_before_its_next_pass(
    app: App, monkeypatch: pytest.MonkeyPatch, lease_ttl: float, is_woken: bool
) -> None:
    """S0-80."""
    woken = []

    class Heart(Heartbeater):
        def wake(self) -> None:
            woken.append(True)
            super().wake()

    @app.task
    async def quick() -> None: ...

    monkeypatch.setattr(Worker, "_heartbeater_class", Heart)
    quick.submit()
    await drain(app, lease_ttl=lease_ttl)
    assert bool(woken) is is_woken


def test_a_beat_moves_the_lease_that_the_handler_sees() -> None:
    """S0-81."""
    rig = Rig()
    [held] = rig.hand.everything()

    class Attempt:
        state = AttemptState(held.job, held.job.lease, 0.0)

    held.attempt = cast("object", Attempt())  # type: ignore[assignment]  # all that is looked at
    rig.clock.advance(TTL / 3)
    rig.heart.step()
    assert Attempt.state.lease.expires_at == rig.clock.now() + timedelta(seconds=TTL)
    store = rig.store.inner
    [job] = store.run(store.reader.get([rig.jobs[0].id]))
    assert job is not None
    assert job.state is State.RUNNING
