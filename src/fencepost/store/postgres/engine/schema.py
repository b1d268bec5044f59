"""Numbered migrations: which there are, which were applied, and applying the rest; then functions.

Programs of several versions may share a database, and it has an owner: it is migrated when the
owner says so, never by opening it. Each migration is one transaction with the row that records it,
under a lock that ends with it. So it works through a pooler, and two processes that migrate at once
take turns. Functions follow in one more transaction (``functions.py``): until then those of the
version before are used, which a migration has to leave in working order.

The first lines of a migration may say more about it:

``-- oldest: 3``
    Programs that know the schema up to version 3 can run on this one too, and start on it. Without
    it, only those that know this migration do.
``-- concurrently``
    It has nothing but statements such as ``create index concurrently``, each ending with its line,
    which no transaction can hold. Each is executed by itself, and what is there already is passed
    over, so that it can be applied again whatever became of it the last time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any

import psycopg

from fencepost.errors import SchemaError, StoreUnavailableError
from fencepost.store.postgres.engine import functions
from fencepost.store.postgres.engine.functions import (
    LOCK,
    SESSION_LOCK,
    SESSION_UNLOCK,
    TRY_SESSION_LOCK,
    is_granted,
    pause,
    turn,
)
from fencepost.store.postgres.engine.search_path import FIX_FUNCTIONS, FIX_LOCALLY, SEARCH_PATH
from fencepost.store.postgres.schema import read_scripts

Connection = psycopg.Connection[Any]
Migration = tuple[int, str, str]

OLDEST_SERVER = 130_000
LOCK_TIMEOUT = "10s"
"""How long a migration waits for a table: sessions that come after it wait behind it."""

# This may run before the path is set: a name is the server's for certain only if its arguments have
# exactly the declared types.
_STATE = """
select pg_catalog.current_setting('server_version_num')::integer,
  pg_catalog.current_setting('server_version'), pg_catalog.current_setting('server_encoding'),
  pg_catalog.current_database(), exists (
    select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'fencepost' and c.relname = 'schema_version'
  )
"""
_VERSION = "select coalesce(max(version), 0) from fencepost.schema_version"
_OLDEST = """
select max(coalesce(oldest, version)) from fencepost.schema_version where version > %s
"""
_IS_VALID = """
select i.indisvalid from pg_index i join pg_class c on c.oid = i.indexrelid
where c.relnamespace = 'fencepost'::regnamespace and c.relname = %s
"""
_HURRY = """
select pg_catalog.current_setting('statement_timeout'), pg_catalog.current_setting('lock_timeout'),
  pg_catalog.current_setting('search_path')
"""
_SET_HURRY = """
select pg_catalog.set_config('statement_timeout', %s::text, false),
  pg_catalog.set_config('lock_timeout', %s::text, false),
  pg_catalog.set_config('search_path', %s::text, false)
"""

_OLDEST_LINE = re.compile(r"^-- oldest: (\d+)$", re.MULTILINE)
_CONCURRENTLY_LINE = re.compile(r"^-- concurrently$", re.MULTILINE)
_CREATED_INDEX = re.compile(
    r"create\s+(?:unique\s+)?index\s+concurrently\s+(?:if\s+not\s+exists\s+)?(\w+)\s+on"
)

# `create schema if not exists` needs the right to create one even if it exists.
_CREATE = f"""
do $$ begin
  if not exists (select from pg_namespace where nspname = 'fencepost') then
    create schema fencepost;
  end if;
end $$;
create table if not exists fencepost.schema_version(
  version integer primary key,
  name text not null,
  oldest integer,
  applied_at timestamptz not null default clock_timestamp()
);
{functions.CREATE.strip()}
"""
_RECORD = """
insert into fencepost.schema_version(version, name, oldest) values ({number}, '{name}', {oldest});
"""

# For a script that is run by hand, where psql goes on after an error.
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
    scripts = read_scripts("fencepost.store.postgres.schema")
    return [(int(name.split("_")[0]), name, sql) for name, sql in scripts]


def roles() -> str:
    """Return the script that creates the roles."""
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
    stale = _stale(connection)
    if stale:
        raise SchemaError(
            f"{_place(connection)} has other {functions.title(stale)} than this Fencepost needs; "
            f"run `fencepost migrate`"
        )


def _place(connection: Connection) -> str:
    info = connection.info
    return f"database {info.dbname!r} at {info.host}:{info.port}"


def _missing(connection: Connection) -> list[Migration]:
    version = current_version(connection)
    newest = migrations()[-1][0]
    if version > newest:
        found = connection.execute(_OLDEST, (newest,)).fetchone()
        assert found is not None
        if found[0] > newest:
            raise SchemaError(
                f"{_place(connection)} has schema version {version}, this Fencepost knows up to "
                f"{newest}; upgrade Fencepost"
            )
    return [migration for migration in migrations() if migration[0] > version]


def _stale(connection: Connection) -> list[functions.FunctionFile]:
    """Return the function files yet to be applied."""
    if current_version(connection) == 0:
        return list(functions.function_set().files)
    return functions.pending(connection, migrations()[-1][0])


def pending(connection: Connection) -> list[tuple[str, str]]:
    """Return name and script of each migration yet to be applied, and of the functions.

    The scripts are for psql: each records itself, and changes nothing if it was applied before or
    if the one before it was not. Each is one transaction, except for concurrent statements.
    """
    steps = [(migration[1], _script(*migration)) for migration in _missing(connection)]
    if stale := _stale(connection):
        steps.append((functions.title(stale), functions.script(stale, migrations()[-1][0])))
    return steps


def _script(number: int, name: str, sql: str) -> str:
    in_turn = _IN_TURN.format(before=number - 1, name=name)
    record = _record(number, name, sql).strip()
    if not _is_concurrent(sql):
        body = f"{_CREATE.strip()}{in_turn}\n{sql.strip()}\n{FIX_FUNCTIONS}\n{record}"
        return f"begin;\n{FIX_LOCALLY}\n{LOCK};\n{body}\ncommit;\n"
    body = "".join(f"{_without_leftover(each)}{each};\n" for each in _statements(sql))
    path = f"set search_path = {SEARCH_PATH};"
    unlock = f"{SESSION_UNLOCK};\nreset search_path;"
    return f"\\set ON_ERROR_STOP on\n{path}\n{SESSION_LOCK};{in_turn}{body}{record}\n{unlock}\n"


def _without_leftover(statement: str) -> str:
    created = _CREATED_INDEX.search(statement)
    return f"drop index concurrently if exists fencepost.{created[1]};\n" if created else ""


def _record(number: int, name: str, sql: str) -> str:
    oldest = _OLDEST_LINE.search(_head(sql))
    return _RECORD.format(number=number, name=name, oldest=oldest[1] if oldest else number)


def _head(sql: str) -> str:
    """Return the comment with which a migration begins."""
    lines = sql.lstrip().splitlines()
    count = next((n for n, line in enumerate(lines) if not line.startswith("--")), len(lines))
    return "\n".join(lines[:count])


def _is_concurrent(sql: str) -> bool:
    return _CONCURRENTLY_LINE.search(_head(sql)) is not None


def _statements(sql: str) -> list[str]:
    lines = [line for line in sql.splitlines() if not line.startswith("--")]
    return [
        each.strip() for each in re.split(r";\s*$", "\n".join(lines), flags=re.M) if each.strip()
    ]


def apply(connection: Connection) -> list[str]:
    """Apply what is pending, each migration in one transaction and then functions; return what.

    If it fails half-way, the migrations before are applied and the rest is unchanged; the next call
    continues or removes what a concurrent migration has left.
    """
    applied: list[str] = []
    try:
        while missing := _missing(connection):  # without a lock: any role can ask
            number, name, sql = missing[0]
            step = _apply_apart if _is_concurrent(sql) else _apply_whole
            if step(connection, number, name, sql):
                applied.append(name)
        applied += functions.apply(connection, migrations()[-1][0])
    except psycopg.errors.InsufficientPrivilege as error:
        raise SchemaError(
            f"this role may not migrate: {error.diag.message_primary}; run `fencepost migrate` as "
            f"the role that owns the schema"
        ) from error
    return applied


def _apply_whole(connection: Connection, number: int, name: str, sql: str) -> bool:
    """Apply a migration as one transaction; return whether this process did."""
    with turn(connection) as has_lock:
        if has_lock:
            if current_version(connection) != number - 1:
                return False
            connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'".encode())
            script = f"{_CREATE}{sql}{FIX_FUNCTIONS}{_record(number, name, sql)}"
            connection.execute(script.encode())
            return True
    pause(connection)
    return False


def _apply_apart(connection: Connection, number: int, name: str, sql: str) -> bool:
    """Execute the statements of a migration one by one; return whether this process did."""
    if getattr(connection, "is_pooled", False):
        raise SchemaError(
            f"{name} cannot be applied through a pooler, which keeps no lock between two "
            f"statements; run `fencepost migrate` with a URL that leads to the server itself"
        )
    if not is_granted(connection, TRY_SESSION_LOCK):
        pause(connection)
        return False
    with _unhurried(connection):
        try:
            if current_version(connection) != number - 1:
                return False
            for statement in _statements(sql):
                _execute_once(connection, statement)
            connection.execute(_record(number, name, sql).encode())
            return True
        finally:
            if not connection.closed:
                connection.execute(SESSION_UNLOCK)


def _execute_once(connection: Connection, statement: str) -> None:
    """Execute *statement*, unless its index exists; an invalid index is dropped first."""
    if created := _CREATED_INDEX.search(statement):
        found = connection.execute(_IS_VALID, (created[1],)).fetchone()
        if found == (True,):
            return
        if found is not None:
            connection.execute(f"drop index concurrently fencepost.{created[1]}".encode())
    connection.execute(statement.encode())


@contextmanager
def _unhurried(connection: Connection) -> Iterator[None]:
    """Lift the timeouts of this session and set our search path."""
    before = connection.execute(_HURRY).fetchone()
    connection.execute(_SET_HURRY, ("0", "0", SEARCH_PATH))
    try:
        yield
    finally:
        if not connection.closed:
            connection.execute(_SET_HURRY, before)
