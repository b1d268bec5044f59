"""A server of one's own that wants a password, and the bad days that it can be given."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import psycopg
from psycopg import sql
from tests.servers.postgres import PostgresServer

SECRET = "open-sesame"
ROLE = "clerk"
END_SESSIONS = "select pg_terminate_backend(pid) from pg_stat_activity where usename = %s"

_numbers = itertools.count(1)


class Place:
    """A new database on the server, owned by a role that is no superuser."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.database = f"jobs_{next(_numbers)}"
        server.create_database(self.database)
        self.alter("database {place} owner to {role}")

    @property
    def url(self) -> str:
        return f"postgresql://{ROLE}:{SECRET}@127.0.0.1:{self.server.port}/{self.database}"

    @property
    def shown(self) -> str:
        return self.url.replace(SECRET, "***")

    def alter(self, what: str) -> None:
        """Run ``alter`` as the superuser, with the names of the database and of the role in it."""
        names = {"place": sql.Identifier(self.database), "role": sql.Identifier(ROLE)}
        with psycopg.connect(self.server.url(), autocommit=True) as admin:
            admin.execute(sql.SQL(f"alter {what}").format(**names))

    def end_sessions(self) -> None:
        """End what was connected before, and return when all of that is gone."""
        with psycopg.connect(self.server.url(), autocommit=True) as admin:
            # Twice: to have each waited for by itself would take a tenth of a second a session.
            admin.execute(END_SESSIONS, (ROLE,))
            admin.execute(END_SESSIONS.replace("(pid)", "(pid, 10000)").encode(), (ROLE,))


def prepare(server: PostgresServer) -> None:
    """Make the role that owns each Place."""
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(f"create role {ROLE} login password '{SECRET}'".encode())


@contextmanager
def wrong_password(place: Place) -> Iterator[None]:
    place.alter("role {role} password 'changed'")
    place.end_sessions()
    yield
    place.alter(f"role {{role}} password '{SECRET}'")


@contextmanager
def missing_database(place: Place) -> Iterator[None]:
    # One that is in use cannot be renamed, and those who use it are quick to come back.
    place.alter("database {place} allow_connections false")
    place.end_sessions()
    place.alter("database {place} rename to elsewhere")
    yield
    place.alter("database elsewhere rename to {place}")
    place.alter("database {place} allow_connections true")


@contextmanager
def too_many_connections(place: Place) -> Iterator[None]:
    place.alter("role {role} connection limit 0")
    place.end_sessions()
    yield
    place.alter("role {role} connection limit -1")


@contextmanager
def read_only(place: Place) -> Iterator[None]:
    place.alter("database {place} set default_transaction_read_only = on")
    place.end_sessions()
    yield
    place.alter("database {place} reset default_transaction_read_only")


@contextmanager
def stopped(place: Place) -> Iterator[None]:
    place.server.stop()
    yield
    place.server.start()


@contextmanager
def crashed(place: Place) -> Iterator[None]:
    place.server.crash()
    yield
    place.server.start()


class Trouble(NamedTuple):
    """How to make it and end it, and what is to be said of it."""

    befall: Callable[[Place], AbstractContextManager[None]]
    says: tuple[str, ...]


TROUBLES = {
    "wrong password": Trouble(
        wrong_password,
        ("password authentication failed", "the user or the password in the URL is wrong"),
    ),
    "missing database": Trouble(
        missing_database, ("does not exist", "create the database, or correct the URL")
    ),
    "too many connections": Trouble(
        too_many_connections, ("too many connections", "lower pool_size")
    ),
    "read-only": Trouble(read_only, ("read-only", "name all hosts in the URL, or the primary")),
    "stopped": Trouble(stopped, ("refused", "is the server running")),
    "crashed": Trouble(crashed, ("refused", "is the server running")),
}
