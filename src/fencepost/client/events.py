"""``client.event(name).send(…)`` and ``client.events``: events, and the record of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from fencepost.client.exchange import Script, get, post, query_of
from fencepost.client.job import (
    AsyncJobHandle,
    JobHandle,
    async_handle,
    handle,
    naming_existing,
    naming_existing_async,
)
from fencepost.client.session import Session
from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.core.events import EventJob, SentEvent, check_event_name
from fencepost.core.job.idempotency import check_key
from fencepost.core.values.payload import encode_json
from fencepost.wire.bodies import Base64, Json, Shown, body_shown
from fencepost.wire.jobs import Accepted

EVENTS = "/v1/events"
H = TypeVar("H", JobHandle, AsyncJobHandle)


class Sent(msgspec.Struct, Generic[H], frozen=True):
    """An event that is on record, and the jobs that it came to: one a handler that matched."""

    id: str
    name: str
    sent_at: datetime
    jobs: list[H]
    """None when no handler of the server's app matches."""


class SentEvents(msgspec.Struct, frozen=True):
    """Some events, newest first, and the cursor of the page after; iterates over its events."""

    events: list[SentEvent]
    next: str | None = None

    def __iter__(self) -> Iterator[SentEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)


class _Job(msgspec.Struct, frozen=True):
    id: str
    type: str
    duplicate: bool


class _Event(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    sent_at: datetime
    key: str | None
    jobs: list[_Job]
    payload: Json = UNSET
    payload_base64: Base64 = UNSET
    payload_encrypted: str | UnsetType = UNSET


class _Page(msgspec.Struct, frozen=True):
    events: list[_Event]
    next: str | None


class _Reply(msgspec.Struct, frozen=True):
    id: str
    name: str
    sent_at: datetime
    jobs: list[Accepted]


def send(session: Session, name: str, key: str | None, data: dict[str, Any]) -> Script[_Reply]:
    """Record an event and a job for each handler that matches, all or none.

    It is not sent again when the answer is lost: its record, at least, would be there twice.
    """
    body = {"payload": msgspec.Raw(encode_json(data).data), "key": key, "on_duplicate": "reject"}
    return (yield from session.read(post(EVENTS, name, body=body), _Reply))


def find(session: Session, name: str | None, after: str | None, limit: int) -> Script[SentEvents]:
    """Return a page of events."""
    query = query_of(name=name, after=after, limit=limit)
    page = yield from session.read(get(EVENTS, query=query), _Page)
    return SentEvents([_event(each) for each in page.events], page.next)


def _event(seen: _Event) -> SentEvent:
    return SentEvent(
        id=seen.id,
        name=seen.name,
        sent_at=seen.sent_at,
        payload=body_shown(Shown(seen.payload, seen.payload_base64, seen.payload_encrypted)),
        key=seen.key,
        jobs=tuple(EventJob(job.id, job.type, job.duplicate) for job in seen.jobs),
    )


class _Handle:
    """What both faces of an event handle hold."""

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self._name = check_event_name(name)

    @property
    def name(self) -> str:
        """The name of the event."""
        return self._name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}>"


class EventHandle(_Handle):
    """An event of a server; ``aio`` has the same methods, awaited."""

    @property
    def aio(self) -> AsyncEventHandle:
        return AsyncEventHandle(self._session, self._name)

    def send(self, /, **data: Any) -> Sent[JobHandle]:
        """Record the event and a job for each handler that matches, all or none.

        The data are the handlers' keyword arguments, checked against each signature before
        anything is stored. When this returns, none of it can be lost.
        """
        return self._send(None, data)

    def send_idempotent(self, key: str, /, **data: Any) -> Sent[JobHandle]:
        """Send with *key* on every handler's job, unless one of them is live under it.

        Then raise DuplicateJobError with that job as ``existing``, and store nothing (C15).
        """
        return self._send(check_key(key), data)

    def _send(self, key: str | None, data: dict[str, Any]) -> Sent[JobHandle]:
        with naming_existing(self._session):
            sent = self._session.run(send(self._session, self._name, key, data))
        jobs = [handle(self._session, job) for job in sent.jobs]
        return Sent(sent.id, sent.name, sent.sent_at, jobs)


class AsyncEventHandle(_Handle):
    """The awaited face of EventHandle."""

    async def send(self, /, **data: Any) -> Sent[AsyncJobHandle]:
        """Record the event and a job for each handler that matches, all or none.

        The data are the handlers' keyword arguments, checked against each signature before
        anything is stored. When this returns, none of it can be lost.
        """
        return await self._send(None, data)

    async def send_idempotent(self, key: str, /, **data: Any) -> Sent[AsyncJobHandle]:
        """Send with *key* on every handler's job, unless one of them is live under it.

        Then raise DuplicateJobError with that job as ``existing``, and store nothing (C15).
        """
        return await self._send(check_key(key), data)

    async def _send(self, key: str | None, data: dict[str, Any]) -> Sent[AsyncJobHandle]:
        async with naming_existing_async(self._session):
            sent = await self._session.run_async(send(self._session, self._name, key, data))
        jobs = [async_handle(self._session, job) for job in sent.jobs]
        return Sent(sent.id, sent.name, sent.sent_at, jobs)


class Events:
    """The events sent through a server; ``client.aio.events`` has the same, awaited."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def find(
        self, *, name: str | None = None, after: str | None = None, limit: int = PAGE_DEFAULT
    ) -> SentEvents:
        """Return a page of the events that were sent (of one full name), newest first."""
        return self._session.run(find(self._session, name, after, limit))


class AsyncEvents:
    """The awaited face of Events."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def find(
        self, *, name: str | None = None, after: str | None = None, limit: int = PAGE_DEFAULT
    ) -> SentEvents:
        """Return a page of the events that were sent (of one full name), newest first."""
        return await self._session.run_async(find(self._session, name, after, limit))
