"""Connections cut in mid-statement, before the server heard it and after it had committed.

PostgreSQL-specific: no other store is reached by a wire.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.servers.fixtures import FreshPostgres, postgres_sources
from tests.store.postgres.cutting import Proxy
from tests.store.postgres.witness import Ledger, Producer, check_nothing_lost, make_app
from tests.worker.support import LONG, eventually_sync, working_in_thread

from fencepost import App, Context, TaskHandle
from fencepost.errors import DuplicateJobError, StoreUnavailableError, UnknownOutcomeError

CUTS = 40


@pytest.fixture
def url(fresh_postgres: FreshPostgres) -> str:
    url = fresh_postgres(postgres_sources()[0])
    with make_app(url) as app:
        app.migrate()
    return url


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    with Proxy(url) as proxy:
        yield proxy


@pytest.fixture
def app(proxy: Proxy) -> Iterator[App]:
    """An app on the far side of the proxy."""
    with make_app(proxy.url) as app:
        yield app


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


def submit(task: TaskHandle[[int], str], colour: str, number: int) -> tuple[str, bool]:
    """Submit with a key; return the id, and whether it had been there."""
    keyed = task.using(key=f"key {number}")
    if colour == "sync":
        job = keyed.submit(number)
        return job.id, job.duplicate
    return asyncio.run(_submit(keyed, number))


async def _submit(task: TaskHandle[[int], str], number: int) -> tuple[str, bool]:
    job = await task.aio.submit(number)
    return job.id, job.duplicate


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("is_committed", [False, True])
def test_a_submission_of_unknown_outcome_is_repeated_with_its_key(
    app: App, proxy: Proxy, ledger: Ledger, colour: str, is_committed: bool
) -> None:
    """S0-57: and the reply to that says which it was."""
    work = ledger.task(app)
    submit(work, colour, 1)
    proxy.cut_request_with("key 2", is_heard=is_committed)
    with pytest.raises(UnknownOutcomeError, match="may have been done: repeat it with its key"):
        submit(work, colour, 2)
    assert submit(work, colour, 2)[1] is is_committed
    assert app.jobs.count() == 2


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("is_committed", [False, True])
def test_an_event_of_unknown_outcome_is_there_with_its_jobs_or_not_at_all(
    app: App, proxy: Proxy, url: str, colour: str, is_committed: bool
) -> None:
    """S0-57, S3-16, C15: sent again with its key, it is refused if it was there."""
    event = app.event("order.paid")
    event.on(name="ship")(_handle)
    event.on(name="bill")(_handle)

    def send(number: int) -> bool:
        """Return whether the key of this number was free."""
        key = f"order {number}"
        try:
            if colour == "sync":
                event.send_idempotent(key, order=number)
            else:
                asyncio.run(event.aio.send_idempotent(key, order=number))
        except DuplicateJobError:
            return False
        return True

    assert send(1)
    # With its end: what tells workers of the first event speaks of `synchronous_commit`.
    proxy.cut_request_with("commit\0", is_heard=is_committed)
    with pytest.raises(UnknownOutcomeError):
        send(2)
    with make_app(url) as witness:
        jobs = witness.jobs.count() - 2
        events = len(witness.events.find(name="order.paid")) - 1
        assert (events, jobs) == ((1, 2) if is_committed else (0, 0))
        assert send(2) is not is_committed
        assert witness.jobs.count() == 4


@pytest.mark.parametrize("is_heard", [False, True])
@pytest.mark.parametrize("count", [1, 20])
async def test_what_only_prepares_a_submission_is_repeated_unasked(
    app: App, proxy: Proxy, ledger: Ledger, is_heard: bool, count: int
) -> None:
    """The number of a new type is nothing that anybody has to be told of."""
    work = ledger.task(app)
    proxy.cut_request_with("lane_number", is_heard=is_heard)
    if count == 1:
        work.submit(1)
    else:  # several types, so that they are posted by themselves and share a round trip
        tasks = [app.task(name=f"work {number}")(_idle) for number in range(count)]
        store = app.store
        jobs = [task.prepare() for task in tasks]
        await asyncio.gather(*[store.run_async(store.queue.enqueue([job])) for job in jobs])
    assert not proxy.is_about_to_cut
    assert app.jobs.count() == count


def _idle() -> None:
    pass


def _handle(order: int) -> None: ...


def test_an_all_or_nothing_submission_cut_before_its_commit_is_repeated_unasked(
    app: App, proxy: Proxy, ledger: Ledger
) -> None:
    work = ledger.task(app)
    work.submit_many([1, 2])
    for is_heard in (False, True):
        proxy.cut_request_with("31415", is_heard=is_heard)
        assert len(work.submit_many([3, 31415])) == 2
        assert not proxy.is_about_to_cut
    assert app.jobs.count() == 6


def test_through_many_cuts_nothing_is_lost_and_nothing_is_doubled(
    app: App, proxy: Proxy, url: str, ledger: Ledger
) -> None:
    """S0-1, S0-57: submissions, claims, heartbeats, settlements, whatever was under way."""
    with make_app(proxy.url) as callers, make_app(url) as witness:
        task = ledger.task(callers)
        ledger.task(app, seconds=0.01)
        sync, awaited = Producer(callers, task), Producer(callers, task, is_async=True)
        with working_in_thread(app, concurrency=4):
            with sync, awaited:
                eventually_sync(lambda: len(ledger.runs()) > 10, "jobs that run")
                for number in range(CUTS):
                    (proxy.cut_next_answer, proxy.cut_next_request)[number % 2]()
                    eventually_sync(lambda: not proxy.is_about_to_cut, "a cut")
                sync.wait_for_more()
                awaited.wait_for_more()
            check_nothing_lost(witness, ledger, sync.acknowledged + awaited.acknowledged)
        kinds = {type(error) for error in sync.errors + awaited.errors}
        assert kinds <= {UnknownOutcomeError, StoreUnavailableError}


def test_a_server_that_hangs_keeps_nobody_at_work_under_a_lease_that_ran_out(
    app: App, proxy: Proxy, url: str
) -> None:
    """S2-32: although nothing says for a minute that it is away."""
    reasons: list[str | None] = []
    started = threading.Event()

    @app.task
    async def stay(ctx: Context) -> int:
        started.set()
        try:
            while ctx.attempt == 1:
                await asyncio.sleep(0.01)
        finally:
            reasons.append(ctx.cancel_reason)
        return ctx.attempt

    with make_app(url) as caller, working_in_thread(app):
        job = caller.task(name="stay")(stay.__wrapped__).submit()
        assert started.wait(LONG)
        proxy.hold()
        try:
            eventually_sync(lambda: reasons, "a handler that is interrupted")
        finally:
            proxy.go_on()
        assert reasons[0] == "lease_lost"
        assert job.result(LONG) == 2


def test_a_session_that_an_administrator_ends_costs_nobody_anything(
    url: str, ledger: Ledger
) -> None:
    """The server says farewell to an idle one, and to a busy one that it rolled back."""
    end_all = (
        "select count(pg_terminate_backend(pid)) from pg_stat_activity "
        "where datname = current_database() and application_name = 'fencepost'"
    )
    with make_app(url) as callers, make_app(url) as app:
        task = ledger.task(callers)
        ledger.task(app, seconds=0.01)
        sync, awaited = Producer(callers, task), Producer(callers, task, is_async=True)
        with psycopg.connect(url, autocommit=True) as admin, working_in_thread(app, concurrency=4):
            with sync, awaited:
                for _ in range(10):
                    sync.wait_for_more(2)
                    awaited.wait_for_more(2)
                    admin.execute(end_all)
            check_nothing_lost(callers, ledger, sync.acknowledged + awaited.acknowledged)
