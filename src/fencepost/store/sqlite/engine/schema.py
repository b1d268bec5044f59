"""Numbered migrations: which there are, which were applied, and applying the rest."""

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
    folder = files("fencepost.store.sqlite.migrations")
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
    """Return the migrations yet to be applied, or raise SchemaError if the file is too new."""
    version = current_version(connection)
    newest = migrations()[-1][0]
    if version > newest:
        raise SchemaError(
            f"the database has schema version {version}, this Fencepost knows up to {newest}; "
            f"upgrade Fencepost"
        )
    return [migration for migration in migrations() if migration[0] > version]


def apply(connection: sqlite3.Connection, now_us: int) -> list[str]:
    """Apply what is pending, each migration in one transaction; return their names."""
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
