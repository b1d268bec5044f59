"""Django's database connections around an attempt, in the thread that runs it.

A request of Django begins and ends with ``close_old_connections``; a job has no request. Without it
a thread whose connection broke, because PostgreSQL was restarted, would fail every job from then
on. So each handler of a Django project is wrapped in this:

- a ``def`` handler keeps the connections of its thread, as CONN_MAX_AGE says, but each is tested
  before the first query of the attempt;
- an ``async def`` handler gets a thread of its own for its queries, as a request under ASGI does,
  and its connections are closed when it ends.

Outside of a worker, in tests and where a task is called as a function, it does nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections, reset_queries

from fencepost.observe.log import current_job

_is_inside: ContextVar[bool] = ContextVar("fencepost_django_attempt", default=False)


def with_connections(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* with this around every call that an attempt makes."""
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            if not _is_attempt():
                return await function(*args, **kwargs)
            with _inside():
                async with ThreadSensitiveContext():
                    try:
                        return await function(*args, **kwargs)
                    finally:
                        await sync_to_async(connections.close_all)()

        return call_async

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not _is_attempt():
            return function(*args, **kwargs)
        with _inside(), fresh_connections():
            return function(*args, **kwargs)

    return call


@contextmanager
def fresh_connections() -> Iterator[None]:
    """Let this thread use no connection that is broken or too old, and leave none behind."""
    reset_queries()
    close_old_connections()
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:  # that of a test, which must not lose it
            # As CONN_HEALTH_CHECKS does for requests: a job may come hours after the last one.
            connection.health_check_enabled = True
    try:
        yield
    finally:
        close_old_connections()


def _is_attempt() -> bool:
    """Return whether a worker calls a handler now: not if a handler calls another one."""
    return current_job.get() is not None and not _is_inside.get()


@contextmanager
def _inside() -> Iterator[None]:
    token = _is_inside.set(True)
    try:
        yield
    finally:
        _is_inside.reset(token)
