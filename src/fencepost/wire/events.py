"""Events on the wire: as sent, and as on record."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from fencepost.core import events
from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.core.events import SentEvent
from fencepost.wire.bodies import Base64, Json, Shown, body_shown, show
from fencepost.wire.jobs import Accepted
from fencepost.wire.terms import Cursor, EventName, IdempotencyKey, PageLimit


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
    payload_encrypted: str | UnsetType = UNSET


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


def event_view(event: SentEvent) -> EventView:
    """Return the record of an event as the wire has it."""
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


def event_of(view: EventView) -> SentEvent:
    """Return the record that a view shows."""
    return SentEvent(
        id=view.id,
        name=view.name,
        sent_at=view.sent_at,
        payload=body_shown(Shown(view.payload, view.payload_base64, view.payload_encrypted)),
        key=view.key,
        jobs=tuple(events.EventJob(job.id, job.type, job.duplicate) for job in view.jobs),
    )
