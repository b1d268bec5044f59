"""Idempotency keys: at most one job a key, while it is live or for a window."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from conformance.harness import DEAD, LIVE, REACHABLE, TERMINAL, Harness, job
from fencepost.core.events import NewEvent
from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import Body, Encoding, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.values.payload import COMPARED_BYTES_MAX
from fencepost.errors import DuplicateJobError
from fencepost.store.interface.control import Edit
from fencepost.store.interface.queue import Duplicate, Enqueued

__all__ = ["TestKeys"]

DAY = 86_400.0
ACTIVE = Key("k", window=None)
REJECT = Key("k", on_duplicate=OnDuplicate.REJECT)

HELD = Body(b'{"to":"a@b.c","subject":"hi","n":1}')
PAYLOADS: dict[str, tuple[Body, tuple[str, ...]]] = {
    "the same": (HELD, ()),
    "other order and spaces": (Body(b'{"n":1, "subject":"hi",  "to":"a@b.c"}'), ()),
    "another value": (Body(b'{"to":"a@b.c","subject":"ho","n":1}'), ("$.subject",)),
    "one more, one less": (Body(b'{"to":"a@b.c","n":1,"cc":[]}'), ("$.cc", "$.subject")),
    "another kind of number": (Body(b'{"to":"a@b.c","subject":"hi","n":true}'), ("$.n",)),
    "an odd name": (Body(HELD.data[:-1] + b',"a b":1}'), ("$['a b']",)),
    "no object": (Body(b"[1]"), ("$",)),
    "binary": (Body(HELD.data, Encoding.BINARY), ("$",)),
}
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "graph": {"callback_url": "https://example.com/hook"},
}


def keyed(key: Key, type: str = "mail", **fields: object) -> NewJob:
    return job(type, key=key, **fields)


class TestKeys:
    @pytest.mark.parametrize("state", LIVE, ids=str)
    @pytest.mark.parametrize("mode", list(OnDuplicate), ids=str)
    @pytest.mark.parametrize("window", [None, 1.0, DAY])
    def test_a_live_job_holds_its_key(
        self, h: Harness, state: State, mode: OnDuplicate, window: float | None
    ) -> None:
        """S1-7, S1-9, S1-10, S3-12, C15: in every live state, also past the window."""
        job_id = h.job_in(state, key=Key("k", window))
        h.advance(10.0)
        before = h.snapshot()
        assert h.enqueue(keyed(Key("k", DAY, mode))) == [
            Duplicate(job_id, "mail", "k", state, mode is OnDuplicate.REJECT)
        ]
        assert h.snapshot() == before

    @pytest.mark.parametrize("state", TERMINAL, ids=str)
    def test_a_window_outlasts_the_job(self, h: Harness, state: State) -> None:
        """S1-8, S1-9, S1-10, C15: 24 hours from submission, then the key is free."""
        job_id = h.job_in(state, key=Key("k"))
        h.advance(DAY - 0.000001)
        assert h.enqueue(keyed(Key("k"))) == [Duplicate(job_id, "mail", "k", state, False)]
        h.advance(0.000001)
        [reply] = h.enqueue(keyed(Key("k")))
        assert isinstance(reply, Enqueued)
        assert reply.job_id != job_id
        assert h.get(job_id).key == "k"

    @pytest.mark.parametrize("state", TERMINAL, ids=str)
    def test_a_key_without_a_window_is_free_when_its_job_ends(
        self, h: Harness, state: State
    ) -> None:
        """S3-13, C15: completed, failed, dead or cancelled."""
        job_id = h.job_in(state, key=ACTIVE)
        second = h.submit(key=ACTIVE)
        assert second != job_id
        assert h.enqueue(keyed(ACTIVE)) == [Duplicate(second, "mail", "k", State.SCHEDULED, False)]

    def test_a_short_window_ends_with_its_job_at_the_earliest(self, h: Harness) -> None:
        """S1-10, C15: the window is never shorter than the live job."""
        job_id = h.submit(key=Key("k", window=5.0))
        h.advance(60.0)
        assert isinstance(h.enqueue(keyed(Key("k")))[0], Duplicate)
        h.succeed(h.take())
        assert h.submit(key=Key("k")) != job_id

    def test_a_key_belongs_to_its_type(self, h: Harness) -> None:
        """S1-8: but to no queue."""
        first = h.submit("mail", key=Key("k"))
        assert h.submit("report", key=Key("k")) != first
        assert h.enqueue(keyed(Key("k"), queue="other")) == [
            Duplicate(first, "mail", "k", State.SCHEDULED, False)
        ]

    @pytest.mark.parametrize(
        ("one", "other"),
        [("k", "K"), ("k", "k "), ("é", "e\u0301"), ("a\x01b", "a"), ("%", "_"), ("0", "00")],
        ids=ascii,
    )
    def test_keys_are_equal_only_character_by_character(
        self, h: Harness, one: str, other: str
    ) -> None:
        """S1-6: no folding, trimming, normalising or matching."""
        first = h.submit(key=Key(one))
        second = h.submit(key=Key(other))
        assert first != second
        assert (h.get(first).key, h.get(second).key) == (one, other)

    @pytest.mark.parametrize(
        "value", ["🦊" * 256, "k" * 256, "k" * 255 + "x", "ключ", "'; drop table jobs; --"], ids=len
    )
    def test_a_key_may_be_any_text_of_256_characters(self, h: Harness, value: str) -> None:
        """S1-6: characters, not bytes."""
        job_id = h.submit(key=Key(value))
        assert h.get(job_id).key == value
        assert h.take().key == value
        assert h.enqueue(keyed(Key(value))) == [
            Duplicate(job_id, "mail", value, State.RUNNING, False)
        ]

    def test_jobs_without_a_key_are_never_duplicates(self, h: Harness) -> None:
        """S1-6: it is optional."""
        assert len(set(h.submit_many(3))) == 3

    def test_equal_keys_in_one_batch_make_one_job(self, h: Harness) -> None:
        """S1-9, C15: the second is a duplicate of the first."""
        replies = h.enqueue(keyed(Key("k")), job("other"), keyed(Key("k")), keyed(REJECT))
        first = replies[0].job_id
        assert replies[2:] == [
            Duplicate(first, "mail", "k", State.SCHEDULED, False),
            Duplicate(first, "mail", "k", State.SCHEDULED, True),
        ]
        assert len(h.find()) == 2

    def test_a_duplicate_in_a_batch_does_not_keep_the_others_out(self, h: Harness) -> None:
        """S1-9, S3-12: also when it is rejected."""
        existing = h.submit(key=Key("k"))
        one, two, three = h.enqueue(job("a"), keyed(REJECT), job("b"))
        assert isinstance(one, Enqueued)
        assert two == Duplicate(existing, "mail", "k", State.SCHEDULED, True)
        assert isinstance(three, Enqueued)

    @pytest.mark.parametrize("others", [(), (job("b"),)], ids=["alike", "mixed"])
    def test_an_atomic_batch_is_all_or_nothing(
        self, h: Harness, others: tuple[NewJob, ...]
    ) -> None:
        """S3-12, C15, S0-5: a rejected duplicate stores none, and keys of the batch stay free."""
        existing = h.submit(key=Key("k"))
        before = h.snapshot()
        with pytest.raises(DuplicateJobError) as caught:
            h.enqueue(keyed(Key("new")), keyed(REJECT), *others, atomic=True)
        error = caught.value
        assert (error.type, error.key, error.existing_id) == ("mail", "k", existing)
        assert h.snapshot() == before
        assert h.submit(key=Key("new")) != existing

    def test_equal_rejecting_keys_in_an_atomic_batch_store_nothing(self, h: Harness) -> None:
        """S3-12, C15."""
        with pytest.raises(DuplicateJobError):
            h.enqueue(keyed(REJECT), keyed(REJECT), atomic=True)
        assert h.find() == []

    def test_equal_rejecting_keys_beside_a_job_of_another_queue_store_nothing(
        self, h: Harness
    ) -> None:
        """S3-12, C15: wherever the jobs of the batch are."""
        with pytest.raises(DuplicateJobError):
            h.enqueue(job("b", queue="other"), keyed(REJECT), keyed(REJECT), atomic=True)
        assert h.find() == []

    def test_an_atomic_batch_may_hold_duplicates_that_are_returned(self, h: Harness) -> None:
        """S1-9, C15."""
        existing = h.submit(key=Key("k"))
        one, two = h.enqueue(keyed(Key("k")), job("b"), atomic=True)
        assert one == Duplicate(existing, "mail", "k", State.SCHEDULED, False)
        assert isinstance(two, Enqueued)

    @pytest.mark.parametrize("state", DEAD, ids=str)
    @pytest.mark.parametrize("retried", [True, False], ids=["retry", "leave"])
    def test_a_retried_job_holds_its_key_again(
        self, h: Harness, state: State, retried: bool
    ) -> None:
        """S3-17, C36: membership is restored before the job is in line again."""
        job_id = h.job_in(state, key=ACTIVE)
        if retried:
            h.retry(job_id)
        [reply] = h.enqueue(keyed(ACTIVE))
        assert isinstance(reply, Duplicate) is retried
        assert (reply.job_id == job_id) is retried

    def test_a_released_or_failed_attempt_keeps_the_key(self, h: Harness) -> None:
        """S3-12, S3-13: only an end frees it."""
        job_id = h.submit(key=ACTIVE)
        h.release(h.take())
        assert h.enqueue(keyed(ACTIVE))[0].job_id == job_id
        h.fail(h.take())
        assert h.enqueue(keyed(ACTIVE))[0].job_id == job_id
        h.advance(1.0)
        h.take()
        h.advance(30.0)
        h.run(h.store.upkeep.recover(1))
        assert h.enqueue(keyed(ACTIVE))[0].job_id == job_id

    @pytest.mark.parametrize("state", REACHABLE, ids=str)
    def test_a_duplicate_is_told_the_state_of_the_existing_job(
        self, h: Harness, state: State
    ) -> None:
        """S1-9, C15: so that a caller can attach to it."""
        job_id = h.job_in(state, key=Key("k"))
        assert h.enqueue(keyed(Key("k"))) == [Duplicate(job_id, "mail", "k", state, False)]

    @pytest.mark.parametrize("name", PAYLOADS)
    @pytest.mark.parametrize("way", WAYS)
    def test_a_duplicate_says_where_its_payload_differs(
        self, h: Harness, name: str, way: str
    ) -> None:
        """So that a key used for two things is noticed; values count, not their spelling."""
        payload, differs = PAYLOADS[name]
        job_id = h.submit(key=Key("k"), payload=HELD)
        given = keyed(Key("k"), payload=payload, **WAYS[way])
        [reply] = h.enqueue(given)
        assert reply == Duplicate(job_id, "mail", "k", State.SCHEDULED, False, differs)
        refused = keyed(REJECT, payload=payload, **WAYS[way])
        [reply] = h.enqueue(refused)
        assert reply == Duplicate(job_id, "mail", "k", State.SCHEDULED, True, differs)
        with pytest.raises(DuplicateJobError) as caught:
            h.enqueue(refused, atomic=True)
        assert (caught.value.existing_id, caught.value.differs) == (job_id, differs)
        assert h.get(job_id).payload_body == HELD

    def test_binary_payloads_are_compared_byte_by_byte(self, h: Harness) -> None:
        one, two = Body(b"\0\xff", Encoding.BINARY), Body(b"\0\xfe", Encoding.BINARY)
        h.submit(key=Key("k"), payload=one)
        replies = h.enqueue(keyed(Key("k"), payload=one), keyed(Key("k"), payload=two))
        assert [isinstance(each, Duplicate) and each.differs for each in replies] == [(), ("$",)]

    @pytest.mark.parametrize(
        ("way", "same", "other"), [("plain", (), ("$",)), ("graph", None, None)]
    )
    def test_large_payloads_are_not_taken_apart(
        self, h: Harness, way: str, same: Any, other: Any
    ) -> None:
        """A batch may have thousands; those of a graph are not even read, unless decrypted."""
        one, two = (Body(b'{"a":"%s"}' % (text * COMPARED_BYTES_MAX)) for text in (b"x", b"y"))
        h.submit(key=Key("k"), payload=one)
        jobs = [keyed(Key("k"), payload=each, **WAYS[way]) for each in (one, two)]
        found = [each.differs for each in h.enqueue(*jobs) if isinstance(each, Duplicate)]
        assert found in ([same, other], [(), ("$",)])

    @pytest.mark.parametrize("way", WAYS)
    def test_jobs_of_one_batch_are_compared_with_each_other(self, h: Harness, way: str) -> None:
        """Also if that refuses the whole batch."""
        first, second = Body(b'{"a":1}'), Body(b'{"a":2}')
        jobs = [keyed(REJECT, payload=each, **WAYS[way]) for each in (first, second, first)]
        with pytest.raises(DuplicateJobError) as caught:
            h.enqueue(*jobs, atomic=True)
        assert caught.value.differs == ("$.a",)
        replies = h.enqueue(*jobs)
        assert [each.differs for each in replies if isinstance(each, Duplicate)] == [("$.a",), ()]

    def test_an_edited_payload_is_what_counts(self, h: Harness) -> None:
        job_id = h.submit(key=Key("k"), payload=Body(b'{"a":1}'))
        h.run(h.store.control.edit([Edit(job_id, payload=Body(b'{"a":2}'))]))
        replies = [h.enqueue(keyed(Key("k"), payload=Body(b'{"a":%d}' % n)))[0] for n in (1, 2)]
        assert [isinstance(each, Duplicate) and each.differs for each in replies] == [("$.a",), ()]

    def test_an_event_says_where_the_jobs_of_its_handlers_differ(self, h: Harness) -> None:
        payloads = Body(b'{"a":1}'), Body(b'{"a":2}')
        one, two = (keyed(ACTIVE, payload=each) for each in payloads)
        h.run(h.store.events.send(NewEvent("e", payloads[0], "k"), [one]))
        [reply] = h.run(h.store.events.send(NewEvent("e", payloads[1], "k"), [two])).jobs
        assert isinstance(reply, Duplicate)
        assert reply.differs == ("$.a",)
        refused = replace(two, key=REJECT)
        with pytest.raises(DuplicateJobError) as caught:
            h.run(h.store.events.send(NewEvent("e", payloads[1], "k"), [refused]))
        assert caught.value.differs == ("$.a",)
