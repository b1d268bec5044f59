"""Handles on events: send them, declare their handlers, and list the events that were sent."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from fencepost.actions.backend import Backend, Script
from fencepost.actions.replies import SentEvents, StoredEvent
from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.core.job.idempotency import check_key
from fencepost.handles.job import AsyncJobHandle, Awaited, BackendPart, Blocking, JobHandle

if TYPE_CHECKING:
    from fencepost.handles.decorators import TaskDeclarer

H = TypeVar("H", JobHandle[Any], AsyncJobHandle[Any])


class SentHandle(msgspec.Struct, Generic[H], frozen=True):
    """An event that was recorded, and the jobs of the handlers that matched."""

    id: str
    name: str
    sent_at: datetime
    jobs: list[H]
    """Empty when no handler of the app matches."""


class EventReference(BackendPart):
    """What both faces hold."""

    def __init__(self, backend: Backend, name: str, conn: Any = None) -> None:
        super().__init__(backend)
        self._name = name
        self._conn = conn

    def _script(self, key: str | None, data: dict[str, Any]) -> Script[StoredEvent]:
        return self._actions.events.send(self._name, key, data, self._conn)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}>"


class EventSender(EventReference, Blocking):
    """What the handle on an event of an app and that of a server have in common."""

    def send(self, /, **data: Any) -> SentHandle[JobHandle[Any]]:
        """Record the event and a job for each handler that matches, all or none.

        The data are the handlers' keyword arguments, checked against each signature before
        anything is stored. When this returns, none of it can be lost.
        """
        return self._send(None, data)

    def send_idempotent(self, key: str, /, **data: Any) -> SentHandle[JobHandle[Any]]:
        """Send with *key* on every handler's job, unless one of them is live with that key.

        Then raise DuplicateJobError with that job as ``existing``, and store nothing (C15).
        """
        return self._send(check_key(key), data)

    def _send(self, key: str | None, data: dict[str, Any]) -> SentHandle[JobHandle[Any]]:
        sent = self._run_keyed(self._script(key, data))
        return SentHandle(
            sent.id, sent.name, sent.sent_at, [self._handle(job) for job in sent.jobs]
        )


class AsyncEventSender(EventReference, Awaited):
    """The awaited face of EventSender."""

    async def send(self, /, **data: Any) -> SentHandle[AsyncJobHandle[Any]]:
        """Record the event and a job for each handler that matches, all or none."""
        return await self._send(None, data)

    async def send_idempotent(self, key: str, /, **data: Any) -> SentHandle[AsyncJobHandle[Any]]:
        """Send with *key* on every handler's job, unless one of them is live with that key."""
        return await self._send(check_key(key), data)

    async def _send(self, key: str | None, data: dict[str, Any]) -> SentHandle[AsyncJobHandle[Any]]:
        sent = await self._run_keyed(self._script(key, data))
        return SentHandle(
            sent.id, sent.name, sent.sent_at, [self._handle(job) for job in sent.jobs]
        )


class _AppEvent(EventReference):
    """What both faces of an app's event hold."""

    def __init__(self, declarer: TaskDeclarer, pattern: str, conn: Any = None) -> None:
        super().__init__(declarer.session, pattern, conn)
        self._declarer = declarer

    @property
    def pattern(self) -> str:
        """The name of the event, or a pattern of names."""
        return self._name


class EventHandle(_AppEvent, EventSender):
    """An event of an app, or all whose names match a pattern; ``aio`` is the awaited face."""

    @property
    def aio(self) -> AsyncEventHandle:
        return AsyncEventHandle(self._declarer, self._name, self._conn)

    @property
    def on(self) -> TaskDeclarer:
        """Make a function a handler: ``@event.on``, or ``@event.on(queue="mail", …)``.

        It is a task with the options of ``app.task``, and gets a job for each matching event.
        """
        return self._declarer.for_event(self._name)

    def using(self, *, conn: Any) -> EventHandle:
        """Return this event as one that is sent in the transaction of *conn*."""
        return EventHandle(self._declarer, self._name, conn)


class AsyncEventHandle(_AppEvent, AsyncEventSender):
    """The awaited face of EventHandle."""

    def using(self, *, conn: Any) -> AsyncEventHandle:
        """Return this event as one that is sent in the transaction of *conn*."""
        return AsyncEventHandle(self._declarer, self._name, conn)


class Events(Blocking):
    """The events that were sent; ``aio.events`` has the same methods, awaited."""

    def find(
        self, *, name: str | None = None, after: str | None = None, limit: int = PAGE_DEFAULT
    ) -> SentEvents:
        """Return a page of the events that were sent (of one full name), newest first."""
        return self._run(self._actions.events.find(name, after, limit))


class AsyncEvents(Awaited):
    """The awaited face of Events."""

    async def find(
        self, *, name: str | None = None, after: str | None = None, limit: int = PAGE_DEFAULT
    ) -> SentEvents:
        """Return a page of the events that were sent (of one full name), newest first."""
        return await self._run(self._actions.events.find(name, after, limit))
