"""``fencepost tokens`` and ``fencepost audit``."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import pytest
from tests.cli.support import Command

from fencepost import App
from fencepost.errors import UnknownOutcomeError


def test_a_token_is_all_that_standard_output_gets(command: Command) -> None:
    """So that a script can keep it; also in a folder without a store yet."""
    result = command("tokens", "create", "ci", "--role", "submit")
    assert result.exit_code == 0
    assert re.fullmatch(r"fp_[0-9a-f]{12}_[0-9a-f]{48}\n", result.stdout)
    token_id = result.stdout[3:15]
    assert f"tokens revoke {token_id}" in result.stderr
    assert result.stdout.strip() not in result.stderr


def test_a_list_shows_what_tokens_are_good_for_and_no_digest(command: Command) -> None:
    options = ["--role", "read", "--role", "submit", "--queue", "mail", "--expires", "90d"]
    made = command.json("tokens", "create", "deploy", *options, "--rate", "2.5")
    command.ok("tokens", "create", "other", "--role", "admin")
    listed = command.json("tokens", "ls")["tokens"]
    assert [each["name"] for each in listed] == ["deploy", "other"]
    assert listed[0] == {key: value for key, value in made.items() if key != "token"}
    assert (listed[0]["roles"], listed[0]["queues"]) == (["submit", "read"], ["mail"])
    assert (listed[0]["rate"], listed[0]["state"]) == (2.5, "live")
    assert listed[1]["queues"] is None
    table = command.ok("tokens", "ls")
    assert "submit, read" in table
    assert "2.5/s" in table
    with closing(sqlite3.connect(command.folder / "jobs.db")) as connection:
        ((digest,), *_) = connection.execute("select digest from tokens order by created_at")
    for text in (table, str(listed)):
        assert digest.hex() not in text
        assert made["token"] not in text


def test_revoke_takes_an_id_or_a_name(command: Command) -> None:
    token_id = command.json("tokens", "create", "ci", "--role", "read")["id"]
    command.ok("tokens", "create", "other", "--role", "read")
    assert command.ok("tokens", "revoke", "other").startswith("revoked token ")
    assert command.json("tokens", "revoke", token_id) == {"id": token_id, "state": "revoked"}
    assert [each["state"] for each in command.json("tokens", "ls")["tokens"]] == ["revoked"] * 2
    assert "revoked" in command.ok("tokens", "ls")
    result = command("tokens", "revoke", "nobody")
    assert result.exit_code == 1
    assert "(token_not_found)" in result.output
    assert "tokens ls" in result.output


@pytest.mark.parametrize(
    "words",
    [["ci"], ["ci", "--role", "root"], ["--role", "read"], ["ci", "--role", "read", "--expires=x"]],
)
def test_what_is_typed_wrongly_is_a_usage_error(command: Command, words: list[str]) -> None:
    assert command("tokens", "create", *words).exit_code == 2


def test_a_store_that_may_have_made_it_is_told_of(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its text is lost: whoever made it should revoke it."""

    def unknown(*_: object, **__: object) -> None:
        raise UnknownOutcomeError("no answer")

    command.ok("tokens", "create", "ci", "--role", "read")
    monkeypatch.setattr("fencepost.handles.access.Tokens.create", unknown)
    result = command("tokens", "create", "ci", "--role", "read")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "revoke it (unknown_outcome)" in result.stderr
    assert "tokens ls" in result.stderr


def test_the_audit_log_says_who_did_what(command: Command) -> None:
    token_id = command.json("tokens", "create", "ci", "--role", "read")["id"]
    command.ok("tokens", "revoke", "ci")
    (revoked, created) = command.json("audit", "ls")["actions"]
    assert (revoked["action"], created["action"]) == ("token.revoke", "token.create")
    assert (created["principal"], created["target"]) == ("local", token_id)
    assert created["detail"]["name"] == "ci"
    table = command.ok("audit", "ls")
    assert "token.create" in table
    first = command("audit", "ls", "--limit", "1")
    assert "more: fencepost" in first.stderr
    assert "token.create" not in first.stdout
    cursor = command.json("audit", "ls", "--limit", "1")["next"]
    assert "token.create" in command.ok("audit", "ls", "--limit", "1", "--after", cursor)


def test_an_empty_store_lists_nothing(command: Command) -> None:
    with App(command.url) as app:
        app.store.run(app.store.overview.queues())
    assert command.json("tokens", "ls") == {"tokens": []}
    assert command.json("audit", "ls") == {"actions": [], "next": None}
    assert command("tokens", "ls").exit_code == 0
