"""``fencepost top``: queues, jobs, failures and workers; live on a terminal, once in a pipe."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

import click
import msgspec

from fencepost.cli import output
from fencepost.cli.commands.frame import Activity, RecentFailure, Snapshot, frame, tables
from fencepost.cli.jobs.show import job_view
from fencepost.cli.options import DURATION, Settings, option, store_options
from fencepost.cli.output import clean, echo, echo_json, echo_table
from fencepost.core.display import shown_url
from fencepost.core.encryption import readable
from fencepost.core.filter import PageRequest
from fencepost.core.job.job import DeadLetter, Failure, Job
from fencepost.core.job.lifecycle import State

if TYPE_CHECKING:
    from fencepost.app import App

RUNNING_SHOWN = 50
FAILURES_SHOWN = 20
INTERVAL_MIN = 0.1


def take(app: App, queue: str | None = None) -> Snapshot:
    """Read everything that is shown; jobs and failures of *queue* alone if it is given."""
    queues = app.queues.list()
    counts = dict.fromkeys(State, 0)
    for each in queues:
        for state, count in each.counts.items():
            counts[state] += count
    running = app.jobs.find(state=State.RUNNING, queue=queue, limit=RUNNING_SHOWN)
    workers = app.workers.list()
    if queue is None and running.next is None:
        # What workers report of themselves is a few seconds old; all that runs now is here.
        busy = Counter(job.lease.worker for job in running if job.lease is not None)
        workers = [msgspec.structs.replace(each, running=busy[each.id]) for each in workers]
    return Snapshot(
        url=shown_url(app.url),
        at=app.session.clock.now(),
        counts=counts,
        queues=queues,
        workers=workers,
        running=[readable(job) for job in running],
        failures=_failures(app, queue),
    )


def _failures(app: App, queue: str | None) -> list[RecentFailure]:
    """Return failures, the latest first: dead letters, and the newest jobs that are retried."""
    store = app.store
    queues = None if queue is None else [queue]
    page = PageRequest(FAILURES_SHOWN)
    dead = store.run(store.reader.dead_letters(None, page, queues)).letters
    retried = app.jobs.find(state=State.RETRYING, queue=queue, limit=FAILURES_SHOWN)
    found = [
        _failure(each, each.job_id, each.attempts, each.completed_at, each.failure)
        for each in map(readable, dead)
    ] + [
        _failure(each, each.id, each.attempt, each.updated_at, each.failure)
        for each in map(readable, retried)
        if each.failure is not None
    ]
    return sorted(found, key=lambda each: each.failed_at, reverse=True)[:FAILURES_SHOWN]


def _failure(
    seen: DeadLetter | Job, job_id: str, attempt: int, at: datetime, failure: Failure
) -> RecentFailure:
    return RecentFailure(job_id, seen.type, seen.queue, seen.state, attempt, at, failure)


@click.command()
@option("--interval", type=DURATION, default=1.0, show_default="1s", help="How often to refresh.")
@option("--once", is_flag=True, help="Show it once, even on a terminal.")
@store_options
def top(settings: Settings, interval: float, once: bool) -> None:
    """Show queues, workers, running jobs and the latest failures; live on a terminal.

    The arrow keys select a queue, whose jobs alone are then listed; `q` quits.
    """
    with settings.opened() as app:
        if settings.as_json:
            now = take(app)
            view = {**msgspec.structs.asdict(now), "running": [job_view(j) for j in now.running]}
            echo_json(view)
        elif once or not output.has_screen():
            _print_once(take(app))
        else:
            _live(app, max(interval, INTERVAL_MIN))


def _print_once(now: Snapshot) -> None:
    echo(f"{now.url} at {now.at:%Y-%m-%d %H:%M:%S} UTC")
    for columns, rows in tables(now):
        if rows or not output.is_terminal():
            echo()
            echo_table(columns, rows)


def _live(app: App, interval: float) -> None:
    """Show one snapshot after another until `q` or Ctrl-C."""
    from fencepost.cli.screen import Screen

    clock = app.session.clock
    activity = Activity()
    queue: str | None = None
    screen = Screen()
    try:
        with screen.taken():
            while True:
                now = take(app, queue)
                activity.add(now)
                due = clock.monotonic() + interval
                asked = queue
                while asked == queue and clock.monotonic() < due:
                    foot = f"↑↓ {'all queues' if queue is None else clean(queue)}   q quits"
                    screen.draw(frame(now, activity, screen.size, selected=queue, foot=foot))
                    keys = screen.wait(due - clock.monotonic())
                    if "quit" in (keys or ()):
                        return
                    queue = _selected([each.name for each in now.queues], queue, keys or [])
    except KeyboardInterrupt:
        return


def _selected(names: list[str], queue: str | None, keys: list[str]) -> str | None:
    """Return the queue that is selected after *keys*; None above the first, for all."""
    at = names.index(queue) if queue in names else -1
    for key in keys:
        at = max(at - 1, -1) if key == "up" else min(at + 1, len(names) - 1)
    return names[at] if at >= 0 else None
