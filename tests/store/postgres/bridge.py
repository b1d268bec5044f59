"""Callers of both drivers behind one face, so that a test says once what must hold for each.

A ``Bridge`` is an asyncpg connection used as psycopg's is: blocking, in a transaction that begins
with the first statement. Its event loop runs in a thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import asyncpg
import psycopg
from psycopg import IsolationLevel
from tests.worker.support import LONG

from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation
from fencepost.store.postgres.store import PostgresStore

T = TypeVar("T")

CONFLICTS = (psycopg.errors.SerializationFailure, asyncpg.SerializationError)
LEVELS: dict[IsolationLevel | None, Any] = {
    None: "read_committed",
    IsolationLevel.READ_UNCOMMITTED: "read_uncommitted",
    IsolationLevel.READ_COMMITTED: "read_committed",
    IsolationLevel.REPEATABLE_READ: "repeatable_read",
    IsolationLevel.SERIALIZABLE: "serializable",
}


class Rows:
    """What a statement has answered."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._rows = rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._rows[0] if self._rows else None


class Bridge:
    """An asyncpg connection, with the part of psycopg's interface that tests use."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.real: asyncpg.Connection[Any] = self.run(asyncpg.connect(url))
        self.isolation_level: IsolationLevel | None = None
        self._transaction: Any = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(LONG)

    def begin(self) -> None:
        if self._transaction is None:
            self._transaction = self.real.transaction(isolation=LEVELS[self.isolation_level])
            self.run(self._transaction.start())

    def execute(self, sql: str) -> Rows:
        self.begin()
        return Rows([tuple(row) for row in self.run(self.real.fetch(sql))])

    def commit(self) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            self.run(transaction.commit())

    def rollback(self) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            self.run(transaction.rollback())

    def close(self) -> None:
        self.run(self.real.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LONG)
        self._loop.close()


Caller: TypeAlias = psycopg.Connection[Any] | Bridge


@contextmanager
def calling(driver: str, url: str) -> Iterator[Caller]:
    """Lend a connection of *driver* whose transaction is open until the test ends it."""
    if driver == "psycopg":
        with psycopg.connect(url) as connection:
            yield connection
            connection.rollback()
        return
    bridge = Bridge(url)
    try:
        yield bridge
        bridge.rollback()
    finally:
        bridge.close()


def join(
    store: PostgresStore,
    conn: Caller,
    make: Callable[[Store], Operation[T]],
    *,
    must_be_open: bool = False,
) -> T:
    """Run an operation in the caller's transaction, over either driver."""
    if isinstance(conn, psycopg.Connection):
        return store.run_in(conn, make, must_be_open=must_be_open)
    conn.begin()
    return conn.run(store.run_in_async(conn.real, make, must_be_open=must_be_open))
