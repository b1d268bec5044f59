"""Checkpoints and progress: what a handler leaves while it runs."""

from __future__ import annotations

from conformance.harness import NOBODY, TTL, Harness
from fencepost.core.job.job import Body, Encoding, Progress
from fencepost.core.job.lifecycle import State
from fencepost.store.interface.queue import LeaseLost, Save, Saved

__all__ = ["TestSaving"]


class TestSaving:
    def test_what_is_saved_is_seen(self, h: Harness) -> None:
        """S1-58."""
        job_id = h.submit()
        claimed = h.take()
        checkpoint, progress = (
            Body(b"\0\xff", Encoding.BINARY),
            Progress(fraction=0.25, message="ein Viertel 🦊"),
        )
        assert h.save(claimed, checkpoint=checkpoint, progress=progress) == Saved(job_id)
        assert (h.get(job_id).checkpoint_body, h.get(job_id).progress) == (
            checkpoint,
            {**progress, "at": h.now},
        )

    def test_what_is_not_given_stays_as_it_was(self, h: Harness) -> None:
        """S1-58."""
        job_id = h.submit()
        claimed = h.take()
        h.save(claimed, checkpoint=Body(b"1"))
        h.save(claimed, progress=Progress(fraction=0.5, message=""))
        half = Progress(fraction=0.5, message="", at=h.now)
        assert (h.get(job_id).checkpoint_body, h.get(job_id).progress) == (
            Body(b"1"),
            half,
        )
        h.advance(1.0)
        h.save(claimed, checkpoint=Body(b"2"))
        assert (h.get(job_id).checkpoint_body, h.get(job_id).progress) == (
            Body(b"2"),
            half,
        )
        assert h.save(claimed) == Saved(job_id)
        assert (h.get(job_id).checkpoint_body, h.get(job_id).progress) == (
            Body(b"2"),
            half,
        )

    def test_the_next_attempt_goes_on_from_the_checkpoint(self, h: Harness) -> None:
        """S1-58, S0-2: after a failure, a lost worker, a release and a retry by hand."""
        job_id = h.submit()
        claimed = h.take()
        assert claimed.checkpoint is None
        h.save(claimed, checkpoint=Body(b"1"))
        h.fail(claimed)
        h.advance(1.0)
        claimed = h.take()
        assert claimed.checkpoint == Body(b"1")
        h.save(claimed, checkpoint=Body(b"2"))
        h.advance(TTL)
        h.run(h.store.upkeep.recover(1))
        h.advance(2.0)
        claimed = h.take()
        assert claimed.checkpoint == Body(b"2")
        h.release(claimed)
        claimed = h.take()
        assert claimed.checkpoint == Body(b"2")
        h.reject(claimed)
        h.retry(job_id)
        assert h.take().checkpoint == Body(b"2")

    def test_a_save_moves_neither_state_nor_lease(self, h: Harness) -> None:
        """S1-98: updated_at is the time of the last change of state."""
        job_id = h.submit()
        claimed = h.take()
        before = h.get(job_id)
        h.advance(1.0)
        h.save(claimed, progress=Progress(fraction=0.5, message=""))
        after = h.get(job_id)
        assert (after.updated_at, after.lease) == (before.updated_at, before.lease)

    def test_each_save_of_a_batch_is_answered_for_itself(self, h: Harness) -> None:
        """S0-48: in order, the same job twice, unknown and malformed ids among them."""
        h.submit_many(2)
        one, two = h.claim().jobs
        h.cancel(two.id)
        saves = [
            Save(one.id, one.lease.token, checkpoint=Body(b"1")),
            Save(two.id, two.lease.token, checkpoint=Body(b"1")),
            Save(NOBODY, one.lease.token, checkpoint=Body(b"1")),
            Save("no id", one.lease.token, checkpoint=Body(b"1")),
            Save(one.id, one.lease.token, progress=Progress(fraction=1.0, message="")),
        ]
        assert h.run(h.store.queue.save(saves)) == [
            Saved(one.id),
            LeaseLost(two.id, State.CANCELLED),
            LeaseLost(NOBODY, None),
            LeaseLost("no id", None),
            Saved(one.id),
        ]
        assert (h.get(one.id).checkpoint_body, h.get(one.id).progress) == (
            Body(b"1"),
            Progress(fraction=1.0, message="", at=h.now),
        )
        assert h.get(two.id).checkpoint_body is None
        assert h.run(h.store.queue.save([])) == []
