"""Finds the driver's connection beneath a caller's connection, and its transaction.

SQLAlchemy, Django and asyncpg are not imported: an object can be theirs only if they are loaded.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import psycopg
from psycopg.pq import TransactionStatus

from fencepost.errors import ConfigurationError
from fencepost.store.postgres.joins.asyncpg import is_asyncpg

if TYPE_CHECKING:
    from fencepost.store.postgres.joins.asyncpg import AsyncpgConnection

SUPPORTED = (
    "give a connection of psycopg 3 or asyncpg, a SQLAlchemy Connection or Session over "
    "postgresql+psycopg or postgresql+asyncpg, or a Django connection with psycopg 3"
)

Sync: TypeAlias = psycopg.Connection[Any]
Async: TypeAlias = "psycopg.AsyncConnection[Any] | AsyncpgConnection"


def connection_of(given: Any) -> Sync:
    """Return the connection beneath *given*, or raise ConfigurationError."""
    if isinstance(given, psycopg.Connection):
        return given
    if _is_async_driver(given) or _is_async_sqlalchemy(given):
        raise ConfigurationError(f"{_shown(given)} is async: await the same method under .aio")
    if _is(given, "sqlalchemy.orm", "Session", "scoped_session"):
        given = given.connection()
    if _is(given, "sqlalchemy.engine", "Connection"):
        return _beneath_sqlalchemy(given)
    if _is_django(given):
        return _beneath_django(given)
    raise ConfigurationError(f"conn cannot be {_shown(given)}; {SUPPORTED}")


async def async_connection_of(given: Any) -> Async:
    """Return the async connection beneath *given*, or raise ConfigurationError."""
    if _is_async_driver(given):
        return cast("Async", given)
    if _is(given, "sqlalchemy.ext.asyncio", "AsyncSession", "async_scoped_session"):
        given = await given.connection()
    if _is(given, "sqlalchemy.ext.asyncio", "AsyncConnection"):
        return await _beneath_async_sqlalchemy(given)
    if (
        isinstance(given, psycopg.Connection)
        or _is(given, "sqlalchemy.orm", "Session", "scoped_session")
        or _is(given, "sqlalchemy.engine", "Connection")
        or _is_django(given)
    ):
        raise ConfigurationError(
            f"{_shown(given)} is not async: use the method without .aio, or an async connection"
        )
    raise ConfigurationError(f"conn cannot be {_shown(given)}; {SUPPORTED}")


def _is_async_driver(given: Any) -> bool:
    return isinstance(given, psycopg.AsyncConnection) or is_asyncpg(given)


def _is_async_sqlalchemy(given: Any) -> bool:
    kinds = ("AsyncConnection", "AsyncSession", "async_scoped_session")
    return _is(given, "sqlalchemy.ext.asyncio", *kinds)


def _beneath_sqlalchemy(connection: Any) -> Sync:
    # Statements that go to the driver directly do not begin a transaction of SQLAlchemy; its
    # commit() would then do nothing, and the pool would roll back.
    if not connection.in_transaction():
        connection.begin()
    found = connection.connection.driver_connection
    if isinstance(found, psycopg.Connection):
        return found
    if _is_async_driver(found):
        raise ConfigurationError(
            "this SQLAlchemy connection belongs to an async engine: give its AsyncConnection or "
            "AsyncSession to the same method under .aio, outside of run_sync"
        )
    raise _wrong_dialect(connection.dialect)


async def _beneath_async_sqlalchemy(connection: Any) -> Async:
    if not connection.in_transaction():  # as above
        await connection.begin()
    found = (await connection.get_raw_connection()).driver_connection
    if isinstance(found, psycopg.AsyncConnection):
        return found
    if is_asyncpg(found):
        # SQLAlchemy sends asyncpg's BEGIN with its first statement only. What came before would be
        # committed by itself, whatever SQLAlchemy does then.
        if not found.is_in_transaction():
            await connection.exec_driver_sql("select 1")
        return cast("Async", found)
    raise _wrong_dialect(connection.dialect)


def _wrong_dialect(dialect: Any) -> ConfigurationError:
    return ConfigurationError(
        f"this SQLAlchemy connection is {dialect.name}+{dialect.driver}; a transaction can be "
        "joined over postgresql+psycopg, or postgresql+asyncpg with .aio: "
        "create_engine('postgresql+psycopg://…')"
    )


def _is_django(given: Any) -> bool:
    return _is(given, "django.utils.connection", "ConnectionProxy") or _is(
        given, "django.db.backends.base.base", "BaseDatabaseWrapper"
    )


def _beneath_django(wrapper: Any) -> Sync:
    wrapper.ensure_connection()
    found = wrapper.connection
    if isinstance(found, psycopg.Connection):
        return found
    raise ConfigurationError(
        f"this Django connection ({wrapper.alias!r}) is {wrapper.vendor} over "
        f"{type(found).__module__}; a transaction can be joined on PostgreSQL with psycopg 3 only"
    )


def is_loose(connection: Sync | Async) -> bool:
    """Return whether every statement commits by itself: no transaction is open or will be."""
    if isinstance(connection, psycopg.Connection | psycopg.AsyncConnection):
        is_idle = connection.info.transaction_status == TransactionStatus.IDLE
        return connection.autocommit and is_idle
    return not connection.is_in_transaction()


@contextmanager
def whole(connection: Sync, *, must_be_open: bool) -> Iterator[None]:
    """Run the block in the caller's transaction, or in a new one if the connection has none.

    With *must_be_open* a connection without one is refused.
    """
    if not is_loose(connection):
        yield
        return
    _refuse_loose(must_be_open)
    with connection.transaction():
        yield


@asynccontextmanager
async def whole_async(connection: Async, *, must_be_open: bool) -> AsyncIterator[None]:
    """Do the same on an async connection."""
    if not is_loose(connection):
        yield
        return
    _refuse_loose(must_be_open)
    async with connection.transaction():
        yield


def _refuse_loose(must_be_open: bool) -> None:
    if must_be_open:
        raise ConfigurationError(
            "this connection is in autocommit mode and outside of a transaction: open one around "
            "your writes and this call (psycopg, asyncpg: conn.transaction(), Django: "
            "transaction.atomic())"
        )


def _is(given: Any, module: str, *names: str) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(given, tuple(getattr(loaded, name) for name in names))


def _shown(given: Any) -> str:
    kind = type(given)
    return f"a {kind.__module__}.{kind.__qualname__}"
