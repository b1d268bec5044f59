"""Events, as they are sent and as they are recorded."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType, field

from fencepost.core import events
from fencepost.core.events import SentEvent
from fencepost.wire.bodies import Base64, Json, body_in, shown_as, shown_fields
from fencepost.wire.control import PageQuery
from fencepost.wire.jobs import Accepted
from fencepost.wire.terms import EventName, IdempotencyKey, Strict


class EventBody(Strict, frozen=True, kw_only=True):
    """What happened: the keyword arguments of every handler."""

    payload: dict[str, Any] = field(default_factory=dict)
    key: IdempotencyKey | None = None
    """Idempotency key of every handler's job, held while that job is live."""
    on_duplicate: Literal["return", "reject"] = "return"
    """If another job holds a handler's key: return that job, or refuse the event with 409."""


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded event, and its jobs: one for each handler that matched."""

    id: str
    name: str
    sent_at: datetime
    jobs: list[Accepted]


class WireEventJob(msgspec.Struct, frozen=True, kw_only=True):
    """The job of one handler of an event."""

    id: str
    type: str
    duplicate: bool


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """The record of an event."""

    id: str
    name: str
    sent_at: datetime
    key: str | None
    jobs: list[WireEventJob]
    payload: Json = UNSET
    payload_base64: Base64 = UNSET
    payload_encrypted: str | UnsetType = UNSET


class WireEventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Events, newest first, and where the next page begins."""

    events: list[EventView]
    next: str | None


class EventQuery(PageQuery, frozen=True, kw_only=True):
    """Of one name or of all, and which page."""

    name: EventName | None = None


def event_view(event: SentEvent) -> EventView:
    """Return the record of an event in the form in which it is sent."""
    jobs = [
        WireEventJob(id=job.job_id, type=job.type, duplicate=job.is_duplicate) for job in event.jobs
    ]
    return shown_as(EventView, event, jobs=jobs, **shown_fields(payload=event.payload))


def event_of(view: EventView) -> SentEvent:
    """Return the record that was sent."""
    return SentEvent(
        id=view.id,
        name=view.name,
        sent_at=view.sent_at,
        payload=body_in(view, "payload"),
        key=view.key,
        jobs=tuple(events.EventJob(job.id, job.type, job.duplicate) for job in view.jobs),
    )
