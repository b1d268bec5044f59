"""Many at once: threads in the sync colour, tasks in the async one, over several store objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest

from conformance.harness import DONE, TTL, Harness, Run, ids, job
from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import AttemptOutcome, ClaimedJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Outcome, Released, Settlement, Succeeded, decide
from fencepost.core.job.policy import Backoff, Policy
from fencepost.store.interface.control import Conflict, NotFound, Replayed, RetryRequest
from fencepost.store.interface.queue import (
    AlreadySettled,
    Claim,
    ClaimRequest,
    Duplicate,
    Enqueued,
    LeaseLost,
    Moved,
    Settled,
    SettleReply,
)
from fencepost.store.interface.settings import Scope
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation

__all__ = ["TestConcurrency"]

Ask = Callable[[Store], Operation[Any]]
CROWD = 16
over_stores = pytest.mark.parametrize("stores", [1, 4], ids="over {} store objects".format)


def claimer(number: int, limit: int = 1) -> Callable[[Store], Operation[Claim]]:
    request = ClaimRequest(worker=f"w{number}", limit=limit, lease_ttl=TTL)
    return lambda store: store.queue.claim(request)


def canceller(job_id: str) -> Ask:
    return lambda store: store.control.cancel([job_id])


def settler(
    h: Harness, claimed: ClaimedJob, outcome: Outcome
) -> Callable[[Store], Operation[list[SettleReply]]]:
    decision = decide(claimed, outcome, h.clock.rng)
    settlement = Settlement(claimed.id, claimed.lease.token, decision)
    return lambda store: store.queue.settle([settlement])


class TestConcurrency:
    @over_stores
    def test_one_job_has_one_winner(self, h: Harness, stores: int) -> None:
        """S0-21, S0-38, S2-2, S2-20, S2-22, S2-24: of sixteen claimers at once."""
        peers = h.peers(stores)
        for _ in range(4):
            job_id = h.submit()
            claims = h.race([claimer(n) for n in range(CROWD)], peers)
            [winner] = [claim.jobs[0] for claim in claims if claim.jobs]
            assert (winner.id, winner.attempt, winner.last_version) == (job_id, 1, 0)
            assert isinstance(h.succeed(winner), Settled)

    @over_stores
    def test_no_job_goes_to_two_claimers(self, h: Harness, stores: int) -> None:
        """S0-10, S0-21, S2-22, S2-24: and none is left out."""
        job_ids = h.submit_many(60)
        claims = h.race([claimer(n, 5) for n in range(CROWD)], h.peers(stores))
        taken = [each for claim in claims for each in claim.jobs]
        assert sorted(ids(taken)) == sorted(job_ids)
        assert len({each.lease.token for each in taken}) == 60
        assert all(len(claim.jobs) <= 5 for claim in claims)

    @over_stores
    @pytest.mark.parametrize("scope", [Scope.APP, Scope.QUEUE], ids=str)
    def test_sixteen_claimers_never_exceed_w(self, h: Harness, scope: Scope, stores: int) -> None:
        """S2-17, S2-38, C32: W=3, round after round; and W is reached."""
        peers = h.peers(stores)
        job_ids = h.submit_many(12)
        h.run(h.store.settings.limit(scope, "default", 3))
        done: list[str] = []
        while len(done) < 12:
            claims = h.race([claimer(n, 2) for n in range(CROWD)], peers)
            running = [each for claim in claims for each in claim.jobs]
            assert len(running) == 3
            assert len(h.find(states=(State.RUNNING,))) == 3
            h.race([settler(h, each, Succeeded(DONE)) for each in running], peers)
            done += ids(running)
        assert sorted(done) == sorted(job_ids)

    @over_stores
    def test_recoverers_and_claimers_count_a_lost_lease_once(self, h: Harness, stores: int) -> None:
        """S2-13, S2-14, S0-22, S4-16, S2-39."""
        job_ids = h.submit_many(20)
        h.claim(20)
        h.advance(TTL)

        async def recover(store: Store, run: Run) -> list[Moved]:
            moved: list[Moved] = await run(store.upkeep.recover(50))
            return moved

        async def claim(store: Store, run: Run) -> list[Moved]:
            reply: Claim = await run(claimer(1, 5)(store))
            assert reply.jobs == []
            return reply.recovered

        replies = h.race_scripts([recover, claim] * 4, h.peers(stores))
        recovered = [moved.job_id for moved in chain(*replies)]
        assert Counter(recovered) == Counter(job_ids)
        for job_id in job_ids:
            assert (h.get(job_id).state, h.get(job_id).attempt) == (State.RETRYING, 1)
            assert len(h.attempts(job_id)) == 1

    def test_a_settlement_sent_many_times_is_recorded_once(self, h: Harness) -> None:
        """S0-40, S0-41, C38."""
        job_id = h.submit()
        claimed = h.take()
        replies = h.race([settler(h, claimed, Succeeded(DONE))] * CROWD)
        assert Counter(type(reply) for [reply] in replies) == {Settled: 1, AlreadySettled: 15}
        assert len(h.attempts(job_id)) == 1

    def test_settling_and_cancelling_at_once_has_one_winner(self, h: Harness) -> None:
        """S0-20, S3-9, S3-11, C20: and the loser learns it."""
        for _ in range(6):
            job_id = h.submit()
            claimed = h.take()

            settle = settler(h, claimed, Succeeded(DONE))
            asks: list[Ask] = [canceller(job_id), settle]
            replies = [reply for [reply] in h.race(asks)]
            if h.state(job_id) is State.CANCELLED:
                moved = Moved(job_id, "mail", State.CANCELLED, State.RUNNING)
                assert replies == [moved, LeaseLost(job_id, State.CANCELLED)]
            else:
                settled = Settled(job_id, "mail", State.COMPLETED)
                assert replies == [Conflict(job_id, State.COMPLETED), settled]

    @over_stores
    @pytest.mark.parametrize("mode", list(OnDuplicate), ids=str)
    def test_one_key_makes_one_job(self, h: Harness, mode: OnDuplicate, stores: int) -> None:
        """S1-9, S3-12, C15: of sixteen submissions at once."""
        new = job(key=Key("k", on_duplicate=mode))
        asks: list[Ask] = [lambda store: store.queue.enqueue([new])] * CROWD
        replies = list(chain(*h.race(asks, h.peers(stores))))
        [stored] = [reply for reply in replies if isinstance(reply, Enqueued)]
        duplicates = [reply for reply in replies if isinstance(reply, Duplicate)]
        assert len(duplicates) == 15
        assert {reply.job_id for reply in duplicates} == {stored.job_id}
        assert len(h.find()) == 1

    def test_a_letter_replayed_by_many_is_replayed_once(self, h: Harness) -> None:
        """S3-26, S3-27."""
        job_id = h.job_in(State.FAILED)
        replies = h.race([lambda store: store.control.replay([job_id])] * 8)
        assert Counter(type(reply) for [reply] in replies) == {Replayed: 1, NotFound: 7}
        assert len(h.find()) == 2

    def test_a_job_retried_by_many_is_reopened_once(self, h: Harness) -> None:
        """S3-17, C36."""
        job_id = h.job_in(State.FAILED)
        replies = h.race([lambda store: store.control.retry([RetryRequest(job_id)])] * 8)
        assert Counter(type(reply) for [reply] in replies) == {Moved: 1, Conflict: 7}

    @over_stores
    def test_one_of_many_leads(self, h: Harness, stores: int) -> None:
        """S4-20."""

        def candidate(number: int) -> Ask:
            return lambda store: store.cluster.lead("chores", f"w{number}", 5.0)

        terms = h.race([candidate(n) for n in range(8)], h.peers(stores))
        assert len([term for term in terms if term is not None]) == 1

    @over_stores
    def test_submissions_at_once_are_all_stored(self, h: Harness, stores: int) -> None:
        """S0-3, S0-20: and counted."""
        new = [job(), job("other", delay=9.0)]
        asks: list[Ask] = [lambda store: store.queue.enqueue(new)] * CROWD
        replies = list(chain(*h.race(asks, h.peers(stores))))
        assert {reply.job_id for reply in replies} == set(ids(h.find()))
        [view] = h.run(h.store.overview.queues())
        assert view.counts == {State.SCHEDULED: 16, State.DELAYED: 16}

    @over_stores
    def test_workers_that_run_freely_do_each_job_once(self, h: Harness, stores: int) -> None:
        """S0-1, S0-12, S0-21, S2-22, S2-38, S3-1: under a limit, with releases on the way."""
        job_ids = h.submit_many(48, policy=Policy(backoff=Backoff("constant", 0.0)))
        h.run(h.store.settings.limit(Scope.APP, "", 12))
        finished: list[str] = []

        async def work(store: Store, run: Run) -> None:
            # A worker that finds nothing stops: all is done, or the others fill the limit.
            for _ in range(3 * len(job_ids)):
                claim: Claim = await run(claimer(1, 2)(store))
                if not claim.jobs:
                    return
                for each in claim.jobs:
                    is_first = each.last_version == 0
                    outcome: Outcome = Released() if is_first else Succeeded(DONE)
                    [reply] = await run(settler(h, each, outcome)(store))
                    assert isinstance(reply, Settled)
                    finished.extend([] if is_first else [each.id])
            raise AssertionError("the jobs do not come to an end")

        h.race_scripts([work] * 8, h.peers(stores))
        assert sorted(finished) == sorted(job_ids)
        for job_id in job_ids:
            outcomes = [attempt.outcome for attempt in h.attempts(job_id)]
            assert outcomes == [AttemptOutcome.RELEASED, AttemptOutcome.SUCCEEDED]
