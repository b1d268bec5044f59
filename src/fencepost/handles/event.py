"""Handles on events of an app: add handlers, and send; each handler that matches gets a job."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from fencepost.core.job.priority import Priority
from fencepost.core.job.retry import Retry
from fencepost.core.limits.concurrency import KeyRule
from fencepost.core.values.duration import Duration
from fencepost.core.values.names import DEFAULT_QUEUE
from fencepost.handles.decorators import TaskDecorator, Unannotated
from fencepost.handles.events import AsyncEventSender, EventReference, EventSender
from fencepost.handles.task import TaskHandle
from fencepost.worker import Context

if TYPE_CHECKING:
    from fencepost.actions.session import Session

P = ParamSpec("P")
R = TypeVar("R")


class _AppEvent(EventReference):
    """What both faces hold."""

    def __init__(
        self, session: Session, pattern: str, declare: Callable[..., Any], conn: Any = None
    ) -> None:
        super().__init__(session, pattern, conn)
        self._session = session
        self._pattern = pattern
        self._declare = declare

    @property
    def pattern(self) -> str:
        """The name of the event, or the pattern of the names, that is meant."""
        return self._pattern


class EventHandle(_AppEvent, EventSender):
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


class AsyncEventHandle(_AppEvent, AsyncEventSender):
    """The awaited face of EventHandle."""

    def using(self, *, conn: Any) -> AsyncEventHandle:
        """Return this event as one that is sent in the transaction of *conn*."""
        return AsyncEventHandle(self._session, self._pattern, self._declare, conn)
