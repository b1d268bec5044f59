"""Every verb that looks or steers, over a real SQLite file."""

from __future__ import annotations

import json
import re
import shlex
from datetime import datetime
from typing import Any

import pytest
from tests.cli.support import Command

from fencepost import App, Retry

ADD = '{"a": 1, "b": 2}'


@pytest.fixture
def ran(command: Command) -> dict[str, str]:
    """Submit a job of each kind and run them; return their ids."""
    ids = {
        "done": command.submit("add", ADD, "--tag", "tenant=7", "--correlation-id", "c1"),
        "dead": command.submit("bad", '{"reason": "no \\u001b[31mway"}'),
    }
    command.ok("worker", "--burst")
    ids["waiting"] = command.submit("add", ADD, "--delay", "1h", "--queue", "slow")
    return ids


# Looking by time.


def test_jobs_are_listed_by_when_they_were_created(command: Command, ran: dict[str, str]) -> None:
    """S1-107: a time, or how long ago."""
    [dead] = command.json("jobs", "ls", "--type", "bad")["jobs"]
    at = dead["created_at"]

    def listed(*words: str) -> list[str]:
        return [job["id"] for job in command.json("jobs", "ls", *words)["jobs"]]

    assert listed("--created-after", at) == [ran["waiting"], ran["dead"]]
    assert listed("--created-before", at) == [ran["done"]]
    assert listed("--created-after", "1h", "--type", "bad") == [ran["dead"]]
    assert listed("--created-before", "1h") == []
    assert command.json("jobs", "cancel", "--created-after", at, "--yes") == {"count": 1}


def test_what_is_neither_a_time_nor_a_duration_is_refused(command: Command) -> None:
    refused = command("jobs", "ls", "--created-after", "yesterday")
    assert refused.exit_code == 2
    assert "2026-01-31T12:00:00Z" in refused.stderr


# Submitting.


def test_submit_prints_the_id_and_nothing_else(command: Command) -> None:
    job_id = command.ok("submit", "add", ADD)
    assert len(job_id) == 37
    assert command.json("jobs", "show", job_id.strip())["payload"] == {"a": 1, "b": 2}


def test_submit_takes_the_options_of_a_submission(command: Command) -> None:
    words = ["--delay", "90s", "--priority", "high", "--queue", "q", "--key", "k", "--tag", "a=b=c"]
    job_id = command.submit("add", ADD, *words, "--correlation-id", "c")
    job = command.json("jobs", "show", job_id)
    assert (job["state"], job["priority"], job["queue"]) == ("delayed", "high", "q")
    assert (job["key"], job["tags"], job["correlation_id"]) == ("k", {"a": "b=c"}, "c")


def test_submit_takes_a_priority_by_number(command: Command) -> None:
    assert (
        command.json("jobs", "show", command.submit("add", ADD, "--priority", "0"))["priority"]
        == "critical"
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("add", '{"a": "x", "b": 1}'), "invalid_payload"),
        (("add", '{"a": 1}'), "invalid_payload"),
        (("add", '{"a": 1, "b": 2, "c": 3}'), "invalid_payload"),
        (("nope", "{}"), "unknown_type"),
        (("add", ADD, "--priority", "9"), "invalid_job"),
        (("add", ADD, "--key", "k" * 257), "invalid_key"),
        (("add", ADD, "--queue", "q" * 101), "invalid_job"),
    ],
)
def test_a_bad_submission_stores_nothing(
    command: Command, words: tuple[str, ...], code: str
) -> None:
    result = command("submit", *words)
    assert result.exit_code == 1
    assert f"({code})" in result.stderr
    command.submit("add", ADD)
    assert len(command.json("jobs", "ls")["jobs"]) == 1


def test_the_same_key_returns_the_same_job(command: Command) -> None:
    first = command.json("submit", "add", ADD, "--key", "k")
    second = command.json("submit", "add", ADD, "--key", "k")
    assert (first["duplicate"], second["duplicate"]) == (False, True)
    assert first["id"] == second["id"]


def test_a_raw_job_needs_no_app(command: Command) -> None:
    (command.folder / "app.py").unlink()
    refused = command("submit", "anything", "{}")
    assert refused.exit_code == 1
    assert "--raw" in refused.stderr
    raw = command.json("submit", "anything", "[1, 2]", "--raw", "--priority", "3", "--key", "k")
    assert raw["state"] == "scheduled"
    assert command.json("jobs", "show", raw["id"])["payload"] == [1, 2]


def test_a_payload_can_come_from_standard_input(command: Command) -> None:
    job_id = command.ok("submit", "add", "-", input=ADD).strip()
    assert command.json("jobs", "show", job_id)["payload"] == {"a": 1, "b": 2}


def test_waiting_in_vain_says_where_to_look(command: Command) -> None:
    result = command("submit", "add", ADD, "--wait", "--timeout", "0s")
    assert result.exit_code == 1
    assert "(wait_timeout)" in result.stderr
    assert "jobs why" in result.stderr


# Looking.


@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "ls"),
        ("jobs", "show", "done"),
        ("jobs", "why", "waiting"),
        ("jobs", "watch", "dead"),
        ("dlq", "ls"),
        ("queues", "ls"),
        ("types", "ls"),
        ("workers", "ls"),
        ("top",),
        ("recover",),
        ("prune",),
        ("migrate", "--plan"),
        ("doctor",),
        ("version",),
    ],
    ids=" ".join,
)
def test_every_reading_verb_answers_in_json_and_in_words(
    command: Command, ran: dict[str, str], words: tuple[str, ...]
) -> None:
    words = tuple(ran.get(word, word) for word in words)
    json.loads(command.ok(*words, "--json"))
    text = command.ok(*words)
    assert text.strip()
    assert "\x1b" not in text


def test_jobs_are_listed_newest_first_without_their_payloads(
    command: Command, ran: dict[str, str]
) -> None:
    jobs = command.json("jobs", "ls")["jobs"]
    assert [job["id"] for job in jobs] == [ran["waiting"], ran["dead"], ran["done"]]
    assert not {"payload", "result", "policy"} & jobs[0].keys()
    assert datetime.fromisoformat(jobs[0]["created_at"]).tzinfo is not None


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--state", "completed"), {"done"}),
        (("--state", "completed", "--state", "delayed"), {"done", "waiting"}),
        (("--state", "failed"), {"dead"}),
        (("--type", "bad"), {"dead"}),
        (("--queue", "slow"), {"waiting"}),
        (("--tag", "tenant=7"), {"done"}),
        (("--correlation-id", "c1"), {"done"}),
        (("--type", "add", "--queue", "default"), {"done"}),
    ],
)
def test_jobs_are_filtered(
    command: Command, ran: dict[str, str], words: tuple[str, ...], names: set[str]
) -> None:
    listed = {job["id"] for job in command.json("jobs", "ls", *words)["jobs"]}
    assert listed == {ran[name] for name in names}


def test_a_page_says_how_to_get_the_next(command: Command, ran: dict[str, str]) -> None:
    page = command.json("jobs", "ls", "--limit", "2")
    rest = command.json("jobs", "ls", "--after", page["next"])
    assert [job["id"] for job in rest["jobs"]] == [ran["done"]]
    more = command("jobs", "ls", "--limit", "2").stderr
    assert f"jobs ls --limit 2 --after {page['next']}" in more


def test_show_has_payload_result_attempts_and_why(command: Command, ran: dict[str, str]) -> None:
    job = command.json("jobs", "show", ran["done"])
    assert job["result"] == 3
    assert job["policy"]["max_attempts"] == 3
    assert [each["outcome"] for each in job["attempts"]] == ["succeeded"]
    assert job["why"][0]["code"] == "completed"
    text = command.ok("jobs", "show", ran["dead"])
    assert "permanent: no \\x1b[31mway [bad]" in text
    assert re.search(r"LEASE +ATTEMPT  OUTCOME", text)


def test_binary_payloads_are_base64(command: Command) -> None:
    from fencepost import App

    with App(command.url) as app:

        @app.task
        def shout(text: bytes) -> bytes:
            return text.upper()

        job_id = shout.submit(b"\xff\x00").id
    assert command.json("jobs", "show", job_id)["payload_base64"] == "/wA="
    assert "(binary, base64)" in command.ok("jobs", "show", job_id)


def test_why_tells_what_to_do(command: Command) -> None:
    job_id = command.submit("add", ADD)
    command.ok("types", "pause", "add")
    command.ok("queues", "pause", "default")
    reasons = {each["code"]: each["text"] for each in command.json("jobs", "why", job_id)}
    assert "fencepost types resume add" in reasons["type_paused"]
    assert "fencepost queues resume default" in reasons["queue_paused"]
    assert "fencepost worker APP" in reasons["no_worker"]


def test_watching_a_job_that_has_ended_shows_it_once(command: Command, ran: dict[str, str]) -> None:
    (line,) = command.ok("jobs", "watch", ran["done"]).splitlines()
    assert ran["done"] in line
    assert "completed" in line


# Steering.


def test_cancel_and_retry(command: Command, ran: dict[str, str]) -> None:
    assert command.ok("jobs", "cancel", ran["waiting"]) == f"cancelled {ran['waiting']}\n"
    again = command("jobs", "cancel", ran["waiting"])
    assert again.exit_code == 1
    assert "(state_conflict)" in again.stderr
    command.ok("jobs", "retry", ran["waiting"], "--delay", "1h", "--priority", "4")
    job = command.json("jobs", "show", ran["waiting"])
    assert (job["state"], job["priority"]) == ("delayed", "bulk")


def test_one_refusal_among_many_is_told_and_the_rest_is_done(
    command: Command, ran: dict[str, str]
) -> None:
    result = command("jobs", "cancel", ran["done"], ran["waiting"], "--json")
    assert result.exit_code == 1
    answers: list[dict[str, Any]] = json.loads(result.stdout)
    assert [each["done"] for each in answers] == [False, True]
    assert answers[0]["code"] == "state_conflict"


def test_cancelling_by_conditions_asks_first(command: Command, ran: dict[str, str]) -> None:
    words = ("jobs", "cancel", "--type", "add")
    assert command(*words, input="n\n").exit_code == 1
    assert command.json("jobs", "ls", "--state", "delayed")["jobs"]
    assert command.ok(*words, "--yes") == "cancelled 1 job\n"


def test_a_dead_letter_is_replayed_by_id(command: Command, ran: dict[str, str]) -> None:
    assert [each["job_id"] for each in command.json("dlq", "ls")["letters"]] == [ran["dead"]]
    command.ok("dlq", "replay", ran["dead"])
    assert command.json("dlq", "ls")["letters"] == []
    assert command.json("jobs", "ls", "--type", "bad")["jobs"][0]["replay_of"] == ran["dead"]
    assert command("dlq", "replay", ran["dead"]).exit_code == 1


def test_dead_letters_are_replayed_by_type_up_to_a_limit(command: Command) -> None:
    for number in range(3):
        command.submit("bad", f'{{"reason": "{number}"}}')
    command.ok("worker", "--burst")
    assert command.json("dlq", "replay", "--type", "add") == {"count": 0, "skipped": 0}
    assert command.json("dlq", "replay", "--type", "bad", "--limit", "2")["count"] == 2
    assert command.ok("dlq", "replay", "--all") == "replayed 1 dead letter\n"


def test_dead_letters_are_replayed_at_a_rate(command: Command) -> None:
    """A worker goes on with it, at its own pace; the command only starts it."""
    for number in range(3):
        command.submit("bad", f'{{"reason": "{number}"}}')
    command.ok("worker", "--burst")
    words = ("dlq", "replay", "--all", "--rate", "10", "--stop-above", "20%")
    told = command.ok(*words)
    assert "of 3 dead letters" in told
    (replay,) = command.json("dlq", "replays")
    assert (replay["state"], replay["rate"], replay["stop_above"]) == ("running", 10.0, 0.2)
    assert replay["id"] in told
    assert replay["id"] in command.ok("dlq", "replays")
    for verb, state in (("hold", "held"), ("resume", "running"), ("stop", "stopped")):
        assert command.json("dlq", verb, replay["id"])["state"] == state
    assert command("dlq", "hold", replay["id"]).exit_code == 1
    refused = command("dlq", "stop", "0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77")
    assert (refused.exit_code, "(replay_not_found)" in refused.output) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        ("--rate", "10"),
        ("--all", "--stop-above", "20%"),
        ("--all", "--rate", "10", "--stop-above", "some"),
        ("0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77", "--rate", "10"),
    ],
)
def test_a_rate_that_is_not_understood_starts_nothing(
    command: Command, words: tuple[str, ...]
) -> None:
    command.submit("bad", '{"reason": "x"}')
    assert command("dlq", "replay", *words).exit_code == 2
    assert command.json("dlq", "replays") == []


def test_dead_letters_are_discarded(command: Command, ran: dict[str, str]) -> None:
    assert command("dlq", "discard", "--all", input="n\n").exit_code == 1
    assert command.ok("dlq", "discard", "--all", "--yes") == "discarded 1 dead letter\n"
    assert command.json("dlq", "ls")["letters"] == []
    assert command.json("jobs", "show", ran["dead"])["state"] == "failed"


def test_queues_are_paused_limited_and_resumed(command: Command, ran: dict[str, str]) -> None:
    command.ok("queues", "pause", "slow")
    command.ok("queues", "limit", "slow", "5")
    command.ok("queues", "limit", "--all", "9")
    answer = command.json("queues", "ls")
    slow = next(each for each in answer["queues"] if each["name"] == "slow")
    assert (slow["is_paused"], slow["max_running"], slow["counts"]) == (True, 5, {"delayed": 1})
    assert answer["app_max_running"] == 9
    assert "paused, at most 5" in command.ok("queues", "ls")
    command.ok("queues", "resume", "slow")
    command.ok("queues", "limit", "slow", "--none")
    command.ok("queues", "limit", "--none")
    answer = command.json("queues", "ls")
    slow = next(each for each in answer["queues"] if each["name"] == "slow")
    assert (slow["is_paused"], slow["max_running"]) == (False, None)
    assert answer["app_max_running"] is None


def test_types_are_paused_and_resumed(command: Command, ran: dict[str, str]) -> None:
    command.ok("types", "pause", "add")
    assert {t["name"]: t["is_paused"] for t in command.json("types", "ls")["types"]} == {
        "add": True,
        "bad": False,
    }
    command.ok("types", "resume", "add")
    assert not any(t["is_paused"] for t in command.json("types", "ls")["types"])


def test_the_rate_of_a_type_is_set_and_removed(command: Command, ran: dict[str, str]) -> None:
    assert command.ok("types", "limit", "add", "100/m") == "type add: starts at most 100/m\n"
    assert "starts 100 a minute" in command.ok("types", "ls")
    assert command.ok("types", "limit", "add", "--none") == "type add: no rate\n"
    assert "starts" not in command.ok("types", "ls")
    for line in (["add"], ["add", "100/m", "--none"], ["add", "often"]):
        assert command("types", "limit", *line).exit_code != 0


def test_types_are_listed_with_their_rates_and_why_explains_them(command: Command) -> None:
    from fencepost import App
    from fencepost.core.limits.rates import Rate
    from fencepost.core.limits.type_limits import TypeLimits
    from fencepost.store.interface.queue import ClaimRequest

    command.submit("add", ADD)
    waiting = command.submit("add", ADD)
    with App(command.url) as app:
        app.store.run(app.store.settings.limit_types({"add": TypeLimits(rate=Rate(1, 3600.0))}))
        app.store.run(app.store.queue.claim(ClaimRequest(worker="w", limit=1)))
    assert "starts 1 an hour" in command.ok("types", "ls")
    assert command.json("types", "ls")["types"][0]["rate"] == {"count": 1, "window": 3600.0}
    reasons = {each["code"]: each["text"] for each in command.json("jobs", "why", waiting)}
    assert "type 'add' starts at most 1 an hour; the next can" in reasons["rate_limited"]


# Upkeep.


def test_recover_takes_back_what_expired(command: Command) -> None:
    from fencepost import App
    from fencepost.store.interface.queue import ClaimRequest
    from fencepost.testing.clock import FakeClock

    job_id = command.submit("add", ADD)
    past = FakeClock()
    with App(command.url, clock=past) as app:
        app.store.run(app.store.queue.claim(ClaimRequest(worker="gone", limit=1, lease_ttl=1.0)))
    (moved,) = command.json("recover")
    assert (moved["job_id"], moved["state"]) == (job_id, "retrying")
    assert command.ok("recover") == "recovered 0 jobs\n"


def test_prune_deletes_what_is_old_enough(command: Command, ran: dict[str, str]) -> None:
    assert command.ok("prune") == "pruned 0 jobs\n"
    assert command.ok("prune", "--older-than", "0s", "--state", "completed") == "pruned 1 job\n"
    assert command.json("prune", "--older-than", "0s") == {"count": 1}
    assert [job["id"] for job in command.json("jobs", "ls")["jobs"]] == [ran["waiting"]]


def test_migrations_are_planned_printed_and_applied(command: Command) -> None:
    planned = command.json("migrate", "--plan")["pending"]
    assert planned
    assert "create table" in command.ok("migrate", "--sql")
    assert not (command.folder / "jobs.db").exists()
    assert command.json("migrate") == {"applied": planned}
    assert command.ok("migrate") == "the schema is up to date\n"
    assert command.json("migrate", "--plan") == {"pending": []}


def test_the_doctor_and_why_name_jobs_that_no_worker_can_read(command: Command) -> None:
    """C47."""
    with App(command.url) as newer:

        @newer.task
        def add(a: int, b: int, c: int) -> int:
            return a + b + c

        job_id = add.submit(1, 2, 3).id
    command.ok("worker", "--burst")
    findings = {each["code"]: each for each in command.json("doctor")}
    assert findings["unreadable_payload"]["level"] == "warn"
    assert "payload of 1 job of type 'add'" in findings["unreadable_payload"]["text"]
    assert "could not read its payload" in command.ok("jobs", "why", job_id)


def test_the_doctor_recommends_patience_for_jobs_that_died_of_an_outage(command: Command) -> None:
    with App(command.url) as app:

        @app.task(retry=Retry(max_attempts=3, initial_delay=0))
        def call() -> None:
            raise ConnectionRefusedError("port 443")

        @app.task(retry=Retry(max_attempts=3, initial_delay=0))
        def parse() -> None:
            raise ValueError("not a number")

        @app.task(retry=Retry.none())
        def once() -> None:
            raise ConnectionRefusedError("port 443")

        for task in (call, call, parse, once):
            task.submit()
        app.worker().run(until_idle=True)
    (finding,) = [each for each in command.json("doctor") if each["code"] == "outage"]
    assert finding["level"] == "note"
    assert "2 jobs of type 'call' died of an outage" in finding["text"]
    assert "FENCEPOST_RETRY=patient" in finding["text"]
    command.ok("dlq", "replay", "--type", "call")
    assert "dlq replay --type call" in finding["text"]
    assert not [each for each in command.json("doctor") if each["code"] == "outage"]


def test_the_doctor_names_the_durability(command: Command, ran: dict[str, str]) -> None:
    findings = {each["code"]: each for each in command.json("doctor")}
    assert findings["durability"]["level"] == "ok"
    assert findings["workers"]["level"] == "note"


def test_the_doctor_exits_with_1_when_something_is_broken(command: Command) -> None:
    result = command("doctor", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)[-1]["level"] == "fail"


def test_a_waiting_job_is_edited_and_hastened(command: Command) -> None:
    """C45, C46."""
    id = command.json("submit", "other", '{"a": 1}', "--raw", "--delay", "1h")["id"]
    words = ("--payload", '{"a": 2}', "--correlation-id", "c", "--priority", "high", "--tag", "t=1")
    command.ok("jobs", "edit", id, *words)
    job = command.json("jobs", "show", id)
    assert (job["priority"], job["correlation_id"], job["tags"]) == ("high", "c", {"t": "1"})
    command.ok("jobs", "edit", id, "--delay", "2h", "--correlation-id", "")
    assert command.json("jobs", "show", id)["correlation_id"] is None
    command.ok("jobs", "retry", id, "--delay", "5m")
    command.ok("jobs", "retry", id)
    refused = command("jobs", "retry", id)
    assert (refused.exit_code, "queued already" in refused.stderr) == (1, True)
    assert command("jobs", "edit", id).exit_code == 2


def test_the_command_for_the_next_page_has_the_same_conditions(command: Command) -> None:
    for number in range(5):
        command.submit("add", f'{{"a": {number}, "b": 1}}', "--tag", "of=these")
        command.submit("bad", '{"reason": "x"}')
    words = ["jobs", "ls", "--type", "add", "--tag", "of=these", "--limit=2"]
    seen: list[str] = []
    while words:
        result = command(*words)
        assert result.exit_code == 0, result.output
        seen += re.findall(r"^[0-9a-f-]{36}", result.stdout, re.MULTILINE)
        words = shlex.split(result.stderr.removeprefix("more: fencepost"))
        assert ("--type" in words) == bool(words)
        words = words[words.index("jobs") :] if words else []
        assert words.count("--after") <= 1
    assert len(set(seen)) == len(seen) == 5


def test_one_who_waits_is_shown_the_id_and_why_nothing_happens(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.cli.commands.submit.WHY_AFTER", 0.05)
    result = command("submit", "add", ADD, "--wait", "--timeout", "0.3s")
    (job,) = command.json("jobs", "ls")["jobs"]
    first, *rest = result.stderr.splitlines()
    assert first == f"submitted {job['id']}"
    assert [line for line in rest if "worker" in line]
    assert len(set(rest)) == len(rest)
    assert "after 0.3 s" in rest[-2]
    assert "(wait_timeout)" in rest[-2]
    assert result.stdout == ""


def test_a_replay_shows_the_id_of_the_new_job(command: Command, ran: dict[str, str]) -> None:
    [answer] = command.json("dlq", "replay", ran["dead"])
    assert answer["id"] == ran["dead"]
    assert command.json("jobs", "show", answer["new_id"])["replay_of"] == ran["dead"]


def test_a_replay_prints_the_id_of_the_new_job(command: Command, ran: dict[str, str]) -> None:
    line = command.ok("dlq", "replay", ran["dead"]).strip()
    match = re.fullmatch(f"replayed {ran['dead']} as ([0-9a-f-]{{36}})", line)
    assert match is not None
    assert command.json("jobs", "show", match[1])["replay_of"] == ran["dead"]
