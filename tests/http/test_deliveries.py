"""Webhooks that a server delivers, in this process; see ``tests/cli/test_server_webhooks.py``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.support import wait_until
from tests.delivery.receiver import OK, Receiver, receiving
from tests.http.sockets import serving

from fencepost import App, NewJob, State, Webhooks
from fencepost.core.job.job import Body
from fencepost.core.job.outcome import Succeeded, decide, settlement_of
from fencepost.core.webhooks.delivery import DELIVERY_TYPE
from fencepost.store.interface.queue import ClaimRequest
from fencepost.webhooks import new_secret

SETTINGS = Webhooks([new_secret()], allow_http=True, allow_networks=["127.0.0.0/8"])


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with App(f"sqlite:///{tmp_path}/jobs.db", webhooks=SETTINGS) as app:
        yield app


def end_one(app: App, receiver: Receiver) -> None:
    """Have a job submitted and done by somebody who is no worker of the app."""
    store = app.store
    store.run(store.queue.enqueue([NewJob(type="elsewhere", callback_url=receiver.url)]))
    request = ClaimRequest(worker="w", limit=1, types=frozenset({"elsewhere"}))
    (job,) = store.run(store.queue.claim(request)).jobs
    decision = decide(job, Succeeded(Body(b"1")), store.clock.rng)
    store.run(store.queue.settle([settlement_of(job, decision)]))


def test_a_server_delivers_the_webhooks_of_its_app(app: App) -> None:
    """S1-109."""
    with serving(app), receiving() as receiver:
        end_one(app, receiver)
        wait_until(lambda: receiver.requests, "a webhook")
        wait_until(
            lambda: app.jobs.count(type=DELIVERY_TYPE, state=State.COMPLETED), "its settlement"
        )
    assert "fencepost-deliveries" not in [each.name for each in threading.enumerate()]


def test_a_server_that_is_stopped_twice_waits_for_no_receiver(app: App) -> None:
    """S1-109: the delivery is taken over when its lease has run out."""
    silent = threading.Event()

    def wait(connection: object) -> None:
        silent.wait(30)
        connection.sendall(OK)  # type: ignore[attr-defined]  # a socket

    with receiving(wait) as receiver:
        with serving(app, grace=60.0):  # which is left by two stops, three seconds apart
            end_one(app, receiver)
            wait_until(lambda: receiver.requests, "a webhook")
        silent.set()
    assert app.jobs.count(type=DELIVERY_TYPE) == 1


def test_an_app_without_secrets_has_nothing_to_deliver(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path}/jobs.db") as app, serving(app):
        assert "fencepost-deliveries" not in [each.name for each in threading.enumerate()]
