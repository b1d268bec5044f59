"""Events: send one, and look at those that were sent."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.core.events import SentEvent
from fencepost.core.job.idempotency import OnDuplicate, check_key
from fencepost.handles import events as scripts
from fencepost.handles.event import note_unhandled, prepare_event
from fencepost.handles.job import naming_existing_async
from fencepost.http.auth.scope import submitted_by
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.store.interface.replies import Duplicate
from fencepost.wire.bodies import Base64, Json, show
from fencepost.wire.jobs import Accepted
from fencepost.wire.terms import Cursor, EventName, IdempotencyKey, PageLimit

UNSET = msgspec.UNSET


class EventBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What happened: the keyword arguments of every handler."""

    payload: dict[str, Any] = {}
    key: IdempotencyKey | None = None
    """Idempotency key of every handler's job, held while that job is live."""
    on_duplicate: Literal["return", "reject"] = "return"
    """When a handler's key is held: answer with the job that has it, or refuse all with 409."""


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that is on record, and the jobs that it came to: one a handler that matched."""

    id: str
    name: str
    sent_at: datetime
    jobs: list[Accepted]


class EventJob(msgspec.Struct, frozen=True, kw_only=True):
    """One handler's part in an event."""

    id: str
    type: str
    duplicate: bool


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """The record of an event."""

    id: str
    name: str
    sent_at: datetime
    key: str | None
    jobs: list[EventJob]
    payload: Json = UNSET
    payload_base64: Base64 = UNSET
    payload_encrypted: str | msgspec.UnsetType = UNSET


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Events, newest first, and where the next page begins."""

    events: list[EventView]
    next: str | None


class EventQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Of one name or of all, and from where on."""

    name: EventName | None = None
    after: Cursor | None = None
    """The ``next`` of the page before."""
    limit: PageLimit = PAGE_DEFAULT


async def send_event(call: Call[EventBody, Nothing]) -> Reply:
    """Record an event and a job for each handler that matches, all or none."""
    session, body = call.session, call.body
    key = None if body.key is None else check_key(body.key)
    on_duplicate = OnDuplicate(body.on_duplicate)
    event, jobs = await call.compute(
        lambda: prepare_event(
            session, call.path["name"], key, body.payload, on_duplicate=on_duplicate
        )
    )
    jobs = [submitted_by(call.principal, job) for job in jobs]
    async with naming_existing_async(session):
        reply = await session.store.run_async(session.store.events.send(event, jobs))
    sent = note_unhandled(session, reply).event
    made = [
        Accepted(
            id=job.job_id,
            type=job.type,
            state=job.state,
            duplicate=isinstance(job, Duplicate),
        )
        for job in reply.jobs
    ]
    return Reply(Sent(id=sent.id, name=sent.name, sent_at=sent.sent_at, jobs=made), 202)


async def list_events(call: Call[Nothing, EventQuery]) -> Reply:
    """Return a page of the events that were sent, newest first."""
    query = call.query
    page = await call.session.run_async(
        scripts.find(call.session, query.name, query.after, query.limit)
    )
    return Reply(EventPage(events=[_view(event) for event in page], next=page.next))


def _view(event: SentEvent) -> EventView:
    shown = show(event.payload)
    return EventView(
        id=event.id,
        name=event.name,
        sent_at=event.sent_at,
        key=event.key,
        jobs=[
            EventJob(id=job.job_id, type=job.type, duplicate=job.is_duplicate) for job in event.jobs
        ],
        payload=shown.json,
        payload_base64=shown.base64,
        payload_encrypted=shown.encrypted,
    )
