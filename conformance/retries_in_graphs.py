"""Running parts of a graph again by hand, and everything at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conformance.graphs import after, any_of, bring, claim_of, ended, missing
from conformance.harness import ONE_ATTEMPT, Harness, Run, job
from fencepost.core.flows.dependencies import Mode
from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement
from fencepost.core.job.policy import Priority
from fencepost.store.interface.control import Conflict, Edit, Replayed, RetryRequest
from fencepost.store.interface.queue import ClaimRequest, Moved
from fencepost.store.interface.store import Store
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.store.plan import Operation

__all__ = ["TestRacingDependencies", "TestReopenedDependencies"]


Ask = Callable[[Store], Operation[Any]]


def _submitting(new: NewJob) -> Ask:
    return lambda store: store.queue.enqueue([new])


def _settling(settlement: Settlement) -> Ask:
    return lambda store: store.queue.settle([settlement])


def _cancelling(job_id: str) -> Ask:
    return lambda store: store.control.cancel([job_id])


class TestReopenedDependencies:
    """Running parts of a graph again by hand."""

    def test_a_job_is_reopened_when_what_it_waited_for_has_completed(self, h: Harness) -> None:
        a = h.submit("a")
        c = h.submit("c", after=after(a))
        bring(h, a, State.COMPLETED)
        h.reject(claim_of(h, "c"))
        assert h.retry(c) == Moved(c, "c", State.SCHEDULED, State.FAILED)

    def test_a_job_is_not_reopened_before_its_failed_dependency(self, h: Harness) -> None:
        a = h.submit("a", policy=ONE_ATTEMPT)
        c = h.submit("c", after=after(a))
        bring(h, a, State.DEAD_LETTER)
        before = h.snapshot()
        assert h.retry(c) == Conflict(c, State.DEAD_LETTER, a)
        assert h.replay(c) == Conflict(c, State.DEAD_LETTER, a)
        assert h.snapshot() == before

    def test_a_whole_flow_is_reopened_in_order(self, h: Harness) -> None:
        every = h.submit_all(
            job("a"),
            job("b", after=after(0)),
            job("c", after=after(1)),
            job("d", after=after(0, 2)),
        )
        bring(h, every[0], State.FAILED)
        h.advance(5)
        moved = h.run(h.store.control.retry([RetryRequest(each) for each in every]))
        assert [reply.state for reply in moved] == [  # type: ignore[union-attr]
            State.SCHEDULED,
            State.PENDING,
            State.PENDING,
            State.PENDING,
        ]
        assert h.letters() == []
        pending = h.get(every[3])
        assert pending.failure is None
        assert pending.completed_at is None
        assert pending.waits is not None
        assert pending.waits.missing == 2
        for expected in every:
            [claimed] = h.claim().jobs
            assert claimed.id == expected
            h.succeed(claimed)

    def test_a_reopened_job_waits_for_its_time_after_the_others(self, h: Harness) -> None:
        a, b = h.submit_all(job("a"), job("b", after=after(0)))
        bring(h, a, State.CANCELLED)
        h.retry(a)
        assert h.retry(b, delay=30.0).state is State.PENDING
        h.advance(10)
        bring(h, a, State.COMPLETED)
        assert h.state(b) is State.DELAYED
        assert (h.get(b).run_at - h.now).total_seconds() == 20.0

    def test_one_that_waits_for_all_to_end_waits_again_for_a_reopened_one(self, h: Harness) -> None:
        a, b = h.submit("a"), h.submit("b")
        c = h.submit("c", after=ended(a, b))
        bring(h, a, State.FAILED)
        h.retry(a)
        bring(h, a, State.FAILED)
        assert h.state(c) is State.PENDING
        assert missing(h, c) == 1
        bring(h, b, State.COMPLETED)
        assert h.state(c) is State.SCHEDULED

    @pytest.mark.parametrize("mode", list(Mode))
    def test_what_is_kept_no_more_is_not_waited_for(self, h: Harness, mode: Mode) -> None:
        """A job whose dependencies were pruned is reopened at once: they had ended."""
        a = h.submit("a")
        c = h.submit("c", after=after(a, mode=mode))
        bring(h, a, State.COMPLETED)
        h.reject(claim_of(h, "c"))
        h.advance(100)
        keep = PruneRequest(keep={State.COMPLETED: 10.0}, limit=10)
        assert h.run(h.store.upkeep.prune(keep)).count == 1
        assert h.retry(c) == Moved(c, "c", State.SCHEDULED, State.FAILED)
        h.reject(claim_of(h, "c"))
        fresh = h.replay(c)
        assert isinstance(fresh, Replayed)
        assert fresh.state is State.SCHEDULED

    def test_a_replayed_job_has_the_dependencies_of_the_dead(self, h: Harness) -> None:
        a = h.submit("a")
        c = h.submit("c", after=after(a), flow="f", node="n")
        bring(h, a, State.COMPLETED)
        h.reject(claim_of(h, "c"))
        reply = h.replay(c)
        assert isinstance(reply, Replayed)
        fresh = h.get(reply.job_id)
        assert (fresh.flow, fresh.node, fresh.state) == ("f", "n", State.SCHEDULED)
        [dependencies] = h.run(h.store.reader.dependencies([fresh.id]))
        assert [each.job_id for each in dependencies] == [a]

    def test_a_replayed_job_is_what_the_dead_one_was(self, h: Harness) -> None:
        """S3-26: as urgent as it was, though what it waited for has become more so."""
        a, b = h.submit("a"), h.submit("b")
        c = h.submit("c", after=any_of(a, b))
        bring(h, a, State.COMPLETED)
        h.run(h.store.control.edit([Edit(b, Priority.CRITICAL)]))
        h.reject(claim_of(h, "c"))
        reply = h.replay(c)
        assert isinstance(reply, Replayed)
        assert (reply.state, h.get(reply.job_id).priority) == (State.SCHEDULED, Priority.NORMAL)
        assert h.get(reply.job_id).waits == h.get(c).waits

    @pytest.mark.parametrize("mode", list(Mode))
    def test_what_was_pruned_is_not_waited_for(self, h: Harness, mode: Mode) -> None:
        """C26: only what has ended is pruned, so that nobody is forgotten who waited for it."""
        a = h.submit("a")
        waiting = [h.submit(type, after=after(a, mode=mode)) for type in ("b", "c")]
        bring(h, a, State.COMPLETED)
        for type in ("b", "c"):
            h.reject(claim_of(h, type))
        h.advance(10)
        keep = PruneRequest(keep={State.COMPLETED: 1.0}, limit=10)
        assert h.run(h.store.upkeep.prune(keep)).count == 1
        assert h.retry(waiting[0]).state is State.SCHEDULED
        reply = h.replay(waiting[1])
        assert isinstance(reply, Replayed)
        assert reply.state is State.SCHEDULED
        assert len(h.claim().jobs) == 2

    def test_a_cancelled_retry_reopens_only_itself(self, h: Harness) -> None:
        a, b = h.submit_all(job("a"), job("b", after=after(0)))
        h.cancel(a)
        h.retry(a)
        assert h.state(b) is State.CANCELLED
        bring(h, a, State.COMPLETED)
        assert h.state(b) is State.CANCELLED
        assert h.retry(b).state is State.SCHEDULED


class TestRacingDependencies:
    """Submission against completion, and settlements against each other."""

    @pytest.mark.parametrize("mode", list(Mode))
    def test_a_submission_that_races_with_a_completion_is_never_forgotten(
        self, h: Harness, mode: Mode
    ) -> None:
        """S1-60, S1-70: whichever comes first, the dependent runs."""
        for _ in range(10):
            parent = h.submit("a")
            claimed = claim_of(h, "a")
            submit = _submitting(job("c", after=after(parent, mode=mode)))
            h.race([submit, _settling(h.success(claimed)), submit, submit], h.peers(4))
            assert len(h.find(states=(State.PENDING,))) == 0
            claimed_jobs = h.claim(types=frozenset({"c"})).jobs
            assert len(claimed_jobs) == 3
            for each in claimed_jobs:
                h.succeed(each)

    def test_a_submission_that_races_with_a_cancel_is_never_forgotten(self, h: Harness) -> None:
        """S1-73: whichever comes first, the dependent is cancelled."""
        for _ in range(10):
            parent = h.submit("a")
            submit = _submitting(job("c", after=after(parent)))
            h.race([submit, _cancelling(parent), submit, submit], h.peers(4))
            assert {each.state for each in h.find()} == {State.CANCELLED}

    def test_the_last_of_many_at_once_lets_go(self, h: Harness) -> None:
        """S1-64: FAN_IN: however the settlements fall, it is let go once."""
        for _ in range(5):
            parents = h.submit_many(8, "a")
            waiting = h.submit("c", after=after(*parents))
            # One by one: jobs of one claim may share a lease, and then wait for each other anyway.
            claimed = [claim_of(h, "a") for _ in parents]
            replies = h.race([_settling(h.success(each)) for each in claimed], h.peers(4))
            followed = [moved for [reply] in replies for moved in reply.followed]
            assert followed == [Moved(waiting, "c", State.SCHEDULED, State.PENDING)]
            h.succeed(claim_of(h, "c"))

    def test_a_chain_runs_through_many_workers_once(self, h: Harness) -> None:
        """S1-62: in order, each once, whichever worker runs it."""
        chain = [job("a")] + [job("a", after=after(place)) for place in range(19)]
        expected = h.submit_all(*chain)
        ran: list[str] = []

        async def work(store: Store, run: Run) -> None:
            for _ in range(2_000):
                claim = await run(store.queue.claim(ClaimRequest(worker="w", limit=1)))
                for each in claim.jobs:
                    ran.append(each.id)
                    await run(store.queue.settle([h.success(each)]))
                if len(ran) == len(expected):
                    return

        h.race_scripts([work] * 4, h.peers(4))
        assert ran == expected
