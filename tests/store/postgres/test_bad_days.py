"""A server on its bad days: callers are told what is wrong, workers wait, and nothing is lost.

PostgreSQL-specific: no other store can refuse, fill up, restart or be only read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg
import pytest
from tests.servers.postgres import PostgresServer
from tests.store.postgres import trouble
from tests.store.postgres.trouble import SECRET, TROUBLES, Place
from tests.store.postgres.witness import Ledger, Producer, check_nothing_lost, make_app
from tests.worker.support import eventually_sync, working_in_thread

from fencepost.errors import (
    ConfigurationError,
    SchemaError,
    StoreUnavailableError,
    UnknownOutcomeError,
)
from fencepost.store.postgres.engine import schema

CONNECTIONS_MAX = 40


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    settings = {"max_connections": str(CONNECTIONS_MAX)}
    with PostgresServer(durable=True, password="of-the-superuser", settings=settings) as server:
        trouble.prepare(server)
        yield server


@pytest.fixture
def place(server: PostgresServer) -> Place:
    return Place(server)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


@pytest.mark.parametrize("name", TROUBLES)
def test_a_caller_is_told_what_is_wrong_where_and_what_to_do(
    place: Place, ledger: Ledger, name: str
) -> None:
    with make_app(place.url) as app:
        work = ledger.task(app)
        app.migrate()
        first = work.submit(1)
        with TROUBLES[name].befall(place):
            with pytest.raises(StoreUnavailableError) as caught:
                work.submit(2)
            text = str(caught.value)
            assert place.shown in text
            assert SECRET not in text
            for part in TROUBLES[name].says:
                assert part in text
        assert work.submit(3).id != first.id
        assert app.jobs.count() == 2


@pytest.mark.parametrize("name", TROUBLES)
def test_a_worker_outlasts_it_and_nothing_is_lost(place: Place, ledger: Ledger, name: str) -> None:
    with make_app(place.url) as callers, make_app(place.url) as app:
        callers.migrate()
        task = ledger.task(callers)
        ledger.task(app, seconds=0.01)
        sync, awaited = Producer(callers, task), Producer(callers, task, is_async=True)
        with working_in_thread(app, concurrency=4):
            with sync, awaited:
                eventually_sync(lambda: len(ledger.runs()) > 10, "jobs that run")
                with TROUBLES[name].befall(place):
                    before = app.session.counters.get("store.unavailable", during="claim")
                    eventually_sync(
                        lambda: (
                            app.session.counters.get("store.unavailable", during="claim") > before
                        ),
                        "a worker that feels it",
                    )
                    eventually_sync(lambda: sync.errors and awaited.errors, "callers who are told")
                sync.wait_for_more()
                awaited.wait_for_more()
            check_nothing_lost(callers, ledger, sync.acknowledged + awaited.acknowledged)
        for error in sync.errors + awaited.errors:
            assert isinstance(error, StoreUnavailableError | UnknownOutcomeError)
            assert place.shown in str(error)
            assert SECRET not in str(error)


def test_a_server_that_is_full_says_so(place: Place, ledger: Ledger) -> None:
    with ExitStack() as held, make_app(place.url) as app:
        for _ in range(CONNECTIONS_MAX):
            with suppress(psycopg.OperationalError):  # some places are kept for the superuser
                held.enter_context(psycopg.connect(place.url))
        with pytest.raises(StoreUnavailableError, match="raise max_connections, or use a pooler"):
            app.jobs.count()


def test_a_worker_may_start_before_the_server_and_before_the_migration(
    place: Place, ledger: Ledger
) -> None:
    with make_app(place.url) as app:
        work = ledger.task(app)
        place.server.stop()
        with working_in_thread(app):
            counters = app.session.counters
            felt = eventually_sync(lambda: counters.get("store.unavailable", during="limit_types"))
            place.server.start()
            with pytest.raises(SchemaError, match=r"no schema.*run `fencepost migrate`"):
                work.submit(1)
            eventually_sync(lambda: counters.get("store.unavailable", during="limit_types") > felt)
            app.migrate()
            job = work.submit(1)
            check_nothing_lost(app, ledger, [job.id])


def test_a_worker_waits_for_a_migration_that_it_needs(
    place: Place, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = schema.migrations()
    newest = known[-1][0]
    with make_app(place.url) as before, make_app(place.url) as app:
        before.migrate()
        later = (newest + 1, "later", "alter table fencepost.submissions add column later text;\n")
        monkeypatch.setattr(schema, "migrations", lambda: [*known, later])
        work = ledger.task(app)
        with working_in_thread(app):
            counters = app.session.counters
            eventually_sync(lambda: counters.get("store.unavailable", during="limit_types") >= 2)
            says = f"{place.database}.*version {newest}, .* needs {newest + 1}; run `fencepost mig"
            with pytest.raises(SchemaError, match=says):
                work.submit(1)
            assert app.migrate() == ["later"]
            check_nothing_lost(app, ledger, [work.submit(1).id])


def test_a_worker_waits_for_a_schema_that_it_knows(place: Place, ledger: Ledger) -> None:
    """A newer one is refused at the start; whoever runs already goes on."""
    later = "insert into fencepost.schema_version(version, name) values (9999, 'later')"
    with make_app(place.url) as before, make_app(place.url) as app:
        work = ledger.task(before)
        before.migrate()
        jobs = [work.submit(1)]
        with psycopg.connect(place.url, autocommit=True) as admin:
            admin.execute(later)
            ledger.task(app)
            with pytest.raises(SchemaError, match=r"version 9999.*upgrade Fencepost"):
                app.jobs.count()
            with working_in_thread(app):
                jobs.append(work.submit(2))
                counters = app.session.counters
                eventually_sync(
                    lambda: counters.get("store.unavailable", during="limit_types") >= 2
                )
                assert ledger.runs() == {}
                admin.execute("delete from fencepost.schema_version where version = 9999")
                check_nothing_lost(before, ledger, [job.id for job in jobs])


def test_a_url_that_makes_no_sense_is_refused_without_its_password() -> None:
    for url in (
        f"postgresql://{trouble.ROLE}:{SECRET}@host:port/jobs",
        f"postgresql://{trouble.ROLE}:{SECRET}@host/jobs?pool_size=many",
        f"postgresql://{trouble.ROLE}:{SECRET}@host/jobs?nonsense=1",
        f"postgre://{trouble.ROLE}:{SECRET}@host/jobs",
        f"postgresql://{trouble.ROLE}:{SECRET}@[host/jobs",
    ):
        with pytest.raises(ConfigurationError) as caught, make_app(url) as app:
            app.jobs.count()
        assert SECRET not in str(caught.value)
        assert SECRET not in repr(app)
