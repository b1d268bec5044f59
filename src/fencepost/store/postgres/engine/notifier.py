"""Tells other processes of news, after the commit and beside it.

A transaction that notifies holds a lock of the whole server until it is on the disk, so that all
of them would commit one by one. News sent apart, without waiting for the disk, cost no more than
their round trip; those that come while one is under way go out together. What a process that
dies has not told is found by the slow poll.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

import psycopg

from fencepost.errors import FencepostError
from fencepost.store.interface.listener import Topic
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.plan import Operation, Statement, declaration_of
from fencepost.store.postgres.engine.connections import Connections
from fencepost.store.postgres.engine.notification import CHANNELS
from fencepost.store.postgres.engine.transaction import RELAX

SPACING = 0.002
"""Seconds between two tellings, at least."""
TELL_TIMEOUT = 5.0
"""Seconds for which a silent server is waited for; whoever closes the store waits too."""

ENQUEUE = declaration_of(QueueFacet.enqueue)
NOTIFY = {topic: Statement(f"select pg_notify('{name}', '')") for name, topic in CHANNELS.items()}


class Ringer:
    """Sends what is to be told, from a thread of its own that the first news start."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._news = threading.Condition()
        self._untold: set[Topic] = set()
        self._told: set[int] = set()
        """Operations whose news went out behind their commit."""
        self._told_at = -SPACING
        self._is_telling = False
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._at_exit = partial(_flush, weakref.ref(self))

    def postscript(self, operations: Sequence[Operation[Any]]) -> Sequence[Statement]:
        """Return what tells of *operations* behind their commit, if that is due.

        Only of submissions, which nearly always make jobs claimable.
        """
        told = {id(operation) for operation in operations if operation.declaration is ENQUEUE}
        if not told:
            return ()
        with self._news:
            self._told -= told  # what an earlier try told was of nothing
            now = self._connections.clock.monotonic()
            if now < self._told_at + SPACING:
                return ()
            self._told_at = now
            self._told |= told
        return (RELAX, NOTIFY[Topic.READY])

    def forget(self, operation: Operation[Any]) -> None:
        """Note that *operation* has failed."""
        with self._news:
            self._told.discard(id(operation))

    def ring(self, operation: Operation[Any], topics: AbstractSet[Topic]) -> None:
        """Have *topics* told soon, as far as they were not told behind the commit."""
        if id(operation) in self._told:
            self.forget(operation)
            topics = topics - {Topic.READY}
        if not topics:
            return
        with self._news:
            self._untold |= topics
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._tell_on, name="fencepost-postgres-ringer", daemon=True
                )
                self._thread.start()
                # A script that submits and ends would take its news with it.
                atexit.register(self._at_exit)
            self._news.notify()

    def flush(self, timeout: float = 1.0) -> None:
        """Wait until all is told, or for so long."""
        with self._news:
            self._news.wait_for(lambda: not (self._untold or self._is_telling), timeout)

    def close(self) -> None:
        """Tell what is untold, then end the thread; a second call does nothing."""
        with self._news:
            thread, self._thread = self._thread, None
            self._is_stopping.set()
            self._news.notify()
        if thread is not None:
            thread.join()
        atexit.unregister(self._at_exit)  # or each store that was ever opened leaves one

    def _tell_on(self) -> None:
        while True:
            with self._news:
                self._is_telling = False
                self._news.notify_all()
                self._news.wait_for(lambda: self._untold or self._is_stopping.is_set())
                if not self._untold:
                    return
                topics, self._untold = self._untold, set()
                self._is_telling = True
                self._told_at = self._connections.clock.monotonic()
            try:
                with self._connections.lend() as session:
                    session.answer_timeout = TELL_TIMEOUT
                    session.ask([RELAX, *(NOTIFY[topic] for topic in topics)])
            except (psycopg.Error, FencepostError):
                pass  # whoever waits polls
            self._is_stopping.wait(SPACING)


def _flush(reference: weakref.ref[Ringer]) -> None:
    ringer = reference()
    if ringer is not None:
        ringer.flush()
