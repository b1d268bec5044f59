"""Jobs that wait for others, on their way to another store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.graphs import after, any_of, bring, claim_of, failed_dependency
from conformance.harness import TERMINAL, Harness, job
from conformance.transfer import dump, elsewhere, load
from fencepost.core.job.idempotency import Key
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy
from fencepost.errors import UnknownDependencyError
from fencepost.store.interface.control import RetryRequest
from fencepost.store.interface.queue import Spawn, Spawned
from fencepost.store.interface.records.transfer import Loaded
from fencepost.store.interface.upkeep import PruneRequest

__all__ = ["TestMovingGraphs"]


class TestMovingGraphs:
    def test_a_graph_moves_as_it_is(self, h: Harness) -> None:
        """S1-60: who waited for whom does so there."""
        graph = (
            job("a", flow="f", node="first"),
            job("b", after=after(0), flow="f"),
            job("c", after=after(0, 1, gathers=True), policy=Policy(max_attempts=7)),
            job("d", after=any_of(2), delay=5.0, key=Key("k")),
        )
        for source, target in self._both_ways(h):
            a, b, c, d = source.submit_all(*graph)
            bring(source, a, State.COMPLETED)
            source.reject(claim_of(source, "b"))
            source.retry(b)
            source.run(source.store.control.retry([RetryRequest(c)]))
            records = dump(source)
            assert records[2].dependencies == (a, b)
            assert load(target, records) == [Loaded(each) for each in (a, b, c, d)]
            assert target.find() == source.find()
            assert dump(target) == records
            assert target.run(target.store.reader.dependents([a, b])) == [[b, c], [c]]
            bring(target, b, State.COMPLETED)
            assert target.state(c) is State.SCHEDULED
            assert [target.state(each) for each in (c, d)] == [State.SCHEDULED, State.DELAYED]

    def test_what_has_been_waited_for_meanwhile_is_waited_for_no_more(self, h: Harness) -> None:
        """A job is let go, or ends, that arrives after those it waits for have ended there."""
        for source, target in self._both_ways(h):
            a, b, c = source.submit_all(
                job("a"), job("b", after=after(0)), job("c", after=after(0))
            )
            first, *rest = dump(source)
            load(target, [first])
            bring(target, a, State.COMPLETED)
            load(target, rest[:1])
            assert target.state(b) is State.SCHEDULED
            target.reject(claim_of(target, "b"))
            behind = source.submit("d", after=after(b))
            load(target, dump(source)[2:])
            assert target.state(c) is State.SCHEDULED
            assert target.state(behind) is State.FAILED
            assert failed_dependency(target, behind) == b

    def test_one_that_gathers_moves_with_what_was_spawned_after_it(self, h: Harness) -> None:
        """C29: it waits for jobs that were submitted later than itself."""
        for source, target in self._both_ways(h):
            first, last = source.submit_all(job("a"), job("b", after=after(0, gathers=True)))
            parent = claim_of(source, "a")
            new = (job("c", key=Key("spawned")),)
            [reply] = source.run(
                source.store.queue.spawn([Spawn(parent.id, parent.lease.token, new)])
            )
            assert isinstance(reply, Spawned)
            spawned = reply.replies[0].job_id
            source.succeed(parent)
            records = dump(source)
            assert records[1].dependencies == (first, spawned)
            load(target, records)
            assert dump(target) == records
            bring(target, spawned, State.COMPLETED)
            assert target.state(last) is State.SCHEDULED

    def test_one_that_waits_for_what_is_not_there_does_not_move(self, h: Harness) -> None:
        for source, target in self._both_ways(h):
            source.submit_all(job("a"), job("b", after=after(0)))
            _, waiting = dump(source)
            with pytest.raises(UnknownDependencyError):
                load(target, [waiting])
            assert target.find() == []

    def _both_ways(self, h: Harness) -> Iterator[tuple[Harness, Harness]]:
        with elsewhere(h) as other, elsewhere(h) as third:
            yield other, h
            for each in h.find():
                h.cancel(each.id)
            keep = PruneRequest(keep=dict.fromkeys(TERMINAL, 0.0), limit=1_000)
            h.advance(100_000.0)
            h.run(h.store.upkeep.prune(keep))
            yield h, third
