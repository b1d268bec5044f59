"""Wake-ups across machines: notifications are sent after the commit and received by one listener.

A store has one listening connection, opened with its first listener. If it breaks, it is opened
again with growing delays and every listener is woken once, since notifications may have been
missed.

A transaction that notifies holds a lock of the whole server until it is on the disk, so that all
such transactions would commit one by one. Notifications are therefore sent apart, without waiting
for the disk, which costs one round trip; those that come while one is under way go out together.

Nothing depends on any of this: a notification that is lost, with a process that dies or otherwise,
costs a slow poll.
"""

from __future__ import annotations

import atexit
import logging
import socket
import threading
import weakref
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg

from fencepost.errors import FencepostError, StoreUnavailableError
from fencepost.observe import names
from fencepost.observe.log import log
from fencepost.platform.sockets import READABLE, poller
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.interface.store import Listener, Topic
from fencepost.store.notify import Listeners
from fencepost.store.plan import Operation, Statement, declaration_of
from fencepost.store.postgres.engine.connections import Connections
from fencepost.store.postgres.engine.session import ServerSession
from fencepost.store.postgres.engine.transaction import RELAX

CHANNELS = {"fencepost_ready": Topic.READY, "fencepost_settled": Topic.SETTLED}
RETRY_DELAY_MIN = 0.1
RETRY_DELAY_MAX = 5.0
SPACING = 0.002
"""Seconds between two notifications, at least."""
SEND_TIMEOUT = 5.0
"""Seconds to wait for a silent server; closing the store waits for it, too."""

ENQUEUE = declaration_of(QueueFacet.enqueue)
NOTIFY = {topic: Statement(f"select pg_notify('{name}', '')") for name, topic in CHANNELS.items()}
_LISTEN = [Statement(f"listen {channel}") for channel in CHANNELS]


class NotificationReceiver:
    """Receives the server's notifications for all listeners of one store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._listeners = Listeners()
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._is_listening = False
        self._stop_ends: tuple[socket.socket, socket.socket] | None = None

    def listen(self, topic: Topic) -> Listener:
        """Return a listener, which is woken once as soon as the server is listened to."""
        self._connections.check()
        listener = self._listeners.listen(topic)
        with self._mutex:
            if self._is_stopping:
                raise StoreUnavailableError("this store has been closed")
            if self._thread is None:
                self._stop_ends = socket.socketpair()  # Windows can wait for no pipe
                self._thread = threading.Thread(
                    target=self._receive, name="fencepost-postgres-listener", daemon=True
                )
                self._thread.start()
            if self._is_listening:
                self._listeners.wake((topic,))
        return listener

    def close(self) -> None:
        """End the thread and every wait; a second call does nothing."""
        with self._mutex:
            was_stopping, self._is_stopping = self._is_stopping, True
            thread = self._thread
        self._listeners.close()
        if thread is None or was_stopping:
            return
        assert self._stop_ends is not None
        self._stop_ends[1].send(b"!")
        thread.join()
        for end in self._stop_ends:
            end.close()

    def _receive(self) -> None:
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
                        self._is_listening = True
                    self._listeners.wake(tuple(Topic))
                    self._relay(session)
            except (psycopg.Error, FencepostError, OSError):
                self._is_listening = False
                self._should_stop(self._connections.clock.rng.uniform(0.5, 1) * delay)
                delay = min(delay * 2, RETRY_DELAY_MAX)

    def _open(self) -> ServerSession:
        return self._connections.open(self._connections.address.listen)

    @property
    def _shown(self) -> str:
        address = self._connections.address
        return (address.listen or address).shown

    def _relay(self, session: ServerSession) -> None:
        """Wake listeners for each notification until stopped; raises when the connection ends."""
        pgconn = session.pgconn
        while True:
            topics: set[Topic] = set()
            while notification := pgconn.notifies():
                with suppress(KeyError):  # another program's channel
                    topics.add(CHANNELS[notification.relname.decode()])
            self._listeners.wake(tuple(topics))
            if self._should_stop(None, pgconn.socket):
                return
            pgconn.consume_input()

    def _should_stop(self, timeout: float | None, *others: int) -> bool:
        """Wait until the store closes (True), or for *timeout* or one of *others* (False)."""
        assert self._stop_ends is not None
        waiting, stop = poller(), self._stop_ends[0].fileno()
        for descriptor in (stop, *others):
            waiting.register(descriptor, READABLE)
        readable = waiting.poll(None if timeout is None else timeout * 1000)
        return any(descriptor == stop for descriptor, _ in readable)


class NotificationSender:
    """Sends notifications from a thread that the first of them starts."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._changed = threading.Condition()
        self._unsent: set[Topic] = set()
        self._sent: set[int] = set()
        """Operations whose notification was sent behind their commit."""
        self._sent_at = -SPACING
        self._is_sending = False
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._at_exit = partial(_flush, weakref.ref(self))

    def postscript(self, operations: Sequence[Operation[Any]]) -> Sequence[Statement]:
        """Return what notifies of *operations* behind their commit, if that is due.

        Only for submissions, which nearly always make jobs claimable.
        """
        submitting = {id(each) for each in operations if each.declaration is ENQUEUE}
        if not submitting:
            return ()
        with self._changed:
            self._sent -= submitting  # an earlier try was rolled back
            now = self._connections.clock.monotonic()
            if now < self._sent_at + SPACING:
                return ()
            self._sent_at = now
            self._sent |= submitting
        return (RELAX, NOTIFY[Topic.READY])

    def forget(self, operation: Operation[Any]) -> None:
        """Note that *operation* has failed."""
        with self._changed:
            self._sent.discard(id(operation))

    def send(self, operation: Operation[Any], topics: AbstractSet[Topic]) -> None:
        """Notify of *topics* soon, unless that was done behind the commit of *operation*."""
        if id(operation) in self._sent:
            self.forget(operation)
            topics = topics - {Topic.READY}
        if not topics:
            return
        with self._changed:
            self._unsent |= topics
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="fencepost-postgres-notifier", daemon=True
                )
                self._thread.start()
                # A script that submits and ends would otherwise send nothing.
                atexit.register(self._at_exit)
            self._changed.notify()

    def flush(self, timeout: float = 1.0) -> None:
        """Wait until everything is sent, or for *timeout*."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._unsent or self._is_sending), timeout)

    def close(self) -> None:
        """Send what is unsent, then end the thread; a second call does nothing."""
        with self._changed:
            thread, self._thread = self._thread, None
            self._is_stopping.set()
            self._changed.notify()
        if thread is not None:
            thread.join()
        atexit.unregister(self._at_exit)  # or each store that was ever opened leaves one

    def _work(self) -> None:
        while True:
            with self._changed:
                self._is_sending = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._unsent or self._is_stopping.is_set())
                if not self._unsent:
                    return
                topics, self._unsent = self._unsent, set()
                self._is_sending = True
                self._sent_at = self._connections.clock.monotonic()
            # Should it fail, listeners poll.
            with suppress(psycopg.Error, FencepostError), self._connections.lend() as session:
                session.answer_timeout = SEND_TIMEOUT
                session.ask([RELAX, *(NOTIFY[topic] for topic in topics)])
            self._is_stopping.wait(SPACING)


def _flush(reference: weakref.ref[NotificationSender]) -> None:
    sender = reference()
    if sender is not None:
        sender.flush()
