"""A served app with a worker, and a client of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.breaking import Proxy, RestlessClock, between
from tests.http.serving import Served, serving

from fencepost import App, Client, PermanentError


def declare(app: App) -> App:
    """Give *app* the tasks that the tests submit."""

    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    @app.task
    def turn(data: bytes) -> bytes:
        return data[::-1]

    @app.task
    def fail(code: str) -> None:
        raise PermanentError("it cannot be done", code=code)

    @app.event("user.*").on
    def greet(name: str, number: int = 0) -> int:
        return number

    app.cron("0 9 * * *", name="daily", arguments={"a": 1, "b": 2})(add)
    return app


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:
        yield declare(app)


@pytest.fixture
def server(app: App) -> Iterator[Served]:
    with serving(app) as server:
        yield server


@pytest.fixture
def client(server: Served) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


@pytest.fixture
def working(app: App) -> Iterator[None]:
    """Have a worker run what is submitted."""
    worker = app.worker(concurrency=4)
    thread = threading.Thread(target=worker.run)
    thread.start()
    yield
    worker.stop()
    thread.join(30)


@pytest.fixture
def clock() -> RestlessClock:
    return RestlessClock()


@pytest.fixture
def proxy(server: Served) -> Iterator[Proxy]:
    with between(server.url) as proxy:
        yield proxy


@pytest.fixture
def far(proxy: Proxy, clock: RestlessClock) -> Iterator[Client]:
    """A client behind the proxy, which does not really rest between two tries."""
    with Client(proxy.url, timeout=20, retries=3, clock=clock) as client:
        yield client
