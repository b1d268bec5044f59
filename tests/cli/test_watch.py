"""``fencepost jobs watch``: each change with the time at which it happened."""

from __future__ import annotations

import json
from datetime import timedelta

from msgspec.structs import replace
from tests.cli.support import PATIENCE, Command

from fencepost import App
from fencepost.cli.jobs.watch import change_of
from fencepost.core.job.job import Job, Progress
from fencepost.core.job.lifecycle import State
from fencepost.store.interface.queue import Beat, ClaimRequest, Save

ADD = '{"a": 1, "b": 2}'


def take(app: App) -> tuple[Job, Save, Beat]:
    """Claim the only job; return it, a report of its progress, and a heartbeat."""
    store = app.store
    request = ClaimRequest(worker="w", types=frozenset({"add"}), limit=1, lease_ttl=600.0)
    (claimed,) = store.run(store.queue.claim(request)).jobs
    save = Save(claimed.id, claimed.lease.token, progress=Progress(fraction=0.5, message="half"))
    (job,) = store.run(store.reader.get([claimed.id]))
    assert job is not None
    return job, save, Beat(claimed.id, claimed.lease.token, 1200.0)


def test_each_change_has_its_own_time(command: Command) -> None:
    """The store's: for progress as well, which is no change of state."""
    job_id = command.submit("add", ADD)
    with App(command.url) as app:
        job, save, beat = take(app)
        child = command.start("jobs", "watch", job_id)
        assert child.stdout is not None
        running = child.stdout.readline()
        app.store.run(app.store.queue.save([save]))
        half = child.stdout.readline()
        app.store.run(app.store.queue.heartbeat([beat]))
        app.jobs.cancel(job_id)
        (cancelled,) = child.communicate(timeout=PATIENCE)[0].splitlines()
        ended = app.jobs.get(job_id).refresh()
    assert ended.progress is not None
    times = [job.updated_at, ended.progress["at"], ended.updated_at]
    assert times == sorted(set(times))
    shown = [f"{at:%Y-%m-%d %H:%M:%S.%f}"[:-3] for at in times]
    assert [line[: len(shown[0])] for line in (running, half, cancelled)] == shown
    assert half.endswith("running  1/3  50% half\n")


def test_a_line_of_json_has_the_time_of_the_change(command: Command) -> None:
    job_id = command.submit("add", ADD)
    command.ok("worker", "--burst")
    shown = json.loads(command.ok("jobs", "watch", job_id, "--json"))
    assert shown["at"] == shown["completed_at"]


def test_a_heartbeat_is_no_change_and_an_expired_lease_is(command: Command) -> None:
    command.submit("add", ADD)
    with App(command.url) as app:
        job, _, _ = take(app)
    lease = job.lease
    assert lease is not None
    later = replace(lease, expires_at=lease.expires_at + timedelta(seconds=9))
    assert change_of(replace(job, lease=later)) == change_of(job)
    lost = change_of(replace(job, lease=replace(lease, expired=True)))
    assert (lost.state, lost.at) == (State.RUNNING, lease.expires_at)
    assert lost.reason == "worker w was lost"
