"""Sizes: a claim has a bound in bytes as well, since its answer is built in memory."""

from __future__ import annotations

from conformance.harness import Harness, ids, job
from fencepost.core.bounds import CLAIM_BYTES_MAX
from fencepost.core.job.job import Body, ClaimedJob
from fencepost.core.limits.rates import Rate
from fencepost.core.limits.type_limits import TypeLimits

__all__ = ["TestSizes"]

LARGE = Body(b'"' + b"x" * (CLAIM_BYTES_MAX // 3 - 2) + b'"')
"""Three of them fit into a claim; fewer if a store keeps them in a longer form."""
LARGEST = Body(b'"' + b"x" * (CLAIM_BYTES_MAX - 2) + b'"')


def size(claimed: ClaimedJob) -> int:
    checkpoint = 0 if claimed.checkpoint is None else len(claimed.checkpoint.data)
    return len(claimed.payload.data) + checkpoint


class TestSizes:
    def test_a_claim_stops_before_it_is_too_large(self, h: Harness) -> None:
        """Those that it leaves stay where they are, uncounted, and are next."""
        job_ids = h.submit_many(5, payload=LARGE)
        small = h.submit()
        found: list[str] = []
        while len(found) < 5:
            jobs = h.claim().jobs
            assert 0 < sum(map(size, jobs)) <= CLAIM_BYTES_MAX
            assert all(each.payload == LARGE for each in jobs if each.id != small)
            assert {(each.attempt, each.last_version) for each in jobs} == {(1, 0)}
            found += ids(jobs)
            for job_id in set(job_ids) - set(found):
                seen = h.get(job_id)
                assert (seen.state, seen.attempt, seen.lease_version) == ("scheduled", 0, 0)
        assert [*found, *ids(h.claim().jobs)][:6] == [*job_ids, small]

    def test_one_job_is_always_taken(self, h: Harness) -> None:
        """However large it is."""
        job_ids = h.submit_many(2, payload=LARGEST)
        assert ids(h.claim().jobs) == job_ids[:1]
        assert ids(h.claim().jobs) == job_ids[1:]
        assert h.claim().jobs == []

    def test_checkpoints_count(self, h: Harness) -> None:
        """They are part of the answer."""
        job_ids = h.submit_many(3)
        for claimed in h.claim().jobs:
            h.save(claimed, checkpoint=Body(LARGEST.data[: CLAIM_BYTES_MAX // 2] + b'"'))
            h.release(claimed)
        for job_id in job_ids:
            [claimed] = h.claim().jobs
            assert (claimed.id, claimed.attempt, size(claimed) > 1_000_000) == (job_id, 1, True)
            assert claimed.last_version > 0

    def test_order_between_types_and_queues_is_kept(self, h: Harness) -> None:
        """C14: the oldest of a priority is always among those that are taken."""
        first = h.submit("b", payload=LARGEST)
        h.advance(1.0)
        h.submit_many(2, "a", payload=LARGE)
        h.advance(1.0)
        other = h.submit("a", queue="other")
        assert ids(h.claim(queues={"default": 1}).jobs) == [first]
        assert ids(h.claim(1, queues={"other": 1}).jobs) == [other]
        found = [each.type for _ in range(2) for each in h.claim().jobs]
        assert found == ["a", "a"]

    def test_a_rate_counts_only_what_was_taken(self, h: Harness) -> None:
        """S1-33: what stays in line has not started."""
        h.run(h.store.settings.limit_types({"mail": TypeLimits(rate=Rate(4, 3600.0))}))
        h.enqueue(*[job(payload=LARGE)] * 5)
        found = [each.id for _ in range(5) for each in h.claim().jobs]
        assert len(found) == 4
