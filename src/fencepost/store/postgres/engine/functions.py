"""The functions of the schema: which files there are, which were applied, and applying the rest.

Tables are changed by numbered migrations; a function is replaced as a whole, so its file stands in
one place and is applied again when its text differs from what was applied last. ``function_file``
remembers the digest of each file, and the release of the set that it came with: a process of an
older release leaves the functions of a newer one alone, and goes on with them.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple

import psycopg

from fencepost.store.postgres.engine.migration_lock import LOCK, pause, turn
from fencepost.store.postgres.engine.search_path import FIX_FUNCTIONS, FIX_LOCALLY
from fencepost.store.postgres.schema.functions import RELEASE

Connection = psycopg.Connection[Any]

CREATE = """
create table if not exists fencepost.function_file(
  name text primary key,
  digest text not null,
  release integer not null,
  applied_at timestamptz not null default clock_timestamp()
);
"""
_APPLIED = "select name, digest, release from fencepost.function_file"
_VERSION = "select max(version) from fencepost.schema_version"
_RECORD = """
delete from fencepost.function_file where name <> all (array[{names}]);
update fencepost.function_file set release = {release};
insert into fencepost.function_file(name, digest, release) values {applied}
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
  elsif (select max(release) from fencepost.function_file) > {release} then
    raise exception 'functions of a release after {release} are there';
  end if;
end $$;
"""


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
    folder = files("fencepost.store.postgres.schema.functions")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return FunctionSet(
        RELEASE,
        tuple(
            FunctionFile(name.removesuffix(".sql"), (folder / name).read_text("utf-8"))
            for name in names
        ),
    )


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
    """Apply what is pending in one transaction, in its turn; return what was done.

    If it fails half-way, every function is as it was. Without a lock at first: a role that may only
    read can ask.
    """
    while pending(connection, version):
        with turn(connection) as has_lock:
            if has_lock:
                stale = pending(connection, version)  # now that nobody else changes it
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
    # Replacing a function takes back its search path, so the paths are fixed after it.
    ours = function_set()
    record = _RECORD.format(
        names=", ".join(f"'{each.name}'" for each in ours.files),
        release=ours.release,
        applied=", ".join(f"('{each.name}', '{each.digest}', {ours.release})" for each in stale),
    )
    return f"{''.join(each.sql for each in stale)}{FIX_FUNCTIONS}{record}"
