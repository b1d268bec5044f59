"""What ``fencepost top`` shows: a snapshot of a store as tables, and as lines that fit a screen."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from fencepost.cli.commands.queues import count_columns, queue_weights
from fencepost.cli.jobs.show import progress_cell
from fencepost.cli.output import (
    STATE_STYLES,
    Cell,
    Columns,
    clean,
    counted,
    moment,
    rows_of,
    short_id,
)
from fencepost.cli.table import lay_out
from fencepost.core.display import bar, sparkline
from fencepost.core.job.job import Failure, Job
from fencepost.core.job.lifecycle import State
from fencepost.core.stats.overview import QueueView, WorkerInfo

if TYPE_CHECKING:
    from rich.text import Text

SAMPLES = 40
"""How many refreshes a sparkline reaches back."""
ROOMY = 100
"""The width from which sparklines and bars are long."""
STATES = (
    State.SCHEDULED,
    State.RUNNING,
    State.RETRYING,
    State.DELAYED,
    State.PENDING,
    State.DEAD_LETTER,
    State.FAILED,
    State.COMPLETED,
    State.CANCELLED,
)
"""What an operator looks at first; a narrow screen shows the first of them."""
Table = tuple[Collection[str], list[list[object]]]


class RecentFailure(msgspec.Struct, frozen=True):
    """A job that failed: a dead letter, or one that is retried."""

    job_id: str
    type: str
    queue: str
    state: State
    attempt: int
    failed_at: datetime
    failure: Failure


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The store at one moment."""

    url: str
    at: datetime
    counts: dict[State, int]
    queues: list[QueueView]
    workers: list[WorkerInfo]
    running: list[Job]
    """The newest of the running jobs."""
    failures: list[RecentFailure]
    """The latest first."""


class Activity:
    """How many jobs a second ended in each queue, from one snapshot to the next."""

    def __init__(self) -> None:
        self._before: Snapshot | None = None
        self._rates: dict[str, deque[float]] = {}

    def add(self, now: Snapshot) -> None:
        """Take in the next snapshot."""
        before, self._before = self._before, now
        seconds = 0.0 if before is None else (now.at - before.at).total_seconds()
        if before is None or seconds <= 0:
            return
        ended = {queue.name: _ended(queue) for queue in before.queues}
        for queue in now.queues:
            # Retention makes the count fall.
            count = max(_ended(queue) - ended.get(queue.name, 0), 0)
            self._rates.setdefault(queue.name, deque(maxlen=SAMPLES)).append(count / seconds)

    def of(self, queue: str) -> Sequence[float]:
        """Return the rates of a queue, the latest last."""
        return list(self._rates.get(queue, ()))

    @property
    def rate(self) -> float:
        """The latest rate of all queues together."""
        return sum(rates[-1] for rates in self._rates.values())


def _ended(queue: QueueView) -> int:
    return sum(count for state, count in queue.counts.items() if state.is_terminal)


def tables(now: Snapshot) -> list[Table]:
    """Return queues, running jobs, failures and workers, in full."""
    queues = count_columns("QUEUE")
    return [(queues, rows_of(queues, now.queues)), *_lists(now)]


def _lists(now: Snapshot) -> list[Table]:
    running: Columns[Job] = {
        "RUNNING": lambda job: short_id(job.id),
        "TYPE": lambda job: job.type,
        "STARTED (UTC)": lambda job: moment(job.started_at),
        "PROGRESS": progress_cell,
        "ATTEMPT": lambda job: Cell.of(f"{job.attempt}/{job.max_attempts}"),
        "QUEUE": lambda job: job.queue,
        "WORKER": lambda job: "" if job.lease is None else job.lease.worker,
    }
    failures: Columns[RecentFailure] = {
        "FAILED": lambda each: short_id(each.job_id),
        "TYPE": lambda each: each.type,
        "FAILURE": lambda each: f"{each.failure.category}: {each.failure.message}"[:200],
        "AT (UTC)": lambda each: moment(each.failed_at),
        "STATE": lambda each: each.state,
        "QUEUE": lambda each: each.queue,
    }
    workers: Columns[WorkerInfo] = {
        "WORKER": lambda worker: worker.id,
        "SLOTS": lambda worker: _slots(worker.running, worker.concurrency),
        "SEEN (UTC)": lambda worker: moment(worker.seen_at),
        "PID": lambda worker: worker.pid,
        "QUEUES": queue_weights,
    }
    return [
        (running, rows_of(running, now.running)),
        (failures, rows_of(failures, now.failures)),
        (workers, rows_of(workers, now.workers)),
    ]


def _slots(busy: int, slots: int) -> Cell:
    text = f"{busy}/{slots}"
    return Cell(text, f"{bar(busy / slots if slots else 0)} {text}")


def frame(
    now: Snapshot,
    activity: Activity,
    size: tuple[int, int],
    *,
    selected: str | None = None,
    foot: str,
) -> list[Text]:
    """Return the lines of a screen, no more and none longer than *size* allows."""
    from rich.text import Text

    width, height = size
    head = [_head(now, activity), _busy(now), _totals(now)]
    # On a screen of a few lines the queues are worth more than the totals.
    head = head[: max(height - 5, 1)]
    body = _body(now, activity, (width, height - len(head) - 1), selected)
    lines = [*head, *body, Text(foot, style="dim")][:height]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def _head(now: Snapshot, activity: Activity) -> Text:
    from rich.text import Text

    head = Text(f"fencepost top  {now.at:%H:%M:%S} UTC", style="bold")
    head.append(f"  {activity.rate:,.0f} jobs/s", style="green")
    return head.append(f"  {clean(now.url)}", style="dim")


def _busy(now: Snapshot) -> Text:
    """Return how many slots are busy now, by what runs and not by what workers reported."""
    from rich.text import Text

    if not now.workers:
        return Text("no live workers", style="yellow")
    slots = _slots(now.counts[State.RUNNING], sum(each.concurrency for each in now.workers))
    return Text(f"slots {slots.short}  workers {len(now.workers)}")


def _totals(now: Snapshot) -> Text:
    from rich.text import Text

    parts = [
        Text(f"{state} {count:,}", style=STATE_STYLES.get(state, ""))
        for state, count in now.counts.items()
        if count
    ]
    return Text("  ").join(parts)


def _body(
    now: Snapshot, activity: Activity, size: tuple[int, int], selected: str | None
) -> list[Text]:
    """Return as many rows of each table as there is room for."""
    from rich.text import Text

    width, height = size
    every = [_queues(now, activity, width), *_lists(now)]
    rooms = shares([len(rows) + 1 if rows else 0 for _, rows in every], height)
    names = [queue.name for queue in now.queues]
    lines: list[Text] = []
    # A blank line between tables, if nothing is left out for it.
    spare = height - sum(rooms)
    for place, ((columns, rows), room) in enumerate(zip(every, rooms, strict=True)):
        if room == 0:
            continue
        if lines and spare > 0:
            lines.append(Text())
            spare -= 1
        at = names.index(selected) if place == 0 and selected in names else None
        start = 0 if at is None else max(at - (room - 2), 0)
        drawn = lay_out(columns, rows[start : start + room - 1], width, is_flat=True)
        if at is not None:
            drawn[1 + at - start].stylize("reverse")
        lines += drawn
    return lines


def _queues(now: Snapshot, activity: Activity, width: int) -> Table:
    length = 20 if width >= ROOMY else 10
    columns: Columns[QueueView] = {
        "QUEUE": lambda queue: f"{queue.name} (paused)" if queue.is_paused else queue.name,
        "JOBS/S": lambda queue: Cell.of(f"{(activity.of(queue.name) or [0])[-1]:,.0f}"),
        "ENDED": lambda queue: Cell.of(sparkline(activity.of(queue.name), length)),
        **{state.upper(): partial(_count, state) for state in STATES},
    }
    return columns, rows_of(columns, now.queues)


def _count(state: State, queue: QueueView) -> Cell:
    return counted(queue.counts.get(state, 0))


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """Return how many lines each table gets: at least its head and two rows, the rest in turns."""
    given = [0] * len(wanted)
    for at, want in enumerate(wanted):
        least = min(want, 3, room)
        if least >= 2:
            given[at] = least
            room -= least
    while room > 0 and any(0 < have < want for have, want in zip(given, wanted, strict=True)):
        for at, want in enumerate(wanted):
            if 0 < given[at] < want and room > 0:
                given[at] += 1
                room -= 1
    return given
