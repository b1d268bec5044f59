"""Waking those who wait for news, in other threads and on event loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress

from fencepost.store.interface.listener import Topic


class Bells:
    """One bell a topic, and who listens to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[Topic, list[MemoryListener]] = {topic: [] for topic in Topic}

    def listen(self, topic: Topic) -> MemoryListener:
        listener = MemoryListener(self, topic)
        with self._lock:
            self._listeners[topic].append(listener)
        return listener

    def ring(self, topics: Sequence[Topic]) -> None:
        """Wake every listener of *topics*."""
        for listener in self._all(topics):
            listener.ring()

    def close(self) -> None:
        """Let nobody wait for news that cannot come any more."""
        for listener in self._all(tuple(Topic)):
            listener.close()

    def forget(self, listener: MemoryListener) -> None:
        with self._lock, suppress(ValueError):
            self._listeners[listener.topic].remove(listener)

    def _all(self, topics: Sequence[Topic]) -> list[MemoryListener]:
        with self._lock:
            return [listener for topic in topics for listener in self._listeners[topic]]


class MemoryListener:
    """Keeps a wake-up until a wait consumes it, so that one which comes early is not lost."""

    def __init__(self, bells: Bells, topic: Topic) -> None:
        self.topic = topic
        self._bells = bells
        self._condition = threading.Condition()
        self._is_rung = False
        self._is_closed = False
        self._futures: list[asyncio.Future[None]] = []

    def ring(self) -> None:
        """Wake whoever waits, or else whoever waits next."""
        with self._condition:
            self._is_rung = True
            self._wake()

    def wait(self, timeout: float) -> bool:
        """Block until news came (True) or *timeout* seconds passed (False)."""
        with self._condition:
            self._condition.wait_for(lambda: self._is_rung or self._is_closed, timeout)
            return self._consume()

    async def wait_async(self, timeout: float) -> bool:
        """Do the same without blocking the event loop; a cancelled wait consumes nothing."""
        future = asyncio.get_running_loop().create_future()
        with self._condition:
            if self._is_rung or self._is_closed:
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
        """Stop listening; whoever waits is let go."""
        self._bells.forget(self)
        with self._condition:
            self._is_closed = True
            self._wake()

    def _consume(self) -> bool:
        was_rung, self._is_rung = self._is_rung, False
        return was_rung

    def _wake(self) -> None:
        self._condition.notify_all()
        for future in self._futures:
            # A loop that has ended meanwhile has nobody left to wake.
            with suppress(RuntimeError):
                future.get_loop().call_soon_threadsafe(_resolve, future)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
