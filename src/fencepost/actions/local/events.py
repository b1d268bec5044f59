"""Events of an app's store: sending one stores a record, and a job for each handler."""

from __future__ import annotations

import logging
from typing import Any

from fencepost.actions.backend import Script
from fencepost.actions.local.steps import Join, StoreActions, stored
from fencepost.actions.options import Options, check_bulk, new_job
from fencepost.actions.replies import SentEvents, StoredEvent
from fencepost.core.events import NewEvent, check_event_name, matches
from fencepost.core.filter import EVENTS, encode_cursor, make_page
from fencepost.core.job.idempotency import OnDuplicate
from fencepost.core.job.job import NewJob
from fencepost.core.job.task import Task
from fencepost.core.values.payload import check_size, encode_json
from fencepost.errors import InvalidPayloadError
from fencepost.observe import names
from fencepost.observe.log import log
from fencepost.store.interface.records.events import EventPage, EventReply
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation


class LocalEvents(StoreActions):
    """The events of an app's store."""

    def find(self, name: str | None, after: str | None, limit: int) -> Script[SentEvents]:
        """Return a page of events."""
        wanted = None if name is None else check_event_name(name)
        asked = make_page(limit=limit, after=after, of=EVENTS)
        page: EventPage = yield self._store.events.list(wanted, asked)
        following = None if page.next is None else encode_cursor(page.next, EVENTS)
        return SentEvents(page.events, following)

    def send(
        self, name: str, key: str | None, data: dict[str, Any], conn: Any = None
    ) -> Script[StoredEvent]:
        """Record an event and a job for each handler that matches, all or none."""
        event, jobs = self.prepare(name, key, data, on_duplicate=OnDuplicate.REJECT)
        return (yield from self.record(event, jobs, conn))

    def record(self, event: NewEvent, jobs: list[NewJob], conn: Any = None) -> Script[StoredEvent]:
        """Store a prepared event and its jobs, all or none, or in *conn*'s transaction."""

        def make(store: Store) -> Operation[EventReply]:
            return self._session.in_time(store.events.send(event, jobs))

        conn = self._session.joined(conn)
        reply: EventReply = yield make(self._store) if conn is None else Join(conn, make)
        self._note_unhandled(reply)
        sent = reply.event
        return StoredEvent(sent.id, sent.name, sent.sent_at, [stored(job) for job in reply.jobs])

    def prepare(
        self, name: str, key: str | None, data: dict[str, Any], *, on_duplicate: OnDuplicate
    ) -> tuple[NewEvent, list[NewJob]]:
        """Return an event and the jobs of its handlers, checked against each signature.

        Nothing is stored. A key is held for each handler, while its job is live (C15).
        """
        name = check_event_name(name)
        payload = check_size(encode_json(data), self._session.max_payload)
        options = Options(key=key, key_window=None, on_duplicate=on_duplicate)
        handlers = [
            task
            for task in self._session.tasks.values()
            if task.event is not None and matches(task.event, name)
        ]
        jobs = check_bulk([self._job_for(task, name, data, options) for task in handlers])
        return NewEvent(name, payload, key), self._session.carrying(jobs)

    def _note_unhandled(self, reply: EventReply) -> None:
        """Warn that no handler matched: often the module that has them was not imported."""
        if not reply.jobs:
            event = reply.event
            self._session.counters.add(names.EVENT_UNHANDLED)
            log(names.EVENT_UNHANDLED, level=logging.WARNING, id=event.id, name=event.name)

    def _job_for(self, task: Task, name: str, data: dict[str, Any], options: Options) -> NewJob:
        try:
            payload = task.signature.encode((), data)
        except InvalidPayloadError as error:
            raise InvalidPayloadError(
                f"handler {task.type!r} does not accept the data of {name!r}: {error}"
            ) from None
        return new_job(task, check_size(payload, self._session.max_payload), options)
