"""A deployment of a server and of workers over HTTP alone: webhooks are delivered all the same."""

from __future__ import annotations

import httpx
import pytest
from tests.cli.support import Command, end, wait_until
from tests.cli.test_server import url_of
from tests.delivery.receiver import Receiver, answering, receiving, status

from fencepost.webhooks import new_secret, verify

SECRET = new_secret()
APP = f"""
from fencepost import App, Webhooks

app = App(webhooks=Webhooks([{SECRET!r}], allow_http=True, allow_networks=["127.0.0.0/8"]))
"""


@pytest.fixture
def command(command: Command) -> Command:
    (command.folder / "app.py").write_text(APP)
    return command


def work(url: str) -> None:
    """Do what a worker in another language does, for one job."""
    body = {"types": ["elsewhere"], "limit": 1, "worker": "w"}
    (job,) = httpx.post(f"{url}/v1/claims", json=body, timeout=30).json()["jobs"]
    done = {"id": job["id"], "token": job["lease"]["token"], "result": 42}
    assert httpx.post(f"{url}/v1/leases/ack", json=done).status_code == 200


def submit(url: str, receiver: Receiver) -> str:
    job = {"type": "elsewhere", "callback_url": receiver.url, "correlation_id": "order-7"}
    answer = httpx.post(f"{url}/v1/jobs", json=job)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def test_the_server_delivers_webhooks_where_no_worker_has_the_app(command: Command) -> None:
    """S1-109: signed, once the job has ended, and again after a receiver that is not well."""
    child = command.start("server", "--port", "0")
    url = url_of(command)
    with receiving(answering(status(503), status(204))) as receiver:
        job_id = submit(url, receiver)
        work(url)
        wait_until(lambda: len(receiver.requests) >= 2, "a webhook, and the same again")
        first, again = receiver.requests[:2]
        told = verify([SECRET], again.headers, again.body)
        assert (told["type"], told["data"]["id"]) == ("job.completed", job_id)
        assert first.headers["webhook-id"] == again.headers["webhook-id"]
    assert end(child) == 0


def test_a_server_that_does_no_upkeep_delivers_none(command: Command) -> None:
    child = command.start("server", "--port", "0", "--no-maintenance")
    url = url_of(command)
    with receiving() as receiver:
        submit(url, receiver)
        work(url)
        assert [each["id"] for each in command.json("workers", "ls")["workers"]] == ["w"]
        assert receiver.requests == []
    assert end(child) == 0
