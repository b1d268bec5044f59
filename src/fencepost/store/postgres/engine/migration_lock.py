"""The lock under which changes of the schema take turns, and the transactions that hold it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from fencepost.store.postgres.engine.search_path import FIX_LOCALLY

Connection = psycopg.Connection[Any]

LOCK_CLASS = 1178947157
"""Of the advisory lock under which migrations take turns. Any role can hold it: nothing that is
always there could be locked instead. ``fencepost doctor`` says who does."""

LOCK = f"select pg_catalog.pg_advisory_xact_lock({LOCK_CLASS}, 0)"
# These may come before a path is set: each name is the server's only if its arguments are of the
# very types that it takes.
# Never waited for: a session that waits has a snapshot, for the end of which an index that is
# created concurrently waits in turn.
TRY_LOCK = f"select pg_catalog.pg_try_advisory_xact_lock({LOCK_CLASS}, 0)"
SESSION_LOCK = f"select pg_catalog.pg_advisory_lock({LOCK_CLASS}, 0)"
TRY_SESSION_LOCK = f"select pg_catalog.pg_try_advisory_lock({LOCK_CLASS}, 0)"
SESSION_UNLOCK = f"select pg_catalog.pg_advisory_unlock({LOCK_CLASS}, 0)"
_PAUSE = "select pg_catalog.pg_sleep(0.1::double precision)"


@contextmanager
def turn(connection: Connection) -> Iterator[bool]:
    """Begin a transaction for a change of the schema; yield whether it has the lock.

    It takes the time that it needs, and names in it are the server's.
    """
    with connection.transaction():
        connection.execute(FIX_LOCALLY.encode())
        connection.execute("set local statement_timeout = 0; set local lock_timeout = 0")
        yield is_granted(connection, TRY_LOCK)


def is_granted(connection: Connection, lock: str) -> bool:
    """Ask for *lock* without waiting for it."""
    row = connection.execute(lock.encode()).fetchone()
    return row == (True,)


def pause(connection: Connection) -> None:
    """Wait a moment for the session that has the lock."""
    connection.execute(_PAUSE)
