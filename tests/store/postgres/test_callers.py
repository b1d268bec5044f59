"""From a caller's object to the connection beneath it, and what is run there.

Store-specific: no other store can join a transaction of the caller's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from random import Random
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from tests.servers.postgres import Postgres

from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import Body, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.errors import ConfigurationError, DuplicateJobError, SchemaError
from fencepost.store.interface.joins import Fate, Joined
from fencepost.store.interface.queue import ClaimRequest, Duplicate, Enqueued
from fencepost.store.interface.store import Store, Topic
from fencepost.store.open import open_store
from fencepost.store.plan import Operation
from fencepost.store.postgres.joins.connections import async_connection_of, connection_of
from fencepost.store.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres("migrated")


def job(key: str | None = None, *, type: str = "work") -> NewJob:
    held = None if key is None else Key(key, None, OnDuplicate.REJECT)
    return NewJob(type=type, payload=Body(b"[[],{}]"), key=held)


def enqueue(*jobs: NewJob, atomic: bool = False) -> Any:
    def make(store: Store) -> Operation[Any]:
        return store.queue.enqueue(jobs, atomic=atomic)

    return make


@pytest.fixture
def conn(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_url) as connection:
        yield connection


@pytest.fixture
def engine(postgres_url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(sqlalchemy_url(postgres_url))
    yield engine
    engine.dispose()


@pytest.fixture(params=["psycopg", "asyncpg"])
async def async_engine(
    request: pytest.FixtureRequest, postgres_url: str
) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(sqlalchemy_url(postgres_url, request.param))
    yield engine
    await engine.dispose()


def sqlalchemy_url(url: str, driver: str = "psycopg") -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://", 1)


def counts(store: Store) -> list[int]:
    """Return how many rows there are of whatever an enqueue may leave behind."""
    tables = ("submissions", "ready", "idempotency", "counters")
    with psycopg.connect(store.url) as connection:
        rows = [connection.execute(f"select count(*) from fencepost.{t}") for t in tables]
        return [row.fetchone()[0] for row in rows]  # type: ignore[index]  # a count has a row


NOTHING = [0, 0, 0, 0]


# psycopg.


def test_what_is_committed_is_stored(store: PostgresStore, conn: psycopg.Connection[Any]) -> None:
    (reply,) = store.run_in(conn, enqueue(job("k")))
    assert isinstance(reply, Enqueued)
    assert counts(store) == NOTHING
    conn.commit()
    claim = store.run(store.queue.claim(ClaimRequest(worker="w", limit=5)))
    assert [each.id for each in claim.jobs] == [reply.job_id]


def test_what_is_rolled_back_leaves_nothing(
    store: PostgresStore, conn: psycopg.Connection[Any]
) -> None:
    for _ in range(2):
        store.run_in(conn, enqueue(job("k"), job("l", type="other")))
        conn.rollback()
        assert counts(store) == NOTHING
    (reply,) = store.run(store.queue.enqueue([job("k")]))
    assert isinstance(reply, Enqueued)
    counted = [view.counts for view in store.run(store.overview.types()) if view.counts]
    assert counted == [{State.SCHEDULED: 1}]


def test_an_open_transaction_keeps_nobody_waiting(
    store: PostgresStore, conn: psycopg.Connection[Any]
) -> None:
    """Not even the first of a type and policy: those are numbered apart from it."""
    store.run_in(conn, enqueue(job()))
    (reply,) = store.run(store.queue.enqueue([job()]))
    assert isinstance(reply, Enqueued)
    conn.rollback()
    assert len(store.run(store.queue.claim(ClaimRequest(worker="w", limit=5))).jobs) == 1


def test_rows_are_read_whatever_the_connection_makes_of_them(
    store: PostgresStore, postgres_url: str
) -> None:
    kinds: list[Any] = [psycopg.ClientCursor, psycopg.RawCursor, psycopg.Cursor]
    for kind in kinds:
        with psycopg.connect(postgres_url, row_factory=dict_row, cursor_factory=kind) as odd:
            (reply,) = store.run_in(odd, enqueue(job()))
            assert isinstance(reply, Enqueued)
            assert odd.cursor_factory is kind
    assert len(store.run(store.queue.claim(ClaimRequest(worker="w", limit=5))).jobs) == 3


def test_a_savepoint_takes_it_back_too(store: PostgresStore, conn: psycopg.Connection[Any]) -> None:
    with conn.transaction():
        store.run_in(conn, enqueue(job("outer")))
        with conn.transaction(force_rollback=True):
            store.run_in(conn, enqueue(job("inner")))
    assert counts(store)[0] == 1


def test_in_autocommit_mode_it_is_a_transaction_of_its_own(
    store: PostgresStore, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        store.run_in(conn, enqueue(job("k")))
        assert counts(store)[0] == 1
        with pytest.raises(DuplicateJobError):
            store.run_in(conn, enqueue(job("new"), job("k"), atomic=True))
        assert counts(store)[0] == 1
        with conn.transaction(force_rollback=True):
            store.run_in(conn, enqueue(job("l")))
        assert counts(store)[0] == 1
        with pytest.raises(ConfigurationError, match="autocommit"):
            store.run_in(conn, lambda view: view.joins.mark(), must_be_open=True)


def test_a_refused_bulk_leaves_the_transaction_as_it_was(
    store: PostgresStore, conn: psycopg.Connection[Any]
) -> None:
    store.run(store.queue.enqueue([job("taken")]))
    conn.execute("create table note (text text)")
    store.run_in(conn, enqueue(job("first")))
    with pytest.raises(DuplicateJobError):
        store.run_in(conn, enqueue(job("new"), job("taken"), atomic=True))
    conn.execute("insert into note values ('still usable')")
    conn.commit()
    assert counts(store)[0] == 2
    (reply,) = store.run(store.queue.enqueue([job("new")]))
    assert isinstance(reply, Enqueued)


def test_a_held_key_is_an_answer(store: PostgresStore, conn: psycopg.Connection[Any]) -> None:
    store.run(store.queue.enqueue([job("k")]))
    (reply,) = store.run_in(conn, enqueue(job("k")))
    assert isinstance(reply, Duplicate)
    store.run_in(conn, enqueue(job("l")))
    (reply,) = store.run_in(conn, enqueue(job("l")))
    assert isinstance(reply, Duplicate)
    conn.commit()
    assert counts(store)[0] == 2


def test_news_come_with_the_commit(store: PostgresStore, conn: psycopg.Connection[Any]) -> None:
    listener = store.listen(Topic.READY)
    assert listener.wait(20)  # the server is heard from now on
    store.run_in(conn, enqueue(job()))
    assert not listener.wait(0.2)
    conn.commit()
    assert listener.wait(20)
    store.run_in(conn, enqueue(job()))
    conn.rollback()
    assert not listener.wait(0.2)
    listener.close()


async def test_the_same_on_an_async_connection(store: PostgresStore, postgres_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_url) as conn:
        await store.run_in_async(conn, enqueue(job("k")))
        await conn.rollback()
        assert counts(store) == NOTHING
        await store.run_in_async(conn, enqueue(job("k")))
        await conn.commit()
        assert counts(store)[0] == 1
        with pytest.raises(DuplicateJobError):
            await store.run_in_async(conn, enqueue(job("new"), job("k"), atomic=True))
        await conn.commit()
        assert counts(store)[0] == 1
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as conn:
        await store.run_in_async(conn, enqueue(job("l")))
        assert counts(store)[0] == 2
        with pytest.raises(ConfigurationError, match="autocommit"):
            await store.run_in_async(conn, lambda view: view.joins.mark(), must_be_open=True)


# Another database.


async def test_a_connection_to_another_database_is_refused(
    store: PostgresStore, postgres_server: Postgres, postgres_url: str
) -> None:
    name = "fencepost_elsewhere"
    url = postgres_server.create_database(name)
    try:
        elsewhere = PostgresStore(url)
        elsewhere.migrate()
        elsewhere.close()
        with (
            psycopg.connect(url) as conn,
            pytest.raises(ConfigurationError, match=f"another database .*{name}"),
        ):
            store.run_in(conn, enqueue(job()))
        async with await psycopg.AsyncConnection.connect(url) as other:
            with pytest.raises(ConfigurationError, match="another database"):
                await store.run_in_async(other, enqueue(job()))
        with psycopg.connect(url) as conn:
            assert conn.execute("select count(*) from fencepost.submissions").fetchone() == (0,)
    finally:
        postgres_server.drop_database(name)
    with psycopg.connect(postgres_url) as conn:
        store.run_in(conn, enqueue(job()))


def test_a_database_without_the_schema_is_said_to_be_so(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as admin:
        admin.execute("drop schema fencepost cascade")
    store = PostgresStore(postgres_url)
    with psycopg.connect(postgres_url) as conn, pytest.raises(SchemaError, match="migrate"):
        store.run_in(conn, enqueue(job()))
    store.close()


# SQLAlchemy.


def test_a_sqlalchemy_connection_that_commits_as_it_goes(
    store: PostgresStore, engine: sa.Engine
) -> None:
    """Even if nothing was executed before: SQLAlchemy has to know that there is a transaction."""
    with engine.connect() as conn:
        store.run_in(conn, enqueue(job()))
        conn.commit()
        store.run_in(conn, enqueue(job()))
        conn.rollback()
        conn.execute(sa.text("select 1"))
        store.run_in(conn, enqueue(job()))
        conn.commit()
        store.run_in(conn, enqueue(job()))
    assert counts(store)[0] == 2


def test_a_sqlalchemy_connection_that_has_begun(store: PostgresStore, engine: sa.Engine) -> None:
    with engine.begin() as conn:
        store.run_in(conn, enqueue(job()))
        with conn.begin_nested() as savepoint:
            store.run_in(conn, enqueue(job()))
            savepoint.rollback()
    with pytest.raises(ZeroDivisionError), engine.begin() as conn:  # noqa: PT012
        store.run_in(conn, enqueue(job()))
        raise ZeroDivisionError
    assert counts(store)[0] == 1


def test_a_sqlalchemy_session(store: PostgresStore, engine: sa.Engine) -> None:
    with Session(engine) as session, session.begin():
        store.run_in(session, enqueue(job()))
    with Session(engine) as session:
        store.run_in(session, enqueue(job()))
        session.rollback()
        store.run_in(session, enqueue(job()))
        session.commit()
        store.run_in(session, enqueue(job()))
    assert counts(store)[0] == 2
    scoped = scoped_session(sessionmaker(engine))
    store.run_in(scoped, enqueue(job()))
    scoped.commit()
    scoped.remove()
    assert counts(store)[0] == 3


def test_sqlalchemy_in_autocommit_mode(store: PostgresStore, engine: sa.Engine) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        store.run_in(conn, enqueue(job()))
        assert counts(store)[0] == 1
        with pytest.raises(ConfigurationError, match="autocommit"):
            store.run_in(conn, lambda view: view.joins.mark(), must_be_open=True)


async def test_async_sqlalchemy(store: PostgresStore, async_engine: AsyncEngine) -> None:
    async with async_engine.connect() as conn:
        await store.run_in_async(conn, enqueue(job()))
        await conn.commit()
        await store.run_in_async(conn, enqueue(job()))
        await conn.rollback()
        await store.run_in_async(conn, enqueue(job()))
    assert counts(store)[0] == 1
    async with async_engine.begin() as conn:
        await store.run_in_async(conn, enqueue(job()))
        await conn.execute(sa.text("select 1"))
    assert counts(store)[0] == 2
    async with AsyncSession(async_engine) as session, session.begin():
        await store.run_in_async(session, enqueue(job()))
    assert counts(store)[0] == 3
    async with AsyncSession(async_engine) as session:
        await store.run_in_async(session, enqueue(job()))
    assert counts(store)[0] == 3
    scoped = async_scoped_session(async_sessionmaker(async_engine), scopefunc=lambda: 0)
    await store.run_in_async(scoped, enqueue(job()))
    await scoped.commit()
    await scoped.remove()
    assert counts(store)[0] == 4


# What cannot be joined.


async def test_the_wrong_colour_is_named(
    conn: psycopg.Connection[Any],
    engine: sa.Engine,
    async_engine: AsyncEngine,
    postgres_url: str,
) -> None:
    given: Any
    with engine.connect() as sync, Session(engine) as sync_session:
        for given in (conn, sync, sync_session):
            with pytest.raises(ConfigurationError, match=r"is not async: .*without \.aio"):
                await async_connection_of(given)
    other = await psycopg.AsyncConnection.connect(postgres_url)
    pool = asyncpg.create_pool(postgres_url, min_size=1, max_size=1)
    async with (
        other,
        pool,
        pool.acquire() as lent,
        async_engine.connect() as asynchronous,
        AsyncSession(async_engine) as session,
    ):
        for given in (other, lent, asynchronous, session):
            with pytest.raises(ConfigurationError, match=r"is async: .*under \.aio"):
                connection_of(given)
        with pytest.raises(ConfigurationError, match=r"async engine: .*AsyncConnection"):
            await asynchronous.run_sync(connection_of)


@pytest.mark.parametrize("given", [object(), "postgresql://", 7, sa])
async def test_anything_else_is_refused(given: object) -> None:
    with pytest.raises(ConfigurationError, match=r"conn cannot be .*psycopg 3.*SQLAlchemy.*Django"):
        connection_of(given)
    with pytest.raises(ConfigurationError, match=r"conn cannot be .*psycopg 3.*SQLAlchemy.*Django"):
        await async_connection_of(given)


def test_another_dialect_is_named() -> None:
    engine = sa.create_engine("sqlite://")
    with (
        engine.connect() as conn,
        pytest.raises(ConfigurationError, match=r"is sqlite\+pysqlite; .*postgresql\+psycopg"),
    ):
        connection_of(conn)
    engine.dispose()


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/jobs.db"])
async def test_other_stores_join_nothing(
    url: str, tmp_path: Any, conn: psycopg.Connection[Any]
) -> None:
    store = open_store(url.format(tmp_path))
    with pytest.raises(ConfigurationError, match="PostgreSQL only; this app's store is"):
        store.run_in(conn, enqueue(job()))
    with pytest.raises(ConfigurationError, match="PostgreSQL only"):
        await store.run_in_async(conn, enqueue(job()))
    with pytest.raises(ConfigurationError, match="PostgreSQL only"):
        store.joins.fates([])
    with pytest.raises(ConfigurationError, match="PostgreSQL only"):
        store.joins.mark()
    store.close()


# What became of a transaction.


def test_the_fate_of_a_transaction_is_told_without_waiting(
    store: PostgresStore, conn: psycopg.Connection[Any]
) -> None:
    store.run(store.queue.enqueue([job(), job(), job()]))
    first, second, third = store.run(store.queue.claim(ClaimRequest(worker="w", limit=3))).jobs

    def fates(*marks: str) -> list[Fate]:
        asked = [Joined(each.id, each.lease.token, marks) for each in (first, second)]
        return store.run(store.joins.fates(asked))

    def complete(view: Store) -> Operation[Any]:
        decision = decide(first, Succeeded(Body(b"7")), Random(1))
        return view.queue.settle([Settlement(first.id, first.lease.token, decision)])

    assert fates() == [Fate.UNDONE, Fate.UNDONE]
    mark = store.run_in(conn, lambda view: view.joins.mark(), must_be_open=True)
    store.run_in(conn, complete)
    assert fates(mark) == [Fate.OPEN, Fate.OPEN]
    conn.rollback()
    assert fates(mark) == [Fate.UNDONE, Fate.UNDONE]
    again = store.run_in(conn, lambda view: view.joins.mark(), must_be_open=True)
    assert again != mark
    store.run_in(conn, complete)
    assert fates(mark, again) == [Fate.OPEN, Fate.OPEN]
    conn.commit()
    assert fates(mark, again) == [Fate.SETTLED, Fate.UNDONE]
    assert third.lease.token != first.lease.token
