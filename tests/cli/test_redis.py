"""The command on Redis: the same verbs, and the API and a worker beside them."""

from __future__ import annotations

import json
from urllib.parse import quote

import httpx
import pytest
from tests.cli.support import Command, end, wait_until

ADD = '{"a": 1, "b": 2}'


@pytest.fixture
def command(command: Command, redis_url: str, redis_prefix: str) -> Command:
    """Give the command with a part of a server that is empty."""
    command.store = f"{redis_url}?prefix={quote(redis_prefix)}"
    return command


def test_the_verbs_work_as_on_the_other_stores(command: Command) -> None:
    assert command.ok("migrate") == "the schema is up to date\n"
    waiting = command.submit("add", ADD, "--delay", "1h")
    ready = command.submit("shout", '{"text": "eA=="}', "--queue", "mail", "--raw")
    command.ok("queues", "pause", "mail")
    assert "paused" in command.ok("jobs", "why", ready)
    command.ok("queues", "limit", "mail", "3")
    assert "at most 3" in command.ok("queues", "ls")
    assert {each["name"] for each in command.json("types", "ls")["types"]} == {"add", "shout"}
    assert waiting in command.ok("jobs", "ls", "--state", "delayed")
    command.ok("jobs", "cancel", waiting)
    assert command.json("jobs", "show", waiting)["state"] == "cancelled"
    assert "mail" in command.ok("top", "--once")
    assert command.ok("recover") == "recovered 0 jobs\n"
    assert command.ok("prune") == "pruned 0 jobs\n"
    findings = {
        each["code"]: each["level"] for each in json.loads(command("doctor", "--json").stdout)
    }
    assert findings["redis_version"] == findings["eviction"] == "ok"
    # Servers of tests are made to forget.
    assert {code for code, level in findings.items() if level == "fail"} <= {"durability"}


def test_a_worker_and_the_api_serve_it(command: Command) -> None:
    """As `fencepost dev` starts them."""
    child = command.start("dev", "app:app", "--port", "0")
    url = wait_until(lambda: _address(command.log), "the API")
    reply = httpx.post(f"{url}/v1/jobs", json={"type": "add", "payload": {"a": 1, "b": 2}})
    job_id = reply.json()["id"]
    wait_until(
        lambda: httpx.get(f"{url}/v1/jobs/{job_id}").json()["state"] == "completed", "the result"
    )
    assert [each["name"] for each in httpx.get(f"{url}/v1/queues").json()["queues"]] == ["default"]
    end(child)


def _address(log: str) -> str | None:
    lines = [line for line in log.splitlines() if "http.started" in line]
    return lines[0].rpartition("url=")[2].strip() if lines else None


def test_a_server_that_is_not_there_is_named(command: Command) -> None:
    refused = command("jobs", "ls", "--url", "redis://me:secret@127.0.0.1:1/0")
    assert refused.exit_code == 1
    assert "nothing listens there" in refused.stderr
    assert "secret" not in refused.output
