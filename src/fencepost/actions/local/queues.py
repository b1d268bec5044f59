"""Queues and types of an app's store: list, pause and limit them, and who paused what; statistics,
and how to scale.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fencepost.actions.backend import Script
from fencepost.actions.local.series import Submitted, read_submitted
from fencepost.actions.local.steps import StoreActions
from fencepost.core.bounds import (
    ACTIONS_LOOKED_AT,
    STATS_SAMPLE_MAX,
    STATS_WINDOW_DEFAULT,
    STATS_WINDOW_MAX,
    STATS_WINDOW_MIN,
)
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.lifecycle import State
from fencepost.core.limits.type_limits import parse_limits
from fencepost.core.stats.overview import Load, PauseKind, PauseView, Scale, scale
from fencepost.core.stats.statistics import EndedJob, Statistics, percentiles, runs, statistics
from fencepost.core.values.names import check_queue, check_type
from fencepost.core.values.times import Duration, parse_duration
from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.store.interface.records.overview import QueueView, TypeView
from fencepost.store.interface.settings import Scope

if TYPE_CHECKING:
    from fencepost.actions.session import Session
    from fencepost.store.interface.records.access import ActionPage
    from fencepost.store.interface.records.crons import CronList

GROWTH = 8
COUNTED_MAX = 30.0
"""Jobs that were submitted in more seconds are counted one by one only where no sample is."""


class PausableScope(StoreActions):
    """What queues and types have in common: their jobs can be kept from starting."""

    def __init__(self, session: Session, scope: Scope, check: Callable[[str], str]) -> None:
        super().__init__(session)
        self._scope = scope
        self._check = check

    def pause(self, name: str) -> Script[None]:
        """Let no more jobs of a queue or type start."""
        yield self._store.settings.pause(self._scope, self._check(name))

    def resume(self, name: str) -> Script[None]:
        """Let jobs of a queue or type start again."""
        yield self._store.settings.resume(self._scope, self._check(name))


class LocalQueues(PausableScope):
    """The queues of an app's store."""

    def all(self, names: Sequence[str] | None = None) -> Script[list[QueueView]]:
        """Return every queue with its counts, or those of *names*."""
        views: list[QueueView] = yield self._store.overview.queues(names)
        return views

    def limit(self, name: str, max_running: int | None) -> Script[None]:
        """Limit how many jobs of a queue run at once."""
        yield self._store.settings.limit(Scope.QUEUE, check_queue(name), max_running)

    def scale(self, name: str, target: Duration) -> Script[Scale]:
        """Return how many slots a queue could use."""
        queue_name = check_queue(name)
        seconds = parse_duration(target, name="target", minimum=1.0)
        now = self._session.clock.now()
        views = yield from self.all([queue_name])
        workers: list[WorkerInfo] = yield self._store.cluster.workers()
        jobs, _ = yield from _ended(self._session, now, STATS_WINDOW_DEFAULT)
        arrivals = yield from _submitted_rate(self._session, queue_name, now, STATS_WINDOW_DEFAULT)
        queue = views[0] if views else QueueView(name=queue_name)
        times = percentiles(runs([job for job in jobs if job.queue == queue_name]))
        load = Load(
            depth=queue.counts.get(State.SCHEDULED, 0),
            running=queue.counts.get(State.RUNNING, 0),
            slots=sum(each.concurrency for each in workers if each.serves_queue(queue_name)),
            arrivals=arrivals,
            run_time=None if times is None else times.p50,
            max_running=queue.max_running,
            is_paused=queue.is_paused,
            oldest_age=_age(queue.oldest_at, now),
        )
        return scale(queue_name, load, target=seconds)


class LocalTypes(PausableScope):
    """The types of an app's store."""

    def all(self, names: Sequence[str] | None = None) -> Script[list[TypeView]]:
        """Return every type with its counts, or those of *names*."""
        views: list[TypeView] = yield self._store.overview.types(names)
        return views

    def limit(self, name: str, rate: str | None) -> Script[None]:
        """Set how often jobs of a type may start, until a worker declares what its code says."""
        yield self._store.settings.limit_types({check_type(name): parse_limits(rate=rate)})


def stats(session: Session, window: Duration) -> Script[Statistics]:
    """Return counts now, and rates and times of the last *window*."""
    seconds = parse_duration(
        window, name="window", minimum=STATS_WINDOW_MIN, maximum=STATS_WINDOW_MAX
    )
    now = session.clock.now()
    queues = yield session.store.overview.queues()
    types = yield session.store.overview.types()
    jobs, is_sampled = yield from _ended(session, now, seconds)
    submitted_rate = yield from _submitted_rate(session, None, now, seconds)
    refused = yield session.store.refusals.total()
    return statistics(
        jobs,
        now=now,
        window=seconds,
        is_sampled=is_sampled,
        queues={queue.name: queue.counts for queue in queues},
        types={type.name: type.counts for type in types},
        submitted_rate=submitted_rate,
        refused=refused,
    )


def _ended(session: Session, now: datetime, seconds: float) -> Script[tuple[list[EndedJob], bool]]:
    since = now - timedelta(seconds=seconds)
    page = yield session.store.overview.ended(since, limit=STATS_SAMPLE_MAX, newest_first=True)
    return page.jobs, page.next is not None


def _submitted_rate(
    session: Session, queue: str | None, now: datetime, seconds: float
) -> Script[float]:
    """Return jobs a second, over the whole window or the last part of it that has enough jobs."""
    span = min(STATS_WINDOW_MIN, seconds)
    while True:
        found = yield from _submitted(session, queue, now, span)
        if found.jobs >= STATS_SAMPLE_MAX or span >= seconds:
            return found.jobs / found.seconds
        span = min(span * GROWTH, seconds)


def _submitted(
    session: Session, queue: str | None, now: datetime, seconds: float
) -> Script[Submitted]:
    """Count what was submitted in the last *seconds*.

    The store counts jobs one by one, and within minutes there may be a million. So what was
    submitted in a longer time is the difference of two totals, wherever one is known for its start.
    """
    if seconds >= COUNTED_MAX:
        found = yield from read_submitted(session, queue, now, seconds)
        if found is not None:
            return found
    filter = JobFilter(queue=queue, created_after=now - timedelta(seconds=seconds))
    count: int = yield session.store.reader.count(filter)
    return Submitted(count, seconds)


def _age(at: datetime | None, now: datetime) -> float | None:
    return None if at is None else max((now - at).total_seconds(), 0.0)


# What is paused, and who paused it, as far as the audit log says.

_DONE = (200, 204, None)

Names = Collection[tuple[PauseKind, str]]


def pauses(session: Session, queues: Collection[str] | None) -> Script[list[PauseView]]:
    """Return what is paused; with *queues*, these alone."""
    store = session.store
    among = None if queues is None else sorted(queues)
    views: list[QueueView] = yield store.overview.queues(among)
    names: list[tuple[PauseKind, str]] = [("queue", each.name) for each in views if each.is_paused]
    if queues is None:
        types: list[TypeView] = yield store.overview.types()
        crons: CronList = yield store.crons.list()
        names += [("type", each.name) for each in types if each.is_paused]
        names += [("cron", each.name) for each in crons.crons if each.is_paused]
    return (yield from paused_by(session, names))


def paused_by(session: Session, names: Names) -> Script[list[PauseView]]:
    """Return who paused each of *names*, all of which are paused; the log is read only for some."""
    if not names:
        return []
    page: ActionPage = yield session.store.audit.list(PageRequest(ACTIONS_LOOKED_AT))
    verbs = {f"{kind}.{verb}" for kind, _ in names for verb in ("pause", "resume")}
    done = [each for each in page.actions if each.action in verbs and each.status in _DONE]
    newest = {(each.action.partition(".")[0], each.target): each for each in reversed(done)}
    found = []
    for kind, name in names:
        last = newest.get((kind, name))
        if last is None or last.action != f"{kind}.pause":
            found.append(PauseView(kind=kind, name=name))
        else:
            found.append(PauseView(kind=kind, name=name, by=last.principal, at=last.at))
    return found
