"""Jobs in the transaction of a FastAPI request: stored if, and only if, that commits.

On PostgreSQL only: no other store can join a transaction of the caller's.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import asyncpg
import httpx
import psycopg
import pytest
import sqlalchemy as sa
from fastapi import Depends, FastAPI, HTTPException
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from tests.servers.fixtures import FreshPostgres, postgres_sources

from fencepost import App, ConfigurationError, TaskHandle
from fencepost.fastapi import Joining, SubmittedJob, joining

Ship = TaskHandle[[int], int]


@pytest.fixture
def app(fresh_postgres: FreshPostgres) -> Iterator[App]:
    with App(fresh_postgres(postgres_sources()[0])) as app:
        app.migrate()
        yield app


@pytest.fixture
def ship(app: App) -> Ship:
    @app.task
    def ship(order: int) -> int:
        return order

    @app.event("order.paid").on
    def bill(order: int) -> int:
        return order

    return ship


def sqlalchemy_session(url: str, driver: str) -> Callable[[], AsyncIterator[AsyncSession]]:
    engine = create_async_engine(
        url.replace("postgresql:", f"postgresql+{driver}:", 1), poolclass=sa.NullPool
    )
    sessions = async_sessionmaker(engine)

    async def session() -> AsyncIterator[AsyncSession]:
        async with sessions() as opened, opened.begin():
            yield opened

    return session


def asyncpg_connection(url: str) -> Callable[[], AsyncIterator[Any]]:
    async def connection() -> AsyncIterator[Any]:
        opened = await asyncpg.connect(url)
        try:
            async with opened.transaction():
                yield opened
        finally:
            await opened.close()

    return connection


def psycopg_connection(url: str) -> Callable[[], Iterator[Any]]:
    def connection() -> Iterator[Any]:
        with psycopg.connect(url) as opened:
            yield opened

    return connection


MADE: dict[str, Callable[[str], Any]] = {
    "AsyncSession over psycopg": lambda url: sqlalchemy_session(url, "psycopg"),
    "AsyncSession over asyncpg": lambda url: sqlalchemy_session(url, "asyncpg"),
    "asyncpg": asyncpg_connection,
    "psycopg": psycopg_connection,
}


def site_of(app: App, ship: Ship, dependency: Any, *, is_async: bool) -> FastAPI:
    site = FastAPI()
    in_transaction = Depends(dependency, scope="function")
    join = Depends(joining(in_transaction))

    async def submit_async(
        number: int, conn: Annotated[Any, in_transaction], jobs: Annotated[Joining, join]
    ) -> SubmittedJob:
        assert jobs.conn is conn
        job = await jobs(ship).aio.submit(number)
        await jobs(app.event("order.paid")).aio.send(order=number)
        check(number)
        return SubmittedJob.of(job)

    def submit(
        number: int, conn: Annotated[Any, in_transaction], jobs: Annotated[Joining, join]
    ) -> SubmittedJob:
        assert jobs.conn is conn
        job = jobs(ship).submit(number)
        jobs(app.event("order.paid")).send(order=number)
        check(number)
        return SubmittedJob.of(job)

    def check(number: int) -> None:
        assert app.jobs.count() == 0, "seen before the commit"
        if number == 1:
            raise HTTPException(402, "not paid")
        if number == 2:
            raise ZeroDivisionError

    site.post("/orders")(submit_async if is_async else submit)
    return site


@pytest.mark.parametrize("kind", MADE)
async def test_a_job_is_stored_if_the_request_commits(app: App, ship: Ship, kind: str) -> None:
    site = site_of(app, ship, MADE[kind](app.url), is_async=kind != "psycopg")
    transport = httpx.ASGITransport(app=site, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        refused = await client.post("/orders", params={"number": 1})
        failed = await client.post("/orders", params={"number": 2})
        assert (refused.status_code, failed.status_code) == (402, 500)
        assert app.jobs.count() == len(app.events.find()) == 0
        done = await client.post("/orders", params={"number": 3})
    assert done.status_code == 200
    assert app.jobs.count() == 2
    await app.worker().aio.run(until_idle=True)
    assert app.jobs.get(done.json()["id"]).result(0) == 3


async def test_a_commit_that_fails_stores_no_job_and_is_no_success(app: App, ship: Ship) -> None:
    """Checked at the commit, as a deferred constraint is; with the scope of the function."""
    with psycopg.connect(app.url) as admin:
        admin.execute("drop table if exists public.lines")
        admin.execute("create table public.lines (id integer unique deferrable initially deferred)")
        admin.execute("insert into lines values (7)")
    in_transaction = Depends(sqlalchemy_session(app.url, "asyncpg"), scope="function")
    site = FastAPI()

    @site.post("/orders", status_code=202)
    async def place(
        session: Annotated[AsyncSession, in_transaction],
        jobs: Annotated[Joining, Depends(joining(in_transaction))],
    ) -> SubmittedJob:
        await session.execute(sa.text("insert into lines values (7)"))
        return SubmittedJob.of(await jobs(ship).aio.submit(7))

    transport = httpx.ASGITransport(app=site, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert (await client.post("/orders")).status_code == 500
    assert app.jobs.count() == 0
    with psycopg.connect(app.url) as admin:
        admin.execute("drop table public.lines")


@pytest.mark.parametrize("given", [None, "session", object()])
def test_what_is_no_dependency_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="takes the dependency"):
        joining(given)
