"""``using(conn=…)``: jobs that are stored, or not, with the caller's own work.

On PostgreSQL only: no other store can join a transaction of the caller's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import django.db
import psycopg
import pytest
import sqlalchemy as sa
from django.db import transaction
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from tests.documentation import DOCS, Block, blocks_of
from tests.servers.django import configure, using_database
from tests.worker.support import LONG, eventually_sync, working_in_thread

from fencepost import (
    App,
    ConfigurationError,
    DuplicateJobError,
    JobNotFoundError,
    State,
    TaskHandle,
)

pytestmark = pytest.mark.postgres("migrated")

Conn = psycopg.Connection[tuple[Any, ...]]


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


@pytest.fixture
def app(postgres_url: str) -> Iterator[App]:
    """An app, and a table of the caller's in the same database."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute("create table orders (id integer primary key)")
    with App(postgres_url) as app:
        app.migrate()
        yield app


@pytest.fixture
def ship(app: App) -> TaskHandle[[int], int]:
    @app.task
    def ship(order: int) -> int:
        return order

    return ship


@pytest.fixture
def conn(app: App) -> Iterator[Conn]:
    with psycopg.connect(app.url) as connection:
        yield connection


@pytest.fixture
def engine(app: App) -> Iterator[sa.Engine]:
    engine = sa.create_engine(app.url.replace("postgresql:", "postgresql+psycopg:", 1))
    yield engine
    engine.dispose()


@pytest.fixture
async def async_engine(app: App) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(app.url.replace("postgresql:", "postgresql+psycopg:", 1))
    yield engine
    await engine.dispose()


@pytest.fixture
def django_connection(app: App) -> Iterator[Any]:
    configure()
    with using_database(app.url):
        yield django.db.connection


def orders(app: App) -> list[int]:
    with psycopg.connect(app.url) as connection:
        return [row[0] for row in connection.execute("select id from orders order by id")]


def shipped(app: App) -> list[int]:
    """Run what there is; return the orders whose jobs are done."""
    app.worker().run(until_idle=True)
    found = app.jobs.find(state="completed").jobs
    return sorted(app.jobs.get(job.id).result(0) for job in found)


# psycopg.


def test_a_committed_job_is_run(app: App, ship: TaskHandle[[int], int], conn: Conn) -> None:
    conn.execute("insert into orders values (1)")
    job = ship.using(conn=conn).submit(1)
    with pytest.raises(JobNotFoundError):
        job.refresh()
    assert app.jobs.count() == 0
    conn.commit()
    assert job.refresh().state is State.SCHEDULED
    assert shipped(app) == orders(app) == [1]
    assert job.result(0) == 1


def test_nothing_is_left_of_a_job_that_is_rolled_back(
    app: App, ship: TaskHandle[[int], int], conn: Conn
) -> None:
    with pytest.raises(psycopg.errors.UniqueViolation), conn.transaction():  # noqa: PT012
        conn.execute("insert into orders values (1)")
        ship.using(conn=conn).submit_idempotent("order:1", 1)
        ship.using(conn=conn, queue="other").submit_many([1, 2])
        conn.execute("insert into orders values (1)")
    assert orders(app) == []
    assert app.jobs.count() == 0
    assert not any(queue.counts for queue in app.queues.list())
    assert ship.submit_idempotent("order:1", 1).duplicate is False
    assert shipped(app) == [1]


def test_a_waiting_worker_is_woken_by_the_commit(
    app: App, ship: TaskHandle[[int], int], conn: Conn
) -> None:
    """Sooner than it would look by itself."""
    with working_in_thread(app) as worker:
        first = ship.submit(0)
        assert first.result(LONG) == 0
        eventually_sync(lambda: worker.counters.get("store.operation") > 0)
        with conn.transaction():
            job = ship.using(conn=conn).submit(1)
        assert job.result(LONG) == 1


def test_many_jobs_join_all_or_none(app: App, ship: TaskHandle[[int], int], conn: Conn) -> None:
    keyed = ship.using(key="k", on_duplicate="reject")
    held = keyed.submit(0)
    with pytest.raises(DuplicateJobError) as caught:
        app.submit_many([ship.prepare(1), keyed.prepare(2)], conn=conn)
    assert caught.value.existing == held
    jobs = app.submit_many([ship.prepare(3), ship.prepare(4)], conn=conn)
    more = ship.using(conn=conn).submit_many([5, 6])
    conn.commit()
    assert len(jobs) == len(more) == 2
    assert shipped(app) == [0, 3, 4, 5, 6]


def test_a_held_key_does_not_break_the_transaction(
    app: App, ship: TaskHandle[[int], int], conn: Conn
) -> None:
    held = ship.submit_idempotent("k", 1)
    conn.execute("insert into orders values (1)")
    with pytest.raises(DuplicateJobError) as caught:
        ship.using(conn=conn).submit_idempotent("k", 2)
    assert caught.value.existing == held
    same = ship.using(conn=conn, key="k").submit(3)
    assert (same, same.duplicate) == (held, True)
    # One that holds its key in this very transaction cannot be looked at yet.
    own = ship.using(conn=conn).submit_idempotent("own", 4)
    with pytest.raises(DuplicateJobError) as caught:
        ship.using(conn=conn).submit_idempotent("own", 5)
    assert caught.value.existing_id == own.id
    conn.commit()
    assert orders(app) == [1]
    assert shipped(app) == [1, 4]


def test_options_and_the_connection_go_together(
    app: App, ship: TaskHandle[[int], int], conn: Conn
) -> None:
    joined = ship.using(conn=conn, tags={"a": "b"}).using(delay="1h", correlation_id="c")
    job = joined.submit(1)
    apart = joined.using(conn=None).submit(2)
    assert apart.refresh().state is State.DELAYED
    conn.commit()
    found = job.refresh()
    assert (found.tags, found.correlation_id, found.state) == ({"a": "b"}, "c", State.DELAYED)


# The async face.


async def test_the_awaited_face_joins_as_well(
    app: App, ship: TaskHandle[[int], int], async_engine: AsyncEngine
) -> None:
    async with await psycopg.AsyncConnection.connect(app.url) as conn:
        task = ship.aio.using(conn=conn)
        await task.submit(0)
        await conn.rollback()
        job = await task.submit(1)
        await task.submit_many([2])
        await app.aio.submit_many([ship.prepare(3)], conn=conn)
        await task.submit_idempotent("k", 4)
        with pytest.raises(DuplicateJobError):
            await task.submit_idempotent("k", 4)
        with pytest.raises(JobNotFoundError):
            await job.refresh()
        await conn.commit()
        assert (await job.refresh()).state is State.SCHEDULED
    async with AsyncSession(async_engine) as session, session.begin():
        session.add(Order(id=5))
        await ship.aio.using(conn=session).submit(5)
    async with AsyncSession(async_engine) as session:
        session.add(Order(id=6))
        await ship.aio.using(conn=session).submit(6)
        await session.rollback()
    async with async_engine.begin() as connection:
        await connection.execute(sa.insert(Order).values(id=7))
        await ship.aio.using(conn=connection).submit(7)
    await app.worker().aio.run(until_idle=True)
    assert orders(app) == [5, 7]
    assert await app.aio.jobs.count(state="completed") == 6


# SQLAlchemy.


def test_sqlalchemy(app: App, ship: TaskHandle[[int], int], engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(sa.insert(Order).values(id=1))
        ship.using(conn=connection).submit(1)
    with Session(engine) as session:
        session.add(Order(id=2))
        ship.using(conn=session).submit(2)
        session.commit()
        session.add(Order(id=3))
        ship.using(conn=session).submit(3)
        session.rollback()
    with pytest.raises(IntegrityError), Session(engine) as session:  # noqa: PT012
        ship.using(conn=session).submit(4)
        session.add(Order(id=2))
        session.commit()
    assert shipped(app) == orders(app) == [1, 2]


# Django.


def test_django(app: App, ship: TaskHandle[[int], int], django_connection: Any) -> None:
    def place(number: int) -> None:
        with django_connection.cursor() as cursor:
            cursor.execute("insert into orders values (%s)", [number])
        ship.using(conn=django_connection).submit_idempotent(f"order:{number}", number)

    with transaction.atomic():
        place(1)
        with pytest.raises(ZeroDivisionError), transaction.atomic():  # noqa: PT012
            place(2)
            raise ZeroDivisionError
        assert app.jobs.count() == 0
    with pytest.raises(django.db.IntegrityError), transaction.atomic():  # noqa: PT012
        place(3)
        place(1)
    with transaction.atomic():
        ship.using(conn=django.db.connections["default"], tags={"a": "b"}).submit_many([4, 5])
    assert orders(app) == [1]
    assert shipped(app) == [1, 4, 5]


def test_django_outside_of_a_transaction_commits_at_once(
    app: App, ship: TaskHandle[[int], int], django_connection: Any
) -> None:
    """As everything does there."""
    job = ship.using(conn=django_connection).submit(1)
    assert job.refresh().state is State.SCHEDULED
    django_connection.close()
    ship.using(conn=django_connection).submit(2)  # Django connects again when it has to
    assert shipped(app) == [1, 2]


async def test_django_has_no_awaited_face(
    app: App, ship: TaskHandle[[int], int], django_connection: Any
) -> None:
    with pytest.raises(ConfigurationError, match="is not async"):
        await ship.aio.using(conn=django_connection).submit(1)


def test_django_on_another_database_is_refused(
    app: App, ship: TaskHandle[[int], int], tmp_path: Path
) -> None:
    from django.db.backends.sqlite3.base import DatabaseWrapper

    wrapper = DatabaseWrapper(
        {
            "NAME": str(tmp_path / "django.db"),
            "OPTIONS": {},
            "AUTOCOMMIT": True,
            "CONN_MAX_AGE": 0,
            "CONN_HEALTH_CHECKS": False,
            "TIME_ZONE": None,
        },
        alias="files",
    )
    with pytest.raises(ConfigurationError, match=r"\('files'\) is sqlite over .*psycopg 3 only"):
        ship.using(conn=wrapper).submit(1)
    wrapper.close()


# The documentation.


BLOCKS = [
    pytest.param(block, id=f"{name} line {block.line}")
    for name in ("transactions.md", "fastapi.md")
    for block in blocks_of(DOCS / name)
    if not block.is_run
]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_of_the_documentation_works(
    block: Block, postgres_url: str, tmp_path: Path
) -> None:
    """Here, since they need a server."""
    program = tmp_path / "app.py"
    program.write_text(block.source, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, program.name],
        cwd=tmp_path,
        env={**os.environ, "DATABASE_URL": postgres_url},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# Mistakes.


async def test_waiting_inside_the_transaction_is_refused(
    app: App, ship: TaskHandle[[int], int], conn: Conn
) -> None:
    task = ship.using(conn=conn)
    with pytest.raises(ConfigurationError, match="wait for ever"):
        task.wait(1)
    with pytest.raises(ConfigurationError, match="wait for ever"):
        task.wait_idempotent("k", 1)
    with pytest.raises(ConfigurationError, match="wait for ever"):
        await task.aio.wait(1)
    with pytest.raises(ConfigurationError, match="wait for ever"):
        await task.aio.wait_idempotent("k", 1)
    for face in (task, task.aio):
        with pytest.raises(ConfigurationError, match=r"submit_many\(jobs, conn="):
            face.prepare(1)
    conn.commit()
    assert app.jobs.count() == 0


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/jobs.db"])
async def test_other_stores_say_that_they_cannot(url: str, tmp_path: Path, conn: Conn) -> None:
    with App(url.format(tmp_path)) as app:

        @app.task
        def work() -> None: ...

        with pytest.raises(ConfigurationError, match="PostgreSQL only"):
            work.using(conn=conn).submit()
        with pytest.raises(ConfigurationError, match="PostgreSQL only"):
            work.using(conn=conn).submit_many([()])
        with pytest.raises(ConfigurationError, match="PostgreSQL only"):
            await work.aio.using(conn=conn).submit()
        assert app.jobs.count() == 0
