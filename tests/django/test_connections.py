"""Django's connections in a worker: usable for every job, whatever happened to the server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import override_settings
from tests.django import shop
from tests.servers.django import using_database
from tests.servers.postgres import PostgresServer
from tests.worker.support import LONG, eventually_sync, working_in_thread

from fencepost.django.application import DjangoApp, project_app
from fencepost.django.attempts import with_connections
from fencepost.observe.log import current_job


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that may be restarted, since no other test uses it."""
    with PostgresServer() as running:
        yield running


@pytest.fixture
def project_on_it(server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[DjangoApp]:
    url = server.create_database(f"django_{abs(hash(request.node.name))}")
    with using_database(url) as connection, override_settings(FENCEPOST={}):
        connection.settings_dict["CONN_MAX_AGE"] = None  # kept for ever, and never tested by Django
        app = project_app()
        app.follow_settings()
        app.migrate()
        yield app
        app.close()
        connection.settings_dict["CONN_MAX_AGE"] = 0


@pytest.mark.parametrize("task", [shop.query, shop.query_async], ids=["def", "async def"])
def test_a_restart_of_postgres_fails_no_later_job(
    server: PostgresServer, project_on_it: DjangoApp, task: Any
) -> None:
    """More jobs than threads, so that every thread with a broken connection gets one."""
    with working_in_thread(project_on_it, concurrency=3):
        before = [task.enqueue("default") for _ in range(6)]
        _await_all(before)
        server.restart()
        after = [task.enqueue("default") for _ in range(12)]
        _await_all(after)
    assert [result.errors for result in (*before, *after)] == [[]] * 18
    assert {result.attempts for result in after} == {1}


def _await_all(results: list[Any]) -> None:
    def all_finished() -> bool:
        for result in results:
            result.refresh()
        return all(result.is_finished for result in results)

    eventually_sync(all_finished)


def test_a_thread_keeps_its_connection_and_a_coroutine_closes_its_own(
    project_on_it: DjangoApp,
) -> None:
    kept = [shop.query.enqueue("default") for _ in range(3)]
    project_on_it.worker(concurrency=1).run(until_idle=True)
    own = [shop.query_async.enqueue("default") for _ in range(3)]
    project_on_it.worker(concurrency=1).run(until_idle=True)
    _await_all([*kept, *own])
    assert len({result.return_value for result in kept}) == 1
    assert len({result.return_value for result in own}) == 3


class Attempt:
    """Whatever the log needs of a job."""

    id = type = queue = "x"
    attempt = 1
    correlation_id = None


def test_outside_of_a_worker_nothing_is_closed(postgres_project: DjangoApp) -> None:
    """A task that is called like a function may be within a test, or a request."""
    connections["default"].close_at = 0  # too old
    assert with_connections(shop.query.func)("default") == shop.query.func("default")
    token = current_job.set(Attempt())
    try:
        first = with_connections(shop.query.func)("default")
        connections["default"].close_at = 0
        assert with_connections(shop.query.func)("default") != first
    finally:
        current_job.reset(token)


def test_a_handler_that_calls_another_keeps_its_connection(postgres_project: DjangoApp) -> None:
    inner = with_connections(shop.query.func)

    def outer() -> tuple[int, int]:
        first = inner("default")
        connections["default"].close_at = 0
        return first, inner("default")

    token = current_job.set(Attempt())
    try:
        first, second = with_connections(outer)()
    finally:
        current_job.reset(token)
    assert first == second


async def test_coroutines_at_the_same_time_have_a_thread_each(
    postgres_project: DjangoApp,
) -> None:
    """In one thread for all, the end of one would close the connection of the others."""
    both = asyncio.Barrier(2)

    async def handler() -> tuple[int, int]:
        thread = await sync_to_async(threading.get_ident)()
        async with asyncio.timeout(LONG):
            await both.wait()
        return thread, await sync_to_async(threading.get_ident)()

    async def attempt() -> tuple[int, int]:
        current_job.set(Attempt())
        result: tuple[int, int] = await with_connections(handler)()
        return result

    first, second = await asyncio.gather(attempt(), attempt())
    assert first[0] == first[1] != second[0] == second[1]


def test_names_of_a_wrapped_handler_are_its_own() -> None:
    assert with_connections(shop.query.func).__qualname__ == "query"
    assert shop.ship.__wrapped__.__module__ == "tests.django.shop"
