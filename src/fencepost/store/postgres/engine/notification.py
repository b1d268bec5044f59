"""Wake-up across machines: one thread listens to the server, and wakes whoever waits here.

A store has one connection that listens, opened with its first listener. If it breaks, it is opened
again with patience, and everybody is woken once, since news may have been missed. Nothing depends
on any of this: a wake-up that is lost costs a slow poll.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from contextlib import suppress

import psycopg

from fencepost.errors import FencepostError, StoreUnavailableError
from fencepost.observe import names
from fencepost.observe.log import log
from fencepost.store.interface.listener import Listener, Topic
from fencepost.store.memory.engine.notification import Bells
from fencepost.store.plan import Statement
from fencepost.store.postgres.engine.connections import Connections
from fencepost.store.postgres.engine.session import Session

CHANNELS = {"fencepost_ready": Topic.READY, "fencepost_settled": Topic.SETTLED}
RETRY_DELAY_MIN = 0.1
RETRY_DELAY_MAX = 5.0

_LISTEN = [Statement(f"listen {channel}") for channel in CHANNELS]


class Bell:
    """Hears the server's notifications for all listeners of one store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._bells = Bells()
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._is_heard = False
        self._stop_reader = self._stop_writer = -1

    def listen(self, topic: Topic) -> Listener:
        """Return a listener, which is woken once when the server is heard, or at once if it is."""
        self._connections.check()
        listener = self._bells.listen(topic)
        with self._mutex:
            if self._is_stopping:
                raise StoreUnavailableError("this store has been closed")
            if self._thread is None:
                self._stop_reader, self._stop_writer = os.pipe()
                self._thread = threading.Thread(
                    target=self._hear, name="fencepost-postgres-bell", daemon=True
                )
                self._thread.start()
            if self._is_heard:
                self._bells.ring((topic,))
        return listener

    def close(self) -> None:
        """End the thread, and let go whoever waits; a second call does nothing."""
        with self._mutex:
            was_stopping, self._is_stopping = self._is_stopping, True
            thread = self._thread
        self._bells.close()
        if thread is None or was_stopping:
            return
        os.write(self._stop_writer, b"!")
        thread.join()
        os.close(self._stop_reader)
        os.close(self._stop_writer)

    def _hear(self) -> None:
        delay = RETRY_DELAY_MIN
        while not self._is_stopping:
            try:
                with self._open() as session:
                    if session.is_pooled:
                        log(names.STORE_DEAF, level=logging.WARNING, url=self._shown)
                        return
                    session.ask(_LISTEN)
                    delay = RETRY_DELAY_MIN
                    with self._mutex:
                        self._is_heard = True
                    self._bells.ring(tuple(Topic))
                    self._relay(session)
            except (psycopg.Error, FencepostError, OSError):
                self._is_heard = False
                self._is_told_to_stop(self._connections.clock.rng.uniform(0.5, 1) * delay)
                delay = min(delay * 2, RETRY_DELAY_MAX)

    def _open(self) -> Session:
        return self._connections.open(self._connections.address.listen)

    @property
    def _shown(self) -> str:
        address = self._connections.address
        return (address.listen or address).shown

    def _relay(self, session: Session) -> None:
        """Ring for each notification until told to stop; raises when the connection ends."""
        pgconn = session.pgconn
        while True:
            topics: set[Topic] = set()
            while notification := pgconn.notifies():
                with suppress(KeyError):  # somebody else's LISTEN is none of ours
                    topics.add(CHANNELS[notification.relname.decode()])
            self._bells.ring(tuple(topics))
            if self._is_told_to_stop(None, pgconn.socket):
                return
            pgconn.consume_input()

    def _is_told_to_stop(self, timeout: float | None, *others: int) -> bool:
        """Wait until told to stop (True), or for *timeout* or one of *others* (False)."""
        poll = select.poll()  # unlike select(), at home in a process with a thousand files open
        for descriptor in (self._stop_reader, *others):
            poll.register(descriptor, select.POLLIN)
        readable = poll.poll(None if timeout is None else timeout * 1000)
        return any(descriptor == self._stop_reader for descriptor, _ in readable)
