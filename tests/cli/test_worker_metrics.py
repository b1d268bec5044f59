"""``fencepost worker --metrics``: a real worker, watched from outside."""

from __future__ import annotations

import json
import re
import signal
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import click
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.cli.support import Command, end, wait_until
from tests.servers.child import free_port

from fencepost.cli.commands.worker import ADDRESS, ListenAddress


def fetch(address: str, path: str) -> tuple[int, str]:
    """Return status and body; 0 while nobody listens."""
    try:
        with urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9100", ListenAddress("127.0.0.1", 9100)),
        (":9100", ListenAddress("127.0.0.1", 9100)),
        ("0.0.0.0:9100", ListenAddress("0.0.0.0", 9100)),
        ("[::1]:9100", ListenAddress("::1", 9100)),
        ("localhost:0", ListenAddress("localhost", 0)),
    ],
)
def test_an_address_is_read_and_is_local_unless_told(text: str, address: ListenAddress) -> None:
    assert ADDRESS.convert(text, None, None) == address
    assert ADDRESS.convert(str(address), None, None) == address


@pytest.mark.parametrize("text", ["", "x", "host:", "host:x", "1:65536", "1:999999", "1:-1", "１"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="HOST:PORT"):
        ADDRESS.convert(text, None, None)


@pytest.mark.parametrize(("port", "hint"), [("0", "first port"), ("65535", "65536")])
def test_several_processes_need_a_port_each(command: Command, port: str, hint: str) -> None:
    refused = command("worker", "--processes", "2", "--metrics", port)
    assert refused.exit_code == 2
    assert hint in refused.stderr


def served(command: Command) -> list[str]:
    return re.findall(r"metrics\.served address=(\S+)", command.log)


def samples(text: str) -> dict[str, Any]:
    return {family.name: family.samples for family in text_string_to_metric_families(text)}


def test_a_worker_is_watched_from_its_start_to_its_end(command: Command) -> None:
    command.submit("add", '{"a": 1, "b": 2}')
    command.submit("stuck")
    child = command.start("worker", "--metrics", "127.0.0.1:0", "--grace", "60s")
    [address] = wait_until(lambda: served(command), "it listens")
    wait_until(lambda: fetch(address, "/health/ready")[0] == 200, "ready")
    wait_until(lambda: 'event="succeed"' in fetch(address, "/metrics")[1], "a job is done")
    found = samples(fetch(address, "/metrics")[1])
    assert [each.value for each in found["fencepost_ready"]] == [1]
    assert [each.value for each in found["fencepost_live"]] == [1]
    assert [each.value for each in found["fencepost_store_up"]] == [1]
    waits = [each for each in found["fencepost_job_wait_seconds"] if "_count" in each.name]
    # A job that a busy machine starts too late is given back, and claimed again.
    assert {each.labels["type"] for each in waits if each.value >= 1} == {"add", "stuck"}
    child.send_signal(signal.SIGTERM)
    wait_until(lambda: fetch(address, "/health/ready")[0] == 503, "not ready while it drains")
    assert fetch(address, "/health/live")[0] == 200
    reasons = json.loads(fetch(address, "/health/ready")[1])["reasons"]
    assert reasons == ["stopping: no new work is taken"]
    assert end(child) == 0
    assert fetch(address, "/health/live")[0] == 0


def test_a_port_that_is_taken_ends_the_command_with_what_to_do(command: Command) -> None:
    command.start("worker", "--metrics", "127.0.0.1:0")
    [address] = wait_until(lambda: served(command), "it listens")
    refused = command("worker", "--burst", "--metrics", address)
    assert refused.exit_code == 1
    assert "choose another" in refused.stderr


def test_each_process_has_the_next_port(command: Command) -> None:
    first = free_port()
    child = command.start("worker", "--processes", "2", "--metrics", str(first))
    addresses = [f"127.0.0.1:{port}" for port in (first, first + 1)]
    wait_until(lambda: {fetch(each, "/health/ready")[0] for each in addresses} == {200}, "both")
    assert end(child) == 0
