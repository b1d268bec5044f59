"""The ground of PostgreSQL: one database of somebody's server, left as it was found.

The store has one place in a database, the schema ``fencepost``. A store that is not wanted for a
while (a line of a million jobs takes a minute to make) is put aside by renaming its schema, which
takes no time and moves no data. Every schema made here carries a comment, so that what a bench
left behind when it was killed is known from a store that belongs to somebody.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from bench.bench import Bench, Progress, Sizes
from bench.noop import BenchApp
from bench.postgres.meter import Meter
from bench.postgres.raw import SCHEMA as RAW_SCHEMA
from bench.postgres.raw import RawTables
from fencepost.cli.errors import Refusal
from fencepost.clock import Clock
from fencepost.core.bounds import BULK_MAX
from fencepost.store.open import open_store
from fencepost.store.postgres.engine.search_path import SEARCH_PATH
from fencepost.store.postgres.engine.url import parse

SCHEMA = "fencepost"
MARK = "made by fencepost bench, which removes it when it ends"
BULK = min(20_000, BULK_MAX)

TAKE_LOCK = "select pg_try_advisory_lock(hashtext('fencepost bench'))"
# An idle server may wait for ever for a lock that a forgotten session holds.
PATIENCE = "set lock_timeout = '30s'"
FIND_SCHEMAS = """
select nspname, obj_description(oid, 'pg_namespace') is not distinct from %s
from pg_namespace
where nspname = 'fencepost' or nspname = 'fencepost_bench' or nspname like 'fencepost\\_bench\\_%%'
order by nspname
"""
FIND_TABLES = """
select relname from pg_class
where relnamespace = %s::regnamespace and relkind = 'r' order by relname
"""
DROP = sql.SQL("drop schema if exists {} cascade")
COMMENT = sql.SQL("comment on schema {} is {}")
RENAME = sql.SQL("alter schema {} rename to {}")
TIDY = sql.SQL("vacuum (analyze) {}")


class ServerSizes(Sizes, frozen=True, kw_only=True):
    """How much is measured on a server."""

    backlogs: tuple[int, ...]
    """Jobs in line in the big drains."""
    passing: int
    """Jobs that pass while an old snapshot is held."""
    steady: int
    """Pickups under a steady load."""
    limited: int
    """Jobs that claimers take under a limit."""


class PostgresBench(Bench):
    """Makes stores in the database that *url* names; a context, which ends with all removed."""

    sizes: ServerSizes

    def __init__(
        self, folder: Path, *, url: str, sizes: ServerSizes, clock: Clock, progress: Progress
    ) -> None:
        super().__init__(folder, sizes=sizes, clock=clock, progress=progress)
        self.url = url
        try:
            self.admin = self.connect()
        except psycopg.Error as error:
            raise Refusal(f"cannot connect: {error}", "store_unavailable") from error

    def __enter__(self) -> PostgresBench:
        try:
            self._move_in()
        except BaseException:
            self.admin.close()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        try:
            self.raw.close()
            self._remove_all()
        finally:
            self.admin.close()

    def connect(self) -> psycopg.Connection:
        """Return a connection of its own, past a pooler if the URL names a way, in autocommit."""
        address = parse(self.url)
        options = {"application_name": "fencepost bench", **(address.listen or address).options}
        connection = psycopg.connect(make_conninfo(**options), autocommit=True)
        connection.execute(f"set search_path = {SEARCH_PATH}".encode())
        return connection

    # Coming and going.

    def _move_in(self) -> None:
        place = f"the database {self.admin.info.dbname!r}"
        if not self._one(TAKE_LOCK):
            raise Refusal(f"another bench runs in {place}", "bench_running")
        foreign = [name for name, is_ours in self._schemas() if not is_ours]
        if foreign:
            raise Refusal(
                f"{place} has a schema {foreign[0]!r} that no bench made, and a bench removes what "
                f"it measures",
                "store_in_use",
                "name an empty database: createdb fencepost_bench",
            )
        try:
            self.admin.execute(PATIENCE)
            self._remove_all()  # what a bench that was killed left behind
            self.raw = RawTables(self.connect(), self.clock)
            self._mark(RAW_SCHEMA)
            self.meter = Meter(self.admin)
        except psycopg.Error as error:
            raise Refusal(f"cannot measure in {place}: {error}", "store_refused") from error

    def _remove_all(self) -> None:
        for name, is_ours in self._schemas():
            if is_ours:
                self._drop(name)

    def _schemas(self) -> list[tuple[str, bool]]:
        return self.admin.execute(FIND_SCHEMAS, (MARK,)).fetchall()

    def _mark(self, schema: str) -> None:
        self.admin.execute(COMMENT.format(sql.Identifier(schema), sql.Literal(MARK)))

    def _drop(self, schema: str) -> None:
        self.admin.execute(DROP.format(sql.Identifier(schema)))

    def _one(self, query: str) -> Any:
        row = self.admin.execute(query).fetchone()
        assert row is not None
        return row[0]

    # Stores.

    @contextmanager
    def new_store(self) -> Iterator[str]:
        self.make_store()
        try:
            yield self.url
        finally:
            self._drop(SCHEMA)

    def make_store(self) -> None:
        """Make an empty store, which stays."""
        store = open_store(self.url)
        try:
            store.migrate()
            self._mark(SCHEMA)
        finally:
            store.close()

    def put_aside(self, name: int) -> None:
        """Rename the store's schema, so that there is room for another."""
        self._rename(SCHEMA, _aside(name))

    @contextmanager
    def brought_back(self, name: int) -> Iterator[str]:
        """Have a store that was put aside be the store for a while."""
        self._rename(_aside(name), SCHEMA)
        try:
            yield self.url
        finally:
            self.put_aside(name)

    def forget(self, name: int) -> None:
        """Remove a store that was put aside."""
        self._drop(_aside(name))

    def _rename(self, old: str, new: str) -> None:
        self.admin.execute(RENAME.format(sql.Identifier(old), sql.Identifier(new)))

    def fill(self, count: int) -> None:
        """Submit *count* jobs of the noop task, and let the server put its house in order."""
        with BenchApp(self.url) as app:
            for start in range(0, count, BULK):
                if count > BULK:
                    self.tell(f"storing {count:,} jobs: {start:,}")
                app.noop.submit_many(range(start, min(start + BULK, count)))
        self.tidy(SCHEMA)

    def have_loaded(self, url: str) -> None:
        self.admin.execute("delete from fencepost.disorder")
        self.tidy(SCHEMA)

    def tidy(self, schema: str) -> None:
        """Vacuum now what autovacuum would else do in the middle of a measurement."""
        tables = [name for (name,) in self.admin.execute(FIND_TABLES, (schema,))]
        names = sql.SQL(", ").join(sql.Identifier(schema, name) for name in tables)
        self.admin.execute(TIDY.format(names))


def _aside(name: int) -> str:
    return f"fencepost_bench_{name}"
