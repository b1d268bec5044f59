"""Jobs in transactions of asyncpg's: what its codecs, pools and errors could spoil.

Store-specific: no other store can join a transaction of the caller's. What holds for each driver is
tested where ``bridge.py`` is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any, TypeAlias

import asyncpg
import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from tests.servers.fixtures import FreshPostgres, postgres_sources
from tests.servers.postgres import Postgres
from tests.store.postgres.blocking import see_waiting
from tests.store.postgres.test_callers import counts, enqueue, job

from fencepost import App, Context
from fencepost.clock import SystemClock
from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.job import Body, Encoding
from fencepost.core.job.job import NewJob as Job
from fencepost.core.job.policy import Policy
from fencepost.errors import ConfigurationError, DuplicateJobError, SchemaError
from fencepost.store.interface.queue import Duplicate, Enqueued
from fencepost.store.interface.store import Topic
from fencepost.store.plan import Declaration, Effect, Operation, Plan, Statement
from fencepost.store.postgres.joins import asyncpg as joins
from fencepost.store.postgres.joins.asyncpg import CastStatements
from fencepost.store.postgres.joins.transaction import run_in, run_in_async
from fencepost.store.postgres.store import PostgresStore

Connection: TypeAlias = "asyncpg.Connection[Any]"


@pytest.fixture
def url(fresh_postgres: FreshPostgres) -> str:
    return fresh_postgres(postgres_sources()[0])


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url)
    store.migrate()
    yield store
    store.close()


@pytest.fixture
async def conn(store: PostgresStore) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(store.url)
    yield connection
    await connection.close()


def stored(store: PostgresStore) -> int:
    return counts(store)[0]


def statement(sql: str, *params: Any, many: bool = False) -> Operation[Any]:
    def plan() -> Plan[Any]:
        return (yield Statement(sql, params, many=many))

    return Operation(Declaration("test", Effect.WRITE), plan)


# Transactions.


async def test_a_job_is_stored_if_its_transaction_commits(
    store: PostgresStore, conn: Connection
) -> None:
    async with conn.transaction():
        (reply,) = await store.run_in_async(conn, enqueue(job("k")))
        assert isinstance(reply, Enqueued)
        assert stored(store) == 0
    assert stored(store) == 1
    with pytest.raises(ZeroDivisionError):  # noqa: PT012
        async with conn.transaction():
            await store.run_in_async(conn, enqueue(job("l"), job("m", type="other")))
            raise ZeroDivisionError
    async with conn.transaction():
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            async with conn.transaction():  # a savepoint
                await store.run_in_async(conn, enqueue(job("n")))
                raise ZeroDivisionError
        await store.run_in_async(conn, enqueue(job("o")))
    assert stored(store) == 2


async def test_without_a_transaction_it_has_one_of_its_own(
    store: PostgresStore, conn: Connection
) -> None:
    await store.run_in_async(conn, enqueue(job("k")))
    assert stored(store) == 1
    with pytest.raises(DuplicateJobError):
        await store.run_in_async(conn, enqueue(job("new"), job("k"), atomic=True))
    assert not conn.is_in_transaction()
    with pytest.raises(ConfigurationError, match=r"autocommit .*asyncpg: conn\.transaction"):
        await store.run_in_async(conn, lambda view: view.joins.mark(), must_be_open=True)
    assert stored(store) == 1


async def test_a_refusal_leaves_the_transaction_usable(
    store: PostgresStore, conn: Connection
) -> None:
    store.run(store.queue.enqueue([job("k")]))
    async with conn.transaction():
        await store.run_in_async(conn, enqueue(job("first")))
        with pytest.raises(DuplicateJobError):
            await store.run_in_async(conn, enqueue(job("new"), job("k"), atomic=True))
        (reply,) = await store.run_in_async(conn, enqueue(job("k")))
        assert isinstance(reply, Duplicate)
        assert await conn.fetchval("select 1") == 1
    assert stored(store) == 2


async def test_news_come_with_the_commit(store: PostgresStore, conn: Connection) -> None:
    listener = store.listen(Topic.READY)
    assert await listener.wait_async(20)  # the server is heard from now on
    async with conn.transaction():
        await store.run_in_async(conn, enqueue(job()))
        assert not await listener.wait_async(0.2)
    assert await listener.wait_async(20)
    listener.close()


async def test_a_cancelled_call_stores_nothing_and_leaves_the_connection_usable(
    store: PostgresStore, conn: Connection
) -> None:
    await store.run_in_async(conn, enqueue(job()))
    with psycopg.connect(store.url) as other:
        store.run_in(other, enqueue(job("k")))
        transaction = conn.transaction()
        await transaction.start()
        stuck = asyncio.create_task(store.run_in_async(conn, enqueue(job("k"))))
        await asyncio.to_thread(see_waiting, store.url)
        stuck.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stuck
        await transaction.rollback()
    assert "public" in str(await conn.fetchval("show search_path"))
    async with conn.transaction():
        await store.run_in_async(conn, enqueue(job("l")))
    assert stored(store) == 3


# Where a connection leads.


async def test_another_database_is_refused(
    store: PostgresStore, conn: Connection, postgres_server: Postgres
) -> None:
    name = "fencepost_other"
    other = await asyncpg.connect(postgres_server.create_database(name))
    try:
        with pytest.raises(ConfigurationError, match=f"another database \\('{name}'\\) than"):
            await store.run_in_async(other, enqueue(job()))
    finally:
        await other.close()
        postgres_server.drop_database(name)
    await store.run_in_async(conn, enqueue(job()))


async def test_a_pool_lends_connections_that_are_known_the_second_time(
    store: PostgresStore,
) -> None:
    asked: list[int] = []
    async with asyncpg.create_pool(store.url, min_size=1, max_size=1) as pool:
        for _ in range(3):
            queries: list[Any] = []
            async with pool.acquire() as conn, conn.transaction():
                with conn.query_logger(queries.append):
                    await store.run_in_async(conn, enqueue(job()))
            asked.append(len(queries))
    assert stored(store) == 3
    assert asked[0] > asked[1] == asked[2]


async def test_a_loan_that_hides_its_connection_is_new_each_time(
    store: PostgresStore, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it would be if asyncpg called it by another name."""
    monkeypatch.setattr(joins, "_beneath_pool", lambda connection: connection)
    async with asyncpg.create_pool(store.url, min_size=1, max_size=1) as pool:
        for _ in range(2):
            async with pool.acquire() as lent, lent.transaction():
                await store.run_in_async(lent, enqueue(job()))
    assert stored(store) == 2


async def test_no_prepared_statements_are_kept_where_the_caller_keeps_none(
    store: PostgresStore,
) -> None:
    """As behind a pooler in transaction mode."""
    conn = await asyncpg.connect(store.url, statement_cache_size=0)
    try:
        for _ in range(2):
            async with conn.transaction():
                await store.run_in_async(conn, enqueue(job(), job("k")))
                assert await conn.fetch("select name from pg_prepared_statements") == []
    finally:
        await conn.close()


# Values.


def refuse(value: object) -> Any:
    raise AssertionError(f"the caller's codec was given {value!r}")


async def spoil(conn: Connection) -> None:
    """Have every type that programs like to read in their own way read so."""
    for type_ in ("json", "jsonb", "uuid", "timestamptz", "timestamp", "numeric", "interval"):
        await conn.set_type_codec(type_, schema="pg_catalog", encoder=refuse, decoder=refuse)


async def test_codecs_of_the_caller_are_neither_used_nor_changed(
    store: PostgresStore, conn: Connection
) -> None:
    """All that can be asked for in a caller's transaction is."""
    await spoil(conn)
    app = App(store.url, store=store)

    @app.task
    def work(ctx: Context | None = None) -> None: ...

    @app.event("paid").on
    def book() -> None: ...

    plain = Job(type="work", payload=Body(b"[[],{}]"))
    (parent,) = store.run(store.queue.enqueue([plain]))
    after = Dependencies((parent.job_id,))
    kinds = [
        plain,
        Job(type="work", tags={"a": "b"}, correlation_id="c"),
        Job(type="work", payload=Body(b"\0\xff", Encoding.BINARY), run_at=SystemClock().now()),
        Job(type="work", concurrency_key="k", policy=Policy(max_running_per_key=1)),
        job("key", type="work"),
        job("key", type="work"),
        Job(type="work", after=after, flow="f", node="n"),
        Job(type="work", callback_url="https://example.com/"),
    ]
    async with conn.transaction():
        for kind in kinds:
            await store.run_in_async(conn, enqueue(kind))
        with pytest.raises(DuplicateJobError):
            await store.run_in_async(conn, enqueue(plain, kinds[4], atomic=True))
        sent = await app.event("paid").using(conn=conn).aio.send()
        await work.aio.using(conn=conn).submit_many([(), ()])
    assert stored(store) == len(kinds) - 1 + 1 + 1 + 2
    (record,) = app.events.find()
    assert record.sent_at == sent.sent_at
    assert abs((record.sent_at - datetime.now(UTC)).total_seconds()) < 600
    app.close()


VALUES = [
    ("%s::text", "a'b\"c\\d{},é %s $1"),
    ("%s::text", ""),
    ("%s::text", None),
    ("%s::smallint", -3),
    ("%s::bigint", 2**62),
    ("%s::boolean", True),
    ("%s::double precision", 1e-300),
    ("%s::double precision", float("inf")),
    ("%s::bytea", b"\0\xff\\"),
    ("%s::timestamptz", datetime(2024, 2, 29, 23, 59, 59, 999999, UTC)),
    ("%s::uuid", "12345678-1234-4234-8234-123456789abc"),
    ("%s::json", '{"a": [1, null, "\\u00e9"]}'),
    ("%s::text[]", ["", "NULL", "a,b", 'c"d', "e\\f", "{g}", " h "]),
    ("%s::text[]", [None, "x"]),
    ("%s::text[]", []),
    ("%s::bigint[]", [1, -2, None]),
    ("%s::uuid[]", ["12345678-1234-4234-8234-123456789abc"]),
    ("%s::xid8[]", ["7", "8"]),
    ("%s::uuid[]", "{12345678123442348234123456789abc}"),
    ("(array['a', 'b'])[%s]", 2),
    ("(select count(*) from generate_series(1, 9) as x where x = any (%s))", [3, 4, 12]),
    ("100 %% 7 + %s::integer", 1),
]


@pytest.mark.parametrize(("sql", "value"), VALUES, ids=[sql for sql, _ in VALUES])
async def test_a_value_means_the_same_over_both_drivers(
    store: PostgresStore, conn: Connection, sql: str, value: Any
) -> None:
    asked = statement(f"select ({sql})::text", value)
    with psycopg.connect(store.url) as other:
        expected = run_in(other, asked)
    async with conn.transaction():
        assert await run_in_async(conn, asked) == expected
        statements = CastStatements()
        again = [await run_in_async(conn, asked, statements) for _ in range(2)]
    assert again == [expected, expected]


async def test_a_statement_for_many_rows_answers_with_none(
    store: PostgresStore, conn: Connection
) -> None:
    async with conn.transaction():
        await conn.execute("create temporary table note (number integer, text text)")
        rows = [(1, "a"), (2, None)]
        into = "insert into pg_temp.note values (%s, %s)"
        assert await run_in_async(conn, statement(into, *rows, many=True)) == []
        assert await run_in_async(conn, statement(into, many=True)) == []
        found = await run_in_async(conn, statement("select number, text from pg_temp.note"))
    assert found == rows


# Errors.


async def test_errors_are_the_drivers_own(store: PostgresStore, conn: Connection) -> None:
    """So that the caller's own way to repeat a transaction goes on working."""
    transaction = conn.transaction()
    await transaction.start()
    with pytest.raises(asyncpg.DivisionByZeroError):
        await run_in_async(conn, statement("select 1 / %s::integer", 0))
    with pytest.raises(asyncpg.InFailedSQLTransactionError):
        await store.run_in_async(conn, enqueue(job()))
    await transaction.rollback()
    with pytest.raises(SchemaError, match="migrate"):
        await run_in_async(conn, statement("select missing.f(%s)", 1))
    await conn.close()
    with pytest.raises(asyncpg.InterfaceError):
        await store.run_in_async(conn, enqueue(job()))


async def test_a_connection_that_was_ended_by_the_server_says_so(
    store: PostgresStore, conn: Connection
) -> None:
    transaction = conn.transaction()
    await transaction.start()
    await store.run_in_async(conn, enqueue(job()))
    with psycopg.connect(store.url) as admin:
        pid = conn.get_server_pid()
        admin.execute("select pg_terminate_backend(%s)", (pid,))
    # Which of asyncpg's own errors depends on how far it has read the server's last word.
    errors = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
    with pytest.raises(errors):
        await store.run_in_async(conn, enqueue(job()))
    assert stored(store) == 0


# SQLAlchemy.


async def test_a_rollback_of_sqlalchemys_takes_a_job_that_was_its_first_statement(
    store: PostgresStore,
) -> None:
    """SQLAlchemy sends asyncpg's BEGIN with its first statement, and ours is none of its own."""
    engine = create_async_engine(store.url.replace("postgresql:", "postgresql+asyncpg:", 1))
    try:
        async with AsyncSession(engine) as session:
            await store.run_in_async(session, enqueue(job()), must_be_open=True)
            await session.rollback()
            assert stored(store) == 0
            await store.run_in_async(session, enqueue(job()))
            await session.commit()
        assert stored(store) == 1
        options = {"isolation_level": "AUTOCOMMIT"}
        async with engine.connect() as plain:
            conn = await plain.execution_options(**options)
            await store.run_in_async(conn, enqueue(job()))
            assert stored(store) == 2
            with pytest.raises(ConfigurationError, match="autocommit"):
                await store.run_in_async(conn, lambda view: view.joins.mark(), must_be_open=True)
    finally:
        await engine.dispose()
