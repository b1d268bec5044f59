"""Samples of counts and times: what a store is asked at regular times, and keeps for charts.

A sample holds running totals, so that a count is the difference of two samples: if one is missing,
the next has what it would have had, and no count is lost. Waiting and running times are histograms
on a logarithmic scale: each bucket is a quarter of an octave, a percentile is exact to 9 %.

Samples are kept in several steps. A coarse one is merged from finer ones: the last totals, the
highest depths and ages, and the sum of the histograms. A chart of an hour, six hours, a day or a
week has a step of its own: it reads about a hundred samples and not a thousand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from fencepost.core.bounds import SERIES_LANES_MAX
from fencepost.core.job.lifecycle import State
from fencepost.core.stats.overview import QueueView
from fencepost.core.stats.statistics import EndedJob, runs, waits

_HOUR = 3_600.0
_DAY = 24 * _HOUR
STEPS = {
    10: _HOUR,
    30: _HOUR,
    60: 12 * _HOUR,
    180: 12 * _HOUR,
    600: 7 * _DAY,
    1_200: _DAY,
    5_400: 7 * _DAY,
}
"""Seconds between samples, and for how many seconds they are kept."""
FINEST = min(STEPS)
LONGEST = max(STEPS.values())
SOURCES = {
    step: max(each for each in STEPS if each < step and step % each == 0)
    for step in STEPS
    if step != FINEST
}
"""Of which step the samples are that one of a coarser step is merged from."""

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


class LaneCounts(msgspec.Struct, array_like=True, frozen=True, gc=False):
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


class LaneSample(LaneCounts, array_like=True, frozen=True, gc=False):
    """The same with the times of the jobs that have ended since the sample before."""

    wait: Histogram = {}
    run: Histogram = {}


class SampleCounts(msgspec.Struct, array_like=True, frozen=True):
    """The whole store at one time."""

    lanes: Sequence[LaneCounts]
    oldest: dict[str, float] = {}
    """The age of the oldest claimable job of each queue, in seconds."""
    is_folded: bool = False
    """True if there were more queues and types than a sample holds; it has the largest."""


class Sample(SampleCounts, array_like=True, frozen=True):
    """The same with times, which are most of what is stored."""

    lanes: Sequence[LaneSample]
    oldest: dict[str, float] = {}
    is_folded: bool = False


encode_sample = msgspec.msgpack.Encoder().encode
decode_sample = msgspec.msgpack.Decoder(Sample).decode
decode_counts = msgspec.msgpack.Decoder(SampleCounts).decode
"""Reads a sample eight times as fast, without its times."""


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
    before: SampleCounts, totals: Iterable[LaneTotals], queue: str | None = None
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


def add_to(total: Histogram, more: Histogram) -> None:
    """Add the times of one histogram to another."""
    for bucket, count in more.items():
        total[bucket] = total.get(bucket, 0) + count


def _sum(histograms: Iterable[Histogram]) -> Histogram:
    total: Histogram = {}
    for each in histograms:
        add_to(total, each)
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
