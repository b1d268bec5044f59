"""``fencepost events``: sending from the command line, and looking at what was sent."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from tests.cli.support import APP, Command

HANDLERS = """

@app.event("user.created").on
def welcome(user_id: int) -> str:
    return f"welcome {user_id}"


@app.event("user.*").on
def index(user_id: int) -> None: ...
"""
DATA = '{"user_id": 7}'


@pytest.fixture(autouse=True)
def _handlers(command: Command) -> None:
    (command.folder / "app.py").write_text(APP + HANDLERS)


def test_an_event_is_sent_to_every_handler_of_the_app(command: Command) -> None:
    sent = command.json("events", "send", "user.created", DATA)
    assert [(job["type"], job["state"], job["duplicate"]) for job in sent["jobs"]] == [
        ("welcome", "scheduled", False),
        ("index", "scheduled", False),
    ]
    assert datetime.fromisoformat(sent["sent_at"]).tzinfo is not None
    command.ok("worker", "--burst")
    welcome = command.json("jobs", "show", sent["jobs"][0]["id"])
    assert (welcome["result"], welcome["correlation_id"]) == ("welcome 7", sent["id"])
    assert welcome["tags"] == {"fencepost.event": "user.created"}
    found = command.json("jobs", "ls", "--tag", "fencepost.event=user.created")
    assert len(found["jobs"]) == 2


def test_a_person_reads_the_id_and_the_jobs(command: Command) -> None:
    first, header, *rows = command.ok("events", "send", "user.created", DATA).splitlines()
    assert len(first) == 36
    assert header.split() == ["JOB", "TYPE", "STATE", "IS"]
    assert [row.split()[1:] for row in rows] == [
        ["welcome", "scheduled", "new"],
        ["index", "scheduled", "new"],
    ]


def test_the_data_can_come_from_standard_input(command: Command) -> None:
    result = command("events", "send", "user.created", "-", "--json", input=DATA)
    assert len(json.loads(result.stdout)["jobs"]) == 2


def test_an_event_whose_key_is_held_is_refused(command: Command) -> None:
    """S3-16, C15."""
    words = ("events", "send", "user.created", DATA, "--key", "k")
    first = command.json(*words)
    result = command(*words)
    assert result.exit_code == 1
    assert "(duplicate_key)" in result.stderr
    assert first["jobs"][0]["id"] in result.stderr
    for job in first["jobs"]:
        command.ok("jobs", "cancel", job["id"])
    assert len(command.json(*words)["jobs"]) == 2
    assert [event["key"] for event in command.json("events", "ls")["events"]] == ["k", "k"]


def test_an_event_that_nobody_handles_is_recorded_and_said(command: Command) -> None:
    result = command("events", "send", "order.paid", '{"order": 1}')
    assert (result.exit_code, result.stderr) == (0, "no handler matches; recorded\n")
    assert len(result.stdout.strip()) == 36
    assert command.json("events", "send", "order.paid")["jobs"] == []
    assert [event["jobs"] for event in command.json("events", "ls")["events"]] == [[], []]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("user.*", DATA), "invalid_event"),
        (("user..x", DATA), "invalid_event"),
        (("user.created", '{"user_id": "x"}'), "invalid_payload"),
        (("user.created", "{}"), "invalid_payload"),
        (("user.created", DATA, "--key", "k" * 257), "invalid_key"),
    ],
)
def test_what_is_refused_is_not_recorded(
    command: Command, words: tuple[str, ...], code: str
) -> None:
    result = command("events", "send", *words)
    assert result.exit_code == 1
    assert f"({code})" in result.stderr
    command.submit("add", '{"a": 1, "b": 2}')
    assert command.json("events", "ls")["events"] == []
    assert len(command.json("jobs", "ls")["jobs"]) == 1


@pytest.mark.parametrize("data", ["[1]", "7", "nonsense"])
def test_data_that_are_no_object_are_a_mistake_of_usage(command: Command, data: str) -> None:
    assert command("events", "send", "user.created", data).exit_code == 2


def test_events_are_listed_page_by_page_and_by_name(command: Command) -> None:
    for name in ("user.created", "user.deleted", "user.created"):
        command.ok("events", "send", name, DATA)
    page = command.json("events", "ls", "--limit", "2")
    assert [event["name"] for event in page["events"]] == ["user.created", "user.deleted"]
    assert page["events"][0]["payload"] == {"user_id": 7}
    rest = command.json("events", "ls", "--after", page["next"])
    assert ([event["name"] for event in rest["events"]], rest["next"]) == (["user.created"], None)
    assert len(command.json("events", "ls", "--name", "user.created")["events"]) == 2
    result = command("events", "ls", "--limit", "1")
    header, row = result.stdout.splitlines()
    assert header.split() == ["ID", "NAME", "SENT", "AT", "(UTC)", "KEY", "JOBS"]
    assert row.endswith("welcome, index")
    assert result.stderr.startswith("more: fencepost ")
    assert "events ls --limit 1 --after" in result.stderr


def test_a_list_of_nothing_is_nothing(command: Command) -> None:
    command.submit("add", '{"a": 1, "b": 2}')
    assert len(command.ok("events", "ls").splitlines()) == 1
    assert command("events", "ls", "--name", "user.*").exit_code == 1
