"""A primary that dies, and its standby that takes over: nothing acknowledged is lost.

PostgreSQL-specific: no other store has a second server.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest
from tests.servers.postgres import PostgresServer
from tests.store.postgres.witness import Ledger, Producer, check_nothing_lost, make_app
from tests.worker.support import eventually_sync, working_in_thread

from fencepost.core.job.job import NewJob
from fencepost.errors import StoreUnavailableError, UnknownOutcomeError
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.plan import Operation
from fencepost.store.postgres.store import PostgresStore

T = TypeVar("T")

DATABASE = "jobs"
FOLLOWERS = "select count(*) from pg_stat_replication"
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


def test_what_an_asynchronous_standby_did_not_have_is_lost_and_nothing_else_is_mixed_up(
    primary: PostgresServer,
) -> None:
    """S0-1: living processes remember lanes that the new primary never had."""
    with PostgresServer(durable=True, copy_of=primary) as standby:
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        url = f"postgresql://postgres@{hosts}/{DATABASE}"
        with (
            psycopg.connect(primary.url(), autocommit=True) as admin,
            psycopg.connect(standby.url(), autocommit=True) as left_behind,
        ):
            eventually_sync(lambda: admin.execute(FOLLOWERS).fetchone() == (1,), "a standby")
            left_behind.execute("alter system set primary_conninfo = ''")
            left_behind.execute("select pg_reload_conf()")
            eventually_sync(lambda: admin.execute(FOLLOWERS).fetchone() == (0,), "no standby")
        caller, other, worker = (PostgresStore(url) for _ in range(3))
        kinds = [NewJob(type=name) for name in ("one", "two", "three")]
        caller.run(caller.queue.enqueue(kinds))
        assert len(_claimed(worker)) == 3
        primary.crash()
        standby.promote()
        wanted: dict[str, str] = {}
        for store, jobs in ((other, [NewJob(type="four"), kinds[2]]), (caller, kinds)):
            for job in jobs:
                [reply] = _again(store, store.queue.enqueue([job]))
                wanted[reply.job_id] = job.type
        assert _claimed(worker) == wanted
        for store in (caller, other, worker):
            store.close()


def _again(store: PostgresStore, operation: Operation[T]) -> T:
    """Run *operation*, once more if the connection had ended with the old primary."""
    try:
        return store.run(operation)
    except UnknownOutcomeError:
        return store.run(operation)


def _claimed(store: PostgresStore) -> dict[str, str]:
    found = _again(store, store.queue.claim(ClaimRequest(worker="w", limit=100)))
    return {job.id: job.type for job in found.jobs}


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
