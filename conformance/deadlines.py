"""Deadlines: no lease outlasts the execution timeout of its attempt, whatever its worker does."""

from __future__ import annotations

from datetime import timedelta

import pytest

from conformance.harness import INSTANT, TTL, Harness, job
from fencepost.core.job.failure import timed_out
from fencepost.core.job.job import AttemptOutcome, Body, Category
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import LEASE_EXPIRED
from fencepost.core.job.policy import Policy
from fencepost.store.interface.queue import Beat, Extended, LeaseLost, Moved, Saved, Settled

__all__ = ["TestDeadlines", "TestLeaseLengths"]

SECONDS = timedelta(seconds=1)
MINUTE = Policy(timeout=60.0)
SHORT = Policy(timeout=10.0)


class TestDeadlines:
    def test_no_heartbeat_extends_a_lease_past_the_timeout(self, h: Harness) -> None:
        """C44, S0-92, S1-42, S4-21: nor does it shorten what it has reached (C18)."""
        job_id = h.submit(policy=MINUTE)
        end = h.now + 60 * SECONDS
        claimed = h.take()
        h.advance(20.0)
        assert h.heartbeat(claimed, 25.0) == Extended(job_id, h.now + 25 * SECONDS)
        h.advance(20.0)
        assert h.heartbeat(claimed) == Extended(job_id, end)
        assert h.heartbeat(claimed, 3600.0) == Extended(job_id, end)
        h.advance_to(end - INSTANT)
        assert h.heartbeat(claimed) == Extended(job_id, end)
        lease = h.get(job_id).lease
        assert lease is not None
        assert (lease.expires_at, lease.expired) == (end, False)

    def test_a_result_is_taken_until_the_timeout(self, h: Harness) -> None:
        """C44, C10: the instant before it."""
        job_id = h.submit(policy=SHORT)
        claimed = h.take()
        assert claimed.lease.expires_at == h.now + 10 * SECONDS
        h.advance_to(claimed.lease.expires_at - INSTANT)
        assert h.save(claimed, checkpoint=Body(b"1")) == Saved(job_id)
        assert h.succeed(claimed) == Settled(job_id, "mail", State.COMPLETED)

    @pytest.mark.parametrize("late", [timedelta(0), INSTANT, timedelta(hours=1)], ids=str)
    def test_nothing_is_taken_after_the_timeout(self, h: Harness, late: timedelta) -> None:
        """C44, C10: heartbeats every five seconds, each for half a minute, do not help."""
        job_id = h.submit(policy=MINUTE)
        end = h.now + 60 * SECONDS
        claimed = h.take()
        while h.now < end - 5 * SECONDS:
            h.advance(5.0)
            assert isinstance(h.heartbeat(claimed), Extended)
        h.advance_to(end + late)
        lost = LeaseLost(job_id, State.RUNNING)
        assert h.heartbeat(claimed) == lost
        assert h.save(claimed, checkpoint=Body(b"1")) == lost
        assert h.fail(claimed) == lost
        assert h.succeed(claimed) == lost
        seen = h.get(job_id)
        assert (seen.result_body, seen.checkpoint_body) == (None, None)
        assert seen.lease is not None
        assert seen.lease.expired

    def test_a_lease_that_reached_its_timeout_is_a_timeout(self, h: Harness) -> None:
        """C44, C19: and so it is retried like one."""
        job_id = h.submit(policy=SHORT)
        h.take()
        h.advance(10.0)
        assert h.run(h.store.upkeep.recover(10)) == [
            Moved(job_id, "mail", State.RETRYING, State.RUNNING)
        ]
        failure = timed_out(10.0).failure
        assert failure.category is Category.TIMEOUT
        assert h.get(job_id).failure == failure
        [attempt] = h.attempts(job_id)
        assert (attempt.outcome, attempt.failure) == (AttemptOutcome.FAILED, failure)

    @pytest.mark.parametrize(
        ("policy", "state"),
        [
            (Policy(timeout=10.0, on_timeout=False), State.FAILED),
            (Policy(timeout=10.0, on_system=False), State.RETRYING),
            (Policy(timeout=10.0, max_attempts=1), State.DEAD_LETTER),
        ],
        ids=["not retried", "retried", "the last attempt"],
    )
    def test_what_follows_is_what_follows_a_timeout(
        self, h: Harness, policy: Policy, state: State
    ) -> None:
        """C19, C44."""
        job_id = h.submit(policy=policy)
        h.take()
        h.advance(10.0)
        assert h.claim().recovered == [Moved(job_id, "mail", state, State.RUNNING)]
        assert h.get(job_id).failure == timed_out(10.0).failure

    def test_one_that_ran_out_before_is_a_lost_worker(self, h: Harness) -> None:
        """C8: it was still in time."""
        job_id = h.submit(policy=MINUTE)
        claimed = h.take()
        h.advance(10.0)
        h.heartbeat(claimed)
        h.advance(TTL)
        h.run(h.store.upkeep.recover(10))
        assert h.get(job_id).failure == LEASE_EXPIRED.failure

    def test_the_next_attempt_has_all_of_its_time(self, h: Harness) -> None:
        """C44: it is the timeout of an attempt, not of a job."""
        job_id = h.submit(policy=SHORT)
        h.take()
        h.advance(10.0)
        h.run(h.store.upkeep.recover(10))
        h.advance(1.0)
        claimed = h.take("w2")
        assert (claimed.id, claimed.attempt) == (job_id, 2)
        assert claimed.lease.expires_at == h.now + 10 * SECONDS
        h.advance(9.0)
        assert h.heartbeat(claimed) == Extended(job_id, claimed.lease.expires_at)

    def test_a_worker_that_interrupts_by_itself_has_a_moment_to_say_so(self, h: Harness) -> None:
        """C44, S1-42: as long as its claim asked for, and no longer."""
        job_id = h.submit(policy=SHORT)
        claimed = h.take(timeout_grace=5.0)
        end = h.now + 15 * SECONDS
        assert claimed.lease.expires_at == end
        h.advance(12.0)
        assert h.heartbeat(claimed) == Extended(job_id, end)
        h.advance_to(end - INSTANT)
        assert h.settle(claimed, timed_out(10.0)) == Settled(job_id, "mail", State.RETRYING)

    def test_the_grace_ends_as_well(self, h: Harness) -> None:
        """C44."""
        job_id = h.submit(policy=SHORT)
        claimed = h.take(timeout_grace=5.0)
        h.advance(15.0)
        assert h.succeed(claimed) == LeaseLost(job_id, State.RUNNING)
        h.run(h.store.upkeep.recover(10))
        assert h.get(job_id).failure == timed_out(10.0).failure

    def test_a_claim_says_when_the_first_lease_ends(self, h: Harness) -> None:
        """C11: so that an idle worker claims again in time."""
        h.submit(policy=SHORT)
        assert h.claim().wait == 10.0
        assert h.claim().wait == 10.0

    def test_jobs_claimed_together_keep_their_own_times(self, h: Harness) -> None:
        """C44: also when some of them are extended, and some have ended."""
        timeouts = (20.0, 60.0, 20.0, 90.0)
        start = h.now
        h.submit_all(*(job(policy=Policy(timeout=timeout)) for timeout in timeouts))
        claimed = h.claim().jobs
        assert [each.lease.expires_at for each in claimed] == [
            start + min(timeout, TTL) * SECONDS for timeout in timeouts
        ]
        h.advance(15.0)
        h.succeed(claimed[2])
        h.heartbeat(claimed[3])
        h.advance(4.0)
        ends = [h.heartbeat(each, 3600.0) for each in (claimed[0], claimed[1], claimed[3])]
        assert ends == [
            Extended(each.id, start + timeout * SECONDS)
            for each, timeout in zip(
                (claimed[0], claimed[1], claimed[3]), (20.0, 60.0, 90.0), strict=True
            )
        ]

    def test_one_that_is_extended_alone_keeps_its_time(self, h: Harness) -> None:
        """C44: the others of its claim as well."""
        h.submit_many(3, policy=MINUTE)
        end = h.now + 60 * SECONDS
        claimed = h.claim(lease_ttl=55.0).jobs
        h.advance(2.0)
        assert h.heartbeat(claimed[1], 54.0) == Extended(claimed[1].id, h.now + 54 * SECONDS)
        h.advance(40.0)
        for each in (claimed[1], claimed[0], claimed[2]):
            assert h.heartbeat(each, 3600.0) == Extended(each.id, end)

    def test_a_second_attempt_among_first_ones_does_too(self, h: Harness) -> None:
        """C44."""
        again = h.job_in(State.RETRYING, policy=SHORT)
        h.advance(1.0)
        first = h.submit(policy=MINUTE)
        claimed = {each.id: each for each in h.claim().jobs}
        assert claimed[again].lease.expires_at == h.now + 10 * SECONDS
        assert claimed[first].lease.expires_at == h.now + TTL * SECONDS
        assert claimed[again].attempt == 2
        h.advance(10.0)
        assert h.heartbeat(claimed[first]) == Extended(first, h.now + TTL * SECONDS)
        assert h.heartbeat(claimed[again]) == LeaseLost(again, State.RUNNING)


class TestLeaseLengths:
    def test_a_heartbeat_that_names_no_time_extends_by_that_of_the_claim(self, h: Harness) -> None:
        """C3, C18: not by the 300 s of a claimer that names none."""
        job_id = h.submit()
        claimed = h.take(lease_ttl=45.0)
        h.advance(40.0)
        assert self._beat(h, claimed.id, claimed.lease.token) == Extended(
            job_id, h.now + 45 * SECONDS
        )
        h.heartbeat(claimed, 60.0)
        h.advance(50.0)
        assert self._beat(h, claimed.id, claimed.lease.token) == Extended(
            job_id, h.now + 45 * SECONDS
        )

    def test_or_by_that_of_the_job_itself(self, h: Harness) -> None:
        """C3."""
        own = h.submit(policy=Policy(lease_ttl=17.0))
        plain = h.submit()
        claimed = {each.id: each for each in h.claim(lease_ttl=45.0).jobs}
        h.advance(10.0)
        beats = [Beat(id_, claimed[id_].lease.token) for id_ in (plain, own)]
        assert h.run(h.store.queue.heartbeat(beats)) == [
            Extended(plain, h.now + 45 * SECONDS),
            Extended(own, h.now + 17 * SECONDS),
        ]

    def test_one_batch_may_name_times_and_not(self, h: Harness) -> None:
        """S2-9."""
        h.submit_many(3)
        claimed = h.claim().jobs
        h.advance(20.0)
        ttls = (None, 40.0, None)
        beats = [
            Beat(each.id, each.lease.token, ttl) for each, ttl in zip(claimed, ttls, strict=True)
        ]
        assert h.run(h.store.queue.heartbeat(beats)) == [
            Extended(each.id, h.now + (ttl or TTL) * SECONDS)
            for each, ttl in zip(claimed, ttls, strict=True)
        ]
        assert h.succeed(claimed[0]) == Settled(claimed[0].id, "mail", State.COMPLETED)

    def _beat(self, h: Harness, job_id: str, token: str) -> object:
        [reply] = h.run(h.store.queue.heartbeat([Beat(job_id, token)]))
        return reply
