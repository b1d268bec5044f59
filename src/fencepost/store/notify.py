"""Notification: which listeners an operation wakes, and listeners within one process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from fencepost.core.job.lifecycle import TERMINAL, State
from fencepost.store.interface.queue import Claim, Moved, Settled, Spawned
from fencepost.store.interface.records.crons import Fired
from fencepost.store.interface.store import Topic
from fencepost.store.plan import Operation, Wakes


def topics_of(operation: Operation[Any], result: Any) -> set[Topic]:
    """Return the topics that the result of an operation may concern."""
    topics: set[Topic] = set()
    wakes = operation.declaration.wakes
    if wakes is Wakes.READY or (wakes is Wakes.IF_FIRED and _has_fired(result)):
        topics.add(Topic.READY)
    moves = _moves(result)
    states = {reply.state for reply in moves}
    states.update(moved.state for reply in moves for moved in reply.followed)
    states.update(moved.state for moved in _moved_by_spawning(result))
    if State.SCHEDULED in states:
        topics.add(Topic.READY)
    if not states.isdisjoint(TERMINAL):
        topics.add(Topic.SETTLED)
    return topics


def _moved_by_spawning(result: Any) -> list[Moved]:
    replies = result if isinstance(result, list) else []
    return [moved for each in replies if isinstance(each, Spawned) for moved in each.followed]


def _moves(result: Any) -> Sequence[Moved | Settled]:
    if isinstance(result, Claim):
        return [*result.recovered, *result.expired, *result.corrupt, *result.followed]
    if isinstance(result, list):
        return [reply for reply in result if isinstance(reply, (Moved, Settled))]
    return []


def _has_fired(result: Any) -> bool:
    """Return whether a cron made jobs; most workers that try to fire a tick come too late."""
    return any(isinstance(reply, Fired) and reply.jobs for reply in result)


class Listeners:
    """The listeners of each topic in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[Topic, list[LocalListener]] = {topic: [] for topic in Topic}

    def listen(self, topic: Topic) -> LocalListener:
        listener = LocalListener(self, topic)
        with self._lock:
            self._listeners[topic].append(listener)
        return listener

    def wake(self, topics: Iterable[Topic]) -> None:
        """Wake every listener of *topics*."""
        for listener in self._all(topics):
            listener.wake()

    def close(self) -> None:
        for listener in self._all(Topic):
            listener.close()

    def forget(self, listener: LocalListener) -> None:
        with self._lock, suppress(ValueError):
            self._listeners[listener.topic].remove(listener)

    def _all(self, topics: Iterable[Topic]) -> list[LocalListener]:
        with self._lock:
            return [listener for topic in topics for listener in self._listeners[topic]]


class LocalListener:
    """Keeps a wake-up until a wait consumes it, so that an early one is not lost."""

    def __init__(self, listeners: Listeners, topic: Topic) -> None:
        self.topic = topic
        self._listeners = listeners
        self._condition = threading.Condition()
        self._is_woken = False
        self._is_closed = False
        self._futures: list[asyncio.Future[None]] = []

    def wake(self) -> None:
        """End the present wait, or else the next one."""
        with self._condition:
            self._is_woken = True
            self._wake()

    def wait(self, timeout: float) -> bool:
        """Block until woken (True) or *timeout* seconds passed (False)."""
        with self._condition:
            self._condition.wait_for(lambda: self._is_woken or self._is_closed, timeout)
            return self._consume()

    async def wait_async(self, timeout: float) -> bool:
        """Do the same without blocking the event loop; a cancelled wait consumes nothing."""
        future = asyncio.get_running_loop().create_future()
        with self._condition:
            if self._is_woken or self._is_closed:
                return self._consume()
            self._futures.append(future)
        try:
            await asyncio.wait((future,), timeout=timeout)
        finally:
            with self._condition:
                self._futures.remove(future)
        with self._condition:
            return self._consume()

    def close(self) -> None:
        """Stop listening, and end waits."""
        self._listeners.forget(self)
        with self._condition:
            self._is_closed = True
            self._wake()

    def _consume(self) -> bool:
        was_woken, self._is_woken = self._is_woken, False
        return was_woken

    def _wake(self) -> None:
        self._condition.notify_all()
        for future in self._futures:
            # Its loop may have ended meanwhile.
            with suppress(RuntimeError):
                future.get_loop().call_soon_threadsafe(_resolve, future)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
