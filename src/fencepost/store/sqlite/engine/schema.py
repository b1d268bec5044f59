"""Numbered migrations: listing and applying them."""

from __future__ import annotations

import sqlite3
from functools import cache
from importlib.resources import files

from fencepost.errors import SchemaError

_CREATE = """
create table if not exists schema_version(
  version integer primary key,
  name text not null,
  applied_at integer not null
)
"""


@cache
def migrations() -> list[tuple[int, str, str]]:
    """Return number, name and SQL of every migration, in order."""
    folder = files("fencepost.store.sqlite.schema")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [
        (int(name.split("_")[0]), name.removesuffix(".sql"), (folder / name).read_text("utf-8"))
        for name in names
    ]


def current_version(connection: sqlite3.Connection) -> int:
    """Return the number of the last applied migration, 0 for an empty database."""
    exists = connection.execute(
        "select 1 from sqlite_master where type = 'table' and name = 'schema_version'"
    ).fetchone()
    if exists is None:
        return 0
    (version,) = connection.execute("select max(version) from schema_version").fetchone()
    return version or 0


def pending(connection: sqlite3.Connection) -> list[tuple[int, str, str]]:
    """Return the pending migrations, or raise SchemaError if the file has others than ours."""
    version = current_version(connection)
    newest = migrations()[-1][0]
    if version > newest:
        raise SchemaError(
            f"the database has schema version {version}, this Fencepost knows up to {newest}; "
            f"upgrade Fencepost"
        )
    known = {number: name for number, name, _ in migrations()}
    applied = connection.execute("select version, name from schema_version") if version else ()
    for number, name in applied:
        if known[number] != name:
            raise SchemaError(
                f"the database has the schema {name!r} of a development version, and this "
                f"Fencepost has {known[number]!r}; begin with a new file"
            )
    return [migration for migration in migrations() if migration[0] > version]


def apply(connection: sqlite3.Connection, now_us: int) -> list[str]:
    """Apply the pending migrations, each in one transaction; return their names."""
    applied = []
    for number, name, sql in pending(connection):
        record = f"insert into schema_version values ({number}, '{name}', {now_us});"
        try:
            connection.executescript(f"begin immediate; {_CREATE}; {sql} {record} commit;")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("rollback")
            raise
        applied.append(name)
    return applied
