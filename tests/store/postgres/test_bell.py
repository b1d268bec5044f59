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
from fencepost.store.interface.listener import Topic
from fencepost.store.postgres.engine.connections import Connections
from fencepost.store.postgres.engine.notification import Bell

LONG = 60.0

MakeBell = Callable[[Connections], Bell]


@pytest.fixture
def make_bell() -> Iterator[MakeBell]:
    made: list[Bell] = []

    def make(connections: Connections) -> Bell:
        made.append(Bell(connections))
        return made[-1]

    yield make
    for bell in made:
        bell.close()


@pytest.fixture
def bell(make_bell: MakeBell, connections: Connections) -> Bell:
    return make_bell(connections)


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
    Bell(connect("postgresql://u@127.0.0.1:1/d")).close()


def test_a_notification_wakes_the_listeners_of_its_topic(bell: Bell, admin: Admin) -> None:
    ready, other, settled = (bell.listen(t) for t in (Topic.READY, Topic.READY, Topic.SETTLED))
    assert all(listener.wait(LONG) for listener in (ready, other, settled))  # it is heard now
    ring(admin, Topic.READY)
    assert ready.wait(LONG)
    assert other.wait(LONG)
    assert not settled.wait(0)
    assert not ready.wait(0)
    ring(admin, Topic.SETTLED)
    assert settled.wait(LONG)
    assert not ready.wait(0)


def test_a_closed_listener_hears_nothing_more(bell: Bell, admin: Admin) -> None:
    ready, closed = bell.listen(Topic.READY), bell.listen(Topic.READY)
    assert ready.wait(LONG)
    assert closed.wait(LONG)
    closed.close()
    ring(admin, Topic.READY)
    assert ready.wait(LONG)
    assert not closed.wait(0)


def test_listeners_wait_on_many_loops(bell: Bell, admin: Admin) -> None:
    """Without a thread each: they are woken on the loop they wait on."""
    heard = threading.Semaphore(0)

    async def wait() -> bool:
        waiting = asyncio.ensure_future(bell.listen(Topic.READY).wait_async(LONG))
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
        assert bell_threads() == 1
        ring(admin, Topic.READY)

    first = bell.listen(Topic.READY)
    assert first.wait(LONG)  # it is heard now, so that the others are woken by the ring alone
    assert asyncio.run(wait_everywhere()) == [[True] * 20] * 2


def bell_threads() -> int:
    return sum(thread.name == "fencepost-postgres-bell" for thread in threading.enumerate())


def test_a_wait_that_nobody_ends_runs_out(bell: Bell) -> None:
    listener = bell.listen(Topic.SETTLED)
    assert listener.wait(LONG)
    assert not listener.wait(0.01)
    assert not asyncio.run(listener.wait_async(0.01))


def test_after_a_cut_it_listens_again_and_wakes_everybody_once(bell: Bell, admin: Admin) -> None:
    ready = bell.listen(Topic.READY)
    assert ready.wait(LONG)
    (count,) = admin.execute(
        "select count(pg_terminate_backend(pid, 30000)) from pg_stat_activity "
        "where query like 'listen fencepost%' and datname = current_database()"
    ).fetchone() or (0,)
    assert count == 1
    assert ready.wait(LONG)  # news may have been missed
    ring(admin, Topic.READY)
    assert ready.wait(LONG)


def test_a_server_that_is_away_is_waited_for(connect: Connect, make_bell: MakeBell) -> None:
    bell = make_bell(connect("postgresql://u@127.0.0.1:1/d"))
    assert not bell.listen(Topic.READY).wait(0.3)
    bell.close()
    bell.close()


def test_closing_lets_go_of_whoever_waits(bell: Bell) -> None:
    listener = bell.listen(Topic.READY)
    assert listener.wait(LONG)
    closer = threading.Thread(target=bell.close)
    closer.start()
    assert not listener.wait(LONG)
    closer.join()
    with pytest.raises(StoreUnavailableError):
        bell.listen(Topic.READY)


def test_behind_a_pooler_it_says_so_once_and_leaves_it_to_polling(
    bell: Bell, monkeypatch: pytest.MonkeyPatch, warnings: io.StringIO
) -> None:
    monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", 0)
    listeners = [bell.listen(topic) for topic in Topic]
    assert bell._thread is not None
    bell._thread.join(LONG)
    assert not any(listener.wait(0) for listener in listeners)
    bell.listen(Topic.READY)
    assert warnings.getvalue().split() == [names.STORE_DEAF]


def test_around_a_real_pooler_there_is_a_way(
    connect: Connect, make_bell: MakeBell, pgbouncer: PgBouncer, postgres_url: str, admin: Admin
) -> None:
    through = pgbouncer.url(str(admin.info.dbname))
    listener = make_bell(connect(f"{through}?listen={quote(postgres_url, safe='')}")).listen(
        Topic.READY
    )
    assert listener.wait(LONG)
    ring(admin, Topic.READY)
    assert listener.wait(LONG)
