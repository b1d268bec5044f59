"""Claims: what a worker is given, what it is not, and when to come again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from conformance.harness import INSTANT, REACHABLE, TTL, Harness, ids, job
from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import Body, ClaimedJob, Lease, Ownership, Progress
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy, Priority
from fencepost.core.values.names import attempt_id
from fencepost.core.values.times import to_us
from fencepost.store.interface.queue import Claim, ClaimRequest, Extended
from fencepost.store.interface.settings import Scope

__all__ = ["TestClaiming", "TestWaiting"]


class TestClaiming:
    def test_a_claim_gives_the_whole_job_under_a_lease(self, h: Harness) -> None:
        """S0-29, S0-38, S0-72, S0-74, S1-75, S1-76, S1-77, S2-6, S2-27, S2-28, S3-5."""
        policy = Policy(max_attempts=5)
        job_id = h.submit(
            queue="q",
            priority=Priority.HIGH,
            payload=Body(b"[7]"),
            policy=policy,
            key=Key("k"),
            tags={"a": "b"},
            correlation_id="c",
        )
        claimed = h.take()
        assert claimed == ClaimedJob(
            id=job_id,
            type="mail",
            queue="q",
            priority=Priority.HIGH,
            attempt=1,
            max_attempts=5,
            lease=Lease(claimed.lease.token, to_us(h.now), h.now + timedelta(seconds=TTL)),
            lease_ttl=TTL,
            payload=Body(b"[7]"),
            policy=policy,
            key="k",
            tags={"a": "b"},
            correlation_id="c",
        )

    def test_a_claim_says_for_how_long_the_job_had_been_claimable(self, h: Harness) -> None:
        """S1-100, S4-12: by the store's clock; delay, backoff and what it waited for count not."""
        h.submit(delay=10.0)
        h.advance(12.0)
        claimed = h.take()
        assert claimed.waited == 0.0  # nobody had made it claimable before the claim did
        h.release(claimed)
        h.advance(2.5)
        claimed = h.take()
        assert claimed.waited == 2.5
        h.fail(claimed, retry_after=7.0)
        h.advance(7.0)
        h.run(h.store.upkeep.promote(10))
        h.advance(0.25)
        claimed = h.take()
        assert claimed.waited == 0.25
        after = h.submit(after=Dependencies((claimed.id,)))
        h.advance(3.0)
        h.succeed(claimed)
        h.advance(1.5)
        claimed = h.take()
        assert (claimed.id, claimed.waited) == (after, 1.5)

    def test_a_claim_is_seen_on_the_job(self, h: Harness) -> None:
        """S0-25, S0-29, S0-39, S1-15, S1-23, S1-56, S1-98, S1-100, S1-102, S2-2, S2-4, S2-5."""
        job_id = h.submit()
        created = h.now
        now = h.advance(5.0)
        version = h.take("worker-7").lease.version
        seen = h.get(job_id)
        assert seen.state is State.RUNNING
        assert seen.lease == Ownership("worker-7", version, now + timedelta(seconds=TTL), False)
        assert (seen.attempt, seen.lease_version) == (1, version)
        assert (seen.started_at, seen.updated_at, seen.created_at) == (now, now, created)
        assert (seen.run_at, seen.completed_at) == (created, None)

    def test_a_leased_job_is_given_to_nobody_else(self, h: Harness) -> None:
        """S0-10, S0-21, S0-71: not even to the same worker."""
        h.submit()
        h.take()
        assert h.claim(worker="w2").jobs == []
        assert h.claim(worker="w1").jobs == []

    def test_only_claimable_jobs_are_claimed(self, h: Harness) -> None:
        """S0-34, S0-37, S1-30, S0-26: of a job in every state, one is claimable."""
        by_state = {state: h.job_in(state, type=state.value) for state in REACHABLE}
        assert ids(h.claim(100).jobs) == [by_state[State.SCHEDULED]]

    def test_a_claim_that_finds_nothing_changes_nothing(self, h: Harness) -> None:
        """S2-29."""
        assert h.claim() == Claim()
        h.job_in(State.COMPLETED)
        before = h.snapshot()
        assert h.claim() == Claim()
        assert h.snapshot() == before

    @pytest.mark.parametrize("limit", [0, -1])
    def test_a_worker_without_a_free_slot_gets_no_job(self, h: Harness, limit: int) -> None:
        """S2-29, S0-36."""
        job_id = h.submit()
        assert h.claim(limit).jobs == []
        assert h.state(job_id) is State.SCHEDULED

    def test_a_claim_never_gives_more_than_asked_for(self, h: Harness) -> None:
        """S0-38."""
        job_ids = h.submit_many(5)
        assert ids(h.claim(3).jobs) == job_ids[:3]
        assert ids(h.claim(3).jobs) == job_ids[3:]

    def test_a_worker_gets_jobs_of_its_queues_only(self, h: Harness) -> None:
        """S0-8."""
        a = h.submit(queue="a")
        b = h.submit(queue="b")
        assert h.claim(queues={"c": 1}).jobs == []
        assert ids(h.claim(queues={"b": 1}).jobs) == [b]
        assert h.claim(queues={"b": 1}).jobs == []
        assert ids(h.claim(queues={"a": 1, "b": 1}).jobs) == [a]

    def test_a_worker_gets_jobs_of_its_types_only(self, h: Harness) -> None:
        """S1-87: a type that no worker knows waits, and is not in the way of others."""
        strange, known = h.submit("strange"), h.submit("known")
        assert h.claim(types=frozenset()).jobs == []
        assert ids(h.claim(types=frozenset({"known", "other"})).jobs) == [known]
        assert h.claim(types=frozenset({"known"})).jobs == []
        assert (h.state(strange), h.get(strange).attempt) == (State.SCHEDULED, 0)
        assert ids(h.claim(types=None).jobs) == [strange]

    def test_a_long_line_of_a_foreign_type_hides_nothing(self, h: Harness) -> None:
        """S1-87, S1-35: what a worker may not run does not block what it may."""
        h.submit_many(1200, "foreign", priority=Priority.CRITICAL)
        job_id = h.submit("mine", priority=Priority.BULK)
        assert ids(h.claim(1, types=frozenset({"mine"})).jobs) == [job_id]

    def test_a_job_may_set_the_length_of_its_own_leases(self, h: Harness) -> None:
        """S0-75, S0-89, S1-46: whichever worker claims it."""
        h.enqueue(job(policy=Policy(lease_ttl=5.0)), job())
        own, other = h.claim().jobs
        assert (own.lease_ttl, own.lease.expires_at) == (5.0, h.now + timedelta(seconds=5))
        assert (other.lease_ttl, other.lease.expires_at) == (TTL, h.now + timedelta(seconds=TTL))

    def test_a_claimer_that_names_no_length_gets_five_minutes(self, h: Harness) -> None:
        """S1-39, C3."""
        h.submit()
        [claimed] = h.run(h.store.queue.claim(ClaimRequest(worker="w", limit=1))).jobs
        assert claimed.lease_ttl == 300.0
        assert claimed.lease.expires_at == h.now + timedelta(minutes=5)

    def test_every_claim_has_a_token_of_its_own_and_a_higher_version(self, h: Harness) -> None:
        """S0-50, S0-51, S0-72, S0-73, S0-86, C43: after release, failure, expiry, retry by hand.

        It is the store's clock, or one more than the last: so it also rises if a crash has taken
        the claim before it back.
        """
        job_id = h.submit()
        start = to_us(h.now)
        claims = [h.take()]
        h.release(claims[-1])
        claims.append(h.take())
        h.fail(claims[-1])
        h.advance(1.0)
        claims.append(h.take())
        h.advance(TTL)
        h.run(h.store.upkeep.recover(10))
        h.advance(2.0)
        claims.append(h.take())
        h.reject(claims[-1])
        h.retry(job_id)
        claims.append(h.take())
        passed = [0, 1, 1_000_000, 33_000_000, 33_000_001]
        assert [each.lease.version - start for each in claims] == passed
        assert [each.last_version for each in claims] == [
            0,
            *(each.lease.version for each in claims[:-1]),
        ]
        assert len({each.lease.token for each in claims}) == 5
        assert [each.attempt for each in claims] == [1, 1, 2, 3, 1]
        assert {each.id for each in claims} == {job_id}

    def test_jobs_claimed_together_have_different_tokens(self, h: Harness) -> None:
        """S0-50."""
        h.submit_many(20)
        assert len({each.lease.token for each in h.claim(20).jobs}) == 20

    def test_a_token_says_nothing_on_the_job(self, h: Harness) -> None:
        """S0-72: it is returned to the claimer, and shown to nobody."""
        job_id = h.submit()
        claimed = h.take()
        assert claimed.lease.token not in repr(h.get(job_id))
        assert claimed.lease.token not in repr(h.attempts(job_id))

    def test_a_handler_can_tell_its_attempt_and_the_one_before(self, h: Harness) -> None:
        """S1-77, S1-78."""
        job_id = h.submit()
        first = h.take()
        h.fail(first)
        h.advance(1.0)
        second = h.take()
        assert (first.attempt, first.attempt_id) == (1, attempt_id(job_id, first.lease.version))
        assert first.previous_attempt_id is None
        assert (second.attempt, second.previous_attempt_id) == (2, first.attempt_id)

    def test_a_new_attempt_starts_without_the_progress_of_the_last(self, h: Harness) -> None:
        """S1-58: the checkpoint is handed on, the progress is not."""
        job_id = h.submit()
        first = h.take()
        h.save(first, checkpoint=Body(b"42"), progress=Progress(fraction=0.5, message="half"))
        h.fail(first)
        h.advance(1.0)
        assert h.take().checkpoint == Body(b"42")
        assert h.get(job_id).progress is None

    def test_an_urgent_job_interrupts_nobody(self, h: Harness) -> None:
        """S1-36, C13."""
        h.submit(priority=Priority.BULK)
        claimed = h.take()
        urgent = h.submit(priority=Priority.CRITICAL)
        assert ids(h.claim().jobs) == [urgent]
        assert h.heartbeat(claimed) == Extended(claimed.id, h.now + timedelta(seconds=TTL))

    def test_a_claim_after_another_goes_on_in_line(self, h: Harness) -> None:
        """S2-4, S2-31: nothing is left out, and the last one says that nothing is left."""
        wanted = h.submit_many(4) + [h.submit() for _ in range(3)]
        got: list[str] = []
        place: int | None = None
        for _ in range(5):
            claim = h.claim(2, after=place)
            got += ids(claim.jobs)
            place = claim.place
        assert got == wanted
        assert place is None
        assert claim.wait == TTL

    def test_a_claim_after_another_serves_several_types_in_their_order(self, h: Harness) -> None:
        """S2-4: by priority, also those whose jobs came after the claim before."""
        types = frozenset({"a", "b"})
        later = [h.submit(type) for type in ("a", "b", "a", "b")]
        first = h.claim(1, types=types)
        assert ids(first.jobs) == later[:1]
        urgent = h.submit("b", priority=Priority.CRITICAL)
        second = h.claim(1, types=types)
        third = h.claim(5, types=types, after=second.place)
        assert ids([*second.jobs, *third.jobs]) == [urgent, *later[1:]]

    def test_a_claim_after_another_looks_at_everything_if_nothing_is_next(self, h: Harness) -> None:
        """S2-31, S2-36: jobs whose time has come, of other types too, and those given back."""
        h.submit()
        due = h.submit("other", delay=1.0)
        first = h.claim(1)
        h.advance(1.0)
        assert ids(h.claim(1, after=first.place).jobs) == [due]
        h.release(first.jobs[0])
        assert ids(h.claim(1, after=first.place).jobs) == ids(first.jobs)

    def test_no_claim_goes_on_in_line_beside_pauses_and_limits(self, h: Harness) -> None:
        """C42: each looks at them."""
        settings = h.store.settings
        for change, back in (
            (settings.pause(Scope.TYPE, "other"), settings.resume(Scope.TYPE, "other")),
            (settings.limit(Scope.APP, "", 9), settings.limit(Scope.APP, "", None)),
        ):
            h.submit_many(2)
            h.run(change)
            assert h.claim(1).place is None
            h.run(back)
            assert len(h.claim(1).jobs) == 1


class TestWaiting:
    def test_an_empty_store_gives_no_time_to_come_again(self, h: Harness) -> None:
        """S2-31."""
        assert h.claim().wait is None
        h.job_in(State.FAILED)
        assert h.claim().wait is None

    def test_a_claim_says_when_the_next_job_falls_due(self, h: Harness) -> None:
        """S2-31, S0-11: a delayed one, or one that is tried again."""
        h.submit(delay=60.0)
        assert h.claim().wait == 60.0
        h.advance(20.0)
        h.submit(delay=25.5)
        assert h.claim().wait == 25.5
        h.job_in(State.RETRYING, type="other")
        assert h.claim().wait == 1.0

    def test_a_claim_says_when_the_next_lease_runs_out(self, h: Harness) -> None:
        """S2-31, S4-2, S2-19: its own leases too."""
        h.submit()
        h.submit(delay=45.0)
        assert h.claim().wait == TTL
        h.advance(20.0)
        assert h.claim().wait == 10.0
        h.advance(10.0 - 0.000001)
        assert h.claim().wait == pytest.approx(0.000001, abs=1e-7)

    def test_the_wait_is_exact_to_the_instant(self, h: Harness) -> None:
        """S0-11: coming back after it, a worker finds the job."""
        due = h.now + timedelta(seconds=3) + INSTANT
        job_id = h.submit(run_at=due)
        wait = h.claim().wait
        assert wait is not None
        assert wait == pytest.approx(3.000001, abs=1e-7)
        h.advance(wait)
        assert ids(h.claim().jobs) == [job_id]
