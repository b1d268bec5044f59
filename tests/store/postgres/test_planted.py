"""What a hostile role plants in schema public is never run as another role (decision 0044).

PostgreSQL-specific: only there do names in SQL mean what somebody else has created. Planted before
the roles and the schema are made, so that whoever makes those is not deceived either; on servers of
their own, since roles belong to all of one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import asyncpg
import psycopg
import pytest
from tests.servers.pgbouncer import PgBouncer, find_pgbouncer
from tests.servers.places import sources
from tests.servers.postgres import Postgres, PostgresServer
from tests.store.postgres.planting import Admin, plant, sprung
from tests.store.postgres.using import use
from tests.worker.support import LONG, working_in_thread

from fencepost import App, Context, Retry
from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import NewJob
from fencepost.errors import DuplicateJobError, JobFailedError
from fencepost.store.postgres.engine import schema
from fencepost.store.postgres.engine.connections import Connections
from fencepost.store.postgres.engine.session import ServerSession
from fencepost.store.postgres.store import PostgresStore

ROLES = ("fencepost_server", "fencepost_runtime")


@pytest.fixture(scope="module", params=sources())
def server(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    with PostgresServer(request.param) as running:
        url = running.create_database("planted")
        with psycopg.connect(url, autocommit=True) as admin:
            plant(admin)
        with psycopg.connect(url, autocommit=True) as superuser:
            superuser.execute(schema.roles().encode())
        with psycopg.connect(as_role(url, "fencepost_owner"), autocommit=True) as owner:
            schema.apply(owner)
        running.disconnect()
        yield running


@pytest.fixture
def url(server: Postgres) -> Iterator[str]:
    """A database with planted operators, and roles and schema made after those."""
    yield server.create_database("jobs", template="planted")
    server.drop_database("jobs")


@pytest.fixture
def admin(url: str) -> Iterator[Admin]:
    """Whoever looks whether a trap was sprung; fails the test if one was."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("set search_path = pg_catalog")
        assert not sprung(connection)
        yield connection
        assert not sprung(connection)


def as_role(url: str, role: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}options={quote(f'-c role={role}')}"


def work(app: App) -> None:
    """Have an app do a bit of everything."""

    @app.task(retry=Retry(max_attempts=2, initial_delay=0.01))
    def add(ctx: Context, a: int, b: int) -> int:
        if ctx.attempt == 1 and a < 0:
            raise ValueError("not yet")
        return a + b

    @app.task(retry=Retry(max_attempts=1))
    def fail() -> None:
        raise ValueError("no")

    with working_in_thread(app, concurrency=4):
        assert add.submit(1, 2).result(LONG) == 3
        assert add.submit(-1, 2).result(LONG) == 1
        many = add.submit_many([(n, n) for n in range(30)])
        assert [job.result(LONG) for job in many] == [2 * n for n in range(30)]
        keyed = add.using(key="k", delay=0.01, tags={"a": "b"}, correlation_id="c")
        assert keyed.submit(1, 1).id == keyed.submit(1, 1).id
        limited = add.using(concurrency_key="one")
        assert [job.result(LONG) for job in limited.submit_many([(1, 1), (2, 2)])] == [2, 4]
        with pytest.raises(JobFailedError):
            fail.submit().result(LONG)
        assert asyncio.run(_awaited(add)) == 7
    assert app.jobs.count(tags={"a": "b"}) == 1


async def _awaited(add: Any) -> int:
    job = await add.aio.submit(3, 4)
    result: int = await job.result(LONG)
    return result


def test_every_function_fixes_its_search_path(admin: Admin) -> None:
    rows = admin.execute("""
        select p.oid::regprocedure::text, p.proconfig from pg_proc p
        where p.pronamespace = 'fencepost'::regnamespace
    """).fetchall()
    assert len(rows) > 50
    fixed = "search_path=pg_catalog, pg_temp"
    loose = [name for name, config in rows if fixed not in (config or ())]
    assert loose == []


@pytest.mark.parametrize("role", ROLES)
def test_an_app_runs_nothing_that_was_planted(url: str, admin: Admin, role: str) -> None:
    app = App(as_role(url, role))
    try:
        work(app)
    finally:
        app.close()


@pytest.mark.parametrize("role", ROLES)
def test_a_store_runs_nothing_that_was_planted(url: str, admin: Admin, role: str) -> None:
    store = PostgresStore(as_role(url, role))
    try:
        use(store)
        assert store.pending_migrations() == []
        assert store.migrate() == []
    finally:
        store.close()


def test_nothing_planted_is_run_behind_a_pooler(server: Postgres, url: str, admin: Admin) -> None:
    """No setting of a session lasts there, so each transaction begins with it."""
    if find_pgbouncer() is None:
        pytest.skip("PgBouncer is not installed here, and no wheel has it (Debian: pgbouncer)")
    admin.execute("alter role fencepost_server login")
    with PgBouncer(server) as pooler:
        through = pooler.url("jobs").replace("postgres@", "fencepost_server@")
        app = App(through)
        try:
            work(app)
        finally:
            app.close()
        with psycopg.connect(through) as connection:  # whose session is one that the app had
            assert connection.execute("show search_path").fetchone() == ('"$user", public',)


def test_nothing_planted_is_run_by_sessions_that_keep_no_settings(
    url: str, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a pooler, which is not at hand everywhere: each is greeted as one of a pooler's."""
    sessions: list[ServerSession] = []

    def greet(_: Connections, session: ServerSession) -> None:
        session.is_pooled = True
        sessions.append(session)

    monkeypatch.setattr(Connections, "_greet", greet)
    store = PostgresStore(as_role(url, "fencepost_server"))
    try:
        use(store)
        asyncio.run(_look(store))
        paths = {
            each.execute("show search_path").fetchone() for each in sessions if not each.closed
        }
        assert paths == {('"$user", public',)}
    finally:
        store.close()


async def _look(store: PostgresStore) -> None:
    """Ask several things at once, which then share round trips."""
    asked = [store.run_async(store.overview.inspect()) for _ in range(3)]
    submitted = [store.run_async(store.queue.enqueue([NewJob(type="mail")])) for _ in range(3)]
    await asyncio.gather(*asked, *submitted)


@pytest.mark.parametrize("path", ['"$user", public', "shadow, pg_catalog", "other"])
def test_a_callers_search_path_is_neither_used_nor_changed(
    url: str, admin: Admin, path: str
) -> None:
    store = PostgresStore(as_role(url, "fencepost_runtime"))
    once = NewJob(type="mail", key=Key("k", None, OnDuplicate.REJECT))
    twice = NewJob(type="mail", id=bytes(16))
    others = [NewJob(type="mail"), NewJob(type="mail", tags={"a": "b"}), once]
    try:
        with psycopg.connect(as_role(url, "fencepost_runtime")) as conn:
            conn.execute(f"set local search_path = {path}".encode())
            store.run_in(conn, lambda view: view.queue.enqueue(others))
            assert conn.execute("show search_path").fetchone() == (path,)
            with pytest.raises(DuplicateJobError):
                store.run_in(conn, lambda view: view.queue.enqueue([once], atomic=True))
            assert conn.execute("show search_path").fetchone() == (path,)
            with pytest.raises(psycopg.errors.UniqueViolation), conn.transaction():
                store.run_in(conn, lambda view: view.queue.enqueue([twice, twice]))
            assert conn.execute("show search_path").fetchone() == (path,)
            conn.commit()
            assert conn.execute("show search_path").fetchone() == ('"$user", public',)
    finally:
        store.close()


async def test_an_awaited_call_leaves_the_callers_path_alone(url: str, admin: Admin) -> None:
    store = PostgresStore(as_role(url, "fencepost_runtime"))
    once = NewJob(type="mail", key=Key("k", None, OnDuplicate.REJECT))
    tagged = NewJob(type="mail", tags={"a": "b"})
    shown = ("shadow, pg_catalog",)
    try:
        async with await psycopg.AsyncConnection.connect(as_role(url, "fencepost_runtime")) as conn:
            await conn.execute("set local search_path = shadow, pg_catalog")
            await store.run_in_async(conn, lambda view: view.queue.enqueue([once]))
            assert await (await conn.execute("show search_path")).fetchone() == shown
            with pytest.raises(DuplicateJobError):
                await store.run_in_async(conn, lambda view: view.queue.enqueue([once], atomic=True))
            assert await (await conn.execute("show search_path")).fetchone() == shown
        other = await asyncpg.connect(as_role(url, "fencepost_runtime"))
        async with other.transaction():
            await other.execute("set local search_path = shadow, pg_catalog")
            await store.run_in_async(other, lambda view: view.queue.enqueue([tagged]))
            assert tuple(await other.fetchrow("show search_path") or ()) == shown
            with pytest.raises(DuplicateJobError):
                await store.run_in_async(
                    other, lambda view: view.queue.enqueue([once], atomic=True)
                )
            assert tuple(await other.fetchrow("show search_path") or ()) == shown
        await other.close()
    finally:
        await asyncio.to_thread(store.close)
