"""Handles on events: add handlers, and send; every handler that matches gets a job of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

import msgspec

from fencepost.actions.options import Options, new_job
from fencepost.actions.session import Session
from fencepost.core.events import NewEvent, check_event_name, matches
from fencepost.core.job.idempotency import OnDuplicate, check_key
from fencepost.core.job.job import NewJob
from fencepost.core.job.priority import Priority
from fencepost.core.job.retry import Retry
from fencepost.core.job.task import Task
from fencepost.core.limits.concurrency import KeyRule
from fencepost.core.values.duration import Duration
from fencepost.core.values.names import DEFAULT_QUEUE
from fencepost.core.values.payload import check_size, encode_json
from fencepost.errors import InvalidPayloadError
from fencepost.handles.decorators import TaskDecorator, Unannotated
from fencepost.handles.job import (
    AsyncJobHandle,
    JobHandle,
    naming_existing,
    naming_existing_async,
)
from fencepost.handles.task import TaskHandle, async_handle, check_bulk, handle
from fencepost.observe import names
from fencepost.observe.log import log
from fencepost.store.interface.events import EventReply
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation
from fencepost.worker import Context

P = ParamSpec("P")
R = TypeVar("R")
H = TypeVar("H", JobHandle[Any], AsyncJobHandle[Any])


class Sent(msgspec.Struct, Generic[H], frozen=True):
    """An event that is on record, and the jobs that it came to: one a handler that matched."""

    id: str
    name: str
    sent_at: datetime
    jobs: list[H]
    """None when no handler of this app matches."""


class _Handle:
    """What both faces of an event handle hold."""

    def __init__(
        self,
        session: Session,
        pattern: str,
        declare: Callable[..., Any],
        conn: Any = None,
    ) -> None:
        self._session = session
        self._pattern = pattern
        self._declare = declare
        self._conn = conn

    @property
    def pattern(self) -> str:
        """The name of the event, or the pattern of the names, that is meant."""
        return self._pattern

    def _prepare(
        self, key: str | None, data: dict[str, Any]
    ) -> Callable[[Store], Operation[EventReply]]:
        """Return what sends the event, checked against every handler; nothing is stored yet."""
        event, jobs = prepare_event(
            self._session, self._pattern, key, data, on_duplicate=OnDuplicate.REJECT
        )
        return lambda store: self._session.in_time(store.events.send(event, jobs))

    def _note(self, reply: EventReply) -> EventReply:
        return note_unhandled(self._session, reply)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._pattern}>"


def prepare_event(
    session: Session,
    name: str,
    key: str | None,
    data: dict[str, Any],
    *,
    on_duplicate: OnDuplicate,
) -> tuple[NewEvent, list[NewJob]]:
    """Return an event and the jobs of its handlers, checked against each; nothing is stored yet.

    A key is held while its job is live (C15), for each handler by itself.
    """
    name = check_event_name(name)
    payload = check_size(encode_json(data), session.max_payload)
    options = Options(key=key, key_window=None, on_duplicate=on_duplicate)
    handlers = [
        task
        for task in session.tasks.values()
        if task.event is not None and matches(task.event, name)
    ]
    jobs = check_bulk([_job_for(session, task, name, data, options) for task in handlers])
    return NewEvent(name, payload, key), session.carrying(jobs)


def note_unhandled(session: Session, reply: EventReply) -> EventReply:
    """Say that no handler matched: most often the module that has them was not imported."""
    if not reply.jobs:
        event = reply.event
        session.counters.add(names.EVENT_UNHANDLED)
        log(names.EVENT_UNHANDLED, level=logging.WARNING, id=event.id, name=event.name)
    return reply


def _job_for(
    session: Session, task: Task, name: str, data: dict[str, Any], options: Options
) -> NewJob:
    try:
        payload = task.signature.encode((), data)
    except InvalidPayloadError as error:
        raise InvalidPayloadError(
            f"handler {task.type!r} does not take what {name!r} was sent with: {error}"
        ) from None
    return new_job(task, check_size(payload, session.max_payload), options)


class EventHandle(_Handle):
    """An event of an app, or all that a pattern means; ``aio`` has the same methods, awaited."""

    @property
    def aio(self) -> AsyncEventHandle:
        return AsyncEventHandle(self._session, self._pattern, self._declare, self._conn)

    @overload
    def on(
        self, function: Callable[Concatenate[Unannotated, ...], Coroutine[Any, Any, R]], /
    ) -> TaskHandle[..., R]: ...
    @overload
    def on(self, function: Callable[Concatenate[Unannotated, ...], R], /) -> TaskHandle[..., R]: ...
    @overload
    def on(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> TaskHandle[P, R]: ...
    @overload
    def on(self, function: Callable[Concatenate[Context, P], R], /) -> TaskHandle[P, R]: ...
    @overload
    def on(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> TaskHandle[P, R]: ...
    @overload
    def on(self, function: Callable[P, R], /) -> TaskHandle[P, R]: ...
    @overload
    def on(
        self,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: Priority | int | str = Priority.NORMAL,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        lease_ttl: Duration | None = None,
        lifetime: Duration | None = None,
        isolation: Literal["process", "thread", "loop"] | None = None,
        rate: str | None = None,
        concurrency_key: KeyRule | None = None,
        max_running_per_key: int | None = None,
    ) -> TaskDecorator: ...

    def on(  # type: ignore[misc]  # mypy asks of keyword-only overload 7 what it does not say
        self, function: Any = None, /, **options: Any
    ) -> Any:
        """Make a function a handler: ``@event.on``, or ``@event.on(queue="mail", …)``.

        It is a task like any other, with the options of ``app.task``, and gets a job for each
        event that the pattern means.
        """
        return self._declare(function, event=self._pattern, **options)

    def using(self, *, conn: Any) -> EventHandle:
        """Return this event as one that is sent in the transaction of *conn*."""
        return EventHandle(self._session, self._pattern, self._declare, conn)

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
        make, session = self._prepare(key, data), self._session
        with naming_existing(session):
            if self._conn is None:
                reply = session.store.run(make(session.store))
            else:
                reply = session.store.run_in(self._conn, make)
        jobs = [handle(session, job) for job in self._note(reply).jobs]
        return Sent(reply.event.id, reply.event.name, reply.event.sent_at, jobs)


class AsyncEventHandle(_Handle):
    """The awaited face of EventHandle."""

    def using(self, *, conn: Any) -> AsyncEventHandle:
        """Return this event as one that is sent in the transaction of *conn*."""
        return AsyncEventHandle(self._session, self._pattern, self._declare, conn)

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
        make, session = self._prepare(key, data), self._session
        async with naming_existing_async(session):
            if self._conn is None:
                reply = await session.store.run_async(make(session.store))
            else:
                reply = await session.store.run_in_async(self._conn, make)
        jobs = [async_handle(session, job) for job in self._note(reply).jobs]
        return Sent(reply.event.id, reply.event.name, reply.event.sent_at, jobs)
