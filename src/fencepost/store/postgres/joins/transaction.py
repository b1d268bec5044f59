"""Runs operations on a caller's connection, inside the caller's transaction."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.rows import tuple_row

from fencepost.errors import FencepostError
from fencepost.generators import drive, drive_async
from fencepost.store.plan import Operation, Plan, Row, Statement
from fencepost.store.postgres.engine.errors import is_schema_missing, translate
from fencepost.store.postgres.engine.search_path import EXCHANGE, restore
from fencepost.store.postgres.joins.asyncpg import BorrowedAsyncpg, CastStatements, as_psycopg

if TYPE_CHECKING:
    from fencepost.store.postgres.joins.asyncpg import AsyncpgConnection

T = TypeVar("T")

SAVEPOINT = Statement("savepoint fencepost")
ROLLBACK = Statement("rollback to savepoint fencepost")
RELEASE = Statement("release savepoint fencepost")


def all_or_none(plan: Plan[T]) -> Plan[T]:
    """Undo what *plan* did if it then refuses, and leave the caller's transaction usable.

    After an error of the server the transaction has failed, as after any other statement.
    """
    yield SAVEPOINT
    try:
        result = yield from plan
    except FencepostError:
        yield ROLLBACK
        yield RELEASE
        raise
    yield RELEASE
    return result


def run_in(connection: Any, operation: Operation[T]) -> T:
    """Execute *operation* in the caller's transaction, which commits it or rolls it back.

    *connection* is a psycopg connection, or anything with a DB-API ``cursor()`` over one. Errors of
    the driver reach the caller unchanged: the caller decides what happens to the transaction.
    Meanwhile names are looked up by our search path, afterwards by the caller's again.
    """
    borrowed = _Borrowed(connection)
    try:
        ((path, _),) = borrowed.execute(EXCHANGE)
        try:
            result = drive(operation.start(), borrowed.execute)
        except BaseException:
            with suppress(psycopg.Error):  # rolling back restores it, too
                borrowed.execute(restore(path))
            raise
        borrowed.execute(restore(path))
    except psycopg.Error as error:
        _refuse_without_schema(error)
        raise
    return result


async def run_in_async(
    connection: psycopg.AsyncConnection[Any] | AsyncpgConnection,
    operation: Operation[T],
    statements: CastStatements | None = None,
) -> T:
    """Do the same on an async connection of psycopg or asyncpg, for which *statements* are kept."""
    borrowed: _BorrowedAsync | BorrowedAsyncpg
    if isinstance(connection, psycopg.AsyncConnection):
        borrowed = _BorrowedAsync(connection)
    else:
        borrowed = BorrowedAsyncpg(connection, statements or CastStatements())
    try:
        ((path, _),) = await borrowed.execute(EXCHANGE)
        try:
            result = await drive_async(operation.start(), borrowed.execute)
        except BaseException:
            with suppress(*borrowed.errors):
                await borrowed.execute(restore(path))
            raise
        await borrowed.execute(restore(path))
    except borrowed.errors as error:
        _refuse_without_schema(as_psycopg(error))
        raise
    return result


def _refuse_without_schema(error: psycopg.Error) -> None:
    if is_schema_missing(error):
        raise translate(error, sent_commit=False) from error


class _Borrowed:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: Statement) -> list[Row]:
        with self._cursor() as cursor:
            if statement.many:
                cursor.executemany(statement.sql, statement.params)
                return []
            cursor.execute(statement.sql, statement.params)
            return cursor.fetchall() if cursor.description else []

    def _cursor(self) -> Any:
        if isinstance(self._connection, psycopg.Connection):
            # A plain one, whatever row and cursor factories the caller's connection has.
            return psycopg.Cursor(self._connection, row_factory=tuple_row)
        return self._connection.cursor()


class _BorrowedAsync:
    errors: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    async def execute(self, statement: Statement) -> list[Row]:
        async with psycopg.AsyncCursor(self._connection, row_factory=tuple_row) as cursor:
            sql = statement.sql.encode()  # for text, psycopg's types want a literal
            if statement.many:
                await cursor.executemany(sql, statement.params)
                return []
            await cursor.execute(sql, statement.params)
            return await cursor.fetchall() if cursor.description else []
