"""Dependencies that cannot be: refused, and nothing of them stored."""

from __future__ import annotations

import pytest

from conformance.graphs import after, bring, depth, failed_dependency
from conformance.harness import NOBODY, Harness, ids, job
from fencepost.core.bounds import DEPENDENCY_COUNT_MAX, DEPENDENCY_DEPTH_MAX, LIFETIME_DEFAULT
from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.lifecycle import State
from fencepost.errors import (
    DependencyCycleError,
    DependencyDepthError,
    DuplicateJobError,
    UnknownDependencyError,
)
from fencepost.store.interface.queue import Duplicate, Enqueued

__all__ = ["TestRefusedDependencies"]


class TestRefusedDependencies:
    """What cannot be waited for is refused, and nothing of it stored."""

    def test_an_unknown_dependency_is_refused(self, h: Harness) -> None:
        """S1-68: all dependency ids must exist at submission."""
        a = h.submit("a")
        before = h.snapshot()
        for on in (NOBODY, "no id", ""):
            for atomic in (False, True):
                with pytest.raises(UnknownDependencyError):
                    h.enqueue(job("x"), job("c", after=after(a, on)), job("y"), atomic=atomic)
        assert h.snapshot() == before
        assert h.run(h.store.reader.dependents([a])) == [[]]

    def test_a_job_can_wait_only_for_what_comes_before_it(self, h: Harness) -> None:
        """S1-65: cycles are rejected, self-dependency included."""
        for place in (0, 1, 5, -1):
            with pytest.raises(DependencyCycleError):
                h.enqueue(job("a", after=after(place)), job("b"))
            with pytest.raises(DependencyCycleError):  # also if another of them could never run
                h.enqueue(job("a", after=after(place)), job("b", delay=LIFETIME_DEFAULT))
        assert h.find() == []

    def test_a_way_may_have_a_hundred_jobs(self, h: Harness) -> None:
        """S1-66: depth 100 is accepted, 101 refused."""
        chain = [job("a")] + [
            job("a", after=after(place)) for place in range(DEPENDENCY_DEPTH_MAX - 1)
        ]
        replies = h.enqueue(*chain)
        last = replies[-1]
        assert isinstance(last, Enqueued)
        assert depth(h, last.job_id) == DEPENDENCY_DEPTH_MAX
        with pytest.raises(DependencyDepthError):
            h.enqueue(job("b", after=after(last.job_id)))
        with pytest.raises(DependencyDepthError):
            h.enqueue(*chain, job("a", after=after(DEPENDENCY_DEPTH_MAX - 1)), atomic=True)
        assert len(h.find()) == DEPENDENCY_DEPTH_MAX

    def test_a_failure_ends_a_way_of_a_hundred_jobs(self, h: Harness) -> None:
        chain = [job("a")] + [
            job("b", after=after(place)) for place in range(DEPENDENCY_DEPTH_MAX - 1)
        ]
        first, *rest = h.submit_all(*chain)
        reply = bring(h, first, State.FAILED)
        assert len(reply.followed) == DEPENDENCY_DEPTH_MAX - 1
        assert {failed_dependency(h, each) for each in rest} == {first}

    def test_a_job_may_wait_for_a_thousand(self, h: Harness) -> None:
        """S1-67: 1000 dependencies are accepted."""
        parents = [job("a") for _ in range(DEPENDENCY_COUNT_MAX)]
        replies = h.enqueue(*parents, job("c", after=after(*range(DEPENDENCY_COUNT_MAX))))
        waiting = replies[-1]
        assert isinstance(waiting, Enqueued)
        for _ in range(10):
            claimed = h.claim(100).jobs
            assert len(claimed) == 100
            h.succeed_all(claimed)
        assert ids(h.claim().jobs) == [waiting.job_id]

    def test_a_duplicate_leaves_no_dependency_behind(self, h: Harness) -> None:
        a = h.submit("a")
        h.submit("c", key=Key("k"))
        [reply] = h.enqueue(job("c", key=Key("k"), after=after(a)))
        assert isinstance(reply, Duplicate)
        assert h.run(h.store.reader.dependents([a])) == [[]]
        with pytest.raises(DuplicateJobError):
            h.enqueue(
                job("d", after=after(a)),
                job("c", key=Key("k", on_duplicate=OnDuplicate.REJECT)),
                atomic=True,
            )
        assert h.run(h.store.reader.dependents([a])) == [[]]
