"""``fencepost worker`` and ``fencepost dev`` as real processes."""

from __future__ import annotations

import json
import os
import signal

import pytest
from tests.cli.support import PATIENCE, Command, end, is_running, wait_until

from fencepost import App, State
from fencepost.cli.commands.worker import parse_queues

ADD = '{"a": 1, "b": 2}'


def test_a_burst_runs_what_is_there_and_ends(command: Command) -> None:
    ids = [command.submit("add", ADD), command.submit("bad", '{"reason": "no"}')]
    child = command.start("worker", "--burst")
    assert child.wait(30) == 0
    states = [command.json("jobs", "show", each)["state"] for each in ids]
    assert states == ["completed", "failed"]
    assert "durability power" in command.log
    assert "worker.started" in command.log


def test_a_burst_serves_only_its_queues(command: Command) -> None:
    left = command.submit("add", ADD)
    done = command.submit("add", ADD, "--queue", "mail")
    command.ok("worker", "--burst", "--queue", "mail=3", "--queue", "bulk")
    assert command.json("jobs", "show", done)["state"] == "completed"
    assert command.json("jobs", "show", left)["state"] == "scheduled"


def test_queues_are_read_with_their_weights() -> None:
    assert parse_queues(()) is None
    assert parse_queues(("mail=3", "bulk", "a=b=2")) == {"mail": 3, "bulk": 1, "a=b": 2}


def test_submit_waits_for_the_result(command: Command) -> None:
    child = command.start("worker", "--grace", "1s")
    assert json.loads(command.ok("submit", "add", ADD, "--wait", "--timeout", "30s")) == 3
    failed = command("submit", "bad", '{"reason": "no"}', "--wait", "--timeout", "30s")
    assert failed.exit_code == 1
    assert "(job_failed)" in failed.stderr
    assert "jobs show" in failed.stderr
    assert end(child) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_worker_gives_its_job_back_uncounted_and_exits(
    command: Command, number: int
) -> None:
    """Although the handler's thread can never be stopped."""
    job_id = command.submit("stuck")
    child = command.start("--log-format", "json", "worker", "--grace", "0s")
    wait_until(lambda: command.json("jobs", "show", job_id)["progress"], "the job runs")
    assert command.json("jobs", "show", job_id)["attempt"] == 1
    assert end(child, number) == 0
    job = command.json("jobs", "show", job_id)
    assert (job["state"], job["attempt"]) == ("scheduled", 0)
    # On a busy machine it was given back once before, because it would have started late.
    assert {each["outcome"] for each in job["attempts"]} == {"released"}
    events = [json.loads(line)["event"] for line in command.log.splitlines()]
    assert events[0] == "store.opened"
    assert events[-1] == "worker.stopped"


def test_several_processes_share_a_burst(command: Command) -> None:
    ids = [command.submit("add", ADD) for _ in range(3)]
    child = command.start("worker", "--burst", "--processes", "2")
    assert child.wait(30) == 0
    assert {command.json("jobs", "show", each)["state"] for each in ids} == {"completed"}
    assert command.log.count("child.started") == 2


def test_a_child_that_dies_is_replaced_and_all_stop_together(command: Command) -> None:
    child = command.start("worker", "--processes", "2", "--grace", "1s")
    first = wait_until(lambda: len(p := command.worker_pids()) == 2 and p, "two workers")
    victim = min(first)
    os.kill(victim, signal.SIGKILL)
    second = wait_until(
        lambda: len(p := command.worker_pids()) == 2 and victim not in p and p, "a replacement"
    )
    assert end(child) == 0
    assert not [pid for pid in first | second if is_running(pid)]
    assert "child.died" in command.log


@pytest.mark.parametrize("processes", [1, 2])
def test_a_process_in_which_a_thread_does_not_stop_is_replaced(
    command: Command, processes: int
) -> None:
    """C44, S0-92: sleeping in C, it hears of nothing; its slot comes back all the same."""
    lost = [command.submit("overdue") for _ in range(processes)]
    child = command.start("worker", "--concurrency", "1", "--processes", str(processes))
    wait_until(lambda: command.log.count("worker.retiring") == processes, "it is noticed")
    assert json.loads(command.ok("submit", "add", ADD, "--wait", "--timeout", "30s")) == 3
    jobs = [command.json("jobs", "show", each) for each in lost]
    assert {(job["state"], job["attempt"]) for job in jobs} == {("dead_letter", 1)}
    pids = wait_until(lambda: len(p := command.worker_pids()) == processes and p, "as many")
    assert command.log.count("worker.started") == 2 * processes
    if processes == 1:
        assert pids == {child.pid}, "whoever watches the process sees no change"
    else:
        assert command.log.count("child.replaced") == processes
        assert "child.died" not in command.log
    assert end(child) == 0


@pytest.mark.parametrize("processes", [1, 2])
def test_a_process_that_has_done_its_share_is_replaced(command: Command, processes: int) -> None:
    """No job is lost on the way, and none is counted or claimed twice."""
    with App(command.url) as app:
        jobs = [command.submit("add", ADD) for _ in range(9)]
        child = command.start("worker", "--burst", "--processes", str(processes), "--max-jobs", "2")
        assert child.wait(PATIENCE) == 0
        ended = [app.jobs.get(each).refresh() for each in jobs]
        assert {(job.state, job.attempt) for job in ended} == {(State.COMPLETED, 1)}
        # A busy machine may start some too late; those are released, uncounted.
        started = [a for each in jobs for a in app.jobs.attempts(each) if a.outcome != "released"]
        assert [attempt.outcome for attempt in started] == ["succeeded"] * 9
    assert 3 <= command.log.count("worker.retiring") <= 4
    assert "reason=max_jobs" in command.log
    assert "child.died" not in command.log


@pytest.mark.parametrize("task", ["leak", "leak_in_child"])
def test_a_process_with_too_much_memory_is_replaced(command: Command, task: str) -> None:
    """The worker itself keeps its process id; a handler's child is replaced alone."""
    child = command.start("worker", "--max-rss", "200MB")
    run = ("submit", task, '{"megabytes": 250}', "--wait", "--timeout", "30s")
    first = command.ok(*run)
    in_child = task == "leak_in_child"
    told = "child.replaced" if in_child else "worker.retiring"
    wait_until(lambda: command.log.count(told) == 1, "it is noticed")
    assert "reason=max_rss" in command.log
    second = command.ok(*run)
    assert (first == second) == (not in_child)
    assert command.log.count("worker.started") == (1 if in_child else 2)
    assert end(child) == 0


def test_limits_of_a_process_are_checked_before_it_starts(command: Command) -> None:
    cases = {
        ("--max-jobs", "0"): (2, "--max-jobs"),
        ("--max-rss", "12 parsecs"): (1, "max_rss is a size such as 512MB"),
        ("--max-rss", "11"): (1, "before its first job"),
        ("--max-jobs", "5", "--url", "memory://"): (1, "memory:// is lost with its process"),
    }
    for words, (code, text) in cases.items():
        result = command("worker", *words)
        assert result.exit_code == code
        assert text in result.stderr


def test_children_end_when_their_supervisor_is_killed(command: Command) -> None:
    job_id = command.submit("stuck")
    child = command.start("worker", "--processes", "2", "--grace", "0s")
    pids = wait_until(lambda: len(p := command.worker_pids()) == 2 and p, "two workers")
    wait_until(lambda: command.json("jobs", "show", job_id)["progress"], "the job runs")
    assert end(child, signal.SIGKILL) == -signal.SIGKILL
    wait_until(lambda: not [pid for pid in pids if is_running(pid)], "the children end")
    assert command.json("jobs", "show", job_id)["state"] == "scheduled"


def test_a_memory_store_is_not_shared_between_processes(command: Command) -> None:
    result = command("worker", "--processes", "2", "--url", "memory://")
    assert result.exit_code == 1
    assert "memory:// lives in one process" in result.stderr


def test_dev_restarts_when_a_file_changes(command: Command) -> None:
    child = command.start("dev")
    wait_until(lambda: command.worker_pids(), "a worker")
    path = command.folder / "app.py"
    path.write_text(path.read_text().replace("return a + b", "return a * 100 + b"))
    wait_until(lambda: command.log.count("worker.started") == 2, "a second worker")
    assert f"on sqlite:///{command.folder}/jobs.db" in command.log
    assert command.log.count("/jobs.db did not exist and is created") == 1
    assert json.loads(command.ok("submit", "add", ADD, "--wait", "--timeout", "30s")) == 102
    path.write_text("this is not Python")
    wait_until(lambda: "starts again when a file changes" in command.log, "the worker gives up")
    assert end(child, signal.SIGINT) == 0
    assert not command.worker_pids()


def test_watching_a_job_follows_it_to_its_end(command: Command) -> None:
    job_id = command.submit("add", ADD)
    child = command.start("jobs", "watch", job_id)
    assert child.stdout is not None
    assert "scheduled" in child.stdout.readline()
    command.ok("worker", "--burst")
    rest, _ = child.communicate(timeout=30)
    assert "completed" in rest.splitlines()[-1]
    assert child.returncode == 0


def test_watching_by_conditions_goes_on_until_interrupted(command: Command) -> None:
    command.submit("bad", '{"reason": "no"}')
    first = command.submit("add", ADD)
    child = command.start("jobs", "watch", "--type", "add", "--json")
    assert child.stdout is not None
    assert json.loads(child.stdout.readline())["id"] == first
    second = command.submit("add", ADD)
    assert json.loads(child.stdout.readline())["id"] == second
    command.ok("worker", "--burst")
    seen: set[str] = set()
    while len(seen) < 2:
        change = json.loads(child.stdout.readline())
        seen |= {change["id"]} if change["state"] == "completed" else set()
    assert seen == {first, second}
    assert end(child, signal.SIGINT) == 0
