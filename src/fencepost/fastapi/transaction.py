"""A dependency that submits jobs in the transaction of the request.

It depends on the dependency that gives the request its session or connection. FastAPI calls that
once for each request, so that both are the same object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from fastapi import params

from fencepost.errors import ConfigurationError
from fencepost.handles.events import EventHandle
from fencepost.handles.task import TaskHandle

P = ParamSpec("P")
R = TypeVar("R")


class Joining:
    """Tasks and events whose jobs are stored if, and only if, the request's transaction commits."""

    def __init__(self, conn: Any) -> None:
        self.conn = conn
        """The session or connection of the request."""

    @overload
    def __call__(self, handle: TaskHandle[P, R]) -> TaskHandle[P, R]: ...
    @overload
    def __call__(self, handle: EventHandle) -> EventHandle: ...
    def __call__(self, handle: Any) -> Any:
        """Return a task or an event as ``using(conn=…)`` does, for the transaction of the request.

        With an async session or connection, submit by ``.aio``.
        """
        return handle.using(conn=self.conn)


def joining(connection: Callable[..., Any] | params.Depends) -> Callable[..., Joining]:
    """Return a dependency that gives a Joining for what the dependency *connection* gives.

    *connection* is the function that your endpoints depend on for a session or a connection; or
    ``Depends(…)`` itself, if it has a scope, which has to be the same.
    """
    if isinstance(connection, params.Depends):
        depends = connection
    elif callable(connection):
        depends = params.Depends(connection)
    else:
        raise ConfigurationError(
            "joining() takes the dependency that gives a session or a connection: the function, or "
            "Depends(function, scope=…)"
        )

    def join(conn: Any = depends) -> Joining:
        return Joining(conn)

    return join
