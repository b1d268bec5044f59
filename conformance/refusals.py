"""Records of refused writes: what is kept, for how many, and that nothing depends on them."""

from __future__ import annotations

import pytest

from conformance.harness import Harness
from fencepost.core.bounds import REFUSALS_OF_JOB_MAX
from fencepost.core.refusals import NewRefusal, RefusedWrite

__all__ = ["TestRefusals"]

NOBODY = "0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"


def record(h: Harness, *refusals: NewRefusal) -> None:
    h.run(h.store.refusals.record(refusals))


def refusals(h: Harness, job_id: str) -> list[RefusedWrite]:
    return h.run(h.store.refusals.list(job_id))


def total(h: Harness) -> int:
    return h.run(h.store.refusals.total())


class TestRefusals:
    def test_a_refusal_is_kept_with_the_present_fence(self, h: Harness) -> None:
        """When, what, and both fences, the newest first."""
        job_id = h.submit()
        assert (refusals(h, job_id), total(h)) == ([], 0)
        first = h.take()
        at = h.advance(1.0)
        record(h, NewRefusal(job_id, "heartbeat", 7))
        h.advance("1h")
        h.run(h.store.upkeep.recover(1))
        h.advance("1h")
        h.run(h.store.upkeep.promote(1))
        second = h.take()
        later = h.advance(1.0)
        record(
            h, NewRefusal(job_id.upper(), "ack", first.lease.version), NewRefusal(job_id, "nack")
        )
        held, present = first.lease.version, second.lease.version
        assert held < present
        assert refusals(h, job_id) == [
            RefusedWrite(at=later, operation="nack", fence_held=None, fence_present=present),
            RefusedWrite(at=later, operation="ack", fence_held=held, fence_present=present),
            RefusedWrite(at=at, operation="heartbeat", fence_held=7, fence_present=held),
        ]
        assert refusals(h, job_id.upper()) == refusals(h, job_id)
        assert total(h) == 3

    def test_a_record_changes_nothing_of_the_job(self, h: Harness) -> None:
        job_id = h.submit()
        claimed = h.take()
        before = h.get(job_id)
        record(h, NewRefusal(job_id, "ack"))
        assert h.get(job_id) == before
        h.succeed(claimed)
        record(h, NewRefusal(job_id, "ack"))
        assert len(refusals(h, job_id)) == 2, "of a job that has ended, too"

    @pytest.mark.parametrize("job_id", [NOBODY, "", "x", "a\0b", "é" * 5_000])
    def test_of_what_is_no_job_nothing_is_kept(self, h: Harness, job_id: str) -> None:
        record(h, NewRefusal(job_id, "ack", 1))
        assert (refusals(h, job_id), total(h)) == ([], 0)

    def test_of_a_job_the_last_few_are_kept_and_all_are_counted(self, h: Harness) -> None:
        """Whoever has a stale token cannot fill the store."""
        job_id, other = h.submit(), h.submit()
        record(h, NewRefusal(other, "ack"))
        for number in range(REFUSALS_OF_JOB_MAX + 5):
            record(h, NewRefusal(job_id, "ack", number))
        found = [each.fence_held for each in refusals(h, job_id)]
        assert found == list(reversed(range(5, REFUSALS_OF_JOB_MAX + 5)))
        assert len(refusals(h, other)) == 1
        assert total(h) == REFUSALS_OF_JOB_MAX + 6

    def test_nothing_to_record_is_nothing_done(self, h: Harness) -> None:
        record(h)
        assert total(h) == 0
