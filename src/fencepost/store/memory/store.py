"""The memory store: one SQLite connection in memory, and a lock that runs one operation at a time.

It runs the plans of the SQLite store. What that needs for a file (the side-car lock, group commit,
the log, forced writes) is not here: an operation is over when its commit is.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from functools import cache
from typing import TypeVar

from fencepost.clock import Clock
from fencepost.errors import ForkedStoreError, StoreUnavailableError
from fencepost.store.chores import Chores
from fencepost.store.interface.joins import JoinsFacet, NoJoins
from fencepost.store.interface.records.overview import Finding
from fencepost.store.interface.store import Listener, Store, Topic
from fencepost.store.notify import Listeners, topics_of
from fencepost.store.plan import Effect, Operation
from fencepost.store.sqlite.engine import schema
from fencepost.store.sqlite.engine.connection import check_version, connect, run, transact
from fencepost.store.sqlite.engine.errors import unavailable
from fencepost.store.sqlite.facets import facets
from fencepost.store.sqlite.jobs.catalog import Catalog, Env

T = TypeVar("T")

EPHEMERAL = Finding(
    "warn",
    "ephemeral",
    "jobs are kept in this process only and are lost when it ends; for tests only",
)


@cache
def _empty() -> sqlite3.Connection:
    """Return a database without jobs, to be copied: making its tables takes twenty times longer."""
    connection = connect(":memory:")
    schema.apply(connection, 0)
    return connection


def open_database() -> sqlite3.Connection:
    """Return a new database in memory."""
    check_version()
    connection = connect(":memory:")
    _empty().backup(connection)
    connection.execute("pragma foreign_keys = on")
    connection.execute("pragma temp_store = memory")
    return connection


class MemoryStore(Store):
    """Jobs in the memory of this process; other stores and processes do not see them."""

    def __init__(self, *, url: str = "memory://", clock: Clock) -> None:
        self.url = url
        self.clock = clock
        self.connection = open_database()
        """For tests that look behind the operations; it is the store's own."""
        self._catalog = Catalog()
        env = Env(clock, self._catalog, Chores(clock), lambda _version: [EPHEMERAL])
        super().__init__(facets(env, env, self._joins(env)))
        self._listeners = Listeners()
        # Reentrant: a signal handler that uses the store gets an error rather than a deadlock.
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._is_closed = False

    def _joins(self, env: Env) -> JoinsFacet:
        return NoJoins(self.url)

    def run(self, operation: Operation[T]) -> T:
        """Execute *operation*; if it raises, it has changed nothing."""
        self._check_process()
        with self._lock:
            self._check_open()
            try:
                if operation.declaration.effect is Effect.READ:
                    return run(self.connection, operation)
                result: T = transact(self.connection, [operation], self._catalog.forget)[0]
            except sqlite3.Error as error:
                raise unavailable(error, self.url) from error
        self._listeners.wake(sorted(topics_of(operation, result)))
        return result

    async def run_async(self, operation: Operation[T]) -> T:
        """Execute *operation* at once: it waits for nothing but the lock."""
        return self.run(operation)

    def close(self) -> None:
        if self._is_closed or os.getpid() != self._pid:
            return
        with self._lock:
            self._is_closed = True
            self.connection.close()
        self._listeners.close()

    def listen(self, topic: Topic) -> Listener:
        self._check_process()
        self._check_open()
        return self._listeners.listen(topic)

    def migrate(self) -> list[str]:
        """Return nothing: the tables were made when the store was opened."""
        return []

    def pending_migrations(self) -> list[tuple[str, str]]:
        """Return nothing, for the same reason."""
        return []

    def _check_process(self) -> None:
        # Checked before the lock: a child may have been forked while a thread held it.
        if os.getpid() != self._pid:
            raise ForkedStoreError("a memory store does not survive fork(); open one in the child")

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailableError("this memory store is closed, and its jobs are gone")
