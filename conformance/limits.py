"""W: how many jobs may run at once, in a queue and in all."""

from __future__ import annotations

import pytest

from conformance.harness import TTL, Harness, ids
from fencepost.core.bounds import RECOVER_BATCH
from fencepost.errors import ConfigurationError
from fencepost.store.interface.queue import Extended, Settled
from fencepost.store.interface.records.overview import QueueView
from fencepost.store.interface.settings import Scope

__all__ = ["TestLimits"]


def limit(h: Harness, scope: Scope, name: str, max_running: int | None) -> None:
    h.run(h.store.settings.limit(scope, name, max_running))


class TestLimits:
    @pytest.mark.parametrize("scope", [Scope.APP, Scope.QUEUE], ids=str)
    def test_no_claim_makes_more_than_w_jobs_run(self, h: Harness, scope: Scope) -> None:
        """S2-17, S2-38: a slot is free again when a job is settled."""
        job_ids = h.submit_many(6)
        limit(h, scope, "default", 3)
        jobs = h.claim(10).jobs
        assert ids(jobs) == job_ids[:3]
        assert h.claim(10, "w2").jobs == []
        h.succeed(jobs[0])
        assert ids(h.claim(10, "w2").jobs) == job_ids[3:4]
        h.fail(jobs[1])
        h.release(jobs[2])
        assert ids(h.claim(10).jobs) == [job_ids[2], job_ids[4]]

    def test_a_cancelled_job_gives_its_slot_back(self, h: Harness) -> None:
        """S2-17, C20."""
        first, second = h.submit_many(2)
        limit(h, Scope.APP, "", 1)
        h.take()
        h.cancel(first)
        assert h.take().id == second

    def test_the_app_is_limited_over_all_queues(self, h: Harness) -> None:
        """S2-17."""
        for queue in ("a", "b", "c"):
            h.submit_many(3, queue=queue)
        limit(h, Scope.APP, "", 4)
        assert len(h.claim(3, queues={"a": 1}).jobs) == 3
        assert len(h.claim(3, queues={"b": 1}).jobs) == 1
        assert h.claim(9).jobs == []
        assert h.run(h.store.settings.app_limit()) == 4

    def test_a_queue_is_limited_for_itself(self, h: Harness) -> None:
        """S2-17: other queues are not."""
        a = h.submit_many(3, queue="a")
        b = h.submit_many(3, queue="b")
        limit(h, Scope.QUEUE, "a", 1)
        assert ids(h.claim(10).jobs) == a[:1] + b
        assert h.run(h.store.settings.app_limit()) is None

    def test_the_tighter_of_both_limits_holds(self, h: Harness) -> None:
        """S2-17."""
        a = h.submit_many(5, queue="a")
        b = h.submit_many(5, queue="b")
        limit(h, Scope.APP, "", 3)
        limit(h, Scope.QUEUE, "a", 1)
        first = h.claim(10, queues={"a": 1, "b": 1}).jobs
        assert ids(first) == a[:1] + b[:2]
        h.succeed(first[1])
        assert ids(h.claim(10, queues={"a": 1, "b": 1}).jobs) == b[2:3]
        h.succeed(first[0])
        assert ids(h.claim(10, queues={"a": 1, "b": 1}).jobs) == a[1:2]

    def test_a_lost_worker_gives_its_slot_back(self, h: Harness) -> None:
        """S2-18, S2-19, S2-39, C10: W=1; not the instant before its lease ends, but then."""
        h.submit()
        second = h.submit()
        limit(h, Scope.APP, "", 1)
        h.take()
        h.advance(TTL - 0.000001)
        assert h.claim(worker="w2").jobs == []
        h.advance(0.000001)
        assert ids(h.claim(worker="w2").jobs) == [second]

    @pytest.mark.parametrize("scope", [Scope.APP, Scope.QUEUE], ids=str)
    def test_expired_leases_do_not_count_even_before_recovery(
        self, h: Harness, scope: Scope
    ) -> None:
        """S2-18, S2-39: more of them than one claim takes back."""
        h.submit_many(RECOVER_BATCH + 3)
        h.claim(RECOVER_BATCH + 1)
        limit(h, scope, "default", 1)
        h.advance(TTL)
        claim = h.claim(10)
        assert (len(claim.recovered), len(claim.jobs)) == (RECOVER_BATCH, 1)

    def test_a_limit_below_what_runs_interrupts_nobody(self, h: Harness) -> None:
        """S2-17: it holds for new claims."""
        h.submit_many(5)
        jobs = h.claim(4).jobs
        limit(h, Scope.QUEUE, "default", 2)
        assert isinstance(h.heartbeat(jobs[0]), Extended)
        assert h.claim(1).jobs == []
        for each in jobs[:2]:
            assert isinstance(h.succeed(each), Settled)
            assert h.claim(1).jobs == []
        h.succeed(jobs[2])
        assert len(h.claim(10).jobs) == 1

    def test_a_limit_can_be_changed_and_cleared(self, h: Harness) -> None:
        """S2-17."""
        h.submit_many(10)
        limit(h, Scope.APP, "", 1)
        assert len(h.claim(10).jobs) == 1
        limit(h, Scope.APP, "", 3)
        assert len(h.claim(10).jobs) == 2
        limit(h, Scope.APP, "", None)
        assert len(h.claim(10).jobs) == 7
        assert h.run(h.store.settings.app_limit()) is None

    def test_a_limit_of_a_queue_is_listed_with_it(self, h: Harness) -> None:
        """S2-17: also before its first job; pause and limit do not disturb each other."""
        limit(h, Scope.QUEUE, "q", 2)
        assert h.run(h.store.overview.queues()) == [QueueView(name="q", max_running=2)]
        h.run(h.store.settings.pause(Scope.QUEUE, "q"))
        assert h.run(h.store.overview.queues()) == [
            QueueView(name="q", is_paused=True, max_running=2)
        ]
        limit(h, Scope.QUEUE, "q", None)
        h.submit(queue="q")
        assert h.claim().jobs == []
        h.run(h.store.settings.resume(Scope.QUEUE, "q"))
        assert len(h.claim().jobs) == 1

    def test_queues_and_types_can_be_asked_for_by_name(self, h: Harness) -> None:
        """With everything that is said of them, and nothing of others."""
        for name in ("a", "b", "c"):
            h.submit(type=f"of-{name}", queue=name)
        h.run(h.store.settings.pause(Scope.QUEUE, "b"))
        h.run(h.store.settings.pause(Scope.QUEUE, "empty"))
        overview = h.store.overview
        every = {view.name: view for view in h.run(overview.queues())}
        asked = ["c", "empty", "b", "unknown"]
        assert h.run(overview.queues(asked)) == [every["b"], every["c"], every["empty"]]
        assert h.run(overview.queues([])) == []
        kinds = {view.name: view for view in h.run(overview.types())}
        assert h.run(overview.types(["of-c", "of-a", "c"])) == [kinds["of-a"], kinds["of-c"]]

    def test_the_limit_of_the_app_has_no_name(self, h: Harness) -> None:
        """S2-17: any name means the same one."""
        limit(h, Scope.APP, "one", 1)
        limit(h, Scope.APP, "two", 2)
        assert h.run(h.store.settings.app_limit()) == 2
        assert h.run(h.store.overview.queues()) == []

    @pytest.mark.parametrize(
        ("scope", "max_running"),
        [(Scope.APP, 0), (Scope.APP, 10**30), (Scope.QUEUE, 0), (Scope.QUEUE, -1), (Scope.TYPE, 3)],
    )
    def test_a_limit_that_makes_no_sense_is_refused(
        self, h: Harness, scope: Scope, max_running: int
    ) -> None:
        """S2-17: and nothing is set."""
        with pytest.raises(ConfigurationError):
            limit(h, scope, "default", max_running)
        assert h.run(h.store.settings.app_limit()) is None
        h.submit_many(5)
        assert len(h.claim(10).jobs) == 5
