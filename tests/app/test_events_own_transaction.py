"""``event.using(conn=…)``: events that are recorded, or not, with the caller's own work.

On PostgreSQL only: no other store can join a transaction of the caller's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.worker.support import LONG, working_in_thread

from fencepost import App, DuplicateJobError, InvalidPayloadError, State, TaskHandle

pytestmark = pytest.mark.postgres("migrated")

Conn = psycopg.Connection[tuple[Any, ...]]
Handlers = tuple[TaskHandle[[int], int], TaskHandle[[int], int]]


@pytest.fixture
def app(postgres_url: str) -> Iterator[App]:
    with App(postgres_url) as app:
        app.migrate()
        yield app


@pytest.fixture
def handlers(app: App) -> Handlers:
    @app.event("order.paid").on
    def ship(order: int) -> int:
        return order

    @app.event("order.*").on(queue="books")
    def bill(order: int) -> int:
        return order

    return ship, bill


@pytest.fixture
def conn(app: App) -> Iterator[Conn]:
    with psycopg.connect(app.url) as connection:
        yield connection


def stored(app: App) -> tuple[int, int]:
    """Return how many events there are, and how many jobs."""
    return len(app.events.find()), app.jobs.count()


@pytest.mark.usefixtures("handlers")
def test_an_event_is_there_with_the_commit(app: App, conn: Conn) -> None:
    sent = app.event("order.paid").using(conn=conn).send(order=7)
    assert stored(app) == (0, 0)
    conn.commit()
    assert stored(app) == (1, 2)
    assert [job.refresh().state for job in sent.jobs] == [State.SCHEDULED] * 2
    app.worker().run(until_idle=True)
    assert [job.result(0) for job in sent.jobs] == [7, 7]
    (record,) = app.events.find()
    assert (record.id, record.sent_at) == (sent.id, sent.sent_at)


@pytest.mark.usefixtures("handlers")
def test_nothing_is_left_of_an_event_that_is_rolled_back(app: App, conn: Conn) -> None:
    app.event("order.paid").using(conn=conn).send_idempotent("k", order=7)
    app.event("nobody.hears").using(conn=conn).send()
    conn.rollback()
    assert stored(app) == (0, 0)
    assert len(app.event("order.paid").send_idempotent("k", order=7).jobs) == 2


@pytest.mark.usefixtures("handlers")
def test_a_worker_is_woken_by_the_commit_of_an_event(app: App, conn: Conn) -> None:
    with working_in_thread(app):
        with conn.transaction():
            sent = app.event("order.paid").using(conn=conn).send(order=1)
        assert [job.result(LONG) for job in sent.jobs] == [1, 1]


@pytest.mark.usefixtures("handlers")
def test_a_refusal_or_a_duplicate_does_not_break_the_transaction(app: App, conn: Conn) -> None:
    """S3-16, C15: an event whose key is held leaves nothing in the transaction, which goes on."""
    event = app.event("order.paid").using(conn=conn)
    before = app.event("order.deleted").send_idempotent("k", order=7)
    with pytest.raises(InvalidPayloadError):
        event.send(order="seven")
    with pytest.raises(DuplicateJobError) as caught:
        event.send_idempotent("k", order=7)
    assert caught.value.existing == before.jobs[0]
    event.send(order=8)
    conn.commit()
    assert stored(app) == (2, 3)


@pytest.mark.usefixtures("handlers")
async def test_the_awaited_face_joins_as_well(app: App) -> None:
    async with await psycopg.AsyncConnection.connect(app.url) as conn:
        event = app.event("order.paid").aio.using(conn=conn)
        await event.send(order=1)
        await conn.rollback()
        sent = await event.send_idempotent("k", order=2)
        with pytest.raises(DuplicateJobError) as caught:
            await app.event("order.paid").using(conn=conn).aio.send_idempotent("k", order=2)
        assert caught.value.existing_id in {job.id for job in sent.jobs}
        assert stored(app) == (0, 0)
        await conn.commit()
    assert stored(app) == (1, 2)
    await app.worker().aio.run(until_idle=True)
    assert [await job for job in sent.jobs] == [2, 2]


@pytest.mark.usefixtures("handlers")
def test_a_connection_that_commits_by_itself_sends_all_or_none(app: App) -> None:
    with psycopg.connect(app.url, autocommit=True) as conn:
        app.event("order.paid").using(conn=conn).send(order=1)
    assert stored(app) == (1, 2)
