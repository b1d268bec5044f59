"""Edits: the two things about a job that its users may change."""

from __future__ import annotations

import pytest

from fencepost.core.lifecycle import State
from fencepost.core.priority import Priority
from fencepost.store.replies import Conflict, Edited, NotFound
from fencepost.store.requests import Edit
from fencepost.testing.conformance.harness import NOBODY, REACHABLE, Harness, ids

__all__ = ["TestEditing"]

WAITING = (State.SCHEDULED, State.DELAYED, State.RETRYING)


class TestEditing:
    @pytest.mark.parametrize("state", WAITING, ids=str)
    def test_the_priority_of_a_waiting_job_can_change(self, h: Harness, state: State) -> None:
        """S1-106: and nothing else changes with it."""
        job_id = h.job_in(state)
        before = h.get(job_id)
        h.advance(0.5)
        [reply] = h.run(h.store.edit([Edit(job_id, Priority.HIGH)]))
        after = h.get(job_id)
        assert reply == Edited(after)
        assert after.priority is Priority.HIGH
        assert (after.updated_at, after.run_at) == (before.updated_at, before.run_at)
        assert (after.state, after.attempt, after.tags) == (state, before.attempt, before.tags)

    @pytest.mark.parametrize("state", [s for s in REACHABLE if s not in WAITING], ids=str)
    def test_a_job_that_has_started_or_ended_keeps_its_priority(
        self, h: Harness, state: State
    ) -> None:
        """S1-106: refused, and its tags stay too."""
        job_id = h.job_in(state, tags={"a": "1"})
        before = h.snapshot()
        edit = Edit(job_id, Priority.HIGH, {"b": "2"})
        assert h.run(h.store.edit([edit])) == [Conflict(job_id, state)]
        assert h.snapshot() == before

    @pytest.mark.parametrize("state", REACHABLE, ids=str)
    def test_tags_can_be_replaced_in_any_state(self, h: Harness, state: State) -> None:
        """S1-107: and are found by at once."""
        job_id = h.job_in(state, tags={"a": "1", "b": "2"})
        before = h.get(job_id)
        h.advance(0.5)
        h.run(h.store.edit([Edit(job_id, tags={"b": "3", "ü": "🦊"})]))
        assert h.get(job_id).tags == {"b": "3", "ü": "🦊"}
        assert (h.get(job_id).updated_at, h.get(job_id).state) == (before.updated_at, state)
        assert h.find(tags={"a": "1"}) == []
        assert ids(h.find(tags={"ü": "🦊"})) == [job_id]
        h.run(h.store.edit([Edit(job_id, tags={})]))
        assert h.get(job_id).tags == {}
        assert h.find(tags={"b": "3"}) == []

    def test_an_edit_of_nothing_changes_nothing(self, h: Harness) -> None:
        """S1-106, S1-107."""
        job_id = h.submit(tags={"a": "1"})
        before = h.get(job_id)
        assert h.run(h.store.edit([Edit(job_id)])) == [Edited(before)]
        assert h.get(job_id) == before

    def test_a_job_edited_while_it_waits_is_claimed_as_edited(self, h: Harness) -> None:
        """S1-106, S1-107."""
        job_id = h.job_in(State.RETRYING)
        h.run(h.store.edit([Edit(job_id, Priority.LOW, {"t": "1"})]))
        h.advance(1.0)
        claimed = h.take()
        assert (claimed.id, claimed.priority, claimed.tags) == (job_id, Priority.LOW, {"t": "1"})

    def test_each_edit_of_a_batch_is_answered_for_itself(self, h: Harness) -> None:
        """S1-106: in order; the same twice, unknown and malformed ids among them."""
        job_id = h.submit()
        edits = [
            Edit(NOBODY, Priority.HIGH),
            Edit(job_id, Priority.HIGH),
            Edit("no id", tags={}),
            Edit(job_id, tags={"a": "1"}),
        ]
        replies = h.run(h.store.edit(edits))
        assert replies[0] == NotFound(NOBODY)
        assert replies[2:] == [NotFound("no id"), Edited(h.get(job_id))]
        assert isinstance(replies[1], Edited)
        assert (h.get(job_id).priority, h.get(job_id).tags) == (Priority.HIGH, {"a": "1"})
        assert h.run(h.store.edit([])) == []
