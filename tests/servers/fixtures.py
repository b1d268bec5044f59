"""Fixtures that give a test a real PostgreSQL. Without one the test fails: it never skips.

`postgres_url` is an empty database. `fresh_postgres("wheel")` is one whose schema, once a store
has made it, is kept from test to test and only emptied, which is quicker. `postgres_server` is
the server of both; a test that wants to crash one makes a `PostgresServer` of its own.

A test marked `postgres("migrated")` finds the schema in its `postgres_url`, as a migration leaves
it: that takes a fifth of a second of two processors, and to put it back in order a hundredth. One
marked `postgres("quiet")` has a server that no other process uses: what an open transaction of
another database holds up, such as the marks, moves there as the test expects.

All tests of a run share one server a source, and each process has its own databases on it.
FENCEPOST_TEST_POSTGRES names a server to be used instead of those.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from tests.servers.keeper import shared_server
from tests.servers.pgbouncer import PgBouncer, find_pgbouncer
from tests.servers.places import WHEEL, NoServerError, sources
from tests.servers.postgres import Postgres, PostgresServer, given
from tests.servers.wiping import clear_through, empty_through, fingerprint, wipe_through

from fencepost.store.postgres.store import PostgresStore

GIVEN = "given"
QUIET = "quiet"
"""The first source again, as a server of this process alone, which does nothing by itself.

A server that is given has other users: it takes the place of this one only if there is no other.
"""
MIGRATED = "migrated"

FreshPostgres = Callable[[str], str]


def postgres_sources() -> list[str]:
    """Return what to parametrise with: each source that this machine has.

    With none at all it names the wheel, so that the tests fail and say what to install.
    """
    if os.environ.get("FENCEPOST_TEST_POSTGRES"):
        return [GIVEN]
    return sources() or [WHEEL]


class Databases:
    """The servers this process uses, and its two databases on each; nothing is made unasked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: dict[str, Postgres] = {}
        self._kept: dict[tuple[str, str], psycopg.Connection] = {}
        self._migrated: dict[str, str] = {}
        """What the migrated database of a source looks like when nobody has changed its schema."""
        self._prefix = f"fencepost_{uuid.uuid4().hex[:8]}"
        self._leases = ExitStack()

    def server(self, which: str) -> Postgres:
        if which not in self._servers:
            try:
                self._servers[which] = self._find(which)
            except NoServerError as error:
                pytest.fail(str(error), pytrace=False)
        return self._servers[which]

    def _find(self, which: str) -> Postgres:
        external = given()
        if which == QUIET and (sources() or external is None):
            source = next(iter(sources()), WHEEL)
            own = PostgresServer(source, settings={"autovacuum": "off"})
            return self._leases.enter_context(own)
        return external or self._leases.enter_context(shared_server(which, self._folder))

    def empty(self, which: str) -> str:
        empty_through(self._connection(which, "empty"))
        return self.server(which).url(f"{self._prefix}_empty")

    def wiped(self, which: str) -> str:
        wipe_through(self._connection(which, "kept"))
        return self.server(which).url(f"{self._prefix}_kept")

    def migrated(self, which: str) -> str:
        """Return an empty store; the schema is made again only if somebody has changed it."""
        connection = self._connection(which, "migrated")
        url = self.server(which).url(f"{self._prefix}_migrated")
        clear_through(connection)
        if fingerprint(connection) == self._migrated.get(which, "unknown"):
            wipe_through(connection)
            return url
        empty_through(connection)
        store = PostgresStore(url)
        store.migrate()
        store.close()
        self._migrated[which] = fingerprint(connection)
        return url

    def has_schema(self, which: str) -> bool:
        """Tell whether a test before has migrated what `wiped` gives."""
        found = self._connection(which, "kept").execute(
            "select to_regclass('fencepost.schema_version') is not null"
        )
        return found.fetchone() == (True,)

    def close(self) -> None:
        for connection in self._kept.values():
            connection.close()
        for which, suffix in self._kept:
            self._servers[which].drop_database(f"{self._prefix}_{suffix}")
        self._leases.close()

    def _connection(self, which: str, suffix: str) -> psycopg.Connection:
        """Return the connection to one of this process's databases, which is made if need be."""
        kept = self._kept.get((which, suffix))
        if kept is not None and _works(kept):
            return kept
        server = self.server(which)
        name = f"{self._prefix}_{suffix}"
        url = server.url(name) if kept is not None else server.create_database(name)
        self._kept[which, suffix] = psycopg.connect(url, autocommit=True)
        return self._kept[which, suffix]


def _works(connection: psycopg.Connection) -> bool:
    """Tell whether nobody ended the connection: a test may have ended all there were."""
    try:
        connection.execute("select 1")
    except psycopg.OperationalError:
        connection.close()
        return False
    return True


@pytest.fixture(scope="session")
def postgres_databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    folder = tmp_path_factory.getbasetemp()
    # With pytest-xdist each process has a folder of its own within that of the run.
    is_one_of_many = "PYTEST_XDIST_WORKER" in os.environ
    databases = Databases(folder.parent if is_one_of_many else folder)
    yield databases
    databases.close()


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest, postgres_databases: Databases) -> Postgres:
    """Return the shared server: the first source, or the one named by an indirect parameter."""
    return postgres_databases.server(getattr(request, "param", postgres_sources()[0]))


@pytest.fixture
def postgres_url(request: pytest.FixtureRequest, postgres_databases: Databases) -> str:
    """Return the URL of an empty database; the source may be named by an indirect parameter."""
    wanted = {word for mark in request.node.iter_markers("postgres") for word in mark.args}
    assert wanted <= {QUIET, MIGRATED}
    source = getattr(request, "param", QUIET if QUIET in wanted else postgres_sources()[0])
    if MIGRATED in wanted:
        return postgres_databases.migrated(source)
    return postgres_databases.empty(source)


@pytest.fixture
def fresh_postgres(postgres_databases: Databases) -> FreshPostgres:
    """Return a function from a source to the URL of a database with every table of ours empty.

    The schema that an earlier test made is still there. One database a source: to call it again
    empties what the first call gave.
    """
    return postgres_databases.wiped


@pytest.fixture
def pgbouncer(postgres_server: Postgres) -> Iterator[PgBouncer]:
    """Run PgBouncer in transaction mode in front of the shared server."""
    if find_pgbouncer() is None:
        pytest.skip("PgBouncer is not installed here, and no wheel has it (Debian: pgbouncer)")
    with PgBouncer(postgres_server) as running:
        yield running
