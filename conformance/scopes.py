"""What a caller with access to some queues alone sees: keys held elsewhere, dead letters; and
who submitted a job."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.graphs import after
from conformance.harness import NOBODY, ONE_ATTEMPT, REACHABLE, Harness, job
from fencepost.core.events import NewEvent
from fencepost.core.filter import PageRequest
from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import Body, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.errors import DuplicateJobError
from fencepost.store.interface.queue import Duplicate, Enqueued

__all__ = ["TestScopes", "TestSubmitters"]

OWN = frozenset({"a", "c"})
CONFINED = Key("k", within=OWN)
REJECTING = Key("k", None, OnDuplicate.REJECT, OWN)
URL = "https://example.com/hook?for=a"


def confined(type: str = "mail", *, key: Key = CONFINED, **fields: object) -> NewJob:
    return job(type, queue="a", key=key, **fields)


SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "tagged": {"tags": {"x": "y"}},
    "callback": {"callback_url": URL},
    "flow": {"flow": "f", "node": "n"},
    "concurrency": {"concurrency_key": "c"},
}
"""Stores take jobs in by several ways."""


class TestScopes:
    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("key", [CONFINED, REJECTING], ids=["return", "reject"])
    def test_a_key_that_is_held_out_of_reach_refuses(
        self, h: Harness, shape: str, key: Key
    ) -> None:
        """C15: what holds it may not be returned, so the submission is refused as if it asked."""
        holder = h.submit(key=Key("k"), queue="b")
        before = h.snapshot()
        assert h.enqueue(confined(key=key, **SHAPES[shape])) == [
            Duplicate(holder, "mail", "k", State.SCHEDULED, True)
        ]
        assert h.snapshot() == before

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("queue", sorted(OWN))
    def test_a_key_that_is_held_within_reach_returns_its_job(
        self, h: Harness, shape: str, queue: str
    ) -> None:
        """S1-9, C15: of any of the queues."""
        holder = h.submit(key=Key("k"), queue=queue)
        assert h.enqueue(confined(**SHAPES[shape])) == [
            Duplicate(holder, "mail", "k", State.SCHEDULED, False)
        ]

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("state", [State.SCHEDULED, State.RUNNING, State.COMPLETED], ids=str)
    def test_an_atomic_batch_stores_nothing_if_a_key_is_held_out_of_reach(
        self, h: Harness, shape: str, state: State
    ) -> None:
        """C15, S0-5: also one that asks to be given the job that holds it."""
        holder = h.job_in(state, key=Key("k"), queue="b")
        before = h.snapshot()
        fields = SHAPES[shape]
        with pytest.raises(DuplicateJobError) as caught:
            h.enqueue(confined("other", key=Key("new")), confined(**fields), atomic=True)
        assert caught.value.existing_id == holder
        assert h.snapshot() == before
        assert isinstance(h.enqueue(confined("other", key=Key("new")))[0], Enqueued)

    def test_nothing_waits_for_what_a_key_holds_out_of_reach(self, h: Harness) -> None:
        """S1-9: the node of a flow never stands for a job of another queue."""
        h.submit(key=Key("k"), queue="b")
        before = h.snapshot()
        with pytest.raises(DuplicateJobError):
            h.enqueue(confined(), job("child", queue="a", after=after(0)), atomic=True)
        assert h.snapshot() == before

    def test_equal_keys_in_one_batch_know_each_other(self, h: Harness) -> None:
        """C15: the first holds it for the second, if that may know of its queue."""
        for fields in SHAPES.values():
            one, two = h.enqueue(confined("x", **fields), confined("x", **fields))
            assert isinstance(one, Enqueued)
            assert two == Duplicate(one.job_id, "x", "k", one.state, False)
            h.cancel(one.job_id)
            h.advance(2 * 86_400.0)

    def test_an_event_is_not_sent_if_a_key_is_held_out_of_reach(self, h: Harness) -> None:
        """C15: neither a record nor a job of it is stored."""
        h.submit(key=Key("k", None), queue="b")
        before = h.snapshot()
        event = NewEvent("user.created", Body(b"{}"))
        with pytest.raises(DuplicateJobError):
            h.run(h.store.events.send(event, [job("index", queue="a"), confined(key=CONFINED)]))
        assert h.snapshot() == before
        assert h.run(h.store.events.list(None, PageRequest(10))).events == []

    def test_a_job_is_located_by_its_id(self, h: Harness) -> None:
        """In every state, however its id is written; what is no job is nowhere."""
        located = {
            h.job_in(state, queue=f"q {state}", type=f"t {state}"): f"q {state}"
            for state in REACHABLE
        }
        found = h.run(h.store.reader.locate([*located, NOBODY, "no id", ""]))
        assert found == [*located.values(), None, None, None]
        assert h.run(h.store.reader.locate([each.upper() for each in located])) == [
            *located.values()
        ]
        assert h.run(h.store.reader.locate([])) == []

    def test_dead_letters_are_those_of_the_queues_asked_for(self, h: Harness) -> None:
        """S3-24: page by page, and a page says that more follow only if some of these do."""
        wanted: list[str] = []
        for number, queue in enumerate("abbcbabbb"):
            dead = h.job_in(State.FAILED, queue=queue, type=f"t{number % 2}")
            h.advance(1.0)
            if queue in OWN:
                wanted.insert(0, dead)
        seen: list[str] = []
        position: int | None = None
        for _ in wanted:
            page = h.run(h.store.reader.dead_letters(None, PageRequest(1, position), sorted(OWN)))
            seen += [letter.job_id for letter in page.letters]
            position = page.next
        assert (seen, position) == (wanted, None)
        both = h.run(h.store.reader.dead_letters("t1", PageRequest(10), sorted(OWN)))
        assert {letter.type for letter in both.letters} <= {"t1"}
        assert {letter.queue for letter in both.letters} <= OWN
        none = h.run(h.store.reader.dead_letters(None, PageRequest(1), ["nowhere"]))
        assert (none.letters, none.next) == ([], None)


class TestSubmitters:
    @pytest.mark.parametrize("shape", SHAPES)
    def test_a_job_knows_which_token_submitted_it(self, h: Harness, shape: str) -> None:
        """The token's id, beside others of another token in the same batch."""
        fields = SHAPES[shape]
        one, two, none = h.submit_all(
            job("a", submitter="token-1", **fields),
            job("a", submitter="token-2", **fields),
            job("a", **fields),
        )
        assert [h.get(each).submitter for each in (one, two, none)] == ["token-1", "token-2", None]

    def test_a_delayed_job_knows_it_too(self, h: Harness) -> None:
        job_id = h.submit("a", submitter="token-1", delay=60.0)
        assert h.get(job_id).submitter == "token-1"

    def test_what_waits_knows_it_too(self, h: Harness) -> None:
        parent = h.submit("a", submitter="token-1")
        child = h.submit("b", after=after(parent), submitter="token-2")
        assert h.get(child).submitter == "token-2"

    @pytest.mark.parametrize("shape", SHAPES)
    def test_a_replay_is_of_the_same_submitter(self, h: Harness, shape: str) -> None:
        """S3-26: the submitter of the dead letter is that of the new job."""
        fields = SHAPES[shape]
        dead = h.submit("a", submitter="token-1", policy=ONE_ATTEMPT, **fields)
        h.reject(h.take())
        assert h.get(h.replay(dead).job_id).submitter == "token-1"
