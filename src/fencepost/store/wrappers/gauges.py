"""Gauges of what a store holds, read from its own counters.

However often monitors ask, the store is read once in METRICS_INTERVAL, by one reader at a time, and
no monitor waits longer than METRICS_TIMEOUT: one that hangs while the store is away would be
useless when it is needed.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from fencepost.clock import Clock
from fencepost.core.bounds import METRIC_LABELS_MAX, METRICS_INTERVAL, METRICS_TIMEOUT
from fencepost.core.job.lifecycle import DEAD, State
from fencepost.generators import drive
from fencepost.observe import metrics
from fencepost.observe.counters import OTHER
from fencepost.observe.metrics import Metric, gauge
from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.store.interface.records.overview import QueueView, TypeView
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation

AWAY = [gauge(metrics.STORE_UP, {(): 0})]

Reading = Generator[Operation[Any], Any, list[Metric]]
"""Yields operations of the store, and is sent their replies."""


V = TypeVar("V", QueueView, TypeView)


class Gauges:
    """The gauges of one store, as they were last read."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._last: list[Metric] = AWAY
        self._read_at: float | None = None
        self._reading: threading.Event | None = None
        """Set when the current reader is done."""

    def read(self, opened: Callable[[], Store]) -> list[Metric]:
        """Return the gauges, from any thread; if the store is away, only one that says so."""
        with self._mutex:
            now = self._clock.monotonic()
            if self._read_at is not None and now - self._read_at < METRICS_INTERVAL:
                return self._last
            reading = self._reading
            if reading is None:
                reading = self._reading = threading.Event()
                # In a separate thread: a store that hangs may block it for a minute.
                reader = threading.Thread(
                    target=self._ask, args=(opened, reading), name="fencepost-gauges", daemon=True
                )
                reader.start()
        if not reading.wait(METRICS_TIMEOUT):
            return AWAY
        with self._mutex:
            return self._last

    def _ask(self, opened: Callable[[], Store], reading: threading.Event) -> None:
        found = AWAY
        try:
            store = opened()
            found = drive(reading_of(store), store.run)
        except Exception:  # noqa: BLE001 - whatever it is, the store did not answer
            pass
        finally:
            with self._mutex:
                self._last = found
                self._read_at = self._clock.monotonic()
                self._reading = None
            reading.set()


def reading_of(store: Store) -> Reading:
    """Return the script that reads the gauges: three reads of counters, no scan."""
    queues: list[QueueView] = yield store.overview.queues()
    types: list[TypeView] = yield store.overview.types()
    workers: list[WorkerInfo] = yield store.cluster.workers()
    return [
        *_of_queues(queues, store.clock.now()),
        *_of_types(types),
        gauge(metrics.WORKERS, {(): len(workers)}),
        gauge(metrics.WORKER_SLOTS, {(): sum(each.concurrency for each in workers)}),
        gauge(metrics.WORKER_SLOTS_BUSY, {(): sum(each.running for each in workers)}),
        gauge(metrics.STORE_UP, {(): 1}),
    ]


def _of_queues(given: Sequence[QueueView], now: datetime) -> list[Metric]:
    views = _by_size(given)
    kept = views[:METRIC_LABELS_MAX]
    ages: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for name, view in _labelled(views):
        since = view.oldest_at
        age = 0.0 if since is None else (now - since).total_seconds()
        ages[(name,)] = max(ages[(name,)], age)
    limits: dict[tuple[str, ...], float] = {
        (view.name,): view.max_running for view in kept if view.max_running is not None
    }
    return [
        gauge(metrics.QUEUE_JOBS, _counts(views)),
        gauge(metrics.QUEUE_OLDEST_AGE, ages),
        gauge(metrics.QUEUE_PAUSED, {(view.name,): view.is_paused for view in kept}),
        gauge(metrics.QUEUE_MAX_RUNNING, limits),
    ]


def _of_types(given: Sequence[TypeView]) -> list[Metric]:
    views = _by_size(given)
    dead: Counter[tuple[str, ...]] = Counter()
    for name, view in _labelled(views):
        dead[(name,)] += sum(view.counts.get(state, 0) for state in DEAD)
    kept = views[:METRIC_LABELS_MAX]
    return [
        gauge(metrics.TYPE_JOBS, _counts(views)),
        gauge(metrics.TYPE_PAUSED, {(view.name,): view.is_paused for view in kept}),
        gauge(metrics.DEAD_LETTERS, dead),
    ]


def _counts(views: Sequence[V]) -> dict[tuple[str, ...], float]:
    """Return the count of every state, zeros too: a series that vanishes looks like an outage."""
    names = dict.fromkeys(name for name, _ in _labelled(views))
    counts: dict[tuple[str, ...], float] = {(name, state): 0 for name in names for state in State}
    for name, view in _labelled(views):
        for state, count in view.counts.items():
            counts[name, state] += count
    return counts


def _by_size(views: Sequence[V]) -> list[V]:
    """Return *views*, those with the most jobs first if there are too many for labels."""
    if len(views) <= METRIC_LABELS_MAX:
        return list(views)
    return sorted(views, key=lambda view: (-sum(view.counts.values()), view.name))


def _labelled(views: Sequence[V]) -> list[tuple[str, V]]:
    """Return every view with its label; beyond the bound they share one."""
    return [
        (view.name if place < METRIC_LABELS_MAX else OTHER, view)
        for place, view in enumerate(views)
    ]
