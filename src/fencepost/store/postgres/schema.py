"""Numbered migrations: which there are, which were applied, and applying the rest.

Unlike a file, a database is shared by programs of several versions and belongs to somebody: it is
migrated when that somebody says so, never by opening it. Each migration is one transaction with
the row that records it, under a lock that ends with it, so that it works through a pooler too and
two that migrate at once take turns.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import psycopg

from fencepost.errors import SchemaError, StoreUnavailableError

Connection = psycopg.Connection[Any]
Migration = tuple[int, str, str]

OLDEST_SERVER = 130_000
LOCK_TIMEOUT = "10s"
"""How long a migration waits for a table: whoever comes after it waits behind it."""

_LOCK = "select pg_advisory_xact_lock(1178947157, 0)"
_STATE = """
select current_setting('server_version_num')::integer, current_setting('server_version'),
  current_setting('server_encoding'), current_database(), exists (
    select from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'fencepost' and c.relname = 'schema_version'
  )
"""
_VERSION = "select coalesce(max(version), 0) from fencepost.schema_version"

# `create schema if not exists` wants the right to create one even where there is one.
_CREATE = """
do $$ begin
  if not exists (select from pg_namespace where nspname = 'fencepost') then
    create schema fencepost;
  end if;
end $$;
create table if not exists fencepost.schema_version(
  version integer primary key,
  name text not null,
  applied_at timestamptz not null default clock_timestamp()
);
"""
_RECORD = "insert into fencepost.schema_version(version, name) values ({number}, '{name}');\n"

# For a script that is run by hand, which goes on after an error.
_IN_TURN = """
do $$ begin
  if (select coalesce(max(version), 0) from fencepost.schema_version) <> {before} then
    raise exception 'schema version {before} is needed to apply {name}';
  end if;
end $$;
"""


@cache
def migrations() -> list[Migration]:
    """Return number, name and SQL of every migration, in order."""
    folder = files("fencepost.store.postgres.migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [
        (int(name.split("_")[0]), name.removesuffix(".sql"), (folder / name).read_text("utf-8"))
        for name in names
    ]


def roles() -> str:
    """Return a script that makes the roles of an owner, of programs, and of who may only look."""
    return (files("fencepost.store.postgres") / "roles.sql").read_text("utf-8")


def current_version(connection: Connection) -> int:
    """Return the number of the last applied migration, 0 for a database without our schema.

    Raises StoreUnavailableError for a server or a database that cannot hold jobs at all.
    """
    row = connection.execute(_STATE).fetchone()
    assert row is not None
    number, version, encoding, database, has_schema = row
    if number < OLDEST_SERVER:
        raise StoreUnavailableError(
            f"this server is PostgreSQL {version}; Fencepost needs 13 or newer"
        )
    if encoding != "UTF8":
        raise StoreUnavailableError(
            f"database {database!r} has the encoding {encoding}, and jobs may hold any text; "
            f"create one with `create database … encoding 'UTF8' template template0`"
        )
    if not has_schema:
        return 0
    found = connection.execute(_VERSION).fetchone()
    assert found is not None
    return int(found[0])


def check(connection: Connection) -> None:
    """Raise SchemaError unless the schema is what this version of Fencepost expects."""
    missing = _missing(connection)
    if missing:
        version = missing[0][0] - 1
        raise SchemaError(
            f"{_place(connection)} has {f'schema version {version}' if version else 'no schema'}, "
            f"this Fencepost needs {migrations()[-1][0]}; run `fencepost migrate`"
        )


def _place(connection: Connection) -> str:
    info = connection.info
    return f"database {info.dbname!r} at {info.host}:{info.port}"


def _missing(connection: Connection) -> list[Migration]:
    version = current_version(connection)
    newest = migrations()[-1][0]
    if version > newest:
        raise SchemaError(
            f"{_place(connection)} has schema version {version}, this Fencepost knows up to "
            f"{newest}; upgrade Fencepost"
        )
    return [migration for migration in migrations() if migration[0] > version]


def pending(connection: Connection) -> list[tuple[str, str]]:
    """Return name and script of each migration yet to be applied.

    The scripts are for psql: each is one transaction, records itself, and changes nothing if it was
    applied before or if the one before it was not.
    """
    return [(name, _script(number, name, sql)) for number, name, sql in _missing(connection)]


def _script(number: int, name: str, sql: str) -> str:
    in_turn = _IN_TURN.format(before=number - 1, name=name)
    record = _RECORD.format(number=number, name=name)
    return f"begin;\n{_LOCK};\n{_CREATE.strip()}{in_turn}\n{sql.strip()}\n\n{record}commit;\n"


def apply(connection: Connection) -> list[str]:
    """Apply what is pending, each migration in one transaction; return the names of those.

    If it fails half-way, the migrations before are applied and the rest is as it was.
    """
    applied: list[str] = []
    try:
        while name := _apply_next(connection):
            applied.append(name)
    except psycopg.errors.InsufficientPrivilege as error:
        raise SchemaError(
            f"this role may not migrate: {error.diag.message_primary}; run `fencepost migrate` as "
            f"the role that owns the schema"
        ) from error
    return applied


def _apply_next(connection: Connection) -> str | None:
    """Apply the first migration that is missing and return its name, None if none is."""
    if not _missing(connection):  # without a lock: whoever may only read can ask this
        return None
    with connection.transaction():
        # A migration takes the time that it needs, and waits its turn as long as it must.
        connection.execute("set local statement_timeout = 0; set local lock_timeout = 0")
        connection.execute(_LOCK)
        missing = _missing(connection)
        if not missing:
            return None
        number, name, sql = missing[0]
        connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'".encode())
        record = _RECORD.format(number=number, name=name)
        connection.execute(f"{_CREATE}{sql}{record}".encode())
        return name
