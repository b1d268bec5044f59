"""Wake-up by LISTEN and NOTIFY. PostgreSQL-specific: other engines have their own way."""

from __future__ import annotations

import asyncio
import io
import logging
import threading
from collections.abc import Callable, Iterator
from urllib.parse import quote

import psycopg
import pytest
from tests.servers.pgbouncer import PgBouncer
from tests.store.postgres.conftest import Admin, Connect

from fencepost.errors import StoreUnavailableError
from fencepost.observe import names
from fencepost.observe.log import logger
from fencepost.store.interface.store import Topic
from fencepost.store.postgres.engine.connections import Connections
from fencepost.store.postgres.engine.notification import NotificationReceiver

LONG = 60.0

MakeReceiver = Callable[[Connections], NotificationReceiver]


@pytest.fixture
def make_receiver() -> Iterator[MakeReceiver]:
    made: list[NotificationReceiver] = []

    def make(connections: Connections) -> NotificationReceiver:
        made.append(NotificationReceiver(connections))
        return made[-1]

    yield make
    for receiver in made:
        receiver.close()


@pytest.fixture
def receiver(make_receiver: MakeReceiver, connections: Connections) -> NotificationReceiver:
    return make_receiver(connections)


@pytest.fixture
def warnings() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger.addHandler(handler)
    yield stream
    logger.removeHandler(handler)


def ring(admin: Admin, *topics: Topic) -> None:
    for topic in topics:
        admin.execute("select pg_notify(%s, '')", (f"fencepost_{topic.value}",))


def test_nobody_is_connected_for_a_store_that_does_not_listen(connect: Connect) -> None:
    NotificationReceiver(connect("postgresql://u@127.0.0.1:1/d")).close()


def test_a_notification_wakes_the_listeners_of_its_topic(
    receiver: NotificationReceiver, admin: Admin
) -> None:
    ready, other, settled = (receiver.listen(t) for t in (Topic.READY, Topic.READY, Topic.SETTLED))
    assert all(listener.wait(LONG) for listener in (ready, other, settled))  # it is heard now
    ring(admin, Topic.READY)
    assert ready.wait(LONG)
    assert other.wait(LONG)
    assert not settled.wait(0)
    assert not ready.wait(0)
    ring(admin, Topic.SETTLED)
    assert settled.wait(LONG)
    assert not ready.wait(0)


def test_a_closed_listener_hears_nothing_more(receiver: NotificationReceiver, admin: Admin) -> None:
    ready, closed = receiver.listen(Topic.READY), receiver.listen(Topic.READY)
    assert ready.wait(LONG)
    assert closed.wait(LONG)
    closed.close()
    ring(admin, Topic.READY)
    assert ready.wait(LONG)
    assert not closed.wait(0)


def test_listeners_wait_on_many_loops(receiver: NotificationReceiver, admin: Admin) -> None:
    """Without a thread each: they are woken on the loop they wait on."""
    heard = threading.Semaphore(0)

    async def wait() -> bool:
        waiting = asyncio.ensure_future(receiver.listen(Topic.READY).wait_async(LONG))
        await asyncio.sleep(0)
        heard.release()
        return await waiting

    async def wait_many() -> list[bool]:
        return await asyncio.gather(*[wait() for _ in range(20)])

    async def wait_everywhere() -> list[list[bool]]:
        loops = [asyncio.to_thread(asyncio.run, wait_many()) for _ in range(2)]
        waiting = asyncio.gather(*loops)
        await asyncio.to_thread(ring_when_all_wait)
        return await waiting

    def ring_when_all_wait() -> None:
        for _ in range(40):
            assert heard.acquire(timeout=LONG)
        assert receiver_threads() == 1
        ring(admin, Topic.READY)

    first = receiver.listen(Topic.READY)
    assert first.wait(LONG)  # it is heard now, so that the others are woken by the ring alone
    assert asyncio.run(wait_everywhere()) == [[True] * 20] * 2


def receiver_threads() -> int:
    return sum(thread.name == "fencepost-postgres-listener" for thread in threading.enumerate())


def test_a_wait_that_nobody_ends_runs_out(receiver: NotificationReceiver) -> None:
    listener = receiver.listen(Topic.SETTLED)
    assert listener.wait(LONG)
    assert not listener.wait(0.01)
    assert not asyncio.run(listener.wait_async(0.01))


def test_after_a_cut_it_listens_again_and_wakes_everybody_once(
    receiver: NotificationReceiver, admin: Admin
) -> None:
    ready = receiver.listen(Topic.READY)
    assert ready.wait(LONG)
    (count,) = admin.execute(
        "select count(pg_terminate_backend(pid, 30000)) from pg_stat_activity "
        "where query like 'listen fencepost%' and datname = current_database()"
    ).fetchone() or (0,)
    assert count == 1
    assert ready.wait(LONG)  # news may have been missed
    ring(admin, Topic.READY)
    assert ready.wait(LONG)


def test_a_server_that_is_away_is_waited_for(connect: Connect, make_receiver: MakeReceiver) -> None:
    receiver = make_receiver(connect("postgresql://u@127.0.0.1:1/d"))
    assert not receiver.listen(Topic.READY).wait(0.3)
    receiver.close()
    receiver.close()


def test_closing_lets_go_of_whoever_waits(receiver: NotificationReceiver) -> None:
    listener = receiver.listen(Topic.READY)
    assert listener.wait(LONG)
    closer = threading.Thread(target=receiver.close)
    closer.start()
    assert not listener.wait(LONG)
    closer.join()
    with pytest.raises(StoreUnavailableError):
        receiver.listen(Topic.READY)


def test_behind_a_pooler_it_says_so_once_and_leaves_it_to_polling(
    receiver: NotificationReceiver, monkeypatch: pytest.MonkeyPatch, warnings: io.StringIO
) -> None:
    monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", 0)
    listeners = [receiver.listen(topic) for topic in Topic]
    assert receiver._thread is not None
    receiver._thread.join(LONG)
    assert not any(listener.wait(0) for listener in listeners)
    receiver.listen(Topic.READY)
    assert warnings.getvalue().count(names.STORE_DEAF) == 1


def test_around_a_real_pooler_there_is_a_way(
    connect: Connect,
    make_receiver: MakeReceiver,
    pgbouncer: PgBouncer,
    postgres_url: str,
    admin: Admin,
) -> None:
    through = pgbouncer.url(str(admin.info.dbname))
    listener = make_receiver(connect(f"{through}?listen={quote(postgres_url, safe='')}")).listen(
        Topic.READY
    )
    assert listener.wait(LONG)
    ring(admin, Topic.READY)
    assert listener.wait(LONG)
