"""``fencepost dev`` as a real process: the worker, the API, and what a changed file does."""

from __future__ import annotations

import json
import re
import signal
import socket
from typing import Any

import httpx
from tests.cli.support import Command, end, wait_until

ADD = {"type": "add", "payload": {"a": 1, "b": 2}}


def url_of(command: Command) -> str:
    """Return where the API is, once it says so."""
    pattern = r"API is at (http://127\.0\.0\.1:\d+)"
    found = wait_until(lambda: re.search(pattern, command.log), "the API")
    return str(found[1])


def result_of_add(client: httpx.Client) -> Any:
    """Submit a job over HTTP, wait for it over HTTP, and return its result."""
    submitted = client.post("/v1/jobs", json=ADD)
    assert submitted.status_code == 201
    job = client.get(f"/v1/jobs/{submitted.json()['id']}/wait", params={"timeout": "20s"})
    return job.json().get("result")


def edit(command: Command, before: str, after: str) -> None:
    path = command.folder / "app.py"
    path.write_text(path.read_text().replace(before, after))


def test_a_change_of_the_code_reaches_the_next_job_and_refuses_no_request(command: Command) -> None:
    child = command.start("dev", "--port", "0")
    with httpx.Client(base_url=url_of(command), timeout=30) as client:
        assert result_of_add(client) == 3
        edit(command, "return a + b", "return a * 100 + b")

        def is_new() -> bool:
            # Connected again each time, as strangers do: also in mid-restart.
            with httpx.Client(base_url=client.base_url, timeout=30) as stranger:
                return bool(result_of_add(stranger) == 102)

        wait_until(is_new, "the new code")
    assert end(child, signal.SIGINT) == 0
    assert command.log.count("http.started") == 2


def test_an_error_in_the_code_is_told_and_outlasted(command: Command) -> None:
    child = command.start("dev", "--port", "0")
    url = url_of(command)
    wait_until(lambda: "http.started" in command.log, "the first process")
    edit(command, "return a + b", "return a +* b")
    wait_until(lambda: "starts again when a file changes" in command.log, "it waits")
    assert "SyntaxError" in command.log
    edit(command, "return a +* b", "return a - b")
    with httpx.Client(base_url=url, timeout=30) as client:
        assert result_of_add(client) == -1
    assert end(child) == 0


def test_an_error_from_the_start_is_outlasted_too(command: Command) -> None:
    edit(command, "return a + b", "return a +* b")
    child = command.start("dev", "--port", "0")
    url = url_of(command)
    wait_until(lambda: "starts again when a file changes" in command.log, "it waits")
    edit(command, "return a +* b", "return a + b")
    with httpx.Client(base_url=url, timeout=30) as client:
        assert result_of_add(client) == 3
    assert end(child) == 0


def test_a_port_that_is_taken_gives_way_to_a_free_one(command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        child = command.start("dev", "--port", str(port))
        url = url_of(command)
        assert f"port {port} is taken" in command.log
        assert httpx.get(f"{url}/health/ready", timeout=30).status_code == 200
        assert end(child) == 0


def test_without_a_server_there_is_a_worker_alone(command: Command) -> None:
    child = command.start("dev", "--no-server")
    wait_until(lambda: "worker.started" in command.log, "the worker")
    assert "HTTP API" not in command.log
    assert end(child) == 0


def test_a_worker_in_which_a_thread_does_not_stop_is_restarted(command: Command) -> None:
    """C44."""
    command.submit("overdue")
    child = command.start("dev", "--no-server", "--concurrency", "1")
    wait_until(lambda: "did not stop; restarting" in command.log, "it is noticed")
    add = command.ok("submit", "add", '{"a": 1, "b": 2}', "--wait", "--timeout", "30s")
    assert json.loads(add) == 3
    assert end(child) == 0


def test_the_memory_store_is_one_for_both(command: Command) -> None:
    edit(command, "app = App()", 'app = App("memory://")')
    command.store = "memory://"
    child = command.start("dev", "--port", "0")
    with httpx.Client(base_url=url_of(command), timeout=30) as client:
        assert result_of_add(client) == 3
    assert end(child) == 0
