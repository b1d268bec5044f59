"""Runs statements on a caller's asyncpg connection.

asyncpg turns values into the server's binary form by codecs, which a connection may have replaced:
SQLAlchemy does so for JSON, many programs do for UUIDs. So values are sent as text, which the
server casts to the type that it has inferred for each parameter. It is asked for these types once
for each statement. Results are read by codecs, but only of types that nobody replaces: numbers,
booleans and text; a test looks at every statement.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakSet

import psycopg

from fencepost.store.plan import Row, Statement
from fencepost.store.postgres.engine.placeholders import numbered, placed

if TYPE_CHECKING:
    import asyncpg
    from asyncpg.pool import PoolConnectionProxy
    from asyncpg.types import Type

    AsyncpgConnection: TypeAlias = asyncpg.Connection[Any] | PoolConnectionProxy[Any]


STATEMENTS_MAX = 1_000
"""Statements that are remembered; there are a few dozen."""


class CastStatements:
    """Statements as they are sent over asyncpg, remembered by what plans call them."""

    def __init__(self) -> None:
        self._by_sql: dict[str, str] = {}

    async def of(self, connection: AsyncpgConnection, sql: str) -> str:
        """Return *sql* with a cast around each parameter; ask the server for types only once."""
        known = self._by_sql.get(sql)
        if known is None:
            if len(self._by_sql) >= STATEMENTS_MAX:
                self._by_sql.clear()
            # Unnamed where the caller keeps no prepared statements, as behind a pooler.
            prepared = await connection.prepare(numbered(sql))
            casts = [cast(each) for each in prepared.get_parameters()]
            known = self._by_sql[sql] = placed(sql, lambda n: casts[n - 1].format(n))
        return known


def cast(type: Type) -> str:
    """Return what makes a parameter, number {}, a value of *type*, given as text."""
    name = type.name.removesuffix("[]")
    dimensions = type.name[len(name) :]
    return f'${{}}::pg_catalog.text::"{type.schema}"."{name}"{dimensions}'


class BorrowedAsyncpg:
    """A caller's connection, and what its errors are."""

    def __init__(self, connection: AsyncpgConnection, statements: CastStatements) -> None:
        import asyncpg

        self.errors: tuple[type[Exception], ...] = (asyncpg.PostgresError, asyncpg.InterfaceError)
        self._connection = connection
        self._statements = statements

    async def execute(self, statement: Statement) -> list[Row]:
        connection, sql = self._connection, numbered(statement.sql)
        if statement.params:
            sql = await self._statements.of(connection, statement.sql)
        if statement.many:
            await connection.executemany(sql, [texts(params) for params in statement.params])
            return []
        return [tuple(row) for row in await connection.fetch(sql, *texts(statement.params))]


def texts(params: Sequence[Any]) -> list[str | None]:
    """Return values as the server reads them in text."""
    return [None if value is None else text_of(value) for value in params]


def text_of(value: Any) -> str:
    """Return a value other than None in the server's text form."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))  # of an enum, too
        case float():
            return repr(value)
        case datetime():
            return value.isoformat()
        case bytes():
            return f"\\x{value.hex()}"
        case list() | tuple():
            return "{" + ",".join(map(_element, value)) + "}"
        case _:
            raise AssertionError(f"a plan sends no {type(value).__name__}")


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    text = text_of(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def is_asyncpg(given: Any) -> bool:
    """Return whether *given* is a connection of asyncpg's, also one that a pool has lent."""
    loaded = sys.modules.get("asyncpg")
    return loaded is not None and isinstance(
        given, (loaded.Connection, loaded.pool.PoolConnectionProxy)
    )


class CallerSessions:
    """Callers' connections that have been used, for as long as they live."""

    def __init__(self) -> None:
        self._seen: WeakSet[Any] = WeakSet()

    def __contains__(self, connection: Any) -> bool:
        return _beneath_pool(connection) in self._seen

    def add(self, connection: Any) -> None:
        with suppress(TypeError):  # a loan that does not say what is beneath it is forgotten
            self._seen.add(_beneath_pool(connection))


def _beneath_pool(connection: Any) -> Any:
    """Return the connection that a pool lends under another object each time, or the one given.

    By asyncpg's own name for it; if that is changed, each loan counts as a new connection.
    """
    return getattr(connection, "_con", None) or connection


def as_psycopg(error: Exception) -> psycopg.Error:
    """Return an error of either driver as psycopg's, with its code and message."""
    if isinstance(error, psycopg.Error):
        return error
    code = getattr(error, "sqlstate", None)
    try:
        made = psycopg.errors.lookup(code or "")(str(error))
    except KeyError:
        made = psycopg.OperationalError(str(error))
    made.sqlstate = code
    return made
