"""Real processes, really killed and really stopped: what was promised still holds."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers.fixtures import postgres_sources
from tests.worker.crew import LEASE_TTL, Crew, is_running
from tests.worker.support import LONG, eventually_sync

from fencepost import JobHandle, Priority, Retry, State
from fencepost.core.job.job import AttemptOutcome, Category

pytestmark = pytest.mark.usefixtures("never_late")


@pytest.fixture(params=["sqlite", "postgres"])
def crew(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Crew]:
    url = f"sqlite:///{tmp_path}/jobs.db"
    if request.param == "postgres":
        url = request.getfixturevalue("fresh_postgres")(postgres_sources()[0])
    crew = Crew(tmp_path, url)
    yield crew
    crew.close()


def outcomes(job: JobHandle[Any]) -> list[tuple[int, AttemptOutcome]]:
    return [(attempt.number, attempt.outcome) for attempt in job.attempts()]


def test_the_job_of_a_killed_worker_is_finished_within_ttl_and_a_second(crew: Crew) -> None:
    """S0-53, S0-54, S2-15, S2-16, S2-36, S3-2, S4-1, S4-25: and the lost attempt is counted."""
    workers = {worker.pid: worker for worker in (crew.start_worker(), crew.start_worker())}
    job = crew.submit("stay_on_first", gate=str(crew.gate))
    victim = workers.pop(crew.wait_for("started", id=job.id, attempt=1)["pid"])
    victim.kill()
    killed_at = time.monotonic()
    (survivor,) = workers
    assert job.result(LONG) == survivor
    assert time.monotonic() - killed_at < LEASE_TTL + 1.0
    assert job.refresh().attempt == 2
    assert outcomes(job) == [(1, AttemptOutcome.FAILED), (2, AttemptOutcome.SUCCEEDED)]
    lost = job.attempts()[0].failure
    assert lost is not None
    assert (lost.category, lost.code) == (Category.SYSTEM, "lease_expired")


def test_jobs_that_a_killed_worker_had_not_started_stand_as_if_it_had_never_been(
    crew: Crew,
) -> None:
    """C8, C41: with one attempt each, only those that had started are dead letters."""
    victim = crew.start_worker()
    for short in [crew.submit("work", seconds=0.0) for _ in range(60)]:
        short.result(LONG)
    once = crew.tasks["stay_on_first"].using(retry=Retry.none())
    jobs = [once.submit(gate=str(crew.gate)) for _ in range(20)]
    ids = {job.id for job in jobs}
    eventually_sync(lambda: len(_started(crew) & ids) == 4, "four jobs in four slots")
    victim.kill()
    victim.wait(LONG)
    store = crew.app.store
    dead: set[str] = set()

    def recover() -> bool:
        dead.update(moved.job_id for moved in store.run(store.upkeep.recover(100)))
        return crew.app.jobs.count(state="running") == 0

    eventually_sync(recover, "no lease is left")
    assert dead == _started(crew) & ids
    waiting = [job.refresh() for job in jobs if job.id not in dead]
    assert {(job.state, job.attempt) for job in waiting} == {(State.SCHEDULED, 0)}


def test_what_was_claimed_with_a_job_that_kills_its_worker_is_not_counted(crew: Crew) -> None:
    """C8, C41: they had a lease each, and had not started; the next worker releases them."""
    once = Retry.none()
    kill = crew.tasks["kill"].using(retry=once, priority=Priority.CRITICAL).submit()
    crew.gate.touch()
    stay = crew.tasks["stay_on_first"].using(retry=once, lease_ttl=2 * LONG)
    beside = [stay.submit(gate=str(crew.gate)) for _ in range(3)]
    victim = crew.start()
    assert victim.wait(LONG) == -signal.SIGKILL
    assert _started(crew) == {kill.id}
    assert crew.app.jobs.count(state="running") == 4, "all four slots were filled by one claim"
    crew.start_worker()
    for job in beside:
        job.result(LONG)
        assert outcomes(job)[-1] == (1, AttemptOutcome.SUCCEEDED)
        assert AttemptOutcome.FAILED not in {outcome for _, outcome in outcomes(job)}
    eventually_sync(lambda: kill.refresh().state is State.DEAD_LETTER, "the end of the lease")
    assert kill.refresh().attempt == 1


def _started(crew: Crew) -> set[str]:
    return {event["id"] for event in crew.events("started")}


def test_a_worker_stopped_past_its_lease_and_continued_changes_nothing(crew: Crew) -> None:
    """S0-49, S0-87, S2-9, S2-35, S4-26: it learns of its loss by a heartbeat, and lets go."""
    workers = {worker.pid: worker for worker in (crew.start_worker(), crew.start_worker())}
    job = crew.submit("stay_on_first", gate=str(crew.gate))
    stopped = workers.pop(crew.wait_for("started", id=job.id, attempt=1)["pid"])
    crew.freeze(stopped)
    (survivor,) = workers
    assert job.result(LONG) == survivor
    before = (job.refresh(), job.attempts())
    stopped.send_signal(signal.SIGCONT)
    counters = crew.stop(stopped)
    assert counters.get("lease.lost{reason=lease_lost}") == 1
    assert counters.get("stale.heartbeat") == 1
    assert crew.events("finished", id=job.id, pid=stopped.pid) == []
    assert (job.refresh(), job.attempts()) == before


def test_the_late_ack_of_a_continued_worker_is_refused(crew: Crew) -> None:
    """S0-2, S0-52, S0-87, S0-88, S4-9, S4-26: also while the second worker is still at it."""
    zombie = crew.start_worker("deaf")
    job = crew.submit("stay", gate=str(crew.gate))
    crew.wait_for("started", id=job.id, attempt=1, pid=zombie.pid)
    crew.freeze(zombie)
    second = crew.start_worker()
    crew.wait_for("started", id=job.id, attempt=2, pid=second.pid)
    zombie.send_signal(signal.SIGCONT)
    crew.wait_for("finished", id=job.id, attempt=1, pid=zombie.pid)
    counters = crew.stop(zombie)
    assert counters.get("stale.ack") == 1
    held = job.refresh()
    assert (held.state, held.attempt) == (State.RUNNING, 2)
    versions = [each.lease_version for each in job.attempts()]
    assert versions == sorted({*versions, held.lease_version})
    assert held.lease is not None
    assert not held.lease.expired
    crew.gate.touch()
    assert job.result(LONG) == second.pid
    assert outcomes(job) == [(1, AttemptOutcome.FAILED), (2, AttemptOutcome.SUCCEEDED)]


def test_a_worker_killed_between_handler_and_ack_has_its_job_run_again(crew: Crew) -> None:
    """S0-1, S0-2, S3-1, S3-2, S4-25: the same id, twice; that is what at-least-once means."""
    victim = crew.start("dies-before-ack")
    job = crew.submit("work", seconds=0.0)
    assert victim.wait(LONG) == -signal.SIGKILL
    crew.wait_for("finished", id=job.id, attempt=1, pid=victim.pid)
    second = crew.start_worker()
    assert job.result(LONG) == second.pid
    assert [entry["attempt"] for entry in crew.events("finished", id=job.id)] == [1, 2]


@pytest.mark.parametrize("role", ["producer", "async-producer"])
def test_a_job_outlives_its_producer_from_the_moment_submit_returns(crew: Crew, role: str) -> None:
    """S0-3, S0-4: and its key is taken."""
    producer = crew.start(role)
    assert producer.wait(LONG) == -signal.SIGKILL
    submitted = crew.wait_for("submitted", pid=producer.pid)["id"]
    assert crew.app.jobs.get(submitted).state is State.SCHEDULED
    again = crew.tasks["work"].using(key="only").submit(seconds=0.0)
    assert (again.duplicate, again.id) == (True, submitted)
    worker = crew.start_worker()
    assert again.result(LONG) == worker.pid


def test_no_job_of_a_killed_worker_is_lost_started_or_not(crew: Crew) -> None:
    """S0-1, S0-54, S0-56: a worker dies with its hands full; the next one finishes everything."""
    jobs = [crew.submit("work", seconds=0.02) for _ in range(40)]
    victim = crew.start("worker")
    eventually_sync(lambda: len(crew.events("finished")) >= 8, "some jobs finished")
    victim.kill()
    victim.wait(LONG)
    done = crew.app.jobs.count(state="completed")
    crew.start_worker()
    for job in jobs:
        assert isinstance(job.result(LONG), int)
    assert 0 < done < 40
    assert crew.app.jobs.count(state="completed") == 40
    if crew.url.startswith("sqlite:"):
        with sqlite3.connect(crew.url.removeprefix("sqlite:///")) as connection:
            assert connection.execute("pragma integrity_check").fetchone() == ("ok",)


def test_two_processes_share_the_work(crew: Crew) -> None:
    """S0-1, S0-2: and no job is run by both."""
    workers = {crew.start_worker().pid, crew.start_worker().pid}
    jobs = [crew.submit("work", seconds=0.02) for _ in range(60)]
    assert {job.result(LONG) for job in jobs} == workers
    started = [entry["id"] for entry in crew.events("started")]
    assert sorted(started) == sorted(job.id for job in jobs)


def test_a_running_job_that_is_cancelled_is_interrupted(crew: Crew) -> None:
    """S3-10: its worker learns of it by the next heartbeat, and the slot is free again."""
    worker = crew.start_worker()
    job = crew.submit("stay_on_first", gate=str(crew.gate))
    crew.wait_for("started", id=job.id)
    job.cancel()
    assert crew.wait_for("interrupted", id=job.id)["reason"] == "cancelled"
    assert job.refresh().state is State.CANCELLED
    assert crew.submit("work", seconds=0.0).result(LONG) == worker.pid
    assert crew.events("finished", id=job.id) == []


def test_an_isolated_handler_dies_with_its_worker(crew: Crew) -> None:
    """S2-35: no orphan goes on working under a lease that nobody extends."""
    worker = crew.start_worker()
    job = crew.submit("isolated", child_of="worker")
    child = crew.wait_for("started", id=job.id, attempt=1)["pid"]
    assert child != worker.pid
    assert is_running(child)
    worker.kill()
    worker.wait(LONG)
    eventually_sync(lambda: not is_running(child), "the child's end")


def test_a_terminated_worker_gives_back_what_it_cannot_finish(crew: Crew) -> None:
    """C23: within grace (1 s) it finishes what it can; the rest is released, not counted."""
    first = crew.start_worker()
    quick = crew.submit("work", seconds=0.3)
    slow = crew.submit("stay_on_first", gate=str(crew.gate))
    crew.wait_for("started", id=quick.id)
    crew.wait_for("started", id=slow.id)
    counters = crew.stop(first)
    assert quick.refresh().state is State.COMPLETED
    released = slow.refresh()
    assert (released.state, released.attempt) == (State.SCHEDULED, 0)
    assert counters.get("attempt.ended{outcome=released}") == 1
    crew.gate.touch()
    second = crew.start_worker()
    assert slow.result(LONG) == second.pid
    assert outcomes(slow) == [(1, AttemptOutcome.RELEASED), (1, AttemptOutcome.SUCCEEDED)]


def test_a_second_signal_ends_a_worker_at_once(crew: Crew) -> None:
    """C23: nobody waits for grace any more, and the job is there for the next worker."""
    worker = crew.start_worker("patient")
    job = crew.submit("work", seconds=60.0)
    crew.wait_for("started", id=job.id)
    os.kill(worker.pid, signal.SIGTERM)
    os.kill(worker.pid, signal.SIGINT)
    signalled_at = time.monotonic()
    assert worker.wait(LONG) == 0
    assert time.monotonic() - signalled_at < 15.0, "it waited for its grace of 20 s"
    assert job.refresh().state in (State.SCHEDULED, State.RUNNING)
