"""A small app behind a real PgBouncer in transaction mode, with a direct way for news and without.

PostgreSQL-specific: it is the store that people put a pooler before.
"""

from __future__ import annotations

import asyncio
import io
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from tests.servers.pgbouncer import DEFAULTS, PgBouncer
from tests.worker.support import LONG, eventually_sync, working_in_thread

from fencepost import App, Context, PermanentError, Retry, State
from fencepost.actions.local import jobs
from fencepost.errors import JobCancelledError, JobFailedError, StoreUnavailableError
from fencepost.observe import names
from fencepost.observe.log import ConsoleFormatter, logger
from fencepost.worker.run import fetcher

RETRY = Retry(max_attempts=3, initial_delay=0.01)


@pytest.fixture
def through(pgbouncer: PgBouncer, postgres_url: str) -> str:
    """The way through the pooler to an empty database."""
    return pgbouncer.url(postgres_url.rpartition("/")[2].partition("?")[0])


@pytest.fixture
def around(through: str, postgres_url: str) -> str:
    """The same, with a direct way for news."""
    return f"{through}?listen={quote(postgres_url, safe='')}"


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(ConsoleFormatter())
    logger.addHandler(handler)
    yield stream
    logger.removeHandler(handler)


def poll_each(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (fetcher, jobs):
        monkeypatch.setattr(module, "POLL_INTERVAL", seconds)


def submit_in_many_ways(app: App) -> None:
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    with working_in_thread(app, concurrency=8):
        assert add.submit(1, 2).result(LONG) == 3
        many = add.submit_many([(n, n) for n in range(50)])
        assert [job.result(LONG) for job in many] == [2 * n for n in range(50)]
        assert asyncio.run(_submit_many(add)) == list(range(50))
        keyed = add.using(key="k", delay=0.05, tags={"a": "b"})
        first, second = keyed.submit(1, 1), keyed.submit(1, 1)
        assert (first.id, second.duplicate) == (second.id, True)
        assert first.result(LONG) == 2
    assert app.jobs.count(state=State.COMPLETED, tags={"a": "b"}) == 1


def endure(app: App) -> None:
    started = threading.Event()

    @app.task
    async def resume(ctx: Context) -> Any:
        if ctx.attempt == 1:
            ctx.progress(0.5, "half")
            await ctx.aio.checkpoint({"at": 7})
            raise RuntimeError("once")
        return ctx.last_checkpoint

    @app.task
    async def last(seconds: float) -> str:
        started.set()
        await asyncio.sleep(seconds)
        return "lasted"

    with working_in_thread(app, lease_ttl=1):
        assert resume.submit().result(LONG) == {"at": 7}
        assert last.submit(1.5).result(LONG) == "lasted"
        assert app.session.counters.get("store.operation", operation="heartbeat") >= 1
        started.clear()
        long = last.submit(600)
        assert started.wait(LONG)
        long.cancel()
        with pytest.raises(JobCancelledError):
            long.result(LONG)
        eventually_sync(lambda: app.session.counters.get("lease.lost", reason="cancelled"))
    assert app.jobs.count(state=State.RUNNING) == 0


def steer(app: App) -> None:
    running: list[int] = []
    most = 0

    @app.task(queue="narrow")
    def alone(number: int) -> None:
        nonlocal most
        running.append(number)
        most = max(most, len(running))
        time.sleep(0.01)
        running.remove(number)

    @app.task
    def refuse() -> None:
        raise PermanentError("no", code="no")

    app.queues.limit("narrow", max_running=1)
    with working_in_thread(app, concurrency=8):
        for job in [alone.submit(number) for number in range(8)]:
            job.result(LONG)
        assert most == 1
        refused = refuse.submit()
        with pytest.raises(JobFailedError):
            refused.result(LONG)
        assert [letter.job_id for letter in app.dead_letters.list()] == [refused.id]
        app.dead_letters.discard(refused.id)
        alone.pause()
        waiting = alone.submit(9)
        assert waiting.why()
        alone.resume()
        waiting.result(LONG)
        assert [worker.concurrency for worker in app.workers.list()] == [8]


async def _submit_many(add: Any) -> list[int]:
    jobs = await asyncio.gather(*[add.aio.submit(0, n) for n in range(50)])
    return [await job.result(LONG) for job in jobs]


def sessions_behind(url: str) -> list[dict[str, Any]]:
    """Return what a fresh client finds in each of the server's sessions that the pooler keeps."""
    look = """
        select pg_backend_pid() pid, (select count(*) from pg_prepared_statements) prepared,
          (select count(*) from pg_listening_channels()) listening,
          (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())
            locks,
          (select json_object_agg(name, setting) from pg_settings where source = 'session') changed
    """
    with ExitStack() as stack:
        found = []
        for _ in range(int(DEFAULTS["default_pool_size"])):
            # In a transaction each has a session to itself.
            client = stack.enter_context(psycopg.connect(url, prepare_threshold=None))
            cursor = client.cursor(row_factory=psycopg.rows.dict_row)
            row = cursor.execute(look).fetchone()
            assert row is not None
            found.append(row)
        return found


@pytest.mark.parametrize("way", ["through", "around"])
@pytest.mark.parametrize("use", [submit_in_many_ways, endure, steer])
def test_a_small_app_works_and_leaves_nothing_in_a_session(
    request: pytest.FixtureRequest,
    through: str,
    use: Callable[[App], None],
    way: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    poll_each(0.05, monkeypatch)  # for the sake of speed
    with App(request.getfixturevalue(way), retry=RETRY) as app:
        app.migrate()
        use(app)
    behind = sessions_behind(through)
    assert len({session.pop("pid") for session in behind}) == len(behind) > 1
    for session in behind:
        changed = session.pop("changed") or {}
        # The pooler itself makes these follow its clients.
        assert changed.keys() <= {"application_name", "client_encoding", "DateStyle", "TimeZone"}
        assert session == {"prepared": 0, "listening": 0, "locks": 0}


def test_with_a_direct_way_news_arrive_without_polling(
    around: str, logged: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll_each(10 * LONG, monkeypatch)  # longer than any test waits
    with App(around) as app, App(around) as caller:
        app.migrate()
        app.task(work)
        submitted = caller.task(work)
        with working_in_thread(app):
            # The first claim, and the one after it is heard that the server can be heard.
            eventually_sync(lambda: claims(app) >= 2, "an idle worker")
            assert submitted.submit().result(LONG) == "done"
    assert names.STORE_DEAF not in logged.getvalue()


def test_without_one_a_worker_polls_and_says_so(through: str, logged: io.StringIO) -> None:
    with App(through) as app, App(through) as caller:
        app.migrate()
        app.task(work)
        submitted = caller.task(work)
        with working_in_thread(app):
            eventually_sync(lambda: names.STORE_DEAF in logged.getvalue(), "a warning")
            eventually_sync(lambda: claims(app) >= 1, "an idle worker")
            assert submitted.submit().result(LONG) == "done"
    warnings = [line for line in logged.getvalue().splitlines() if names.STORE_DEAF in line]
    assert len(warnings) == 2, "once for the worker, once for the caller who waits"
    assert all(through in line for line in warnings)


def test_a_pooler_that_is_restarted_is_waited_for(through: str, pgbouncer: PgBouncer) -> None:
    with App(through) as app:
        app.migrate()
        task = app.task(work)
        with working_in_thread(app):
            assert task.submit().result(LONG) == "done"
            pgbouncer.stop()
            with pytest.raises(StoreUnavailableError, match="is the server running"):
                task.submit()
            counters = app.session.counters
            eventually_sync(lambda: counters.get("store.unavailable", during="claim"))
            pgbouncer.start()
            assert task.submit().result(LONG) == "done"


def work() -> str:
    return "done"


def claims(app: App) -> float:
    return app.session.counters.get("store.operation", operation="claim")
