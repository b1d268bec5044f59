"""The record of an event as every store makes it, and the text that tables keep of its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from fencepost.core.events import EventJob, NewEvent, SentEvent
from fencepost.store.interface.replies import Duplicate, EnqueueReply

_jobs = msgspec.json.Decoder(tuple[EventJob, ...])


def record_of(
    event_id: str, event: NewEvent, replies: Sequence[EnqueueReply], *, sent_at: datetime
) -> SentEvent:
    """Return what is kept of an event whose handlers' jobs were answered by *replies*."""
    return SentEvent(
        id=event_id,
        name=event.name,
        sent_at=sent_at,
        payload=event.payload,
        key=event.key,
        jobs=event_jobs(replies),
    )


def event_jobs(replies: Sequence[EnqueueReply]) -> tuple[EventJob, ...]:
    """Return the jobs to which an event came, new ones and those that were there."""
    return tuple(
        EventJob(reply.job_id, reply.type, isinstance(reply, Duplicate)) for reply in replies
    )


def encode_jobs(jobs: Sequence[EventJob]) -> str:
    """Return the column of an event's jobs."""
    return msgspec.json.encode(jobs).decode()


def decode_jobs(text: str) -> tuple[EventJob, ...]:
    """Return an event's jobs; none if they cannot be read."""
    try:
        return _jobs.decode(text)
    except (msgspec.DecodeError, TypeError):
        return ()
