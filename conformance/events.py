"""Events: recorded with the jobs of their handlers, or not at all; looked up, pruned, moved."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from conformance.harness import INSTANT, NOBODY, Harness, ids, job
from fencepost.core.bounds import PAGE_MAX
from fencepost.core.events import EVENT_TAG, EventJob, NewEvent, SentEvent
from fencepost.core.filter import PageRequest
from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import Body, Encoding, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.errors import DuplicateJobError
from fencepost.store.interface.queue import Duplicate, Enqueued
from fencepost.store.interface.records.events import EventReply
from fencepost.store.interface.store import Topic
from fencepost.store.plan import Operation, Plan

__all__ = ["TestEvents"]

CREATED = NewEvent("user.created", Body(b'{"user_id":7}'))
HANDLERS = (job("welcome", queue="mail"), job("index", delay=60.0))
STATEMENTS_MAX = 100
"""Far more than any store needs to send an event to two handlers."""


def send(h: Harness, event: NewEvent = CREATED, *jobs: NewJob) -> EventReply:
    return h.run(h.store.events.send(event, jobs))


def keyed(type: str, key: str = "k", on_duplicate: OnDuplicate = OnDuplicate.RETURN) -> NewJob:
    return job(type, key=Key(key, None, on_duplicate))


def recorded(h: Harness, name: str | None = None) -> list[SentEvent]:
    return h.run(h.store.events.list(name, PageRequest(PAGE_MAX))).events


class Broken(Exception):
    """What ends an operation before its commit."""

    def __init__(self, *, is_whole: bool) -> None:
        super().__init__("broken off")
        self.is_whole = is_whole
        """Whether every statement had been executed."""


def broken(operation: Operation[EventReply], after: int) -> Operation[EventReply]:
    """Return *operation* as one that breaks off after so many statements, or at its end."""

    def start() -> Plan[EventReply]:
        plan = operation.start()
        try:
            statement = next(plan)
            for _ in range(after):
                statement = plan.send((yield statement))
        except StopIteration:
            raise Broken(is_whole=True) from None
        raise Broken(is_whole=False)

    return Operation(operation.declaration, start, operation.given)


class TestEvents:
    def test_an_event_is_recorded_with_the_jobs_of_its_handlers(self, h: Harness) -> None:
        """S3-16: one job a handler, in the order given, found by the event's id and name."""
        now = h.advance(5.0)
        reply = send(h, CREATED, *HANDLERS)
        welcome, index = reply.jobs
        event_id = reply.event.id
        assert reply.jobs == [
            Enqueued(welcome.job_id, "welcome", State.SCHEDULED),
            Enqueued(index.job_id, "index", State.DELAYED),
        ]
        assert reply.event == SentEvent(
            id=event_id,
            name="user.created",
            sent_at=now,
            payload=Body(b'{"user_id":7}'),
            jobs=(
                EventJob(welcome.job_id, "welcome", False),
                EventJob(index.job_id, "index", False),
            ),
        )
        assert recorded(h) == [reply.event]
        assert set(ids(h.find(correlation_id=event_id))) == {welcome.job_id, index.job_id}
        assert len(h.find(tags={EVENT_TAG: "user.created"})) == 2
        claimed = h.take()
        assert (claimed.id, claimed.correlation_id) == (welcome.job_id, event_id)
        assert claimed.tags == {EVENT_TAG: "user.created"}

    def test_an_event_without_a_handler_is_recorded_all_the_same(self, h: Harness) -> None:
        reply = send(h)
        assert (reply.jobs, reply.event.jobs) == ([], ())
        assert recorded(h) == [reply.event]
        assert h.find() == []

    @pytest.mark.parametrize(
        "payload",
        [
            Body(b"{}"),
            Body(b'{"text":"\\u0000 \xc3\xa9"}'),
            Body(b"\x00\xff{", Encoding.BINARY),
            Body(b"", Encoding.BINARY),
            Body(b' {"spaced" : 1} '),
        ],
        ids=str,
    )
    def test_what_was_sent_is_kept_byte_for_byte(self, h: Harness, payload: Body) -> None:
        """S1-93: also by what moves it to another store."""
        event = NewEvent("a", payload, "'; drop table events; -- é")
        sent = send(h, event).event
        assert (sent.payload, sent.key) == (payload, event.key)
        assert recorded(h) == [sent]
        h.run(h.store.events.prune(0.0, 1))
        h.run(h.store.events.load([sent]))
        assert recorded(h) == [sent]

    def test_each_event_has_an_id_of_its_own(self, h: Harness) -> None:
        """S1-2: given by the system, and unlike that of any job."""
        first, second = send(h, CREATED, job()), send(h, CREATED, job())
        every = [*(r.event.id for r in (first, second)), *ids(h.find())]
        assert len(set(every)) == 4

    def test_a_duplicate_is_told_handler_by_handler(self, h: Harness) -> None:
        """S3-16, C15: one handler's job may be new while another's was there; both are recorded."""
        event = NewEvent("user.created", key="k")
        first = send(h, event, keyed("welcome"), keyed("index"))
        claimed = h.take(types=frozenset({"index"}))
        h.succeed(claimed)
        second = send(h, event, keyed("welcome"), keyed("index"), keyed("audit"))
        welcome = first.jobs[0].job_id
        assert second.jobs[0] == Duplicate(welcome, "welcome", "k", State.SCHEDULED, False)
        assert [type(reply) for reply in second.jobs[1:]] == [Enqueued, Enqueued]
        assert [(each.job_id, each.is_duplicate) for each in second.event.jobs] == [
            (welcome, True),
            (second.jobs[1].job_id, False),
            (second.jobs[2].job_id, False),
        ]
        assert recorded(h) == [second.event, first.event]
        assert [each.key for each in recorded(h)] == ["k", "k"]
        assert h.get(welcome).correlation_id == first.event.id

    def test_a_duplicate_of_a_job_of_the_same_event_is_told_as_one(self, h: Harness) -> None:
        sent = send(h, CREATED, keyed("a"), job("b", queue="other"), keyed("a"))
        first, _, last = sent.jobs
        assert isinstance(first, Enqueued)
        assert last == Duplicate(first.job_id, "a", "k", State.SCHEDULED, False)
        assert [each.is_duplicate for each in sent.event.jobs] == [False, False, True]
        assert {each.job_id for each in sent.event.jobs} == {*ids(h.find())}

    def test_an_event_that_is_all_duplicates_is_recorded_too(self, h: Harness) -> None:
        """S3-16: never swallowed."""
        first = send(h, CREATED, keyed("welcome"))
        second = send(h, CREATED, keyed("welcome"))
        assert second.event.jobs == (EventJob(first.jobs[0].job_id, "welcome", True),)
        assert len(recorded(h)) == 2
        assert len(h.find()) == 1

    def test_a_refused_job_leaves_neither_event_nor_jobs(self, h: Harness) -> None:
        """S0-5, C15: all or nothing, keys of the other handlers included."""
        existing = h.submit("index", key=Key("k", None))
        before = h.snapshot()
        with pytest.raises(DuplicateJobError) as caught:
            send(h, CREATED, keyed("welcome"), keyed("index", on_duplicate=OnDuplicate.REJECT))
        assert caught.value.existing_id == existing
        assert (recorded(h), h.snapshot()) == ([], before)
        assert isinstance(send(h, CREATED, keyed("welcome")).jobs[0], Enqueued)

    @pytest.mark.parametrize("jobs", [(), HANDLERS[:1], HANDLERS], ids=len)
    def test_whatever_breaks_off_leaves_neither_event_nor_jobs(
        self, h: Harness, jobs: tuple[NewJob, ...]
    ) -> None:
        """S0-5: at any statement, and before the commit; afterwards all is as if it never was."""
        sending = h.store.events.send(CREATED, jobs)
        for after in range(STATEMENTS_MAX):
            with pytest.raises(Broken) as caught:
                h.run(broken(sending, after))
            assert (recorded(h), h.find()) == ([], [])
            if caught.value.is_whole:
                break
        assert caught.value.is_whole
        reply = h.run(sending)
        assert recorded(h) == [reply.event]
        assert len(h.find()) == len(jobs)

    def test_two_who_send_with_one_key_at_once_make_one_job_a_handler(self, h: Harness) -> None:
        """S3-16, S1-9: each reply names its jobs; both events are recorded."""
        jobs = [keyed("welcome"), keyed("index"), keyed("audit")]
        replies = h.race([lambda store: store.events.send(CREATED, jobs)] * 4, h.peers(2))
        made = Counter(
            reply.type for each in replies for reply in each.jobs if isinstance(reply, Enqueued)
        )
        assert made == {"welcome": 1, "index": 1, "audit": 1}
        assert len(h.find()) == 3
        assert {each.id for each in recorded(h)} == {each.event.id for each in replies}
        assert len(recorded(h)) == 4

    def test_a_worker_that_waits_is_woken_by_an_event(self, h: Harness) -> None:
        """S2-1: as by a submission."""
        listener = h.store.listen(Topic.READY)
        send(h, CREATED, job())
        assert listener.wait(10.0)
        listener.close()

    def test_records_come_newest_first_page_by_page(self, h: Harness) -> None:
        sent = [send(h, NewEvent(f"a.n{number}")).event for number in range(5)]
        seen: list[SentEvent] = []
        after: int | None = None
        for size in (2, 2, 1):
            page = h.run(h.store.events.list(None, PageRequest(2, after)))
            assert len(page.events) == size
            seen += page.events
            after = page.next
        assert (seen, after) == (sent[::-1], None)

    def test_a_page_goes_on_when_its_last_record_is_gone(self, h: Harness) -> None:
        old = send(h).event
        h.advance(1.0)
        send(h)
        page = h.run(h.store.events.list(None, PageRequest(1)))
        assert h.run(h.store.events.prune(0.0, 1)) == 1
        send(h)
        assert h.run(h.store.events.list(None, PageRequest(1, page.next))).events == []
        assert old not in recorded(h)

    @pytest.mark.parametrize("position", [0, 7, 10**18 - 1])
    def test_a_position_that_no_page_gave_out_is_no_error(self, h: Harness, position: int) -> None:
        send(h)
        page = h.run(h.store.events.list(None, PageRequest(1, position)))
        assert page.events in ([], recorded(h))
        assert page.next is None

    def test_records_can_be_read_name_by_name(self, h: Harness) -> None:
        created = [send(h).event for _ in range(3)]
        send(h, NewEvent("user.deleted"))
        assert recorded(h, "user.created") == created[::-1]
        page = h.run(h.store.events.list("user.created", PageRequest(2)))
        rest = h.run(h.store.events.list("user.created", PageRequest(2, page.next)))
        assert (rest.events, rest.next) == (created[:1], None)
        assert recorded(h, "user") == recorded(h, "user.*") == []

    def test_a_record_is_kept_as_long_as_asked(self, h: Harness) -> None:
        """S1-5: counted from when it was sent; gone at that time, and not the instant before."""
        job_id = send(h, CREATED, job()).jobs[0].job_id
        h.advance(timedelta(hours=1) - INSTANT)
        assert h.run(h.store.events.prune(3600.0, 10)) == 0
        h.advance(INSTANT)
        young = send(h).event
        assert h.run(h.store.events.prune(3600.0, 10)) == 1
        assert recorded(h) == [young]
        assert h.state(job_id) is State.SCHEDULED

    def test_pruning_is_bounded_and_takes_the_oldest_first(self, h: Harness) -> None:
        """S1-5."""
        sent = []
        for _ in range(5):
            sent.append(send(h).event)
            h.advance(1.0)
        assert h.run(h.store.events.prune(0.0, 0)) == 0
        assert h.run(h.store.events.prune(0.0, 2)) == 2
        assert recorded(h) == sent[:1:-1]
        assert h.run(h.store.events.prune(0.0, 10)) == 3
        assert h.run(h.store.events.prune(0.0, 10)) == 0

    def test_records_can_be_loaded_once(self, h: Harness) -> None:
        """A move that is repeated adds nothing."""
        known = send(h).event
        foreign = [
            SentEvent(
                id=NOBODY[:-1] + str(number),
                name="order.paid",
                sent_at=h.now - timedelta(days=number),
                payload=Body(b'{"order":1}'),
                key="k",
                jobs=(EventJob(NOBODY, "ship", True),),
            )
            for number in range(3)
        ]
        assert h.run(h.store.events.load([*foreign, known])) == 3
        assert h.run(h.store.events.load([*foreign, known])) == 0
        assert h.run(h.store.events.load([])) == 0
        assert recorded(h) == [*foreign[::-1], known]

    def test_a_record_survives_its_store_object(self, h: Harness) -> None:
        """S0-1: it is as durable as a job."""
        reply = send(h, CREATED, job())
        h.reopen(is_clean=False)
        assert recorded(h) == ([reply.event] if h.is_durable else [])
        if h.is_durable:
            second = send(h)
            assert recorded(h) == [second.event, reply.event]
