"""The command with keys and without: it reads what it can, and shows the rest as encrypted."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from tests.cli.support import Command

from fencepost import App, EncryptionKey
from fencepost.core.events import NewEvent
from fencepost.core.filter import PageRequest
from fencepost.core.job.job import Body

NEW, OLD = EncryptionKey("new", b"n" * 32), EncryptionKey("old", b"o" * 32)
SECRET = "canary-7c1f"
ADD = '{"a": 1, "b": 2}'


@pytest.fixture
def ran(command: Command, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Run a job of each kind with a key in the environment, and take it away."""
    monkeypatch.setenv("FENCEPOST_KEYS", NEW.text)
    ids = {
        "done": command.submit("add", ADD),
        "dead": command.submit("bad", json.dumps({"reason": SECRET})),
    }
    command.ok("worker", "--burst")
    monkeypatch.delenv("FENCEPOST_KEYS")
    return ids


def test_a_new_key_is_printed_as_it_is_to_be_given(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = command.ok("keys", "new").strip()
    id_, digits = line.split(":")
    assert len(base64.b64decode(digits)) == 32
    assert command.ok("keys", "new").strip() != line
    assert command.json("keys", "new", "--id", "mine")["id"] == "mine"
    assert command.json("keys", "new", "--id", "mine")["key"].startswith("mine:")
    monkeypatch.setenv("FENCEPOST_KEYS", line)
    job_id = command.submit("add", ADD)
    assert command.json("jobs", "show", job_id)["payload"] == {"a": 1, "b": 2}
    monkeypatch.delenv("FENCEPOST_KEYS")
    assert command.json("jobs", "show", job_id)["payload_encrypted"] == f"encrypted (key {id_})"


def test_a_key_that_cannot_be_named_so_is_refused(command: Command) -> None:
    result = command("keys", "new", "--id", "a b")
    assert result.exit_code == 1
    assert "(configuration)" in result.stderr


def test_with_the_key_everything_is_shown_as_it_is(
    command: Command, ran: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENCEPOST_KEYS", f"{OLD.text},{NEW.text}")
    assert command.json("jobs", "show", ran["done"])["result"] == 3
    assert SECRET in command.ok("jobs", "show", ran["dead"])
    assert SECRET in command.ok("dlq", "ls")


@pytest.mark.parametrize("keys", ["", OLD.text])
def test_without_the_key_nothing_fails_and_nothing_is_gibberish(
    command: Command, ran: dict[str, str], monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    monkeypatch.setenv("FENCEPOST_KEYS", keys)
    dead = ran["dead"]
    shown = command.json("jobs", "show", dead)
    assert shown["type"] == "bad"
    assert shown["payload_encrypted"] == "encrypted (key new)"
    assert shown["failure"]["message"] == "encrypted (key new)"
    assert (shown["failure"]["category"], shown["failure"]["code"]) == ("permanent", "bad")
    assert shown["attempts"][0]["failure"]["message"] == "encrypted (key new)"
    assert command.json("dlq", "ls")["letters"][0]["failure"]["message"] == "encrypted (key new)"
    texts = [
        command.ok("jobs", "show", dead),
        command.ok("jobs", "show", ran["done"]),
        command.ok("jobs", "ls"),
        command.ok("jobs", "why", dead),
        command.ok("jobs", "watch", dead),
        command.ok("dlq", "ls"),
    ]
    for text in texts:
        assert SECRET not in text
        assert "fencepost-encrypted:" not in text
    for text in (texts[0], texts[2], texts[3], texts[4], texts[5]):
        assert "encrypted (key new)" in text
    command.ok("top", "--once")


def test_without_the_key_a_dead_letter_is_not_replayed(
    command: Command, ran: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = command("dlq", "replay", ran["dead"])
    assert result.exit_code == 1
    assert "(key_missing)" in result.stderr
    assert "'new'" in result.stderr
    assert "cannot be decrypted" in command.ok("dlq", "replay", "--all")
    assert len(command.json("dlq", "ls")["letters"]) == 1
    monkeypatch.setenv("FENCEPOST_KEYS", NEW.text)
    assert command.json("dlq", "replay", "--all") == {"count": 1, "skipped": 0}


@pytest.mark.parametrize("keys", ["", OLD.text, NEW.text, f"{OLD.text},{NEW.text}"])
def test_a_store_is_moved_whole_with_whatever_keys(
    command: Command, ran: dict[str, str], monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    target = f"sqlite:///{command.folder}/target.db"
    monkeypatch.setenv("FENCEPOST_KEYS", keys)
    assert "moved 2 jobs" in command.ok("move", command.url, target)
    monkeypatch.setenv("FENCEPOST_KEYS", f"{OLD.text},{NEW.text}")
    assert command.json("jobs", "show", ran["done"], "--url", target)["result"] == 3
    assert SECRET in command.ok("jobs", "show", ran["dead"], "--url", target)
    assert SECRET.encode() not in (command.folder / "target.db").read_bytes()


def test_a_key_that_cannot_be_read_is_refused_and_not_shown(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENCEPOST_KEYS", f"new:{SECRET}")
    result = command("submit", "add", ADD)
    assert result.exit_code == 1
    assert "(configuration)" in result.stderr
    assert SECRET not in result.stderr


def test_a_plain_store_is_encrypted_by_moving_it_while_that_is_accepted(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = command.submit("bad", json.dumps({"reason": SECRET}))
    command.ok("worker", "--burst")
    target = f"sqlite:///{command.folder}/target.db"
    monkeypatch.setenv("FENCEPOST_KEYS", NEW.text)
    shown = command.json("jobs", "show", dead)
    assert shown["payload_encrypted"] == "not encrypted, and therefore refused"
    assert shown["failure"]["message"] == "not encrypted, and therefore refused"
    result = command("move", command.url, target)
    assert result.exit_code == 1
    assert "(not_encrypted)" in result.stderr
    assert dead in result.stderr
    day = datetime.now(UTC).date() + timedelta(days=1)
    monkeypatch.setenv("FENCEPOST_PLAIN", f"accept until {day}")
    assert "moved 1 job" in command.ok("move", command.url, target)
    monkeypatch.delenv("FENCEPOST_PLAIN")
    assert command.json("jobs", "show", dead, "--url", target)["payload"] == {"reason": SECRET}
    assert SECRET.encode() not in (command.folder / "target.db").read_bytes()


def test_the_record_of_an_event_that_is_not_encrypted_stops_a_move(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with App(command.url) as app:
        app.store.run(app.store.events.send(NewEvent("user.created", Body(b'{"id": 7}')), []))
    target = f"sqlite:///{command.folder}/target.db"
    monkeypatch.setenv("FENCEPOST_KEYS", NEW.text)
    result = command("move", command.url, target)
    assert result.exit_code == 1
    assert "(not_encrypted)" in result.stderr
    day = datetime.now(UTC).date() + timedelta(days=1)
    monkeypatch.setenv("FENCEPOST_PLAIN", f"accept until {day}")
    command.ok("move", command.url, target)
    with App(target) as app:
        (event,) = app.store.run(app.store.events.list(None, PageRequest(9))).events
        assert event.data == {"id": 7}
