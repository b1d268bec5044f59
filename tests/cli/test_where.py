"""``jobs ls --where``: what jobs carry, read one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.cli.support import Command

from fencepost import App, EncryptionKey
from fencepost.actions.local import look
from fencepost.core.look import parse_comparison
from fencepost.errors import ConfigurationError

VIEW = {
    "payload": {"user": {"id": 42, "name": "Ada"}, "ids": [1, "2"], "is_new": True, "none": None},
    "result": 3,
    "failure": {"code": "declined", "message": "a=b"},
}
MET = [
    "payload.user.id=42",
    " payload.user.id = 42",
    "payload.user.id=42.0",
    "payload.user.id!=43",
    'payload.user.id!="42"',
    "payload.user.id>41.5",
    "payload.user.id<=42",
    "payload.user.name=Ada",
    'payload.user.name="Ada"',
    "payload.user.name>Abe",
    'payload.user={"id": 42, "name": "Ada"}',
    "payload.ids.0=1",
    "payload.ids.1=2",
    "payload.ids.1>1",
    "payload.is_new=true",
    "payload.none=null",
    "payload.missing!=1",
    "payload.ids.7!=1",
    "result=3",
    "failure.message=a=b",
]
NOT_MET = [
    "payload.user.id=43",
    'payload.user.id="42"',
    "payload.user.id!=42",
    "payload.user.id>42",
    "payload.user.id<Ada",
    "payload.user>1",
    "payload.user.name=ada",
    "payload.ids.0=true",
    "payload.ids.-1=2",
    "payload.is_new=1",
    "payload.is_new<2",
    "payload.missing=null",
    "payload.missing<1",
    "checkpoint.page=1",
]


@pytest.mark.parametrize("text", [*MET, *NOT_MET])
def test_a_condition_compares_as_json_does(text: str) -> None:
    """As text too if text is stored: nobody knows which of the two a payload has."""
    condition = parse_comparison(text)
    assert condition.is_met(VIEW.get(condition.path[0])) == (text in MET)


@pytest.mark.parametrize(
    "text", ["", "payload", "=1", "user.id=1", "payload..id=1", "payload.=1", "tags.a=1", "!=="]
)
def test_what_is_no_condition_is_refused_with_an_example(command: Command, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"such as payload\.user\.id=42"):
        parse_comparison(text)
    assert command("jobs", "ls", "--where", text).exit_code == 2


@pytest.fixture
def numbered(command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Store nine jobs, whose payloads are {"n": 0} to {"n": 8}, on pages of four."""
    monkeypatch.setattr(look, "LOOK_PAGE", 4)
    with App(command.url) as app:

        @app.task
        def count(n: int) -> None: ...

        count.submit_many([(n,) for n in range(9)])
    return command


def found(answer: dict[str, Any], command: Command) -> list[int]:
    """Return the numbers of the jobs that were listed."""
    shown = [command.json("jobs", "show", job["id"]) for job in answer["jobs"]]
    return [job["payload"]["n"] for job in shown]


def test_jobs_are_found_by_their_payload(numbered: Command) -> None:
    """With the other conditions, and with each other."""
    where_ = ("--where", "payload.n>2", "--where", "payload.n!=5")
    answer = numbered.json("jobs", "ls", *where_, "--where", "payload.n<7")
    assert (found(answer, numbered), answer["next"], answer["read"]) == ([6, 4, 3], None, 9)
    assert numbered.json("jobs", "ls", *where_, "--type", "other")["read"] == 0
    listed = numbered("jobs", "ls", *where_, "--state", "scheduled")
    assert "read 9 jobs, 5 match" in listed.stderr
    assert "more:" not in listed.stderr


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 9])
def test_pages_leave_nothing_out_wherever_they_end(numbered: Command, limit: int) -> None:
    """A page may be full in the middle of what was read together."""
    numbers: list[int] = []
    words: tuple[str, ...] = ()
    while True:
        options = ("--where", "payload.n!=4", "--limit", str(limit))
        answer = numbered.json("jobs", "ls", *options, *words)
        numbers += found(answer, numbered)
        assert len(answer["jobs"]) <= limit
        if answer["next"] is None:
            break
        words = ("--after", answer["next"])
    assert numbers == [8, 7, 6, 5, 3, 2, 1, 0]


def test_the_bound_stops_it_and_says_how_to_go_on(numbered: Command) -> None:
    options = ("--where", "payload.n<2", "--scan", "6")
    stopped = numbered("jobs", "ls", *options)
    assert "read 6 jobs, 0 match" in stopped.stderr
    assert "stopped by --scan" in stopped.stderr
    answer = numbered.json("jobs", "ls", *options)
    assert f"jobs ls --where 'payload.n<2' --scan 6 --after {answer['next']}" in stopped.stderr
    rest = numbered.json("jobs", "ls", *options, "--after", answer["next"])
    assert (found(rest, numbered), rest["next"], rest["read"]) == ([1, 0], None, 3)


def test_the_other_conditions_without_an_index_and_the_order(numbered: Command) -> None:
    answer = numbered.json("jobs", "ls", "--priority", "normal", "--order", "oldest")
    assert (found(answer, numbered), answer["read"]) == (list(range(9)), 9)
    assert numbered.json("jobs", "ls", "--priority", "low", "--error", "x")["jobs"] == []
    listed = numbered.json("jobs", "ls", "--key", "none")
    assert (listed["jobs"], "read" in listed) == ([], False)


def test_many_are_edited_and_cancelled_by_conditions(numbered: Command) -> None:
    of = ("--of", "type:count", "--of", "where:payload.n<2", "--of", "state:scheduled")
    edited = numbered.json("jobs", "edit", *of, "--priority", "high", "--yes")
    assert edited == {"count": 2, "refused": {}}
    high = numbered.json("jobs", "ls", "--priority", "high")
    assert found(high, numbered) == [1, 0]
    assert numbered("jobs", "edit", *of, "--payload", "{}", "--yes").exit_code == 2
    assert numbered("jobs", "edit", "--priority", "low", "--yes").exit_code == 2
    for wrong in ("type", "colour:red", "where:a=1", "tag:x", "created-after:never"):
        options = ("--of", wrong, "--priority", "low", "--yes")
        assert numbered("jobs", "edit", *options).exit_code in (1, 2), wrong
    assert numbered.json("jobs", "cancel", "--priority", "high", "--yes") == {"count": 2}


def test_an_encrypted_payload_is_read_with_the_keys_of_the_app(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = EncryptionKey("k", b"n" * 32)
    (command.folder / "locked.py").write_text(
        "from fencepost import App, EncryptionKey\n"
        "app = App(keys=[EncryptionKey('k', b'n' * 32)])\n"
        "@app.task\n"
        "def greet(name: str) -> None: ...\n"
    )
    job_id = command.submit("greet", json.dumps({"name": "Ada"}), "--app", "locked")
    options = ("jobs", "ls", "--where", "payload.name=Ada")
    without = command(*options)
    assert "read 1 job, 0 match" in without.stderr
    assert "1 cannot be compared and do not match" in without.stderr
    assert command.json("jobs", "ls", "--where", "payload.name!=Ada")["unreadable"] == 1
    (job,) = command.json(*options, "--app", "locked")["jobs"]
    assert job["id"] == job_id
    monkeypatch.setenv("FENCEPOST_KEYS", key.text)
    assert len(command.json(*options)["jobs"]) == 1
