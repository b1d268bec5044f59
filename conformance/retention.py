"""Pruning: old terminal jobs go, with all that was theirs; nothing else does."""

from __future__ import annotations

import pytest

from conformance.harness import DEAD, LIVE, TERMINAL, Harness, ids, job
from conformance.transfer import dump
from fencepost.core.bounds import PRUNE_SCAN
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import Body
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy
from fencepost.store.interface.control import NotFound
from fencepost.store.interface.queue import Duplicate, LeaseLost
from fencepost.store.interface.upkeep import Pruned, PruneRequest

__all__ = ["TestPruning"]

HOUR = 3600.0
ALL: dict[State, float] = dict.fromkeys(TERMINAL, HOUR)


def prune(
    h: Harness, after: int = 0, limit: int = 100, keep: dict[State, float] | None = None
) -> Pruned:
    request = PruneRequest(keep=ALL if keep is None else keep, after=after, limit=limit)
    return h.run(h.store.upkeep.prune(request))


class TestPruning:
    @pytest.mark.parametrize("state", TERMINAL, ids=str)
    def test_a_terminal_job_is_kept_as_long_as_asked(self, h: Harness, state: State) -> None:
        """S0-3, S1-5: counted from its end; gone at that time, and not the instant before."""
        h.advance("2d")
        job_id = h.job_in(state)
        h.advance(HOUR - 0.000001)
        assert prune(h) == Pruned(0, None)
        assert h.state(job_id) is state
        h.advance(0.000001)
        assert prune(h) == Pruned(1, None)
        assert h.run(h.store.reader.get([job_id])) == [None]
        assert prune(h) == Pruned(0, None)

    @pytest.mark.parametrize("state", LIVE, ids=str)
    def test_a_live_job_is_never_pruned(self, h: Harness, state: State) -> None:
        """S0-3: however old it is."""
        job_id = h.job_in(state, policy=Policy(lifetime=1e8))
        h.advance("300d")
        assert prune(h, keep=dict.fromkeys(TERMINAL, 0.0)) == Pruned(0, None)
        assert h.state(job_id) is state

    def test_each_state_has_its_own_time_and_may_have_none(self, h: Harness) -> None:
        """S1-5: a state that is not named is kept."""
        by_state = {state: h.job_in(state, type=state.value) for state in TERMINAL}
        h.advance(HOUR)
        keep = {State.COMPLETED: HOUR, State.CANCELLED: 2 * HOUR, State.FAILED: 0.0}
        assert prune(h, keep=keep).count == 2
        assert set(ids(h.find())) == {by_state[State.CANCELLED], by_state[State.DEAD_LETTER]}

    def test_everything_of_a_pruned_job_is_gone(self, h: Harness) -> None:
        """S1-5: attempts, tags, dead letter, counts; every operation says that there is none."""
        job_id = h.submit(tags={"a": "1"}, correlation_id="c", key=Key("k", None), queue="q")
        claimed = h.take()
        h.save(claimed, checkpoint=Body(b"1"))
        h.reject(claimed)
        h.advance(HOUR)
        assert prune(h).count == 1
        assert h.run(h.store.reader.attempts(job_id)) is None
        assert h.run(h.store.reader.situation(job_id)) is None
        assert h.find() == h.find(tags={"a": "1"}) == h.find(correlation_id="c") == []
        assert h.letters() == []
        assert h.cancel(job_id) == h.retry(job_id) == h.replay(job_id) == NotFound(job_id)
        assert h.reject(claimed) == LeaseLost(job_id, None)
        assert [view.counts for view in h.run(h.store.overview.queues())] in ([], [{}])
        assert [view.counts for view in h.run(h.store.overview.types())] in ([], [{}])

    @pytest.mark.parametrize("state", DEAD, ids=str)
    def test_a_job_whose_key_window_lasts_is_kept(self, h: Harness, state: State) -> None:
        """S1-5, S1-10: or the key would be forgotten before its time."""
        h.job_in(state, key=Key("k", window=2 * HOUR))
        h.advance(HOUR)
        assert prune(h) == Pruned(0, None)
        h.advance(HOUR - 0.000001)
        assert prune(h) == Pruned(0, None)
        h.advance(0.000001)
        assert prune(h) == Pruned(1, None)

    def test_the_key_of_a_pruned_job_is_free(self, h: Harness) -> None:
        """S1-4, S1-10, S3-13: and the new job has a new id."""
        job_id = h.job_in(State.COMPLETED, key=Key("k", window=HOUR))
        h.advance(HOUR)
        prune(h)
        assert h.submit(key=Key("k", window=HOUR)) != job_id

    def test_a_job_that_is_kept_for_its_dependents_keeps_its_key(self, h: Harness) -> None:
        """A move of the jobs to another store takes the key along, if it has one."""
        parent = h.submit(key=Key("k", None))
        h.succeed(h.take())
        other = h.submit()
        h.enqueue(job("child", after=Dependencies((parent, other))))
        h.advance(3600.0)
        assert prune(h) == Pruned(0, None)
        [record] = [each for each in dump(h) if each.job.id == parent]
        assert record.holds_key

    def test_a_pruned_job_does_not_take_a_newer_jobs_key_along(self, h: Harness) -> None:
        """S3-12, S1-9."""
        h.job_in(State.COMPLETED, key=Key("k", None))
        h.advance(HOUR)
        holder = h.submit(key=Key("k", None))
        assert prune(h).count == 1
        assert h.enqueue(job(key=Key("k", None))) == [
            Duplicate(holder, "mail", "k", State.SCHEDULED, False)
        ]

    def test_pruning_is_bounded_and_goes_on_where_it_stopped(self, h: Harness) -> None:
        """S1-5: oldest submission first."""
        job_ids = h.submit_many(5)
        for each in h.claim(5).jobs:
            h.succeed(each)
        h.advance(HOUR)
        first = prune(h, limit=2)
        assert (first.count, ids(h.find())) == (2, job_ids[:1:-1])
        assert first.next is not None
        second = prune(h, after=first.next, limit=2)
        assert (second.count, ids(h.find())) == (2, job_ids[4:])
        assert second.next is not None
        last = prune(h, after=second.next, limit=2)
        assert (last, h.find()) == (Pruned(1, None), [])

    @pytest.mark.parametrize("limit", [0, -1])
    def test_pruning_none_prunes_none(self, h: Harness, limit: int) -> None:
        """S1-5, S0-3."""
        kept = [h.job_in(State.COMPLETED) for _ in range(3)]
        h.advance(HOUR)
        assert prune(h, limit=limit).count == 0
        assert ids(h.find()) == kept[::-1]

    def test_jobs_up_to_the_position_are_not_looked_at(self, h: Harness) -> None:
        """S1-5."""
        kept, kept_too, pruned = (h.job_in(State.COMPLETED) for _ in range(3))
        position = h.run(h.store.reader.find(JobFilter(), PageRequest(2))).next
        assert position is not None
        h.advance(HOUR)
        assert prune(h, after=position) == Pruned(1, None)
        assert ids(h.find()) == [kept_too, kept]
        assert h.run(h.store.reader.get([pruned])) == [None]

    def test_one_call_looks_at_a_bounded_number_of_jobs(self, h: Harness) -> None:
        """S1-5: a long line of live jobs is passed in steps."""
        h.submit_many(PRUNE_SCAN + 5)
        done = h.job_in(State.COMPLETED, type="other")
        h.advance(HOUR)
        first = prune(h)
        assert first.count == 0
        assert first.next is not None
        assert prune(h, after=first.next) == Pruned(1, None)
        assert h.run(h.store.reader.get([done])) == [None]

    def test_types_can_have_rules_of_their_own(self, h: Harness) -> None:
        """Retention by state and by type: a type's own rules stand in the place of the others."""
        done, own = h.job_in(State.COMPLETED, type="a"), h.job_in(State.COMPLETED, type="b")
        failed, own_failed = h.job_in(State.FAILED, type="a"), h.job_in(State.FAILED, type="b")
        kept = h.job_in(State.COMPLETED, type="c")
        request = PruneRequest(
            keep={State.COMPLETED: 100.0, State.FAILED: 10.0},
            keep_by_type={"b": {State.COMPLETED: 10.0}, "c": {}, "unknown": {State.FAILED: 0.0}},
            limit=10,
        )
        h.advance(10)
        assert h.run(h.store.upkeep.prune(request)) == Pruned(2, None)
        assert set(ids(h.find())) == {done, own_failed, kept}
        h.advance(90)
        assert h.run(h.store.upkeep.prune(request)) == Pruned(1, None)
        assert set(ids(h.find())) == {own_failed, kept}
        assert {own, failed}.isdisjoint(ids(h.find()))
        only = PruneRequest(keep={}, keep_by_type={"c": {State.COMPLETED: 0.0}}, limit=10)
        assert h.run(h.store.upkeep.prune(only)).count == 1
