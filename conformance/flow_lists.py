"""Lists of flows: newest first, counted by state, page by page, within given queues."""

from __future__ import annotations

from typing import Any

from conformance.harness import ONE_ATTEMPT, PAGES_MAX, TERMINAL, Harness, job
from fencepost.core import bounds
from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.flows.listing import FlowRequest, FlowSummary
from fencepost.core.job.lifecycle import State
from fencepost.store.interface.records.overview import FlowPage
from fencepost.store.interface.upkeep import PruneRequest

__all__ = ["TestFlowLists"]


def page(h: Harness, **request: Any) -> FlowPage:
    return h.run(h.store.overview.flows(FlowRequest(**request)))


def listed(h: Harness, **request: Any) -> list[FlowSummary]:
    """Return all flows of a request, read page by page."""
    found: list[FlowSummary] = []
    after: str | None = None
    for _ in range(PAGES_MAX):
        part = page(h, after=after, **request)
        found += part.flows
        after = part.next
        if after is None:
            return found
    raise AssertionError("the pages do not come to an end")


def ids(flows: list[FlowSummary]) -> list[str]:
    return [flow.id for flow in flows]


class TestFlowLists:
    def test_a_flow_is_counted_by_state_from_its_first_job_to_its_last_end(
        self, h: Harness
    ) -> None:
        assert page(h) == FlowPage([])
        h.submit("plain")
        begun = h.now
        h.submit_all(
            job("extract", flow="f1", correlation_id="nightly"),
            job("load", flow="f1", correlation_id="nightly", after=Dependencies((0,))),
        )
        [flow] = listed(h)
        counts = {State.PENDING: 1, State.SCHEDULED: 1}
        assert flow == FlowSummary(
            id="f1",
            correlation_id="nightly",
            type="extract",
            counts=counts,
            created_at=begun,
            is_live=True,
        )
        started = h.advance(1.0)
        claimed = h.take(types=frozenset({"extract"}))
        [flow] = listed(h)
        assert flow.counts == {State.PENDING: 1, State.RUNNING: 1}
        assert (flow.started_at, flow.ended_at) == (started, None)
        h.succeed(claimed)
        h.advance(1.0)
        last = h.take(types=frozenset({"load"}))
        ended = h.advance(1.0)
        h.succeed(last)
        [flow] = listed(h)
        assert flow.counts == {State.COMPLETED: 2}
        assert (flow.started_at, flow.ended_at, flow.is_live) == (started, ended, False)

    def test_every_state_of_a_job_is_counted(self, h: Harness) -> None:
        for state in (*TERMINAL, State.RETRYING, State.RUNNING, State.DELAYED, State.SCHEDULED):
            h.job_in(state, flow="f1")
        [flow] = listed(h)
        assert sum(flow.counts.values()) == len(TERMINAL) + 4
        assert flow.counts[State.RETRYING] == flow.counts[State.DELAYED] == 1
        assert flow.is_live and flow.ended_at is None and flow.has_failed

    def test_the_highest_id_comes_first_and_pages_have_no_gap(self, h: Harness) -> None:
        names = [f"f{number:03}" for number in range(25)]
        h.submit_all(*(job(flow=name) for name in names for _ in range(2)))
        found = listed(h, limit=4)
        assert ids(found) == names[::-1]
        assert all(flow.counts == {State.SCHEDULED: 2} for flow in found)
        first = page(h, limit=25)
        assert ids(first.flows) == names[::-1]
        assert first.next is None
        assert page(h, after="f000").flows == []

    def test_a_list_of_a_kind_leaves_the_others_out(self, h: Harness) -> None:
        h.job_in(State.COMPLETED, flow="f1")
        h.job_in(State.DEAD_LETTER, flow="f2")
        h.job_in(State.CANCELLED, flow="f3")
        h.job_in(State.FAILED, flow="f5")
        h.job_in(State.DELAYED, flow="f4")
        h.job_in(State.DELAYED, flow="f5")
        assert ids(listed(h, limit=1, kind="live")) == ["f5", "f4"]
        assert ids(listed(h, limit=1, kind="failed")) == ["f5", "f2"]
        assert len(listed(h)) == 5

    def test_jobs_of_other_queues_are_not_counted_and_their_flows_left_out(
        self, h: Harness
    ) -> None:
        h.submit_all(
            job("one", flow="f1", queue="a"),
            job("two", flow="f1", queue="b"),
            job(flow="f2", queue="b"),
            job(flow="f3", queue="c"),
        )
        assert ids(listed(h, queues=("a", "c"))) == ["f3", "f1"]
        [flow] = listed(h, queues=("a",))
        assert (flow.id, flow.type, flow.counts) == ("f1", "one", {State.SCHEDULED: 1})
        assert listed(h, queues=()) == []
        whole = {flow.id: flow.counts for flow in listed(h)}
        assert whole["f1"] == {State.SCHEDULED: 2}

    def test_a_dead_letter_that_was_replayed_counts_no_more(self, h: Harness) -> None:
        letter = h.job_in(State.DEAD_LETTER, flow="f1", policy=ONE_ATTEMPT)
        assert ids(listed(h, kind="failed")) == ["f1"]
        h.replay(letter)
        assert listed(h, kind="failed") == []
        [flow] = listed(h)
        assert flow.counts == {State.SCHEDULED: 1}

    def test_a_flow_is_listed_until_its_last_job_is_pruned(self, h: Harness) -> None:
        h.job_in(State.COMPLETED, flow="f1")
        h.job_in(State.DELAYED, flow="f1")
        h.job_in(State.COMPLETED, flow="f2")
        h.advance(1.0)
        keep: dict[State, float] = dict.fromkeys(TERMINAL, 0.0)
        after = 0
        while True:
            pruned = h.run(h.store.upkeep.prune(PruneRequest(keep=keep, limit=100, after=after)))
            if pruned.next is None:
                break
            after = pruned.next
        [flow] = listed(h)
        assert (flow.id, flow.counts) == ("f1", {State.DELAYED: 1})

    def test_a_page_ends_when_it_has_counted_enough_and_goes_on_behind_that(
        self, h: Harness
    ) -> None:
        size = bounds.FLOW_JOBS_MAX // 2 + 1
        for name in ("f1", "f2", "f3"):
            h.submit_many(size, flow=name)
        first = page(h, kind="failed")
        assert first.flows == []
        assert first.next is not None and first.next > "f1"
        assert listed(h, kind="failed") == []
        assert [flow.counts[State.SCHEDULED] for flow in listed(h)] == [size] * 3

    def test_of_a_large_flow_only_so_many_jobs_are_counted(self, h: Harness) -> None:
        h.submit(flow="f1")
        h.submit_many(bounds.FLOW_JOBS_MAX + 10, flow="f2")
        large, small = listed(h)
        assert (large.id, large.is_complete) == ("f2", False)
        assert large.counts == {State.SCHEDULED: bounds.FLOW_JOBS_MAX}
        assert (small.id, small.is_complete) == ("f1", True)
