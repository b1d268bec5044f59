"""Pauses of queues and types: nothing goes out, nothing is lost, nothing changes place."""

from __future__ import annotations

import pytest

from conformance.harness import TTL, Harness, ids, job
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Priority
from fencepost.errors import ConfigurationError
from fencepost.store.interface.queue import Settled
from fencepost.store.interface.records.overview import QueueView, TypeView
from fencepost.store.interface.settings import Scope

__all__ = ["TestPausing"]

NAMES = {Scope.QUEUE: "default", Scope.TYPE: "mail"}
both_scopes = pytest.mark.parametrize("scope", list(NAMES), ids=str)


def pause(h: Harness, scope: Scope) -> None:
    h.run(h.store.settings.pause(scope, NAMES[scope]))


def resume(h: Harness, scope: Scope) -> None:
    h.run(h.store.settings.resume(scope, NAMES[scope]))


class TestPausing:
    @both_scopes
    def test_what_is_paused_is_not_given_out(self, h: Harness, scope: Scope) -> None:
        """S3-19, C31: old jobs and new ones; the rest goes on."""
        h.submit_many(3)
        pause(h, scope)
        h.submit()
        other = h.submit("other", queue="other")
        assert ids(h.claim().jobs) == [other]
        assert h.claim(types=frozenset({"mail"}), queues={"default": 1}).jobs == []

    @both_scopes
    def test_on_resume_order_and_attempts_are_unchanged(self, h: Harness, scope: Scope) -> None:
        """S3-20, S3-21: pausing consumes nothing."""
        failed = h.job_in(State.RETRYING)
        h.advance(1.0)
        replies = h.enqueue(job(), job(priority=Priority.HIGH), job())
        low, high, low_too = (reply.job_id for reply in replies)
        pause(h, scope)
        h.advance(60.0)
        late = h.submit()
        for _ in range(3):
            assert h.claim().jobs == []
        resume(h, scope)
        jobs = h.claim().jobs
        assert ids(jobs) == [high, failed, low, low_too, late]
        assert [each.attempt for each in jobs] == [1, 2, 1, 1, 1]
        assert [each.last_version > 0 for each in jobs] == [False, True, False, False, False]

    @both_scopes
    def test_a_running_job_is_not_interrupted(self, h: Harness, scope: Scope) -> None:
        """C39."""
        h.submit()
        claimed = h.take()
        pause(h, scope)
        h.advance(10.0)
        h.heartbeat(claimed)
        h.advance(25.0)
        assert h.succeed(claimed) == Settled(claimed.id, "mail", State.COMPLETED)

    @both_scopes
    def test_a_job_lost_while_paused_is_recovered_and_kept_back(
        self, h: Harness, scope: Scope
    ) -> None:
        """S3-20, C39, S4-2."""
        job_id = h.submit()
        h.take()
        pause(h, scope)
        h.advance(TTL)
        assert [moved.job_id for moved in h.claim().recovered] == [job_id]
        h.advance(1.0)
        assert h.claim().jobs == []
        resume(h, scope)
        assert h.take().attempt == 2

    @both_scopes
    def test_a_delayed_job_of_what_is_paused_stays_back(self, h: Harness, scope: Scope) -> None:
        """S3-19, S3-21."""
        job_id = h.submit(delay=10.0)
        pause(h, scope)
        h.advance(20.0)
        assert h.claim().jobs == []
        resume(h, scope)
        assert ids(h.claim().jobs) == [job_id]

    @both_scopes
    def test_pausing_and_resuming_twice_is_once(self, h: Harness, scope: Scope) -> None:
        """S3-19, S3-21."""
        h.submit()
        pause(h, scope)
        pause(h, scope)
        resume(h, scope)
        resume(h, scope)
        assert len(h.claim().jobs) == 1

    def test_queue_and_type_are_paused_independently(self, h: Harness) -> None:
        """S3-19, C31: a job goes out when neither is paused; equal names are not mixed up."""
        job_id = h.submit("same", queue="same")
        h.run(h.store.settings.pause(Scope.QUEUE, "same"))
        h.run(h.store.settings.pause(Scope.TYPE, "same"))
        h.run(h.store.settings.resume(Scope.QUEUE, "same"))
        assert h.claim().jobs == []
        h.run(h.store.settings.pause(Scope.QUEUE, "same"))
        h.run(h.store.settings.resume(Scope.TYPE, "same"))
        assert h.claim().jobs == []
        h.run(h.store.settings.resume(Scope.QUEUE, "same"))
        assert ids(h.claim().jobs) == [job_id]

    def test_a_paused_type_does_not_block_its_queue(self, h: Harness) -> None:
        """S3-19: not even a long line of it in front."""
        h.submit_many(1200, "paused", priority=Priority.CRITICAL)
        job_id = h.submit("mail", priority=Priority.BULK)
        h.run(h.store.settings.pause(Scope.TYPE, "paused"))
        assert ids(h.claim(1).jobs) == [job_id]

    def test_a_name_may_be_paused_before_its_first_job(self, h: Harness) -> None:
        """S3-19: and is listed."""
        h.run(h.store.settings.pause(Scope.QUEUE, "später"))
        h.run(h.store.settings.pause(Scope.TYPE, "bald"))
        assert h.run(h.store.overview.queues()) == [QueueView(name="später", is_paused=True)]
        assert h.run(h.store.overview.types()) == [TypeView(name="bald", is_paused=True)]
        h.submit("x", queue="später")
        h.submit("bald", queue="q")
        assert h.claim().jobs == []

    def test_resuming_what_was_never_paused_is_fine(self, h: Harness) -> None:
        """S3-21."""
        h.run(h.store.settings.resume(Scope.QUEUE, "never"))
        h.run(h.store.settings.resume(Scope.TYPE, "never"))
        assert len(h.submit_many(1, "never", queue="never")) == len(h.claim().jobs)

    def test_the_whole_app_cannot_be_paused(self, h: Harness) -> None:
        """C31."""
        with pytest.raises(ConfigurationError):
            h.run(h.store.settings.pause(Scope.APP, ""))
        with pytest.raises(ConfigurationError):
            h.run(h.store.settings.resume(Scope.APP, ""))
