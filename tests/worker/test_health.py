"""Health tells the truth: of a loop that is blocked, of a store that is away, of a stop."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import pytest
from tests.servers.postgres import PostgresServer
from tests.worker.flaky import FlakyStore, everything, nothing
from tests.worker.support import LONG, eventually_sync, working_in_thread

from fencepost import App
from fencepost.core.bounds import MONITOR_CONNECTIONS_MAX
from fencepost.errors import ConfigurationError
from fencepost.observe.health import Pulse, Verdict, WorkerHealth
from fencepost.store.interface.store import Store
from fencepost.store.open import open_store
from fencepost.testing.clock import FakeClock
from fencepost.worker.monitor import Monitor, pages


def codes(found: Verdict) -> list[str]:
    return [reason.partition(":")[0] for reason in found.reasons]


class Rig:
    """A pulse and a clock that stands."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.pulse = Pulse()
        self.health = WorkerHealth(self.pulse, self.clock, live_max=60.0, ready_max=10.0)

    def beat(self) -> None:
        self.pulse.turned_at = self.pulse.answered_at = self.clock.monotonic()


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_worker_that_has_not_begun_lives_and_is_not_ready(rig: Rig) -> None:
    assert rig.health.live().is_ok
    assert codes(rig.health.ready()) == ["starting", "store_unavailable"]
    rig.clock.advance(61)
    assert codes(rig.health.live()) == ["loop_blocked"]


def test_a_worker_whose_loop_turns_and_whose_store_answers_is_ready(rig: Rig) -> None:
    rig.beat()
    rig.clock.advance(10)
    assert rig.health.live().is_ok
    assert rig.health.ready().is_ok


def test_a_loop_that_does_not_turn_is_first_not_ready_and_then_not_alive(rig: Rig) -> None:
    rig.beat()
    rig.clock.advance(11)
    rig.pulse.answered_at = rig.clock.monotonic()  # the heartbeat thread goes on
    assert codes(rig.health.ready()) == ["loop_blocked"]
    assert rig.health.live().is_ok
    rig.clock.advance(50)
    assert codes(rig.health.live()) == ["loop_blocked"]


def test_a_store_that_refuses_makes_it_not_ready_at_once_and_an_answer_mends_it(rig: Rig) -> None:
    rig.beat()
    rig.pulse.refused_at = rig.clock.monotonic()
    assert codes(rig.health.ready()) == ["store_unavailable"]
    assert rig.health.live().is_ok
    rig.clock.advance(1)
    rig.beat()
    assert rig.health.ready().is_ok


def test_a_store_that_hangs_makes_it_not_ready_after_a_while(rig: Rig) -> None:
    rig.beat()
    rig.clock.advance(11)
    rig.pulse.turned_at = rig.clock.monotonic()
    assert codes(rig.health.ready()) == ["store_unavailable"]


def test_a_worker_that_stops_lives_and_is_not_ready(rig: Rig) -> None:
    rig.beat()
    rig.pulse.is_stopping = True
    assert rig.health.live().is_ok
    assert codes(rig.health.ready()) == ["stopping"]


def test_a_verdict_is_json_with_its_status() -> None:
    assert (Verdict().status, json.loads(Verdict().body())) == (
        200,
        {"status": "ok", "reasons": []},
    )
    failing = Verdict(("stopping: no new work is taken",))
    assert failing.status == 503
    assert json.loads(failing.body())["reasons"] == ["stopping: no new work is taken"]


# Over HTTP, of a real worker.


class Watched:
    """The monitor of a worker, and what it answers."""

    def __init__(self, app: App, **limits: float) -> None:
        health = WorkerHealth(app.session.counters.pulse, app.session.clock, **limits)
        self.monitor = Monitor("127.0.0.1", 0, pages(health.live, health.ready, lambda: b"x 1\n"))
        self.port = int(self.monitor.address.rpartition(":")[2])

    def get(self, path: str, method: str = "GET") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def reasons(self, path: str) -> list[str]:
        return [each.partition(":")[0] for each in json.loads(self.get(path)[1])["reasons"]]

    def is_ready(self) -> bool:
        return self.get("/health/ready")[0] == 200


@contextmanager
def watched(app: App, **limits: float) -> Iterator[Watched]:
    made = Watched(app, **limits)
    try:
        yield made
    finally:
        made.monitor.close()


def test_a_blocked_loop_is_told_of_while_it_is_blocked(app: App) -> None:
    """The monitor's threads turn although the loop does not."""
    gate = threading.Event()

    @app.task
    async def block() -> None:
        gate.wait(LONG)

    with watched(app, live_max=1.5, ready_max=1.5) as seen, working_in_thread(app):
        eventually_sync(seen.is_ready, "ready")
        block.submit()
        try:
            eventually_sync(lambda: seen.get("/health/live")[0] == 503, "told of")
            assert seen.reasons("/health/live") == ["loop_blocked"]
            assert "loop_blocked" in seen.reasons("/health/ready")
        finally:
            gate.set()
        eventually_sync(lambda: seen.get("/health/live")[0] == 200, "alive again")
        eventually_sync(seen.is_ready, "ready again")


def test_a_store_that_goes_away_and_comes_back_is_followed(url: str) -> None:
    store = FlakyStore(open_store(url))
    app = App(url, store=cast(Store, store))

    @app.task
    async def work() -> None: ...

    with watched(app) as seen, working_in_thread(app):
        eventually_sync(seen.is_ready, "ready")
        store.is_away = everything
        eventually_sync(lambda: not seen.is_ready(), "not ready")
        assert seen.reasons("/health/ready") == ["store_unavailable"]
        assert seen.get("/health/live")[0] == 200
        store.is_away = nothing
        eventually_sync(seen.is_ready, "ready again")
    store.inner.close()


def test_a_postgresql_that_is_stopped_is_told_of_and_its_return_too() -> None:
    """S0-55: a real server, ended and started again."""
    with PostgresServer() as server:
        app = App(server.create_database("jobs"))

        @app.task
        async def work() -> None: ...

        with watched(app) as seen, working_in_thread(app):
            eventually_sync(
                lambda: "store_unavailable" in seen.reasons("/health/ready"), "no schema yet"
            )
            app.migrate()
            eventually_sync(seen.is_ready, "ready")
            server.stop()
            eventually_sync(lambda: not seen.is_ready(), "not ready")
            assert seen.get("/health/live")[0] == 200
            server.start()
            eventually_sync(seen.is_ready, "ready again")
        app.close()


def test_a_worker_that_drains_is_not_ready_and_lives(app: App) -> None:
    running, gate = threading.Event(), threading.Event()

    @app.task
    def work() -> None:
        running.set()
        assert gate.wait(LONG)

    with watched(app) as seen, working_in_thread(app, grace=LONG) as worker:
        eventually_sync(seen.is_ready, "ready")
        work.submit()
        assert running.wait(LONG)
        worker.stop()
        eventually_sync(lambda: seen.reasons("/health/ready") == ["stopping"], "stopping")
        assert seen.get("/health/live")[0] == 200
        gate.set()


# The monitor itself.


def test_it_serves_three_pages_and_nothing_else(app: App) -> None:
    with watched(app) as seen:
        assert seen.get("/metrics") == (200, b"x 1\n")
        assert seen.get("/metrics?x=1") == (200, b"x 1\n")
        assert seen.get("/metrics", "HEAD") == (200, b"")
        assert seen.get("/health/live")[0] == 200
        for path in ("/", "/health", "/metrics/", "/../etc/passwd"):
            assert seen.get(path)[0] == 404
        for method in ("POST", "PUT", "DELETE"):
            assert seen.get("/metrics", method)[0] == 501


def test_a_port_that_is_taken_is_told_with_what_to_do(app: App) -> None:
    with watched(app) as seen, pytest.raises(ConfigurationError, match="--metrics HOST:PORT"):
        Monitor("127.0.0.1", seen.port, {})


def test_clients_that_say_nothing_cannot_use_it_up(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2-38: beyond a few, they are hung up on; and those few are, after a while."""
    monkeypatch.setattr("fencepost.worker.monitor._Handler.timeout", 0.2)
    with watched(app) as seen:
        idle = [
            socket.create_connection(("127.0.0.1", seen.port))
            for _ in range(MONITOR_CONNECTIONS_MAX + 5)
        ]

        def answers() -> bool:
            with suppress(OSError, http.client.HTTPException):
                return seen.get("/health/live")[0] == 200
            return False

        eventually_sync(answers, "there is room again")
        for connection in idle:
            connection.close()


def test_a_page_that_fails_takes_nothing_with_it(app: App) -> None:
    def broken() -> Any:
        raise RuntimeError("no")

    monitor = Monitor("127.0.0.1", 0, {"/metrics": broken})
    port = int(monitor.address.rpartition(":")[2])
    for _ in range(2):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG)
        connection.request("GET", "/metrics")
        assert connection.getresponse().status == 500
        connection.close()
    monitor.close()


def test_the_loop_leaves_a_sign_at_its_start(app: App) -> None:
    @app.task
    async def work() -> None: ...

    before = time.monotonic()
    with working_in_thread(app):
        eventually_sync(lambda: app.session.counters.pulse.turned_at)
    assert (app.session.counters.pulse.turned_at or 0) >= before
