"""Series: samples of counts and times, and the lines of a chart made from them.

A sample holds running totals, so that a count is the difference of two samples: if one is missing,
the next has what it would have had, and no count is lost. Waiting and running times are histograms
on a logarithmic scale: each bucket is a quarter of an octave, a percentile is exact to 9 %.

Samples are kept in several steps, coarser with age. A coarse one is merged from finer ones: the
last totals, the highest depths and ages, and the sum of the histograms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

import msgspec

from fencepost.core.bounds import SERIES_LANES_MAX, SERIES_LINES_MAX, SERIES_POINTS
from fencepost.core.job.lifecycle import State
from fencepost.core.stats.overview import QueueView
from fencepost.core.stats.statistics import EndedJob, runs, waits

STEPS = {10: 3_600.0, 60: 12 * 3_600.0, 600: 7 * 86_400.0}
"""Seconds between samples, and for how many seconds they are kept."""
FINEST = min(STEPS)
LONGEST = max(STEPS.values())

Histogram = dict[int, int]
SHORTEST = 1e-4
"""Times up to this fall into the first bucket, in seconds."""
PER_OCTAVE = 4
BUCKET_MAX = 127
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LaneTotals(msgspec.Struct, frozen=True, gc=False):
    """The jobs of one queue and type by state: those that are stored, and those pruned since."""

    queue: str
    type: str
    counts: dict[State, int]
    pruned: dict[State, int]

    def total(self, state: State) -> int:
        """Return how many jobs are or were in a terminal state."""
        return self.counts.get(state, 0) + self.pruned.get(state, 0)

    @property
    def submitted(self) -> int:
        """How many jobs there were, in all."""
        return sum(self.counts.values()) + sum(self.pruned.values())


class LaneSample(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One queue and type at one time."""

    queue: str
    type: str
    enqueued: int
    """Totals since the queue and type are known: only their differences mean something."""
    completed: int
    failed: int
    dead: int
    cancelled: int
    depth: int
    running: int
    wait: Histogram = {}
    run: Histogram = {}


class Sample(msgspec.Struct, array_like=True, frozen=True):
    """The whole store at one time."""

    lanes: list[LaneSample]
    oldest: dict[str, float] = {}
    """The age of the oldest claimable job of each queue, in seconds."""
    is_folded: bool = False
    """True if there were more queues and types than a sample holds; it has the largest."""


encode_sample = msgspec.msgpack.Encoder().encode
decode_sample = msgspec.msgpack.Decoder(Sample).decode


def sample(
    totals: Sequence[LaneTotals],
    queues: Iterable[QueueView],
    ended: Iterable[EndedJob],
    now: datetime,
) -> Sample:
    """Return a sample of these counts, with the times of jobs that *ended* lately."""
    recent: dict[tuple[str, str], list[EndedJob]] = {}
    for job in ended:
        recent.setdefault((job.queue, job.type), []).append(job)
    lanes = [_lane(each, recent.get((each.queue, each.type), [])) for each in totals]
    largest = sorted(lanes, key=lambda lane: (-lane.enqueued, lane.queue, lane.type))
    ages = {
        queue.name: max((now - queue.oldest_at).total_seconds(), 0.0)
        for queue in queues
        if queue.oldest_at is not None
    }
    kept = largest[:SERIES_LANES_MAX]
    names = {lane.queue for lane in kept}
    oldest = {name: age for name, age in ages.items() if name in names}
    return Sample(kept, oldest, len(lanes) > SERIES_LANES_MAX)


def _lane(totals: LaneTotals, ended: Sequence[EndedJob]) -> LaneSample:
    return LaneSample(
        totals.queue,
        totals.type,
        totals.submitted,
        totals.total(State.COMPLETED),
        totals.total(State.FAILED),
        totals.total(State.DEAD_LETTER),
        totals.total(State.CANCELLED),
        totals.counts.get(State.SCHEDULED, 0),
        totals.counts.get(State.RUNNING, 0),
        histogram(waits(ended)),
        histogram(runs(ended)),
    )


def submitted_since(
    before: Sample, totals: Iterable[LaneTotals], queue: str | None = None
) -> int | None:
    """Return how many jobs were submitted after a sample, to one queue or to all.

    None if the sample has not every queue and type.
    """
    if before.is_folded:
        return None
    known = {(lane.queue, lane.type): lane.enqueued for lane in before.lanes}
    wanted = [each for each in totals if queue in (None, each.queue)]
    return sum(max(each.submitted - known.get((each.queue, each.type), 0), 0) for each in wanted)


def bucket_of(seconds: float) -> int:
    """Return the bucket of a time."""
    if seconds <= SHORTEST:
        return 0
    return min(math.ceil(math.log2(seconds / SHORTEST) * PER_OCTAVE), BUCKET_MAX)


def histogram(times: Iterable[float]) -> Histogram:
    """Return how many of *times* fall into each bucket."""
    found: Histogram = {}
    for seconds in times:
        bucket = bucket_of(seconds)
        found[bucket] = found.get(bucket, 0) + 1
    return found


def percentile(found: Histogram, share: float) -> float | None:
    """Return the time that *share* of the jobs did not exceed, by its bucket; None without jobs."""
    rank = math.ceil(sum(found.values()) * share)
    for bucket in sorted(found):
        rank -= found[bucket]
        if rank <= 0:
            # The middle of the bucket, on its logarithmic scale.
            return SHORTEST * float(2 ** ((bucket - 0.5 if bucket else 0) / PER_OCTAVE))
    return None


def _sum(histograms: Iterable[Histogram]) -> Histogram:
    total: Histogram = {}
    for each in histograms:
        for bucket, count in each.items():
            total[bucket] = total.get(bucket, 0) + count
    return total


def merged(samples: Sequence[Sample]) -> Sample:
    """Return one sample for a longer time, from those within it, the oldest first."""
    by_lane: dict[tuple[str, str], list[LaneSample]] = {}
    oldest: dict[str, float] = {}
    for each in samples:
        for lane in each.lanes:
            by_lane.setdefault((lane.queue, lane.type), []).append(lane)
        for name, age in each.oldest.items():
            oldest[name] = max(oldest.get(name, 0.0), age)
    lanes = [
        msgspec.structs.replace(
            some[-1],
            depth=max(lane.depth for lane in some),
            running=max(lane.running for lane in some),
            wait=_sum(lane.wait for lane in some),
            run=_sum(lane.run for lane in some),
        )
        for some in by_lane.values()
    ]
    return Sample(lanes[:SERIES_LANES_MAX], oldest, any(each.is_folded for each in samples))


def aligned(at: datetime, step: int) -> datetime:
    """Return the last multiple of *step* seconds at or before *at*."""
    return at - (at - _EPOCH) % timedelta(seconds=step)


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


COUNTS = frozenset(list(SeriesMetric)[:5])
GAUGES = frozenset([SeriesMetric.DEPTH, SeriesMetric.RUNNING])
_SHARES = {"p50": 0.5, "p99": 0.99}


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
    stored = max([each for each in fitting if each <= wanted], default=fitting[0])
    rounded = stored * max(math.ceil(wanted / stored - 1e-9), 1)
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

    rows: Sequence[tuple[datetime, Sample]]
    span: Span


Choose = Callable[[LaneSample], str | None]


def lines(
    samples: Samples, metrics: Iterable[SeriesMetric], name_of: Choose, *, is_named: bool
) -> list[Line]:
    """Return a line for each metric and name; *name_of* returns None for a lane to leave out."""
    points = _points(samples, name_of)
    names = _largest(points) if is_named else [""]
    wanted = list(metrics)
    return [
        Line(
            metric=metric,
            name=name if is_named else None,
            values=[_value(metric, each, name) for each in points],
        )
        for name in names
        for metric in wanted
    ]


class _Point:
    """What the samples within one point add up to, by name."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, SeriesMetric], int] = {}
        self.gauges: dict[tuple[str, SeriesMetric], float] = {}
        self.waits: dict[str, list[Histogram]] = {}
        self.runs: dict[str, list[Histogram]] = {}
        self.is_counted = False


def _points(samples: Samples, name_of: Choose) -> list[_Point | None]:
    points: list[_Point | None] = [None] * samples.span.points
    before: Sample | None = None
    for at, each in samples.rows:
        place = samples.span.place(at)
        if 0 <= place < len(points):
            point = points[place] or _Point()
            points[place] = point
            _gauge(point, each, name_of)
            if before is not None:
                _count(point, before, each, name_of)
        before = each
    return points


def _count(point: _Point, before: Sample, after: Sample, name_of: Choose) -> None:
    """Add how far the totals have risen since the sample before."""
    point.is_counted = True
    known = {(lane.queue, lane.type): lane for lane in before.lanes}
    for lane in after.lanes:
        name, past = name_of(lane), known.get((lane.queue, lane.type))
        if name is None or (past is None and before.is_folded):
            continue
        for metric in COUNTS:
            # A job that is retried by hand leaves its terminal state, and the total falls.
            rise = getattr(lane, metric) - (0 if past is None else getattr(past, metric))
            point.counts[name, metric] = point.counts.get((name, metric), 0) + max(rise, 0)


def _gauge(point: _Point, each: Sample, name_of: Choose) -> None:
    """Take the highest depths and ages of the samples in a point."""
    now: dict[tuple[str, SeriesMetric], float] = {}
    for lane in each.lanes:
        name = name_of(lane)
        if name is None:
            continue
        for metric in GAUGES:
            now[name, metric] = now.get((name, metric), 0) + getattr(lane, metric)
        if lane.depth:
            oldest = (name, SeriesMetric.OLDEST_AGE)
            now[oldest] = max(now.get(oldest, 0.0), each.oldest.get(lane.queue, 0.0))
        point.waits.setdefault(name, []).append(lane.wait)
        point.runs.setdefault(name, []).append(lane.run)
    for at, value in now.items():
        point.gauges[at] = max(point.gauges.get(at, 0), value)


def _value(metric: SeriesMetric, point: _Point | None, name: str) -> float | None:
    if point is None:
        return None
    if metric in COUNTS:
        return point.counts.get((name, metric), 0) if point.is_counted else None
    if metric in GAUGES or metric is SeriesMetric.OLDEST_AGE:
        return point.gauges.get((name, metric), 0)
    of, _, share = metric.partition("_")
    found = (point.waits if of == "wait" else point.runs).get(name, [])
    return percentile(_sum(found), _SHARES[share])


def _largest(points: Iterable[_Point | None]) -> list[str]:
    """Return the names with the most jobs, at most SERIES_LINES_MAX."""
    sizes: dict[str, float] = {}
    for point in points:
        if point is not None:
            for (name, metric), value in (*point.counts.items(), *point.gauges.items()):
                if metric is not SeriesMetric.OLDEST_AGE:
                    sizes[name] = sizes.get(name, 0) + value
    return sorted(sizes, key=lambda name: (-sizes[name], name))[:SERIES_LINES_MAX]


def choice(
    by: str | None, *, queue: str | None, type: str | None, within: frozenset[str] | None
) -> Choose:
    """Return what names a lane: by its queue or type, if it is wanted and within reach."""

    def name_of(lane: LaneSample) -> str | None:
        if queue not in (None, lane.queue) or type not in (None, lane.type):
            return None
        if within is not None and lane.queue not in within:
            return None
        return "" if by is None else lane.queue if by == "queue" else lane.type

    return name_of
