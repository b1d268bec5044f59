"""What a claim does on the side: should that fail, the claim does not."""

from __future__ import annotations

from random import Random
from typing import NoReturn

from conformance.harness import ONE_ATTEMPT, TROUBLE, TTL, Harness, ids, job
from fencepost.core.bounds import CHORE_PAUSE, CHORE_PAUSE_MAX, FOLLOW_BATCH
from fencepost.core.flows.dependencies import Dependencies, Mode
from fencepost.core.job.job import AttemptOutcome
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Backoff, Policy
from fencepost.store.interface.queue import Settled

__all__ = ["TestChores", "TestFans"]

FAN = FOLLOW_BATCH + 100


class _Broken(Random):
    """A random generator that fails for delays. Ids and tokens are still drawn."""

    asked = 0

    def uniform(self, a: float, b: float) -> NoReturn:
        self.asked += 1
        raise RuntimeError("no chance")


class TestChores:
    def _break(self, h: Harness) -> _Broken:
        """Have a lease run out that cannot be taken back."""
        h.submit("lost", policy=Policy(backoff=Backoff(jitter=0.5)))
        h.take()
        h.advance(TTL)
        broken = _Broken(7)
        h.clock.rng = broken
        return broken

    def test_a_chore_that_fails_fails_no_claim(self, h: Harness) -> None:
        """S2-12: a claim returns jobs, though a lease cannot be recovered."""
        broken = self._break(h)
        job_ids = h.submit_many(2)
        claim = h.claim(2)
        assert ids(claim.jobs) == job_ids
        assert (claim.recovered, broken.asked) == ([], 1)
        assert [h.get(each).attempt for each in job_ids] == [1, 1]
        assert isinstance(h.succeed(claim.jobs[0]), Settled)

    def test_nothing_is_left_of_a_chore_that_failed(self, h: Harness) -> None:
        """S2-12: all that it did is undone, also what it did before."""
        before = h.submit("before")
        h.take()
        self._break(h)
        h.submit()
        assert len(h.claim().jobs) == 1
        assert h.state(before) is State.RUNNING
        assert [each.outcome for each in h.attempts(before)] == [AttemptOutcome.RUNNING]

    def test_a_chore_that_failed_is_left_alone_for_a_while(self, h: Harness) -> None:
        """Not done again by every claim, and workers are not sent back for it at once."""
        broken = self._break(h)
        claims = [h.claim() for _ in range(5)]
        assert broken.asked == 1
        assert [claim.wait for claim in claims] == [CHORE_PAUSE] * 5
        h.advance(CHORE_PAUSE)
        assert [h.claim().wait for _ in range(5)] == [2 * CHORE_PAUSE] * 5
        assert broken.asked == 2
        for _ in range(20):
            h.advance(CHORE_PAUSE_MAX)
            h.claim()
        assert broken.asked == 22

    def test_what_failed_is_done_once_it_can_be(self, h: Harness) -> None:
        """S2-12, S4-8: by a claim, and at once by the operation itself."""
        self._break(h)
        (lost,) = ids(h.find(type="lost"))
        h.claim()
        h.clock.rng = Random(7)
        assert h.claim().recovered == []
        h.advance(CHORE_PAUSE)
        assert [moved.job_id for moved in h.claim().recovered] == [lost]
        assert h.state(lost) is State.RETRYING


class TestFans:
    def test_a_job_with_many_dependents_ends_with_all_of_them(self, h: Harness) -> None:
        """S1-71, S1-73, INV-21: more of them than one statement moves, and one behind them."""
        root = h.submit("root", policy=ONE_ATTEMPT)
        on = Dependencies((root,), mode=Mode.ALL)
        leaves = h.submit_all(*[job("leaf", after=on)] * FAN)
        behind = h.submit("behind", after=Dependencies((leaves[-1],)))
        h.fail(h.take(), TROUBLE)
        assert h.state(root) is State.DEAD_LETTER
        found = {each.id: each for each in h.find(type="leaf", states=(State.DEAD_LETTER,))}
        assert found.keys() == set(leaves)
        assert {each.failure and each.failure.failed_dependency for each in found.values()} == {
            root
        }
        assert h.state(behind) is State.DEAD_LETTER

    def test_a_job_lets_go_of_many_with_keys_of_their_own(self, h: Harness) -> None:
        """S1-60, INV-21, INV-22: each has a slot to itself, and gets it."""
        root = h.submit("root")
        on = Dependencies((root,), mode=Mode.ALL)
        leaves = [job("leaf", after=on, concurrency_key=str(n)) for n in range(FAN)]
        h.submit_all(*leaves)
        h.succeed(h.take())
        views = h.run(h.store.overview.types())
        assert [view.counts for view in views if view.name == "leaf"] == [{State.SCHEDULED: FAN}]
