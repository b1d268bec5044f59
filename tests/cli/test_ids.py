"""The beginning of an id in place of the whole of it."""

from __future__ import annotations

import pytest
from tests.cli.support import Command

from fencepost.clock import as_uuid4
from fencepost.core.job.job import Body, Encoding, NewJob
from fencepost.core.values.names import id_text
from fencepost.store.sqlite.store import SqliteStore

ADD = Body(b'{"a":1,"b":2}', Encoding.JSON)
ALIKE = [as_uuid4(bytes.fromhex("3f2a") + bytes([number]) * 14) for number in range(7)]
OTHER = as_uuid4(bytes.fromhex("3fff") + b"\x11" * 14)


@pytest.fixture
def stored(command: Command) -> Command:
    """Store jobs with the ids above."""
    store = SqliteStore(str(command.folder / "jobs.db"))
    store.run(store.queue.enqueue([NewJob(type="add", payload=ADD, id=i) for i in (*ALIKE, OTHER)]))
    store.close()
    return command


@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "show", "ID"),
        ("jobs", "why", "ID"),
        ("jobs", "run", "ID", "--local"),
        ("jobs", "edit", "ID", "--priority", "low"),
        ("jobs", "cancel", "ID"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("prefix", ["3ff", "3FFF", "3fff1111-", "3fff1111-1111-4", "3fff11111111"])
def test_the_beginning_of_an_id_is_enough(
    stored: Command, words: tuple[str, ...], prefix: str
) -> None:
    stored.ok(*(prefix if word == "ID" else word for word in words))
    job = stored.json("jobs", "show", id_text(OTHER))
    changed = {"edit": ("low", "scheduled"), "cancel": ("normal", "cancelled")}
    expected = changed.get(words[1], ("normal", "scheduled"))
    assert (job["priority"], job["state"]) == expected


def test_dead_letters_and_ended_jobs_are_named_so_too(command: Command) -> None:
    dead = command.submit("bad", '{"reason": "no"}')
    command.ok("worker", "--burst")
    assert dead in command.ok("jobs", "watch", dead[:8])
    assert command.ok("jobs", "retry", dead[:8]) == f"reopened {dead}\n"
    command.ok("worker", "--burst")
    [replayed] = command.json("dlq", "replay", dead[:8])
    assert (replayed["id"], replayed["done"]) == (dead, True)
    command.ok("worker", "--burst")
    assert command.ok("dlq", "discard", replayed["new_id"][:8]).startswith("discarded")


def test_a_beginning_of_several_ids_names_the_candidates_and_changes_nothing(
    stored: Command,
) -> None:
    result = stored("jobs", "cancel", "3f2a", "3ff")
    assert result.exit_code == 1
    assert result.stdout == f"cancelled {id_text(OTHER)}\n"
    assert "(ambiguous_id)" in result.stderr
    assert "and more; type more of it" in result.stderr
    named = [each for each in ALIKE if id_text(each) in result.stderr]
    assert len(named) == 5
    assert "(add, scheduled)" in result.stderr
    assert len(stored.json("jobs", "ls", "--state", "scheduled")["jobs"]) == len(ALIKE)
    [answer] = stored.json("jobs", "why", id_text(ALIKE[0])[:6])
    assert answer["code"]


@pytest.mark.parametrize("text", ["3f2b", "zz", "3f-2a", "-", "3fff1111-1111-4112"])
def test_what_begins_no_id_is_not_found(stored: Command, text: str) -> None:
    result = stored("jobs", "show", "--", text)
    assert result.exit_code == 1
    assert "(job_not_found)" in result.stderr
