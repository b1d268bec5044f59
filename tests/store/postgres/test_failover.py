"""A primary that dies, and its standby that takes over: nothing acknowledged is lost.

PostgreSQL-specific: no other store has a second server.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.servers.postgres import PostgresServer
from tests.store.postgres.witness import Ledger, Producer, check_nothing_lost, make_app
from tests.worker.support import eventually_sync, working_in_thread

from fencepost.errors import StoreUnavailableError, UnknownOutcomeError

DATABASE = "jobs"
IN_STEP = "select count(*) from pg_stat_replication where sync_state = 'sync'"


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    with PostgresServer(durable=True) as server:
        server.create_database(DATABASE)
        with make_app(server.url(DATABASE)) as app:
            app.migrate()
        yield server


@pytest.fixture
def standby(primary: PostgresServer) -> Iterator[PostgresServer]:
    """A second server, which has what the first has committed before its clients are told."""
    with PostgresServer(durable=True, copy_of=primary) as server:
        with psycopg.connect(primary.url(), autocommit=True) as admin:
            admin.execute("alter system set synchronous_standby_names = '*'")
            admin.execute("select pg_reload_conf()")
            eventually_sync(lambda: admin.execute(IN_STEP).fetchone() == (1,), "a standby in step")
        yield server


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


def test_workers_and_callers_follow_when_the_standby_takes_over(
    primary: PostgresServer, standby: PostgresServer, ledger: Ledger
) -> None:
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    url = f"postgresql://postgres@{hosts}/{DATABASE}"
    with make_app(url) as callers, make_app(url) as app:
        task = ledger.task(callers)
        ledger.task(app, seconds=0.01)
        sync, awaited = Producer(callers, task), Producer(callers, task, is_async=True)
        with working_in_thread(app, concurrency=4):
            with sync, awaited:
                eventually_sync(lambda: len(ledger.runs()) > 20, "jobs that run")
                primary.crash()
                eventually_sync(lambda: sync.errors and awaited.errors, "callers who are told")
                standby.promote()
                sync.wait_for_more()
                awaited.wait_for_more()
            check_nothing_lost(callers, ledger, sync.acknowledged + awaited.acknowledged)
    for error in sync.errors + awaited.errors:
        assert isinstance(error, StoreUnavailableError | UnknownOutcomeError)
        assert hosts in str(error)


def test_a_standby_can_be_looked_at_and_a_worker_on_it_waits_until_it_is_promoted(
    primary: PostgresServer, standby: PostgresServer, ledger: Ledger
) -> None:
    with make_app(primary.url(DATABASE)) as app:
        job = ledger.task(app).submit(1)
    with make_app(standby.url(DATABASE)) as app:
        work = ledger.task(app)
        # Committed is not yet applied there.
        eventually_sync(lambda: app.jobs.count() == 1, "a job that has arrived")
        assert app.jobs.get(job.id).type == "work"
        with pytest.raises(StoreUnavailableError, match="read-only standby; name all hosts"):
            work.submit(2)
        with working_in_thread(app):
            counters = app.session.counters
            eventually_sync(lambda: counters.get("store.unavailable", during="claim") >= 2)
            assert ledger.runs() == {}
            primary.crash()
            standby.promote()
            check_nothing_lost(app, ledger, [job.id])
