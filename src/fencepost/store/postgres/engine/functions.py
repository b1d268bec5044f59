"""The functions of the schema: which files there are, which were applied, and applying the rest.

Tables are changed by numbered migrations. A function is replaced as a whole, so its file is applied
again when its text differs from what was applied last. ``function_files`` has the digest of each
file and the release of its set: a process of an older release leaves the functions of a newer one
alone, and uses them. All changes of the schema take turns under one lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

import psycopg

from fencepost.store.postgres.engine.search_path import FIX_FUNCTIONS, FIX_LOCALLY
from fencepost.store.postgres.schema import read_scripts
from fencepost.store.postgres.schema.functions import RELEASE

Connection = psycopg.Connection[Any]

LOCK_CLASS = 1178947157
"""Of the advisory lock for changes of the schema. Any role can hold it, but before the first
migration there is no table to lock instead. ``fencepost doctor`` shows who holds it."""

LOCK = f"select pg_catalog.pg_advisory_xact_lock({LOCK_CLASS}, 0)"
# These may run before the path is set, see schema.py. They do not wait: a waiting session has a
# snapshot, and the concurrent creation of an index would wait for its end.
TRY_LOCK = f"select pg_catalog.pg_try_advisory_xact_lock({LOCK_CLASS}, 0)"
SESSION_LOCK = f"select pg_catalog.pg_advisory_lock({LOCK_CLASS}, 0)"
TRY_SESSION_LOCK = f"select pg_catalog.pg_try_advisory_lock({LOCK_CLASS}, 0)"
SESSION_UNLOCK = f"select pg_catalog.pg_advisory_unlock({LOCK_CLASS}, 0)"
_PAUSE = "select pg_catalog.pg_sleep(0.1::double precision)"

CREATE = """
create table if not exists fencepost.function_files(
  name text primary key,
  digest text not null,
  release integer not null,
  applied_at timestamptz not null default clock_timestamp()
);
"""
_APPLIED = "select name, digest, release from fencepost.function_files"
_VERSION = "select max(version) from fencepost.schema_version"
_RECORD = """
delete from fencepost.function_files where name <> all (array[{names}]);
update fencepost.function_files set release = {release};
insert into fencepost.function_files(name, digest, release) values {applied}
on conflict (name) do update
set digest = excluded.digest, release = excluded.release, applied_at = excluded.applied_at;
"""

# For a script that is run by hand, maybe long after it was printed.
_IN_TURN = """
do $$ begin
  if to_regclass('fencepost.schema_version') is null then
    raise exception 'schema version {version} is needed to apply functions';
  elsif (select coalesce(max(version), 0) from fencepost.schema_version) < {version} then
    raise exception 'schema version {version} is needed to apply functions';
  elsif (select max(release) from fencepost.function_files) > {release} then
    raise exception 'functions of a release after {release} are there';
  end if;
end $$;
"""


@contextmanager
def turn(connection: Connection) -> Iterator[bool]:
    """Begin a transaction without timeouts for a change of the schema; yield if it has the lock."""
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


class FunctionFile(NamedTuple):
    """A file of functions: its subject and its SQL."""

    name: str
    sql: str

    @property
    def digest(self) -> str:
        return sha256(self.sql.encode()).hexdigest()


class FunctionSet(NamedTuple):
    """All files of one release, in the order in which they are applied."""

    release: int
    files: tuple[FunctionFile, ...]


@cache
def function_set() -> FunctionSet:
    """Return the files of this version of Fencepost."""
    scripts = read_scripts("fencepost.store.postgres.schema.functions")
    return FunctionSet(RELEASE, tuple(FunctionFile(*script) for script in scripts))


def title(stale: list[FunctionFile]) -> str:
    """Return how ``fencepost migrate`` names the step that applies these files."""
    return f"functions: {', '.join(each.name for each in stale)}"


def pending(connection: Connection, version: int) -> list[FunctionFile]:
    """Return the files yet to be applied to schema version *version*, the newest that we know.

    None if the schema is newer, or the functions are of a newer release.
    """
    ours = function_set()
    (found,) = connection.execute(_VERSION).fetchall()
    rows = connection.execute(_APPLIED).fetchall()
    if found[0] > version or any(release > ours.release for _, _, release in rows):
        return []
    applied = {name: digest for name, digest, _ in rows}
    return [each for each in ours.files if applied.get(each.name) != each.digest]


def apply(connection: Connection, version: int) -> list[str]:
    """Apply what is pending in one transaction; return what was done.

    If it fails half-way, every function is unchanged. It first looks without a lock, so that a role
    that only reads can ask.
    """
    while pending(connection, version):
        with turn(connection) as has_lock:
            if has_lock:
                stale = pending(connection, version)  # now under the lock
                if stale:
                    connection.execute(_body(stale).encode())
                    return [title(stale)]
        pause(connection)
    return []


def script(stale: list[FunctionFile], version: int) -> str:
    """Return a transaction for psql that applies these files to schema version *version*."""
    in_turn = _IN_TURN.format(version=version, release=function_set().release)
    return f"begin;\n{FIX_LOCALLY}\n{LOCK};{in_turn}{_body(stale)}commit;\n"


def _body(stale: list[FunctionFile]) -> str:
    # Replacing a function resets its search path, so the paths are fixed afterwards.
    ours = function_set()
    record = _RECORD.format(
        names=", ".join(f"'{each.name}'" for each in ours.files),
        release=ours.release,
        applied=", ".join(f"('{each.name}', '{each.digest}', {ours.release})" for each in stale),
    )
    return f"{''.join(each.sql for each in stale)}{FIX_FUNCTIONS}{record}"
