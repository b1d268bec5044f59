"""A server that stops: real processes, real signals, and no answered job that is not there."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.cli.conftest import command
from tests.cli.support import Command, end, wait_until
from tests.http.sockets import SWEPT, Answer, Client, request, serving

from fencepost import App
from fencepost.http.operations.stats import monitoring

__all__ = ["command"]

ADD = {"type": "add", "payload": {"a": 1, "b": 2}}


def started(command: Command, *words: str) -> tuple[subprocess.Popen[str], tuple[str, int]]:
    """Start a server as a process of its own; return it and where it listens."""
    child = command.start("server", "--port", "0", *words)
    found = wait_until(
        lambda: re.search(r"server on http://([0-9.]+):(\d+)", command.log), "a server"
    )
    return child, (found[1], int(found[2]))


def submit_until_refused(address: tuple[str, int], ids: list[str]) -> None:
    """Submit, and keep the ids of what was accepted, until the server is gone."""
    try:
        with Client(address) as client:
            while True:
                answer = client.ask("POST", "/v1/jobs", ADD)
                if answer.status == 201:
                    ids.append(answer.json["id"])
                if answer.headers.get("connection") == "close":
                    return
    except ConnectionError:
        return  # in mid-answer


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["term", "kill"])
def test_every_job_that_was_answered_for_is_there(command: Command, number: int) -> None:
    child, address = started(command)
    ids: list[list[str]] = [[] for _ in range(8)]
    threads = [threading.Thread(target=submit_until_refused, args=(address, part)) for part in ids]
    for thread in threads:
        thread.start()
    wait_until(lambda: sum(map(len, ids)) > 100, "some jobs")
    code = end(child, number)
    for thread in threads:
        thread.join(30)
    assert code == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    with App(command.url) as app:
        for job_id in (each for part in ids for each in part):
            assert app.jobs.get(job_id).type == "add"
        assert app.jobs.count() - sum(map(len, ids)) <= len(ids)  # whose answers were lost


def test_one_who_waits_is_answered_when_the_server_stops(command: Command) -> None:
    child, address = started(command, "--grace", "20s")
    with Client(address) as waiter, Client(address) as claimer, Client(address) as asker:
        job_id = asker.ask("POST", "/v1/jobs", ADD).json["id"]
        claim = {"worker": "w", "types": ["other"], "timeout": "60s"}
        claimer.send(request("POST", "/v1/claims", claim))
        waiter.send(request("GET", f"/v1/jobs/{job_id}/wait?timeout=60"))
        assert asker.ask("GET", "/health/ready").status == 200
        child.send_signal(signal.SIGTERM)
        answer = waiter.answer()
        assert (answer.status, answer.json["state"]) == (200, "scheduled")
        assert claimer.answer().json["jobs"] == []
    assert child.wait(10) == 0
    assert "http.stopped" in command.log


def test_a_server_that_stops_says_that_it_is_not_ready(command: Command) -> None:
    child, address = started(command, "--notice", "60s")
    with Client(address) as client:
        assert client.ask("GET", "/health/ready").status == 200
        child.send_signal(signal.SIGTERM)

        def is_refused() -> Answer | None:
            answer = client.ask("GET", "/health/ready")
            return answer if answer.status == 503 else None

        answer = wait_until(is_refused, "not ready")
        assert answer.code == "not_ready"
        # Whoever has not heard of it yet is served all the same.
        assert client.ask("POST", "/v1/jobs", ADD).status == 201
        with Client(address) as late:
            assert late.ask("POST", "/v1/jobs", ADD).status == 201
    assert end(child) == 0  # the second signal does not wait


def test_a_second_signal_stops_at_once(command: Command) -> None:
    child, address = started(command, "--grace", "60s", "--notice", "60s")
    with Client(address) as client:
        job_id = client.ask("POST", "/v1/jobs", ADD).json["id"]
        client.send(request("GET", f"/v1/jobs/{job_id}/wait?timeout=60"))
        child.send_signal(signal.SIGTERM)
        wait_until(lambda: "http.stopping" in command.log, "the first signal")
        assert end(child, signal.SIGINT) == 0


def test_a_client_that_takes_no_answer_does_not_hold_up_the_stop(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:

        @app.task
        def echo(text: str) -> str:
            return text

        with serving(app, grace=60.0) as served, served.connect() as client:
            job = {"type": "echo", "payload": {"text": "a" * 900_000}}
            job_id = client.ask("POST", "/v1/jobs", job).json["id"]
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            for _ in range(20):
                client.send(request("GET", f"/v1/jobs/{job_id}"))
            served.stop()


def test_one_who_has_just_connected_is_served_before_the_server_goes(tmp_path: Path) -> None:
    limits = replace(SWEPT, farewell=20.0, head_timeout=20.0)
    with App(f"sqlite:///{tmp_path}/jobs.db") as app, serving(app, limits) as served:
        with served.connect() as client:
            [connection] = wait_until(lambda: list(served.server.connections), "the connection")
            served.server.stop()
            wait_until(lambda: connection._is_last, "the stop")
            answer = client.ask("GET", "/health/live")
            assert (answer.status, answer.headers.get("connection")) == (200, "close")
            assert client.is_closed()
        served.thread.join(10)
        assert not served.thread.is_alive()


def test_what_outlasts_the_grace_is_told_that_nobody_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = threading.Event()

    async def stuck(*_: object) -> bytes:
        entered.set()
        await asyncio.Event().wait()
        return b""

    monkeypatch.setattr(monitoring, "metrics_text", stuck)
    with App(f"sqlite:///{tmp_path}/jobs.db") as app, serving(app, grace=0.3) as served:
        with served.connect() as client:
            client.send(request("GET", "/metrics"))
            assert entered.wait(10)
            served.server.stop()
            answer = client.answer()
            assert (answer.status, answer.code) == (504, "unknown_outcome")
        served.thread.join(10)
        assert not served.thread.is_alive()


def test_a_server_stopped_before_it_starts_ends(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path}/jobs.db") as app, serving(app) as served:
        served.stop()
