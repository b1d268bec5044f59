"""Leases: how they are extended, and the instant at which they end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from conformance.harness import INSTANT, NOBODY, REACHABLE, TTL, Harness
from fencepost.core.job.job import Ownership
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import RELEASED, Settlement
from fencepost.core.job.policy import Policy, Priority
from fencepost.store.interface.queue import (
    AlreadySettled,
    Beat,
    Extended,
    LeaseLost,
    Settled,
    WorkerLease,
)

__all__ = ["TestLeases"]

SECONDS = timedelta(seconds=1)


class TestLeases:
    def test_a_heartbeat_makes_the_lease_last_from_now(self, h: Harness) -> None:
        """S0-79, S0-81, S2-8, S2-32, S4-11, C18: now + ttl, not expiry + ttl."""
        job_id = h.submit()
        claimed = h.take()
        now = h.advance(10.0)
        assert h.heartbeat(claimed, 25.0) == Extended(job_id, now + 25 * SECONDS)
        seen = h.get(job_id)
        assert seen.lease == Ownership(
            "w1", claimed.lease.version, now + timedelta(seconds=35 - 10), False
        )
        assert (seen.attempt, seen.started_at) == (1, now - 10 * SECONDS)
        assert seen.lease_version == claimed.lease.version

    def test_a_heartbeat_never_shortens_a_lease(self, h: Harness) -> None:
        """C18."""
        job_id = h.submit()
        claimed = h.take()
        assert h.heartbeat(claimed, 1.0) == Extended(job_id, claimed.lease.expires_at)
        assert h.get(job_id).lease == Ownership(
            "w1", claimed.lease.version, claimed.lease.expires_at, False
        )

    def test_a_lease_holds_until_the_instant_before_its_end(self, h: Harness) -> None:
        """S0-74, S2-10, C10."""
        h.submit()
        claimed = h.take()
        h.advance_to(claimed.lease.expires_at - INSTANT)
        assert h.heartbeat(claimed) == Extended(claimed.id, h.now + TTL * SECONDS)
        h.advance(TTL - 0.000001)
        assert h.succeed(claimed) == Settled(claimed.id, "mail", State.COMPLETED)

    @pytest.mark.parametrize("late", [timedelta(0), INSTANT, timedelta(days=1)], ids=str)
    def test_a_lease_is_lost_at_its_end_and_after(self, h: Harness, late: timedelta) -> None:
        """S0-23, S0-74, S2-10, C10: a heartbeat does not revive it."""
        h.submit()
        claimed = h.take()
        h.advance_to(claimed.lease.expires_at + late)
        assert h.heartbeat(claimed) == LeaseLost(claimed.id, State.RUNNING)
        assert h.heartbeat(claimed) == LeaseLost(claimed.id, State.RUNNING)
        assert h.get(claimed.id).lease == Ownership(
            "w1", claimed.lease.version, claimed.lease.expires_at, True
        )

    def test_an_extended_lease_ends_at_its_new_end(self, h: Harness) -> None:
        """S0-81, C10."""
        h.submit()
        claimed = h.take()
        h.advance(20.0)
        h.heartbeat(claimed)
        h.advance(TTL - 0.000001)
        assert h.run(h.store.upkeep.recover(10)) == []
        h.advance(0.000001)
        assert h.heartbeat(claimed) == LeaseLost(claimed.id, State.RUNNING)

    def test_between_expiry_and_recovery_nobody_owns_the_job(self, h: Harness) -> None:
        """S0-84, C11: it still reads RUNNING, and says that its lease is over."""
        job_id = h.submit()
        claimed = h.take()
        h.advance_to(claimed.lease.expires_at - INSTANT)
        assert h.get(job_id).lease == Ownership(
            "w1", claimed.lease.version, claimed.lease.expires_at, False
        )
        h.advance(0.000001)
        seen = h.get(job_id)
        assert seen.state is State.RUNNING
        assert seen.lease == Ownership("w1", claimed.lease.version, claimed.lease.expires_at, True)

    def test_a_job_with_heartbeats_outlives_many_leases(self, h: Harness) -> None:
        """S0-89, S0-90, S4-5, S4-6, S4-27: twelve minutes on leases of thirty seconds."""
        job_id = h.submit()
        claimed = h.take()
        for _ in range(72):
            h.advance(10.0)
            assert isinstance(h.heartbeat(claimed), Extended)
            assert h.claim(worker="w2").jobs == []
            assert h.run(h.store.upkeep.recover(10)) == []
        assert h.get(job_id).attempt == 1
        assert h.succeed(claimed) == Settled(job_id, "mail", State.COMPLETED)

    def test_without_heartbeats_the_same_job_goes_to_another(self, h: Harness) -> None:
        """S0-23, S0-85, S0-88, S0-91, S4-7, S0-57."""
        job_id = h.submit()
        h.take()
        h.advance(TTL)
        h.claim(worker="w2")
        h.advance(1.0)
        claimed = h.take("w2")
        assert (claimed.id, claimed.attempt) == (job_id, 2)

    def test_each_lease_of_a_batch_is_answered_for_itself(self, h: Harness) -> None:
        """S2-9, S2-35, S0-48: in order, the same twice, unknown and malformed ids among them."""
        h.submit_many(2)
        one, two = h.claim().jobs
        h.succeed(two)
        beats = [
            Beat(two.id, two.lease.token, TTL),
            Beat(one.id, one.lease.token, TTL),
            Beat(NOBODY, one.lease.token, TTL),
            Beat("no id at all", one.lease.token, TTL),
            Beat(one.id, two.lease.token, TTL),
            Beat(one.id, one.lease.token, 60.0),
        ]
        assert h.run(h.store.queue.heartbeat(beats)) == [
            LeaseLost(two.id, State.COMPLETED),
            Extended(one.id, h.now + TTL * SECONDS),
            LeaseLost(NOBODY, None),
            LeaseLost("no id at all", None),
            LeaseLost(one.id, State.RUNNING),
            Extended(one.id, h.now + 60 * SECONDS),
        ]
        assert h.run(h.store.queue.heartbeat([])) == []

    @pytest.mark.parametrize("state", [s for s in REACHABLE if s is not State.RUNNING], ids=str)
    def test_a_job_that_does_not_run_has_no_lease(self, h: Harness, state: State) -> None:
        """S0-34, S2-11, S2-30, S3-7."""
        job_id = h.job_in(state)
        assert h.get(job_id).lease is None
        [reply] = h.run(h.store.queue.heartbeat([Beat(job_id, "", TTL)]))
        assert reply == LeaseLost(job_id, state)

    def test_what_a_worker_holds_is_found_by_its_name(self, h: Harness) -> None:
        """C41: for the one that releases what a worker held that died; each by its own token."""
        h.submit_many(2)
        h.submit("report", queue="other", priority=Priority.HIGH)
        own = h.claim(2, "w1").jobs
        other = h.take("w2")
        held = {job.id: WorkerLease(job.id, job.lease.token, "w1") for job in own}
        assert {each.job_id: each for each in held_by(h, "w1")} == held
        assert held_by(h, "w2") == [WorkerLease(other.id, other.lease.token, "w2")]
        assert {each.worker for each in held_by(h, "w2", "w1")} == {"w1", "w2"}
        assert held_by(h) == held_by(h, "w", "", "w1%") == []

    def test_what_a_worker_held_is_released_uncounted_and_once(self, h: Harness) -> None:
        """C41, C23: under a valid lease alone, like every other write."""
        job_id = h.submit(policy=Policy(max_attempts=1))
        claimed = h.take("w1")
        [lease] = held_by(h, "w1")
        settlement = Settlement(lease.job_id, lease.token, RELEASED)
        [reply] = h.run(h.store.queue.settle([settlement]))
        assert reply == Settled(job_id, "mail", State.SCHEDULED)
        assert held_by(h, "w1") == []
        assert (h.state(job_id), h.get(job_id).attempt) == (State.SCHEDULED, 0)
        again = h.take("w2")
        assert again.attempt == 1
        assert h.succeed(claimed) == AlreadySettled(job_id, State.RUNNING)
        assert h.succeed(again) == Settled(job_id, "mail", State.COMPLETED)
        assert held_by(h, "w2") == []

    def test_what_was_settled_or_recovered_is_not_held(self, h: Harness) -> None:
        h.submit_many(3, policy=Policy(max_attempts=1))
        ended, cancelled, lost = h.claim(3, "w1").jobs
        h.succeed(ended)
        h.cancel(cancelled.id)
        assert held_by(h, "w1") == [WorkerLease(lost.id, lost.lease.token, "w1")]
        h.advance(TTL)
        h.run(h.store.upkeep.recover(10))
        assert held_by(h, "w1") == []


def held_by(h: Harness, *workers: str) -> list[WorkerLease]:
    return h.run(h.store.queue.held(workers))
