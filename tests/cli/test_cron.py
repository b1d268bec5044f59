"""``fencepost cron``: from the store alone, for people and for programs."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from tests.cli.support import Command

from fencepost import App
from fencepost.core.bounds import CRON_SILENCE
from fencepost.store.interface.records.crons import CronDefinition


@pytest.fixture
def declared(command: Command) -> Command:
    """Declare two crons, as a worker would."""
    with App(command.url) as app:

        @app.cron("30 2 * * *", tz="Europe/Berlin", arguments={"to": "ä"}, missed="catch_up")
        @app.task(queue="reports")
        def report(to: str) -> None: ...

        @app.cron("@hourly", name="n" * 200)
        @app.task(name="clean")
        def clean() -> None: ...

        app.worker().run(until_idle=True)
    return command


def test_a_list_says_when_in_words_and_in_both_zones(declared: Command) -> None:
    listed = declared.ok("cron", "ls")
    assert listed.splitlines()[0].split()[:3] == ["CRON", "SCHEDULE", "ZONE"]
    assert "n" * 200 in listed
    assert "Every day at 02:30" in listed
    assert "catch up 10" in listed
    assert "02:30:00" in listed


def test_a_program_is_told_everything(declared: Command) -> None:
    answer = declared.json("cron", "ls")
    [clean, report] = answer["crons"]
    assert clean["description"] == "At the start of every hour"
    assert (report["name"], report["type"], report["queue"]) == ("report", "report", "reports")
    assert (report["expression"], report["tz"]) == ("30 2 * * *", "Europe/Berlin")
    assert (report["missed"], report["catch_up"]) == ("catch_up", 10)
    assert (report["is_paused"], report["is_known"], report["last_tick"]) == (False, True, None)
    tick = datetime.fromisoformat(report["next_tick"])
    assert tick == datetime.fromisoformat(report["next_tick_local"])
    assert tick > datetime.fromisoformat(answer["now"])


def test_next_times_are_shown_in_both_zones(declared: Command) -> None:
    answer = declared.json("cron", "next", "report", "--count", "3")
    assert (answer["name"], answer["tz"], answer["is_paused"]) == ("report", "Europe/Berlin", False)
    assert len(answer["next"]) == 3
    for each in answer["next"]:
        local = datetime.fromisoformat(each["local"])
        assert local == datetime.fromisoformat(each["at"])
        assert (local.hour, local.minute) in {(2, 30), (3, 0)}
    lines = declared.ok("cron", "next", "report").splitlines()
    assert len(lines) == 6
    assert lines[0].split() == ["UTC", "Europe/Berlin"]
    assert " CE" in lines[1]


def test_run_submits_what_is_stored(declared: Command) -> None:
    answer = declared.json("cron", "run", "report")
    assert (answer["type"], answer["state"]) == ("report", "scheduled")
    shown = declared.json("jobs", "show", answer["id"])
    assert json.dumps(shown["payload"], ensure_ascii=False) == '{"to": "ä"}'
    assert shown["queue"] == "reports"
    assert declared.ok("cron", "run", "report").strip() in declared.ok("jobs", "ls")


def test_runs_are_listed_the_newest_first(declared: Command) -> None:
    assert declared.json("cron", "runs", "report") == {"runs": []}
    first = declared.json("cron", "run", "report")
    declared.json("cron", "run", "report")
    listed = declared.json("cron", "runs", "report")["runs"]
    assert [run["state"] for run in listed] == ["scheduled", "scheduled"]
    assert listed[1]["job_id"] == first["id"]
    assert len(declared.json("cron", "runs", "report", "--limit", "1")["runs"]) == 1


def test_pause_and_resume(declared: Command) -> None:
    assert declared.ok("cron", "pause", "report").startswith("paused cron report; next: fencepost")
    assert declared.json("cron", "ls")["crons"][1]["is_paused"]
    assert "paused" in declared.ok("cron", "ls")
    assert "paused; next:" in declared("cron", "next", "report").output
    assert declared.ok("cron", "resume", "report").startswith(
        "resumed cron report; next tick at 20"
    )
    assert not declared.json("cron", "ls")["crons"][1]["is_paused"]
    assert declared.json("cron", "pause", "report") == {"name": "report", "is_paused": True}
    assert declared.json("cron", "resume", "report")["next_tick"]


def test_what_nobody_declares_any_more_is_listed_as_such_and_can_be_forgotten(
    declared: Command,
) -> None:
    long_ago = datetime.now(UTC) - timedelta(seconds=CRON_SILENCE + 5)
    with closing(sqlite3.connect(declared.folder / "jobs.db")) as connection, connection:
        connection.execute(
            "update crons set declared_at = ? where name = 'report'",
            (int(long_ago.timestamp() * 1_000_000),),
        )
    assert f"no worker declares it since {long_ago:%Y-%m-%d}" in declared.ok("cron", "ls")
    assert not declared.json("cron", "ls")["crons"][1]["is_known"]
    result = declared("cron", "forget", "report")
    assert result.output == "deleted cron report\n"
    assert [each["name"] for each in declared.json("cron", "ls")["crons"]] == ["n" * 200]


def test_to_forget_what_a_worker_declares_says_that_it_comes_back(declared: Command) -> None:
    assert "will add it again" in declared("cron", "forget", "report").output


def test_an_unknown_name_is_refused_with_the_next_thing_to_type(declared: Command) -> None:
    for verb in ("run", "runs", "pause", "resume", "next", "forget"):
        result = declared("cron", verb, "nobody")
        assert result.exit_code == 1
        assert "no cron is called 'nobody'" in result.output
        assert "(cron_not_found)" in result.output
        assert "cron ls" in result.output


def test_a_cron_that_this_machine_cannot_read_is_still_listed(declared: Command) -> None:
    """Its zone may be known only where its workers run."""
    with App(declared.url) as app:
        template = app.crons.list()[1].template
        assert template is not None
        odd = CronDefinition(
            name="odd", expression="0 9 * * *", tz="Mars/Base", template=template, next_tick=None
        )
        app.store.run(app.store.crons.declare([odd]))
    listed = {each["name"]: each for each in declared.json("cron", "ls")["crons"]}
    assert (listed["odd"]["description"], listed["odd"]["next_tick"]) == ("", None)
    assert "Mars/Base" in declared.ok("cron", "ls")
    assert "(invalid_cron)" in declared("cron", "next", "odd").output


def test_a_store_without_crons_lists_none(command: Command) -> None:
    command.submit("add", '{"a": 1, "b": 2}')
    assert command.json("cron", "ls")["crons"] == []
