"""Waking listeners in other processes: published words, heard by a thread for each topic.

News that jobs have ended goes to every process that listens for it. A job that can be claimed wakes
one idle worker: the claim that finds too little notes this process as idle, and the script that
stores a job takes such a note and publishes a word to this process alone (``wake.lua``). So a
hundred idle workers do not all ask for one job. A change of settings wakes all, and so does every
job those processes that listen and have made no claim.

A notification may be lost while a connection is down, or with a process that was woken and ended;
listeners poll as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import redis.exceptions as theirs

from fencepost.errors import StoreError
from fencepost.store.interface.store import Listener, Topic
from fencepost.store.notify import Listeners, LocalListener
from fencepost.store.redis.engine.connections import Connections
from fencepost.store.redis.jobs.catalog import Env, pack

PAUSE, PAUSE_MAX = 0.2, 5.0
"""Seconds between attempts to connect again, twice as long after each."""
POLL = 0.5


class Notifier:
    """Publishes what happened here, and wakes the listeners of this process."""

    def __init__(self, connections: Connections, env: Env) -> None:
        self._connections = connections
        self._env = env
        self._listeners = Listeners()
        self._lock = threading.Lock()
        self._ears: dict[Topic, _Ear] = {}

    def share(self, listeners: Listeners) -> None:
        """Wake these instead, which belong to several stores at once."""
        self._listeners = listeners

    def commands(self, topics: Iterable[Topic]) -> list[list[bytes]]:
        """Return the commands that publish *topics* to all."""
        return [[b"PUBLISH", self._env.key("news", topic.value), b"all"] for topic in topics]

    def wake(self, topics: Iterable[Topic]) -> None:
        """Wake the listeners of this process at once."""
        self._listeners.wake(topics)

    def listen(self, topic: Topic) -> Listener:
        """Return a listener; what is published from now on wakes it."""
        listener = self._listeners.listen(topic)
        with self._lock:
            ear = self._ears.get(topic)
            if ear is None:
                ear = self._ears[topic] = _Ear(self._connections, self._env, topic, self._listeners)
                ear.start()
            ear.count += 1
        ear.is_listening.wait(1.0)
        return _Counted(listener, ear, self._leave)

    def _leave(self, ear: _Ear) -> None:
        """One less listens: with the last one, claims no longer note this process as idle."""
        with self._lock:
            ear.count -= 1
            if not ear.count and ear.topic is Topic.READY:
                del self._ears[ear.topic]
                ear.close()

    def close(self) -> None:
        for ear in self._ears.values():
            ear.close()
        self._listeners.close()


class _Counted:
    """A listener that says when it is closed."""

    def __init__(self, listener: LocalListener, ear: _Ear, leave: Callable[[_Ear], None]) -> None:
        self._listener = listener
        self._ear: _Ear | None = ear
        self._leave = leave

    def wait(self, timeout: float) -> bool:
        return self._listener.wait(timeout)

    async def wait_async(self, timeout: float) -> bool:
        return await self._listener.wait_async(timeout)

    def close(self) -> None:
        self._listener.close()
        ear, self._ear = self._ear, None
        if ear is not None:
            self._leave(ear)


class _Ear:
    """A thread that hears the words of one topic, and those for this process alone."""

    def __init__(
        self, connections: Connections, env: Env, topic: Topic, listeners: Listeners
    ) -> None:
        self._connections = connections
        self._env = env
        self.topic = topic
        self._listeners = listeners
        self._name = env.clock.new_token().encode()
        self._is_closed = threading.Event()
        self._failures = 0
        self.count = 0
        """How many listen."""
        self.is_listening = threading.Event()

    def start(self) -> None:
        if self.topic is Topic.READY:
            self._env.held.listener, self._env.held.has_claimed = self._name, False
        threading.Thread(
            target=self._hear, name=f"fencepost-redis-{self.topic.value}", daemon=True
        ).start()

    def close(self) -> None:
        self._is_closed.set()
        if self._env.held.listener == self._name:
            self._env.held.listener = None

    def _hear(self) -> None:
        while not self._is_closed.is_set():
            with suppress(theirs.RedisError, OSError):
                self._subscribe()
            self.is_listening.clear()
            self._listeners.wake([self.topic])  # what came meanwhile was not heard
            pause = min(PAUSE * 2**self._failures, PAUSE_MAX)
            self._failures += 1
            self._is_closed.wait(pause)
        if self.topic is Topic.READY:
            with suppress(StoreError):
                forget = [b"HDEL", self._env.key("sleepers"), self._name]
                self._connections.run("read", b"", pack([forget]))

    def _subscribe(self) -> None:
        client: Any = self._connections.client()
        key = self._env.key
        channels = [key("news", self.topic.value)]
        lines = key("news", "lines")
        if self.topic is Topic.READY:
            channels += [key("wake", self._name), lines]
        with client.pubsub() as heard:
            heard.subscribe(*channels)
            expected = len(channels)
            while not self._is_closed.is_set():
                message = heard.get_message(timeout=POLL)
                kind = None if message is None else message["type"]
                if kind == "subscribe":
                    expected -= 1
                    if not expected:
                        self._failures = 0
                        self.is_listening.set()
                elif kind == "message" and message["channel"] == lines:
                    if self._env.held.has_claimed:
                        heard.unsubscribe(lines)  # from now on claims say when to wake us
                    else:
                        self._listeners.wake([self.topic])
                elif kind == "message":
                    self._listeners.wake([self.topic])
        client.close()
