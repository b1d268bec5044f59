"""Events of an app or a server: send them, and look at the record of what was sent."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from fencepost.actions.backend import Backend
from fencepost.actions.pages import SentEvents
from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.core.job.idempotency import check_key
from fencepost.handles.job import (
    AsyncJobHandle,
    JobHandle,
    async_handle,
    handle,
    naming_existing,
    naming_existing_async,
)
from fencepost.handles.part import BackendPart

H = TypeVar("H", JobHandle[Any], AsyncJobHandle[Any])


class Sent(msgspec.Struct, Generic[H], frozen=True):
    """An event that is on record, and the jobs that it came to: one a handler that matched."""

    id: str
    name: str
    sent_at: datetime
    jobs: list[H]
    """None when no handler of the app matches."""


class EventReference:
    """What both faces hold."""

    def __init__(self, backend: Backend, name: str, conn: Any = None) -> None:
        self._backend = backend
        self._name = name
        self._conn = conn

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}>"


class EventSender(EventReference):
    """What the handle on an event of an app and that of a server have in common."""

    def send(self, /, **data: Any) -> Sent[JobHandle[Any]]:
        """Record the event and a job for each handler that matches, all or none.

        The data are the handlers' keyword arguments, checked against each signature before
        anything is stored. When this returns, none of it can be lost.
        """
        return self._send(None, data)

    def send_idempotent(self, key: str, /, **data: Any) -> Sent[JobHandle[Any]]:
        """Send with *key* on every handler's job, unless one of them is live under it.

        Then raise DuplicateJobError with that job as ``existing``, and store nothing (C15).
        """
        return self._send(check_key(key), data)

    def _send(self, key: str | None, data: dict[str, Any]) -> Sent[JobHandle[Any]]:
        backend = self._backend
        with naming_existing(backend):
            sent = backend.run(backend.actions.events.send(self._name, key, data, self._conn))
        return Sent(sent.id, sent.name, sent.sent_at, [handle(backend, job) for job in sent.jobs])


class AsyncEventSender(EventReference):
    """The awaited face of EventSender."""

    async def send(self, /, **data: Any) -> Sent[AsyncJobHandle[Any]]:
        """Record the event and a job for each handler that matches, all or none.

        The data are the handlers' keyword arguments, checked against each signature before
        anything is stored. When this returns, none of it can be lost.
        """
        return await self._send(None, data)

    async def send_idempotent(self, key: str, /, **data: Any) -> Sent[AsyncJobHandle[Any]]:
        """Send with *key* on every handler's job, unless one of them is live under it.

        Then raise DuplicateJobError with that job as ``existing``, and store nothing (C15).
        """
        return await self._send(check_key(key), data)

    async def _send(self, key: str | None, data: dict[str, Any]) -> Sent[AsyncJobHandle[Any]]:
        backend = self._backend
        script = backend.actions.events.send(self._name, key, data, self._conn)
        async with naming_existing_async(backend):
            sent = await backend.run_async(script)
        jobs = [async_handle(backend, job) for job in sent.jobs]
        return Sent(sent.id, sent.name, sent.sent_at, jobs)


class Events(BackendPart):
    """The events that were sent; ``aio.events`` has the same methods, awaited."""

    def find(
        self, *, name: str | None = None, after: str | None = None, limit: int = PAGE_DEFAULT
    ) -> SentEvents:
        """Return a page of the events that were sent (of one full name), newest first."""
        return self._backend.run(self._actions.events.find(name, after, limit))


class AsyncEvents(BackendPart):
    """The awaited face of Events."""

    async def find(
        self, *, name: str | None = None, after: str | None = None, limit: int = PAGE_DEFAULT
    ) -> SentEvents:
        """Return a page of the events that were sent (of one full name), newest first."""
        return await self._backend.run_async(self._actions.events.find(name, after, limit))
