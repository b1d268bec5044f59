"""Lines of a chart, made from samples.

Only what is asked for is read and added up: there are samples of two hundred queues and types, and
a hundred of them in a chart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

import msgspec

from fencepost.core.bounds import SERIES_LINES_MAX, SERIES_POINTS
from fencepost.core.stats.series import (
    STEPS,
    Histogram,
    LaneCounts,
    LaneSample,
    SampleCounts,
    add_to,
    aligned,
    percentile,
)


class SeriesMetric(StrEnum):
    """What a line shows."""

    COMPLETED = "completed"
    FAILED = "failed"
    DEAD = "dead"
    CANCELLED = "cancelled"
    ENQUEUED = "enqueued"
    DEPTH = "depth"
    RUNNING = "running"
    OLDEST_AGE = "oldest_age"
    WAIT_P50 = "wait_p50"
    WAIT_P99 = "wait_p99"
    RUN_P50 = "run_p50"
    RUN_P99 = "run_p99"


COUNTS = tuple(SeriesMetric)[:5]
GAUGES = (SeriesMetric.DEPTH, SeriesMetric.RUNNING)
TIMES = {
    SeriesMetric.WAIT_P50: ("wait", 0.5),
    SeriesMetric.WAIT_P99: ("wait", 0.99),
    SeriesMetric.RUN_P50: ("run", 0.5),
    SeriesMetric.RUN_P99: ("run", 0.99),
}


class Span(NamedTuple):
    """Which samples a chart is made from, and where its points lie."""

    stored: int
    """The step of the samples."""
    step: int
    """Seconds between points: a multiple of it."""
    start: datetime
    points: int

    @property
    def since(self) -> datetime:
        """From when on to read: one sample before the first point, to count from."""
        return self.start - timedelta(seconds=2 * self.stored)

    def place(self, at: datetime) -> int:
        """Return the point of the sample that ends the time before *at*."""
        return (at - timedelta(seconds=self.stored) - self.start) // timedelta(seconds=self.step)


def span_of(window: float, step: float | None, now: datetime) -> Span:
    """Return the samples and points for a chart of the last *window* seconds."""
    wanted = window / SERIES_POINTS if step is None else step
    fitting = [each for each, kept in STEPS.items() if kept >= window]
    finest = max([each for each in fitting if each <= wanted], default=fitting[0])
    rounded = finest * max(math.ceil(wanted / finest - 1e-9), 1)
    stored = max(each for each in fitting if rounded % each == 0)
    count = math.ceil(window / rounded - 1e-9)
    end = aligned(now, rounded)
    return Span(stored, rounded, end - timedelta(seconds=rounded * count), count)


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """The points of one metric, of all jobs or of one name."""

    metric: SeriesMetric
    name: str | None
    values: list[float | None]
    """Null where nothing was sampled."""


class Samples(NamedTuple):
    """Samples by the end of the time that each is for, the oldest first."""

    rows: Sequence[tuple[datetime, SampleCounts]]
    """With times, if a metric is one of TIMES."""
    span: Span


Choose = Callable[[LaneCounts], str | None]


def lines(
    samples: Samples, metrics: Iterable[SeriesMetric], name_of: Choose, *, is_named: bool
) -> list[Line]:
    """Return a line for each metric and name; *name_of* returns None for a lane to leave out."""
    wanted = list(metrics)
    drawing = _Drawing(wanted, samples.span.points)
    for at, each in samples.rows:
        drawing.add(samples.span.place(at), each, name_of)
    return [
        Line(
            metric=metric,
            name=name if is_named else None,
            values=[None if each is None else each.value(metric, name) for each in drawing.points],
        )
        for name in (drawing.largest() if is_named else [""])
        for metric in wanted
    ]


class _Point:
    """What the samples within one point add up to: values and histograms, each by name."""

    def __init__(self, metrics: Iterable[SeriesMetric]) -> None:
        self._values: dict[SeriesMetric, dict[str, float]] = {each: {} for each in metrics}
        self._waits: dict[str, Histogram] = {}
        self._runs: dict[str, Histogram] = {}
        self.is_counted = False

    def count(self, metric: SeriesMetric, rises: Iterable[tuple[str, int]]) -> None:
        """Add how far totals have risen."""
        values = self._values[metric]
        for name, rise in rises:
            # A job that is retried by hand leaves its terminal state, and the total falls.
            values[name] = values.get(name, 0) + max(rise, 0)

    def gauge(self, metric: SeriesMetric, now: dict[str, float]) -> None:
        """Keep the highest."""
        values = self._values[metric]
        for name, value in now.items():
            values[name] = max(values.get(name, 0), value)

    def time(self, name: str, lane: LaneSample) -> None:
        """Add the times of a lane."""
        add_to(self._waits.setdefault(name, {}), lane.wait)
        add_to(self._runs.setdefault(name, {}), lane.run)

    def value(self, metric: SeriesMetric, name: str) -> float | None:
        """Return where a line is in this point."""
        if metric in TIMES:
            of, share = TIMES[metric]
            times = self._waits if of == "wait" else self._runs
            return percentile(times.get(name, {}), share)
        if metric in COUNTS and not self.is_counted:
            return None
        return self._values[metric].get(name, 0)


class _Drawing:
    """Points that are added up, sample by sample, the oldest first."""

    def __init__(self, metrics: Sequence[SeriesMetric], points: int) -> None:
        self.points: list[_Point | None] = [None] * points
        self._metrics = metrics
        self._counts = [each for each in metrics if each in COUNTS]
        self._gauges = [each for each in metrics if each in GAUGES]
        self._has_times = any(each in TIMES for each in metrics)
        self._before: dict[tuple[str, str], LaneCounts] | None = None
        self._was_folded = False
        self._sizes: dict[str, int] = {}

    def add(self, place: int, sample: SampleCounts, name_of: Choose) -> None:
        """Add a sample to a point; one that lies in none is what the next is compared with."""
        if 0 <= place < len(self.points):
            chosen = [(name, lane) for lane in sample.lanes if (name := name_of(lane)) is not None]
            point = self.points[place] or _Point(self._metrics)
            self.points[place] = point
            self._gauge(point, chosen, sample.oldest)
            self._count(point, chosen)
            if self._has_times:
                for name, lane in chosen:
                    if isinstance(lane, LaneSample):
                        point.time(name, lane)
        self._before = {(lane.queue, lane.type): lane for lane in sample.lanes}
        self._was_folded = sample.is_folded

    def _gauge(
        self, point: _Point, chosen: Sequence[tuple[str, LaneCounts]], oldest: dict[str, float]
    ) -> None:
        """Take depths and ages; and note which names have many jobs."""
        for name, lane in chosen:
            self._sizes[name] = self._sizes.get(name, 0) + lane.depth + lane.running
        for metric in self._gauges:
            now: dict[str, float] = {}
            for name, lane in chosen:
                now[name] = now.get(name, 0) + getattr(lane, metric)
            point.gauge(metric, now)
        if SeriesMetric.OLDEST_AGE in self._metrics:
            ages: dict[str, float] = {}
            for name, lane in chosen:
                if lane.depth:
                    ages[name] = max(ages.get(name, 0.0), oldest.get(lane.queue, 0.0))
            point.gauge(SeriesMetric.OLDEST_AGE, ages)

    def _count(self, point: _Point, chosen: Iterable[tuple[str, LaneCounts]]) -> None:
        """Add how far the totals have risen since the sample before."""
        if self._before is None:
            return
        point.is_counted = True
        pairs = [(name, lane, self._before.get((lane.queue, lane.type))) for name, lane in chosen]
        if self._was_folded:
            # It may have been there before, among the small ones.
            pairs = [pair for pair in pairs if pair[2] is not None]
        for name, lane, past in pairs:
            self._sizes[name] += lane.enqueued - (0 if past is None else past.enqueued)
        for metric in self._counts:
            point.count(
                metric,
                (
                    (name, getattr(lane, metric) - (0 if past is None else getattr(past, metric)))
                    for name, lane, past in pairs
                ),
            )

    def largest(self) -> list[str]:
        """Return the names with the most jobs, at most SERIES_LINES_MAX."""
        names = sorted(self._sizes, key=lambda name: (-self._sizes[name], name))
        return names[:SERIES_LINES_MAX]


def choice(
    by: str | None, *, queue: str | None, type: str | None, within: frozenset[str] | None
) -> Choose:
    """Return what names a lane: by its queue or type, if it is wanted and within reach."""

    def name_of(lane: LaneCounts) -> str | None:
        if queue not in (None, lane.queue) or type not in (None, lane.type):
            return None
        if within is not None and lane.queue not in within:
            return None
        return "" if by is None else lane.queue if by == "queue" else lane.type

    return name_of
