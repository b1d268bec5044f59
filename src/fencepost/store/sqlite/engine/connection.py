"""One connection to SQLite, to a file or in memory: opening it, and running operations on it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fencepost.errors import ConfigurationError
from fencepost.generators import drive
from fencepost.store.plan import Operation, Row, Statement

T = TypeVar("T")

READ_ONLY = "pragma query_only = on"

SQLITE_OLDEST = (3, 35, 0)
BUSY_TIMEOUT = 5.0


def check_version() -> None:
    """Raise ConfigurationError if SQLite is too old for the statements of the plans."""
    if sqlite3.sqlite_version_info < SQLITE_OLDEST:
        raise ConfigurationError(
            f"SQLite 3.35 or newer is needed, this is {sqlite3.sqlite_version}"
        )


def connect(path: str) -> sqlite3.Connection:
    """Open *path* (``:memory:`` for none) for any thread; its caller lets one at a time use it."""
    return sqlite3.connect(
        path,
        isolation_level=None,
        timeout=BUSY_TIMEOUT,
        check_same_thread=False,
        cached_statements=512,
    )


def transact(
    connection: sqlite3.Connection,
    operations: Sequence[Operation[Any]],
    on_rollback: Callable[[], None],
) -> list[Any]:
    """Run *operations* in one transaction; return their results in order."""
    was_open = connection.in_transaction  # by a signal handler: then it is not ours to end
    try:
        connection.execute("begin immediate")
        execute = _executor(connection)
        results = [drive(operation.start(), execute) for operation in operations]
        connection.execute("commit")
    except BaseException:
        on_rollback()
        if connection.in_transaction and not was_open:
            connection.execute("rollback")
        raise
    return results


def run(connection: sqlite3.Connection, operation: Operation[T]) -> T:
    """Run *operation* in the present transaction of *connection*, or without one."""
    return drive(operation.start(), _executor(connection))


def _executor(connection: sqlite3.Connection) -> Callable[[Statement], list[Row]]:
    """Return what executes the statements of plans on *connection*."""

    def execute(statement: Statement) -> list[Row]:
        if statement.many:
            connection.executemany(statement.sql, statement.params)
            return []
        return connection.execute(statement.sql, statement.params).fetchall()

    return execute


class Reader:
    """A connection that only reads, opened on first use, for one thread at a time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self.mutex = threading.Lock()

    def open(self) -> sqlite3.Connection:
        """Return the connection; under the mutex, unless nobody else has this object yet."""
        if self._connection is None:
            connection = connect(self._path)
            connection.execute(READ_ONLY)
            self._connection = connection
        return self._connection

    def run(self, operation: Operation[T]) -> T:
        """Run *operation* on one snapshot; under the mutex."""
        connection = self.open()
        try:
            connection.execute("begin")
            return run(connection, operation)
        finally:
            if connection.in_transaction:  # an interruption may have come just before it began
                connection.execute("rollback")

    def close(self) -> None:
        """Close the connection, if it was opened; under the mutex."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
