"""What a store holds, for monitors: read off its own counters, and seldom.

However many monitors ask however often, the store is asked once in METRICS_INTERVAL, by one reader
at a time, and nobody waits for it longer than METRICS_TIMEOUT: a monitor that hangs while the
store is away would be blind when it is needed.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from fencepost.clock import Clock
from fencepost.core.bounds import METRIC_LABELS_MAX, METRICS_INTERVAL, METRICS_TIMEOUT
from fencepost.core.job.lifecycle import DEAD, State
from fencepost.observe import families
from fencepost.observe.exposition import Metric, gauge
from fencepost.observe.labels import OTHER
from fencepost.store.interface.cluster import WorkerInfo
from fencepost.store.interface.overview import QueueView, TypeView
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation

AWAY = [gauge(families.STORE_UP, {(): 0})]

Reading = Generator[Operation[Any], Any, list[Metric]]
"""Yields what the store is to do next, and is sent its reply."""


class _View(Protocol):
    """A queue or a type."""

    @property
    def name(self) -> str: ...
    @property
    def counts(self) -> dict[State, int]: ...


V = TypeVar("V", bound=_View)


class Gauges:
    """The gauges of one store, as they were when it was last asked."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._metrics: list[Metric] = AWAY
        self._read_at: float | None = None
        self._reading: threading.Event | None = None
        """Set when the reader that is under way is done."""

    def read(self, opened: Callable[[], Store]) -> list[Metric]:
        """Return the gauges, from any thread; those of a store that is away say just that."""
        with self._mutex:
            now = self._clock.monotonic()
            if self._read_at is not None and now - self._read_at < METRICS_INTERVAL:
                return self._metrics
            reading = self._reading
            if reading is None:
                reading = self._reading = threading.Event()
                # In a thread of its own: a store that hangs may keep it for a minute.
                reader = threading.Thread(
                    target=self._ask, args=(opened, reading), name="fencepost-gauges", daemon=True
                )
                reader.start()
        if not reading.wait(METRICS_TIMEOUT):
            return AWAY
        with self._mutex:
            return self._metrics

    def _ask(self, opened: Callable[[], Store], reading: threading.Event) -> None:
        metrics = AWAY
        try:
            store = opened()
            metrics = _drive(reading_of(store), store)
        except Exception:  # noqa: BLE001 - whatever it is, the store did not answer
            pass
        finally:
            with self._mutex:
                self._metrics = metrics
                self._read_at = self._clock.monotonic()
                self._reading = None
            reading.set()


def reading_of(store: Store) -> Reading:
    """Return the script that reads the gauges: three looks at counters, no scan."""
    queues: list[QueueView] = yield store.overview.queues()
    types: list[TypeView] = yield store.overview.types()
    workers: list[WorkerInfo] = yield store.cluster.workers()
    return [
        *_of_queues(queues, store.clock.now()),
        *_of_types(types),
        gauge(families.WORKERS, {(): len(workers)}),
        gauge(families.WORKER_SLOTS, {(): sum(each.concurrency for each in workers)}),
        gauge(families.WORKER_SLOTS_BUSY, {(): sum(each.running for each in workers)}),
        gauge(families.STORE_UP, {(): 1}),
    ]


def _drive(script: Reading, store: Store) -> list[Metric]:
    try:
        operation = next(script)
        while True:
            operation = script.send(store.run(operation))
    except StopIteration as stop:
        metrics: list[Metric] = stop.value
        return metrics


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
        gauge(families.QUEUE_JOBS, _counts(views)),
        gauge(families.QUEUE_OLDEST_AGE, ages),
        gauge(families.QUEUE_PAUSED, {(view.name,): view.is_paused for view in kept}),
        gauge(families.QUEUE_MAX_RUNNING, limits),
    ]


def _of_types(given: Sequence[TypeView]) -> list[Metric]:
    views = _by_size(given)
    dead: Counter[tuple[str, ...]] = Counter()
    for name, view in _labelled(views):
        dead[(name,)] += sum(view.counts.get(state, 0) for state in DEAD)
    kept = views[:METRIC_LABELS_MAX]
    return [
        gauge(families.TYPE_JOBS, _counts(views)),
        gauge(families.TYPE_PAUSED, {(view.name,): view.is_paused for view in kept}),
        gauge(families.DEAD_LETTERS, dead),
    ]


def _counts(views: Sequence[_View]) -> dict[tuple[str, ...], float]:
    """Return the count of every state, zeros too: a series that vanishes looks like an outage."""
    counts: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for name, view in _labelled(views):
        for state in State:
            counts[name, state] += view.counts.get(state, 0)
    return counts


def _by_size(views: Sequence[V]) -> list[V]:
    """Return *views*, those with the most jobs first if not all can have a label of their own."""
    if len(views) <= METRIC_LABELS_MAX:
        return list(views)
    return sorted(views, key=lambda view: (-sum(view.counts.values()), view.name))


def _labelled(views: Sequence[Any]) -> list[tuple[str, Any]]:
    """Return every view with its label; beyond the bound they share one."""
    kept = [(view.name, view) for view in views[:METRIC_LABELS_MAX]]
    return [*kept, *((OTHER, view) for view in views[METRIC_LABELS_MAX:])]
