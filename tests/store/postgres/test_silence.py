"""A server that is stopped, and says nothing more: callers give up when they said they would.

PostgreSQL-specific: no other store has a server that can be silent.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.servers.postgres import PostgresServer

from fencepost import App, Timeouts
from fencepost.clock import SystemClock
from fencepost.errors import StoreUnavailableError, SubmissionTimeoutError

DATABASE = "jobs"
PATIENCE = 0.5
LATEST = 15.0
"""Without a bound of the caller's, a minute."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        server.create_database(DATABASE)
        with App(server.url(DATABASE)) as app:
            app.migrate()
        yield server


@pytest.fixture
def app(server: PostgresServer) -> Iterator[App]:
    with App(server.url(DATABASE), timeouts=Timeouts(submission=PATIENCE)) as app:
        yield app


@contextmanager
def stopped(server: PostgresServer) -> Iterator[None]:
    """Stop all processes of the server, which keeps every connection and answers nothing."""
    pids = [server.pid]
    pids += map(int, Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split())
    for pid in pids:
        with suppress(ProcessLookupError):  # a vacuum that has just ended
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def work(number: int) -> None:
    raise AssertionError("nobody runs it")


def welcome(number: int) -> None:
    raise AssertionError("nobody runs it")


Submit = Callable[[App, Any], object]
WAYS: dict[str, Submit] = {
    "one": lambda app, task: task.submit(1),
    "with a key": lambda app, task: task.using(key="k").submit(1),
    "many": lambda app, task: task.submit_many([1, 2]),
    "an event": lambda app, task: app.event("user.created").send(number=1),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_blocking_submission_gives_up_on_a_silent_server(
    server: PostgresServer, app: App, way: str
) -> None:
    """S0-6: nobody knows what became of it, and the connection is not used again."""
    task = app.task(work)
    app.event("user.*").on(welcome)
    WAYS[way](app, task)
    clock = SystemClock()
    with stopped(server):
        begun = clock.monotonic()
        with pytest.raises((StoreUnavailableError, SubmissionTimeoutError)) as told:
            WAYS[way](app, task)
        with pytest.raises((StoreUnavailableError, SubmissionTimeoutError)):
            WAYS[way](app, task)
        assert clock.monotonic() - begun < LATEST
    # Of one statement nobody knows whether it was committed; of more, that they were not. Nor was
    # anything sent if the connection was lent to the receiver of notifications just then, and
    # another had to be made.
    is_sent = way in ("one", "with a key") and "cannot connect" not in str(told.value)
    assert isinstance(told.value, SubmissionTimeoutError) == is_sent
    WAYS[way](app, task)


def test_what_was_not_yet_to_be_stored_is_surely_not(server: PostgresServer, app: App) -> None:
    """The server falls silent while the lane is numbered."""
    app.task(work).submit(1)
    stored = app.jobs.count()
    other = app.task(name="other")(work)
    with stopped(server), pytest.raises(StoreUnavailableError):
        other.submit(1)
    assert app.jobs.count() == stored
    other.submit(2)
    assert app.jobs.count() == stored + 1
