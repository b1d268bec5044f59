"""What survives a restart, clean or not; of an ephemeral store, nothing."""

from __future__ import annotations

import pytest

from conformance.harness import REACHABLE, TTL, Harness, ids, job
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import Body, Encoding, Progress
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy, Priority
from fencepost.store.interface.queue import (
    AlreadySettled,
    Duplicate,
    Enqueued,
    LeaseLost,
    Saved,
    Settled,
)
from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.store.interface.settings import Scope

__all__ = ["TestDurability"]

restarts = pytest.mark.parametrize("is_clean", [True, False], ids=["closed", "crashed"])


class TestDurability:
    @restarts
    def test_every_job_is_there_as_it_was(self, h: Harness, is_clean: bool) -> None:
        """S0-3, S0-4, S0-6, S0-56, S1-5, S3-20: in every state, with all that is known of it."""
        for state in REACHABLE:
            h.job_in(state, type=state.value, tags={"s": state}, key=Key(state))
        h.submit(payload=Body(b"\0\xff", Encoding.BINARY), policy=Policy(timeout=1.5))
        before = h.snapshot()
        h.reopen(is_clean=is_clean)
        assert h.snapshot() == (before if h.is_durable else EMPTY)

    @restarts
    def test_a_job_is_claimable_after_a_restart(self, h: Harness, is_clean: bool) -> None:
        """S0-4, S0-6, S0-7, S1-33: in the same order, also the delayed ones."""
        replies = h.enqueue(job(delay=5.0), job(), job(priority=Priority.HIGH), job())
        delayed, first, urgent, second = (reply.job_id for reply in replies)
        h.reopen(is_clean=is_clean)
        h.advance(5.0)
        expected = [urgent, first, second, delayed]
        assert ids(h.claim().jobs) == (expected if h.is_durable else [])

    @restarts
    def test_a_lease_outlives_the_store_object(self, h: Harness, is_clean: bool) -> None:
        """S0-4, S0-56, S0-10, S2-16: its owner goes on, and nobody else gets the job."""
        h.submit()
        claimed = h.take()
        h.reopen(is_clean=is_clean)
        assert h.claim(worker="w2").jobs == []
        if not h.is_durable:
            assert h.succeed(claimed) == LeaseLost(claimed.id, None)
            return
        assert h.save(claimed, progress=Progress(fraction=0.5, message="")) == Saved(claimed.id)
        h.advance(TTL - 1.0)
        h.heartbeat(claimed)
        h.advance(5.0)
        assert h.succeed(claimed) == Settled(claimed.id, "mail", State.COMPLETED)

    @restarts
    def test_a_stale_lease_is_stale_after_a_restart(self, h: Harness, is_clean: bool) -> None:
        """S0-49, S0-52, S4-9, C38: and a settled one is known to be settled."""
        h.submit_many(2)
        settled, lost = h.claim().jobs
        h.succeed(settled)
        h.reopen(is_clean=is_clean)
        h.advance(TTL)
        if not h.is_durable:
            assert h.succeed(settled) == LeaseLost(settled.id, None)
            return
        assert h.succeed(settled) == AlreadySettled(settled.id, State.COMPLETED)
        assert h.succeed(lost) == LeaseLost(lost.id, State.RUNNING)

    @restarts
    def test_what_was_lost_before_a_restart_is_recovered_after(
        self, h: Harness, is_clean: bool
    ) -> None:
        """S0-54, S4-1, S4-19, S4-23, S2-36: a start drains all expired leases."""
        job_ids = h.submit_many(5)
        h.claim()
        h.advance(TTL)
        h.reopen(is_clean=is_clean)
        drained: list[str] = []
        for _ in range(4):
            drained += [moved.job_id for moved in h.run(h.store.upkeep.recover(2))]
        assert sorted(drained) == (sorted(job_ids) if h.is_durable else [])
        h.advance(1.0)
        assert [each.attempt for each in h.claim().jobs] == ([2] * 5 if h.is_durable else [])

    @restarts
    def test_pauses_and_limits_stay(self, h: Harness, is_clean: bool) -> None:
        """S3-20, S2-17."""
        h.submit("paused")
        h.submit("mail", queue="paused")
        h.submit_many(3)
        h.run(h.store.settings.pause(Scope.TYPE, "paused"))
        h.run(h.store.settings.pause(Scope.QUEUE, "paused"))
        h.run(h.store.settings.limit(Scope.QUEUE, "default", 2))
        h.run(h.store.settings.limit(Scope.APP, "", 7))
        h.reopen(is_clean=is_clean)
        assert h.run(h.store.settings.app_limit()) == (7 if h.is_durable else None)
        assert [each.type for each in h.claim().jobs] == (["mail"] * 2 if h.is_durable else [])
        h.run(h.store.settings.resume(Scope.TYPE, "paused"))
        h.run(h.store.settings.limit(Scope.QUEUE, "default", None))
        assert len(h.claim().jobs) == (2 if h.is_durable else 0)

    @restarts
    def test_keys_stay_taken(self, h: Harness, is_clean: bool) -> None:
        """S1-9, S1-10, S3-12: by a live job, and within the window of one that has ended."""
        ended = h.job_in(State.COMPLETED, key=Key("ended"))
        live = h.submit(key=Key("live", window=None))
        h.reopen(is_clean=is_clean)
        replies = h.enqueue(job(key=Key("ended")), job(key=Key("live")))
        if not h.is_durable:
            assert all(isinstance(reply, Enqueued) for reply in replies)
            return
        assert replies == [
            Duplicate(ended, "mail", "ended", State.COMPLETED, False),
            Duplicate(live, "mail", "live", State.SCHEDULED, False),
        ]

    @restarts
    def test_terms_and_workers_stay(self, h: Harness, is_clean: bool) -> None:
        """S2-16, S4-20: a restart does not make two leaders."""
        worker = WorkerInfo(
            id="w1", host="h", pid=1, queues=None, types=(), concurrency=1, started_at=h.now
        )
        h.run(h.store.cluster.announce(worker))
        h.run(h.store.cluster.lead("chores", "w1", 5.0))
        h.reopen(is_clean=is_clean)
        assert len(h.run(h.store.cluster.workers())) == (1 if h.is_durable else 0)
        assert (h.run(h.store.cluster.lead("chores", "w2", 5.0)) is None) is h.is_durable

    def test_two_store_objects_see_the_same_jobs(self, h: Harness) -> None:
        """S0-3, S0-38, S2-17: what one wrote, the other reads at once."""
        other = h.peers(2)[1]
        job_id = h.submit()
        claimed = h.take()
        [seen] = other.run(other.reader.get([job_id]))
        assert seen == h.get(job_id)
        other.run(other.control.cancel([job_id]))
        assert h.succeed(claimed) == LeaseLost(job_id, State.CANCELLED)

    def test_closing_twice_is_closing_once(self, h: Harness) -> None:
        """S0-4."""
        job_id = h.submit()
        h.store.close()
        h.store.close()
        h.reopen()
        assert (h.run(h.store.reader.get([job_id])) != [None]) is h.is_durable


EMPTY: dict[str, object] = {"jobs": [], "attempts": [], "letters": [], "queues": [], "types": []}
