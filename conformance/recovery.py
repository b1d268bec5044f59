"""Recovery: jobs of workers that were lost."""

from __future__ import annotations

from datetime import timedelta

import pytest

from conformance.harness import ONE_ATTEMPT, TTL, Harness, ids
from fencepost.core.bounds import RECOVER_BATCH
from fencepost.core.job.job import Body, Progress
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import LEASE_EXPIRED
from fencepost.core.job.policy import Backoff, Policy, Retry
from fencepost.store.interface.queue import LeaseLost, Moved

__all__ = ["TestRecovering"]

SECONDS = timedelta(seconds=1)
AT_ONCE = Policy(backoff=Backoff("constant", 0.0))


def lost_jobs(h: Harness, count: int, **fields: object) -> list[str]:
    """Submit jobs, claim them, and let their leases run out."""
    job_ids = h.submit_many(count, **fields)  # type: ignore[arg-type]  # passed on as they are
    assert ids(h.claim(count).jobs) == job_ids
    h.advance(TTL)
    return job_ids


class TestRecovering:
    def test_an_expired_lease_is_a_failed_attempt(self, h: Harness) -> None:
        """S0-33, S0-53, S0-54, S1-43, S1-56, S1-85, S2-11, S2-30, S4-4, S4-13, S4-16, S4-17, C8."""
        [job_id] = lost_jobs(h, 1)
        version = h.get(job_id).lease_version
        assert h.run(h.store.upkeep.recover(10)) == [
            Moved(job_id, "mail", State.RETRYING, State.RUNNING)
        ]
        seen = h.get(job_id)
        assert (seen.state, seen.attempt, seen.lease_version) == (State.RETRYING, 1, version)
        assert (seen.lease, seen.failure) == (None, LEASE_EXPIRED.failure)
        assert (seen.run_at, seen.updated_at) == (h.now + 1 * SECONDS, h.now)

    def test_a_valid_lease_is_never_taken_back(self, h: Harness) -> None:
        """S0-45, S4-15, C10: the instant before the end it is valid, at the end it is not."""
        job_id = h.submit()
        h.take()
        h.advance(TTL - 0.000001)
        assert h.run(h.store.upkeep.recover(10)) == []
        assert h.claim().recovered == []
        h.advance(0.000001)
        assert [moved.job_id for moved in h.run(h.store.upkeep.recover(10))] == [job_id]

    def test_a_claim_recovers_on_its_way(self, h: Harness) -> None:
        """S0-85, S2-12, S2-19, S2-39, S4-2, S4-14, S4-24: nobody has to call recover."""
        [job_id] = lost_jobs(h, 1)
        claim = h.claim(worker="w2")
        assert claim.recovered == [Moved(job_id, "mail", State.RETRYING, State.RUNNING)]
        assert (claim.jobs, claim.wait) == ([], 1.0)
        h.advance(1.0)
        assert h.take("w2").id == job_id

    def test_a_claim_without_a_free_slot_recovers_too(self, h: Harness) -> None:
        """S2-12, S4-20."""
        [job_id] = lost_jobs(h, 1)
        assert [moved.job_id for moved in h.claim(0).recovered] == [job_id]

    def test_a_recovered_job_may_go_out_again_in_the_same_claim(self, h: Harness) -> None:
        """S3-28, S0-46, S3-2: reclaim, retry without delay, claimed again."""
        [job_id] = lost_jobs(h, 1, policy=AT_ONCE)
        claim = h.claim(worker="w2")
        assert [moved.job_id for moved in claim.recovered] == [job_id]
        [again] = claim.jobs
        assert (again.id, again.attempt) == (job_id, 2)
        assert again.lease.version > again.last_version > 0

    def test_another_worker_takes_over_under_a_new_lease(self, h: Harness) -> None:
        """S0-46, S0-47, S0-86, S1-3, S2-15, S2-36, S3-1, S3-2, S4-25, S0-1."""
        job_id = h.submit()
        first = h.take("w1")
        h.advance(TTL)
        h.run(h.store.upkeep.recover(10))
        h.advance(1.0)
        second = h.take("w2")
        assert (second.id, second.attempt) == (job_id, 2)
        assert second.lease.version > first.lease.version
        assert second.lease.token != first.lease.token
        lease = h.get(job_id).lease
        assert lease is not None
        assert lease.worker == "w2"

    def test_a_lost_last_attempt_is_the_end(self, h: Harness) -> None:
        """S0-22, S0-44, S4-18, C8: like any failure that exhausts a job."""
        [job_id] = lost_jobs(h, 1, policy=ONE_ATTEMPT)
        assert h.run(h.store.upkeep.recover(10)) == [
            Moved(job_id, "mail", State.DEAD_LETTER, State.RUNNING)
        ]
        seen = h.get(job_id)
        assert (seen.completed_at, seen.failure) == (h.now, LEASE_EXPIRED.failure)
        assert [letter.job_id for letter in h.letters()] == [job_id]
        h.advance("1d")
        assert h.claim().jobs == []

    def test_a_job_that_kills_its_workers_ends(self, h: Harness) -> None:
        """S0-22, C8: three workers, no more."""
        job_id = h.submit()
        for attempt in (1, 2, 3):
            assert h.take(f"w{attempt}").attempt == attempt
            h.advance(TTL)
            h.run(h.store.upkeep.recover(10))
            h.advance(60.0)
        assert h.state(job_id) is State.DEAD_LETTER
        assert h.claim().jobs == []

    def test_a_job_may_refuse_to_be_tried_after_a_loss(self, h: Harness) -> None:
        """S1-85."""
        [job_id] = lost_jobs(h, 1, policy=Policy(on_system=False))
        assert h.run(h.store.upkeep.recover(10)) == [
            Moved(job_id, "mail", State.FAILED, State.RUNNING)
        ]
        assert [letter.job_id for letter in h.letters()] == [job_id]

    def test_a_lost_and_a_failed_attempt_wait_equally_long(self, h: Harness) -> None:
        """S4-8, S4-17, S0-67: one path for both, attempt by attempt."""
        policy = Policy(max_attempts=5, backoff=Backoff("linear", 7.0))
        lost, failed = h.submit_many(2, policy=policy)
        for attempt in (1, 2, 3, 4):
            claims = {claimed.id: claimed for claimed in h.claim().jobs}
            assert set(claims) == {lost, failed}
            h.heartbeat(claims[failed], TTL + 1)
            h.advance(TTL)
            h.fail(claims[failed])
            h.run(h.store.upkeep.recover(10))
            assert h.get(lost).run_at == h.get(failed).run_at == h.now + 7 * attempt * SECONDS
            h.advance(7.0 * attempt)

    def test_full_jitter_spreads_what_was_lost_together(self, h: Harness) -> None:
        """S0-62, S0-63, S0-65, C2: each between at once and half a second."""
        fast = Retry.fast()
        job_ids = lost_jobs(h, 30, policy=Policy(fast.max_attempts, fast.backoff))
        h.run(h.store.upkeep.recover(30))
        delays = [(h.get(job_id).run_at - h.now).total_seconds() for job_id in job_ids]
        assert 0.0 <= min(delays) < 0.15
        assert 0.35 < max(delays) <= 0.5
        assert len(set(delays)) > 25

    def test_recovery_twice_changes_nothing_the_second_time(self, h: Harness) -> None:
        """S2-13."""
        lost_jobs(h, 3)
        assert len(h.run(h.store.upkeep.recover(10))) == 3
        before = h.snapshot()
        assert h.run(h.store.upkeep.recover(10)) == []
        assert h.claim().recovered == []
        assert h.snapshot() == before

    def test_recovery_is_bounded_and_takes_the_oldest_first(self, h: Harness) -> None:
        """S4-13, S4-19, S4-23: calling it until nothing comes drains all."""
        job_ids = h.submit_many(7)
        for position in (4, 0, 6, 2, 5, 1, 3):
            claimed = h.take()
            h.heartbeat(claimed, TTL + 1 + position)
        order = [job_ids[(4, 0, 6, 2, 5, 1, 3).index(position)] for position in range(7)]
        h.advance(TTL + 60)
        batches = [[moved.job_id for moved in h.run(h.store.upkeep.recover(3))] for _ in range(4)]
        assert batches == [order[:3], order[3:6], order[6:], []]

    def test_what_never_started_goes_back_uncounted(self, h: Harness) -> None:
        """C41: by the token of the lease that ended; one of an earlier lease says nothing."""
        once = Policy(max_attempts=1)
        [unstarted, started] = h.submit_many(2, policy=once)
        claims = {claimed.id: claimed for claimed in h.claim().jobs}
        tokens = [claims[unstarted].lease.token]
        assert h.run(h.store.upkeep.recover(10, tokens)) == [], "its lease is good"
        h.advance(TTL)
        moves = {moved.job_id: moved.state for moved in h.run(h.store.upkeep.recover(10, tokens))}
        assert moves == {unstarted: State.SCHEDULED, started: State.DEAD_LETTER}
        assert (h.get(unstarted).attempt, h.get(started).attempt) == (0, 1)
        again = h.take("w2")
        assert (again.id, again.attempt) == (unstarted, 1)
        assert again.lease.version > claims[unstarted].lease.version
        h.advance(TTL)
        [moved] = h.run(h.store.upkeep.recover(10, tokens))
        assert moved.state is State.DEAD_LETTER

    @pytest.mark.parametrize("limit", [0, -1])
    def test_recovering_none_recovers_none(self, h: Harness, limit: int) -> None:
        """S4-13."""
        [job_id] = lost_jobs(h, 1)
        assert h.run(h.store.upkeep.recover(limit)) == []
        assert h.state(job_id) is State.RUNNING

    def test_a_claim_recovers_a_bounded_batch(self, h: Harness) -> None:
        """S4-13, S4-20: the rest by the next claims."""
        lost_jobs(h, RECOVER_BATCH + 5)
        assert len(h.claim(1).recovered) == RECOVER_BATCH
        assert len(h.claim(1).recovered) == 5
        assert h.claim(1).recovered == []

    def test_recovery_needs_no_word_from_or_about_workers(self, h: Harness) -> None:
        """S2-16: the leases alone decide."""
        [job_id] = lost_jobs(h, 1)
        assert h.run(h.store.cluster.workers()) == []
        assert [moved.job_id for moved in h.run(h.store.upkeep.recover(1))] == [job_id]

    @pytest.mark.parametrize("crash", ["after claim", "after heartbeat", "after save"])
    def test_a_crash_at_any_point_leaves_no_job_stuck(self, h: Harness, crash: str) -> None:
        """S4-1, S4-25, S2-36, S0-53, S0-54."""
        job_id = h.submit()
        claimed = h.take()
        if crash == "after heartbeat":
            h.advance(10.0)
            h.heartbeat(claimed)
        if crash == "after save":
            h.save(claimed, checkpoint=Body(b"1"), progress=Progress(fraction=0.5, message=""))
        h.advance(TTL)
        h.claim(worker="w2")
        h.advance(1.0)
        assert h.take("w2").id == job_id

    def test_a_recovered_lease_does_not_count_as_settled(self, h: Harness) -> None:
        """S0-49, S0-87: its owner decides nothing, and gets the reply that the lease is lost."""
        job_id = h.submit()
        claimed = h.take()
        h.advance(TTL)
        h.run(h.store.upkeep.recover(1))
        assert h.succeed(claimed) == LeaseLost(job_id, State.RETRYING)
