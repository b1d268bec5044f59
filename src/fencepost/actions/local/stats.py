"""How things went of late: ``app.stats()``, and how many slots a queue could use."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fencepost.actions.script import Script
from fencepost.core.bounds import (
    STATS_SAMPLE_MAX,
    STATS_WINDOW_DEFAULT,
    STATS_WINDOW_MAX,
    STATS_WINDOW_MIN,
)
from fencepost.core.filter import JobFilter
from fencepost.core.job.lifecycle import State
from fencepost.core.stats.ended import EndedJob
from fencepost.core.stats.recent import Statistics, percentiles, runs, statistics
from fencepost.core.stats.scale import Load, Scale
from fencepost.core.stats.scale import scale as scaled
from fencepost.core.values.duration import Duration, parse_duration
from fencepost.core.values.names import check_queue
from fencepost.store.interface.cluster import WorkerInfo
from fencepost.store.interface.overview import QueueView

if TYPE_CHECKING:
    from fencepost.actions.session import Session

GROWTH = 8


def stats(session: Session, window: Duration) -> Script[Statistics]:
    """Return counts, and rates and times of the last *window*."""
    seconds = parse_duration(
        window, name="window", minimum=STATS_WINDOW_MIN, maximum=STATS_WINDOW_MAX
    )
    now = session.clock.now()
    queues = yield session.store.overview.queues()
    types = yield session.store.overview.types()
    jobs, is_sampled = yield from _ended(session, now, seconds)
    submitted_rate = yield from _submitted_rate(session, JobFilter(), now, seconds)
    return statistics(
        jobs,
        now=now,
        window=seconds,
        is_sampled=is_sampled,
        queues={queue.name: queue.counts for queue in queues},
        types={type.name: type.counts for type in types},
        submitted_rate=submitted_rate,
    )


def _ended(session: Session, now: datetime, seconds: float) -> Script[tuple[list[EndedJob], bool]]:
    since = now - timedelta(seconds=seconds)
    page = yield session.store.overview.ended(since, limit=STATS_SAMPLE_MAX, newest_first=True)
    return page.jobs, page.next is not None


def _submitted_rate(
    session: Session, filter: JobFilter, now: datetime, seconds: float
) -> Script[float]:
    """Return jobs a second: over the whole window, or over so much of it as has plenty.

    Jobs are counted one by one, so a busy store is asked about a short time only.
    """
    span = min(STATS_WINDOW_MIN, seconds)
    while True:
        since = now - timedelta(seconds=span)
        count: int = yield session.store.reader.count(replace(filter, created_after=since))
        if count >= STATS_SAMPLE_MAX or span >= seconds:
            return count / span
        span = min(span * GROWTH, seconds)


def scale(session: Session, name: str, target: Duration) -> Script[Scale]:
    """Return how many slots a queue could use."""
    queue_name = check_queue(name)
    seconds = parse_duration(target, name="target", minimum=1.0)
    now = session.clock.now()
    queues: list[QueueView] = yield session.store.overview.queues()
    workers: list[WorkerInfo] = yield session.store.cluster.workers()
    jobs, _ = yield from _ended(session, now, STATS_WINDOW_DEFAULT)
    filter = JobFilter(queue=queue_name)
    arrivals = yield from _submitted_rate(session, filter, now, STATS_WINDOW_DEFAULT)
    views = [view for view in queues if view.name == queue_name]
    queue = views[0] if views else QueueView(name=queue_name)
    times = percentiles(runs([job for job in jobs if job.queue == queue_name]))
    load = Load(
        depth=queue.counts.get(State.SCHEDULED, 0),
        running=queue.counts.get(State.RUNNING, 0),
        slots=sum(each.concurrency for each in workers if _serves(each, queue_name)),
        arrivals=arrivals,
        run_time=None if times is None else times.p50,
        max_running=queue.max_running,
        is_paused=queue.is_paused,
        oldest_age=_age(queue.oldest_at, now),
    )
    return scaled(queue_name, load, target=seconds)


def _serves(worker: WorkerInfo, queue: str) -> bool:
    return worker.queues is None or queue in worker.queues


def _age(at: datetime | None, now: datetime) -> float | None:
    return None if at is None else max((now - at).total_seconds(), 0.0)
