"""The command on PostgreSQL, from an empty database on, as a newcomer would use it."""

from __future__ import annotations

import json

import pytest
from tests.cli.support import Command, end, wait_until

from fencepost.store.postgres.engine import functions, schema

ADD = '{"a": 1, "b": 2}'
SECRET = "open-sesame"
NAMES = [name for _, name, _ in schema.migrations()]
NAMES.append(functions.title(list(functions.function_set().files)))


@pytest.fixture
def command(command: Command, postgres_url: str) -> Command:
    """Give the command with an empty database; the server does not ask for the password."""
    head, _, place = postgres_url.partition("@")
    command.store = f"{head}:{SECRET}@{place}"
    return command


def test_whoever_forgets_to_migrate_is_told_to(command: Command) -> None:
    for words in (["submit", "add", ADD], ["jobs", "ls"], ["worker", "--burst"], ["top", "--once"]):
        refused = command(*words)
        assert refused.exit_code == 1
        assert "has no schema" in refused.stderr
        assert "run `fencepost migrate` (schema)" in refused.stderr
        assert SECRET not in refused.output
    sick = command("doctor", "--json")
    assert sick.exit_code == 1
    assert SECRET not in sick.output
    assert [f["code"] for f in json.loads(sick.stdout) if f["level"] == "fail"] == ["schema"]


def test_a_database_is_migrated_once(command: Command) -> None:
    assert command.json("migrate", "--plan") == {"pending": NAMES}
    assert command.ok("migrate", "--sql").startswith(f"-- {NAMES[0]}\nbegin;\n")
    assert command.json("migrate", "--plan") == {"pending": NAMES}, "to look is to change nothing"
    assert command.ok("migrate") == f"applied: {', '.join(NAMES)}\n"
    assert command.ok("migrate") == "the schema is up to date\n"
    levels = {f["code"]: f["level"] for f in json.loads(command("doctor", "--json").stdout)}
    assert levels["schema"] == levels["notify"] == "ok"
    # Servers of tests are made to forget.
    assert {code for code, level in levels.items() if level == "fail"} <= {"durability"}


def test_a_worker_waits_for_the_schema_and_then_works(command: Command) -> None:
    worker = command.start("worker", "--grace", "1s")
    wait_until(lambda: "the store is unavailable" in command.log, "a worker that waits")
    assert "waiting for the store: " in command.log
    command.ok("migrate")
    assert json.loads(command.ok("submit", "add", ADD, "--wait", "--timeout", "30s")) == 3
    failed = command("submit", "bad", '{"reason": "no"}', "--wait", "--timeout", "30s")
    assert failed.exit_code == 1
    assert SECRET not in failed.output
    (letter,) = command.json("dlq", "ls")["letters"]
    assert command.json("jobs", "show", letter["job_id"])["state"] == "failed"
    wait_until(
        lambda: [each["pid"] for each in command.json("workers", "ls")["workers"]] == [worker.pid],
        "a worker that is listed",
    )
    assert end(worker) == 0
    assert SECRET not in command.log


def test_the_other_verbs_work_as_on_sqlite(command: Command) -> None:
    command.ok("migrate")
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
    top = command.ok("top", "--once")
    assert "mail" in top
    assert SECRET not in top
    assert command.ok("recover") == "recovered 0 jobs\n"
    assert command.ok("prune") == "pruned 0 jobs\n"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://me:{}@127.0.0.1:1/jobs", "is the server running"),
        ("postgresql://me:{}@127.0.0.1:port/jobs", "a port is a number"),
        ("postgresql://me:{}@127.0.0.1/jobs?pool_size=0", "pool_size must be"),
        ("postgre://me:{}@127.0.0.1/jobs", "is not a store URL"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused_without_its_password(
    command: Command, url: str, says: str
) -> None:
    command.store = url.format(SECRET)
    for verb in (["jobs", "ls"], ["doctor"], ["worker", "--burst"]):
        refused = command(*verb)
        assert refused.exit_code == 1
        assert says in refused.output
        assert SECRET not in refused.output
