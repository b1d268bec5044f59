"""Edits: what users may change about a job, its tags at any time and the rest while it waits."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from conformance.harness import INSTANT, NOBODY, REACHABLE, Harness, ids, job
from fencepost.core.flows.dependencies import Dependencies, Mode
from fencepost.core.job.job import Body, Encoding
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy, Priority
from fencepost.store.interface.control import (
    Conflict,
    Edit,
    Edited,
    NotFound,
    RetryRequest,
    TooLate,
)
from fencepost.store.interface.queue import ClaimRequest, Moved
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation

__all__ = ["TestEditing", "TestRacingEdits"]

WAITING = (State.SCHEDULED, State.DELAYED, State.RETRYING)


class TestEditing:
    @pytest.mark.parametrize("state", WAITING, ids=str)
    def test_the_priority_of_a_waiting_job_can_change(self, h: Harness, state: State) -> None:
        """S1-106: and nothing else changes with it."""
        job_id = h.job_in(state)
        before = h.get(job_id)
        h.advance(0.5)
        [reply] = h.run(h.store.control.edit([Edit(job_id, Priority.HIGH)]))
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
        assert h.run(h.store.control.edit([edit])) == [Conflict(job_id, state)]
        assert h.snapshot() == before

    @pytest.mark.parametrize("state", REACHABLE, ids=str)
    def test_tags_can_be_replaced_in_any_state(self, h: Harness, state: State) -> None:
        """S1-107: and are found by at once."""
        job_id = h.job_in(state, tags={"a": "1", "b": "2"})
        before = h.get(job_id)
        h.advance(0.5)
        h.run(h.store.control.edit([Edit(job_id, tags={"b": "3", "ü": "🦊"})]))
        assert h.get(job_id).tags == {"b": "3", "ü": "🦊"}
        assert (h.get(job_id).updated_at, h.get(job_id).state) == (before.updated_at, state)
        assert h.find(tags={"a": "1"}) == []
        assert ids(h.find(tags={"ü": "🦊"})) == [job_id]
        h.run(h.store.control.edit([Edit(job_id, tags={})]))
        assert h.get(job_id).tags == {}
        assert h.find(tags={"b": "3"}) == []

    @pytest.mark.parametrize("state", WAITING, ids=str)
    def test_all_that_a_user_may_say_of_a_waiting_job_can_change(
        self, h: Harness, state: State
    ) -> None:
        """C46: and is what a claim hands out; nothing else changes."""
        job_id = h.job_in(state, correlation_id="old", payload=Body(b'{"a":1}'))
        before = h.get(job_id)
        h.advance(0.25)
        payload = Body(b"\x00\xff", Encoding.BINARY)
        changes: dict[str, Any] = {
            "correlation_id": "new",
            "callback_url": "https://example.com/hook",
        }
        after = replace(before, payload_body=payload, **changes)
        assert h.run(h.store.control.edit([Edit(job_id, payload=payload, **changes)])) == [
            Edited(after)
        ]
        assert h.get(job_id) == after
        assert (ids(h.find(correlation_id="new")), h.find(correlation_id="old")) == ([job_id], [])
        h.advance(3600.0)
        claimed = h.take()
        assert (claimed.id, claimed.payload) == (job_id, payload)
        assert claimed.correlation_id == "new"
        h.succeed(claimed)
        [delivery] = h.claim().jobs  # delivered to its new URL
        assert b"https://example.com/hook" in delivery.payload.data
        assert delivery.correlation_id == "new"

    def test_what_is_empty_is_taken_away(self, h: Harness) -> None:
        """C46: the correlation id, and the webhook with its delivery."""
        job_id = h.submit(correlation_id="c", callback_url="https://example.com/hook")
        h.run(h.store.control.edit([Edit(job_id, correlation_id="", callback_url="")]))
        seen = h.get(job_id)
        assert (seen.correlation_id, seen.callback_url) == (None, None)
        h.succeed(h.take())
        assert h.claim().jobs == []

    @pytest.mark.parametrize("state", [s for s in REACHABLE if s not in WAITING], ids=str)
    @pytest.mark.parametrize("name", ["run_at", "payload", "correlation_id", "callback_url"])
    def test_of_a_job_that_has_started_or_ended_nothing_but_its_tags_changes(
        self, h: Harness, state: State, name: str
    ) -> None:
        """C46: refused, and its tags stay too."""
        changes: dict[str, Any] = {
            "run_at": h.now + timedelta(hours=1),
            "payload": Body(b"2"),
            "correlation_id": "",
            "callback_url": "https://example.com/hook",
        }
        job_id = h.job_in(state, correlation_id="c")
        before = h.snapshot()
        edit = Edit(job_id, tags={"b": "2"}, **{name: changes[name]})
        assert h.run(h.store.control.edit([edit])) == [Conflict(job_id, state)]
        assert h.snapshot() == before

    @pytest.mark.parametrize("state", [State.DELAYED, State.RETRYING], ids=str)
    def test_a_job_that_waits_for_its_time_is_due_when_it_is_said(
        self, h: Harness, state: State
    ) -> None:
        """C46: sooner, later, and now."""
        job_id = h.job_in(state)
        before = h.get(job_id)
        for seconds in (7200.0, 20.0):
            at = h.now + timedelta(seconds=seconds)
            [reply] = h.run(h.store.control.edit([Edit(job_id, run_at=at)]))
            assert reply == Edited(replace(before, run_at=at))
        h.advance(20.0 - 0.000001)
        assert h.claim().jobs == []
        now = h.advance(0.0000005)
        [reply] = h.run(h.store.control.edit([Edit(job_id, run_at=h.now - timedelta(hours=1))]))
        seen = h.get(job_id)
        assert reply == Edited(seen, (Moved(job_id, "mail", State.SCHEDULED, state),))
        assert (seen.run_at, seen.scheduled_at, seen.updated_at) == (now, now, now)
        assert h.take().id == job_id

    def test_a_job_in_line_can_be_put_off(self, h: Harness) -> None:
        """C46: and one whose time has come keeps its place there."""
        first, second, third = h.submit_many(3)
        h.advance(1.0)
        h.run(h.store.control.edit([Edit(second, run_at=h.now)]))
        at = h.now + timedelta(seconds=30)
        [reply] = h.run(h.store.control.edit([Edit(first, run_at=at)]))
        seen = h.get(first)
        assert reply == Edited(seen, (Moved(first, "mail", State.DELAYED, State.SCHEDULED),))
        assert (seen.state, seen.run_at, seen.updated_at) == (State.DELAYED, at, h.now)
        assert ids(h.claim().jobs) == [second, third]
        h.advance(30.0)
        assert h.take().id == first

    def test_a_job_that_waits_for_others_is_put_off_beyond_their_end(self, h: Harness) -> None:
        """C46."""
        parent = h.submit("a")
        child = h.submit("b", after=Dependencies((parent,)))
        at = h.now + timedelta(seconds=30)
        [reply] = h.run(h.store.control.edit([Edit(child, run_at=at)]))
        assert isinstance(reply, Edited)
        assert (reply.job.state, reply.job.run_at, reply.moved) == (State.PENDING, at, ())
        h.succeed(h.take())
        assert (h.state(child), h.get(child).run_at) == (State.DELAYED, at)

    def test_a_job_that_is_put_off_makes_room_for_the_next_of_its_key(self, h: Harness) -> None:
        """C46: a slot of a concurrency key is not left unused; one that is held up can wait."""
        alone = Policy(max_running_per_key=1)
        first, second, third = h.submit_many(3, concurrency_key="c", policy=alone)
        later = h.now + timedelta(seconds=30)
        [held] = h.run(h.store.control.edit([Edit(second, run_at=later)]))
        assert h.state(second) is State.DELAYED
        assert isinstance(held, Edited)
        [reply] = h.run(h.store.control.edit([Edit(first, run_at=later)]))
        assert isinstance(reply, Edited)
        assert set(reply.moved) == {
            Moved(first, "mail", State.DELAYED, State.SCHEDULED),
            Moved(third, "mail", State.SCHEDULED, State.PENDING),
        }
        h.succeed(h.take())
        h.advance(30.0)
        assert len(h.claim().jobs) == 1

    @pytest.mark.parametrize("state", WAITING, ids=str)
    def test_a_time_at_the_end_of_the_lifetime_is_refused(self, h: Harness, state: State) -> None:
        """C48: and nothing changes; an instant earlier will do."""
        job_id = h.job_in(state)
        ends = h.get(job_id).expires_at
        before = h.snapshot()
        edit = Edit(job_id, Priority.HIGH, {"a": "1"}, run_at=ends, payload=Body(b"2"))
        assert h.run(h.store.control.edit([edit])) == [TooLate(job_id, ends)]
        assert h.snapshot() == before
        [reply] = h.run(h.store.control.edit([replace(edit, run_at=ends - INSTANT)]))
        assert isinstance(reply, Edited)

    def test_a_priority_reaches_those_who_inherited_it(self, h: Harness) -> None:
        """S1-37, S1-69: up and down, as far as they wait, and not below what they asked for."""
        top = h.submit("top")
        other = h.submit("other", priority=Priority.LOW)
        child = h.submit("child", after=Dependencies((top, other)), priority=Priority.BULK)
        urgent = h.submit("urgent", after=Dependencies((child,)), priority=Priority.HIGH)
        last = h.submit("last", after=Dependencies((child, urgent)), priority=Priority.BULK)
        apart = h.submit("apart", after=Dependencies((other,)), priority=Priority.BULK)

        def priorities() -> list[Priority]:
            return [h.get(each).priority for each in (child, urgent, last, apart)]

        normal, high, low, bulk = Priority.NORMAL, Priority.HIGH, Priority.LOW, Priority.BULK
        assert priorities() == [normal, high, high, low]
        before = h.get(last)
        h.advance(1.0)
        h.run(h.store.control.edit([Edit(top, Priority.CRITICAL)]))
        assert priorities() == [Priority.CRITICAL] * 3 + [low]
        assert h.get(last).updated_at == before.updated_at
        h.run(h.store.control.edit([Edit(top, bulk)]))
        assert priorities() == [low, high, high, low]
        h.run(h.store.control.edit([Edit(other, high)]))
        assert priorities() == [high, high, high, high]
        claimed = h.claim(types=frozenset({"other"})).jobs
        h.succeed(claimed[0])
        assert h.take().type == "apart"  # in its new place

    def test_an_inherited_priority_is_inherited_from_queue_to_queue(self, h: Harness) -> None:
        """S1-37: also within one submission, and by one that is edited later."""
        first, *others = h.submit_all(
            job(queue="a", priority=Priority.HIGH),
            job(queue="b", after=Dependencies((0,))),
            job(queue="a", priority=Priority.LOW, after=Dependencies((1,))),
            job(queue="c", after=Dependencies((2,))),
        )
        assert [h.get(each).priority for each in others] == [Priority.HIGH] * 3
        h.run(h.store.control.edit([Edit(first, priority=Priority.CRITICAL)]))
        assert [h.get(each).priority for each in others] == [Priority.CRITICAL] * 3

    def test_a_priority_set_by_hand_is_not_inherited_over(self, h: Harness) -> None:
        """S1-106: it was set on purpose."""
        parent = h.submit("parent")
        child = h.submit("child", after=Dependencies((parent,)))
        behind = h.submit("behind", after=Dependencies((child,)), priority=Priority.BULK)
        h.run(h.store.control.edit([Edit(child, Priority.LOW), Edit(parent, Priority.CRITICAL)]))
        assert h.get(child).priority is Priority.LOW
        assert h.get(behind).priority is Priority.LOW

    def test_a_retry_with_a_priority_is_passed_on_too(self, h: Harness) -> None:
        """S1-37, C45: of a live job, and of one that has ended and is waited for again."""
        parent = h.submit("parent", delay=60.0)
        child = h.submit("child", after=Dependencies((parent,)))
        h.retry(parent, delay=30.0, priority=Priority.HIGH)
        assert h.get(child).priority is Priority.HIGH
        ended = h.job_in(State.FAILED)
        waiting = h.submit("child", after=Dependencies((ended, parent), Mode.ENDED))
        h.retry(ended, priority=Priority.CRITICAL)
        assert h.get(waiting).priority is Priority.CRITICAL

    def test_an_edit_of_nothing_changes_nothing(self, h: Harness) -> None:
        """S1-106, S1-107."""
        job_id = h.submit(tags={"a": "1"})
        before = h.get(job_id)
        assert h.run(h.store.control.edit([Edit(job_id)])) == [Edited(before)]
        assert h.get(job_id) == before

    def test_a_job_edited_while_it_waits_is_claimed_as_edited(self, h: Harness) -> None:
        """S1-106, S1-107."""
        job_id = h.job_in(State.RETRYING)
        h.run(h.store.control.edit([Edit(job_id, Priority.LOW, {"t": "1"})]))
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
        replies = h.run(h.store.control.edit(edits))
        assert replies[0] == NotFound(NOBODY)
        assert replies[2:] == [NotFound("no id"), Edited(h.get(job_id))]
        assert isinstance(replies[1], Edited)
        assert (h.get(job_id).priority, h.get(job_id).tags) == (Priority.HIGH, {"a": "1"})
        assert h.run(h.store.control.edit([])) == []


def _edit(edit: Edit, store: Store) -> Operation[Any]:
    return store.control.edit([edit])


def _retry(job_id: str, store: Store) -> Operation[Any]:
    return store.control.retry([RetryRequest(job_id)])


def claiming(store: Store) -> Operation[Any]:
    return store.queue.claim(ClaimRequest(worker="w", limit=2))


class TestRacingEdits:
    """Edits beside claims, and beside each other."""

    def test_what_a_claim_hands_out_is_what_was_edited_before_it(self, h: Harness) -> None:
        """C46: an edit comes before the claim and is handed out, or it is refused."""
        peers = h.peers(3)
        for number in range(15):
            jobs = h.submit_many(4, payload=Body(b"1"))
            edited = Body(b"2", Encoding.BINARY) if number % 2 else Body(b"2")
            claims = [claiming] * 2
            edits = [partial(_edit, Edit(each, payload=edited)) for each in jobs]
            answers: list[Any] = h.race([*claims, *edits], peers)
            handed = {job.id: job for claim in answers[:2] for job in claim.jobs}
            for job_id, [reply] in zip(jobs, answers[2:], strict=True):
                is_edited = isinstance(reply, Edited)
                assert is_edited or isinstance(reply, Conflict)
                if job_id in handed:
                    assert handed[job_id].payload == (edited if is_edited else Body(b"1"))
                else:
                    assert is_edited
            h.succeed_all([*handed.values(), *h.claim().jobs])

    def test_two_parents_edited_at_once_are_both_heard(self, h: Harness) -> None:
        """S1-37: a dependent has the most urgent of both, in either order."""
        peers = h.peers(2)
        for number in range(15):
            one, two = h.submit("a"), h.submit("b")
            child = h.submit("c", after=Dependencies((one, two)), priority=Priority.BULK)
            last = h.submit("d", after=Dependencies((child,)), priority=Priority.BULK)
            urgent = [Priority.CRITICAL, Priority.LOW]
            first, second = urgent if number % 2 else urgent[::-1]
            h.race([partial(_edit, Edit(one, first)), partial(_edit, Edit(two, second))], peers)
            assert [h.get(each).priority for each in (child, last)] == [Priority.CRITICAL] * 2

    def test_a_retry_and_the_time_that_comes_put_a_job_into_line_once(self, h: Harness) -> None:
        """C45, S0-21: by a promotion or by a retry by hand."""
        peers = h.peers(3)
        for _ in range(15):
            job_id = h.submit(delay=1.0)
            h.advance(1.0)
            answers: list[Any] = h.race(
                [partial(_retry, job_id), lambda store: store.upkeep.promote(10), claiming], peers
            )
            jobs = [*answers[2].jobs, *h.claim().jobs]
            assert ids(jobs) == [job_id]
            h.succeed_all(jobs)
