"""Compact records of ended jobs, each reported once, and the rates and times computed from them.

Ended jobs are ordered by the time of their end, then by number. Where transactions commit side by
side, one may become visible late, at a position that a reader has passed. So a reader starts again
from ENDED_OVERLAP before its last position and drops what it has reported. A caller's own
transaction that stays open for longer is missed.

Times are those of jobs that completed: from claimable to the start of the last attempt, and its run
time. Percentiles are nearest ranks: each is a time that some job did take.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain

import msgspec

from fencepost.core.bounds import ENDED_OVERLAP, ENDED_REMEMBERED_MAX, STATS_NAMES_MAX
from fencepost.core.job.lifecycle import State

OVERLAP = timedelta(seconds=ENDED_OVERLAP)
FIRST = datetime.min.replace(tzinfo=UTC)


class EndedJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A terminal job without payload and result."""

    id: str
    type: str
    queue: str
    state: State
    attempt: int
    created_at: datetime
    scheduled_at: datetime | None
    """When it last became claimable; None if it never was."""
    started_at: datetime | None
    """The start of its last attempt, if there was one."""
    completed_at: datetime
    position: int
    """Its place in the order of ends. A job that runs again and ends again gets another."""


class Follower:
    """Remembers recent ends, so that each is reported once."""

    def __init__(self, since: datetime) -> None:
        self._newest = since
        self._reported: dict[int, datetime] = {}

    @property
    def since(self) -> datetime:
        """The time from which to read on."""
        return max(self._newest, FIRST + OVERLAP) - OVERLAP

    def take(self, jobs: Sequence[EndedJob]) -> list[EndedJob]:
        """Return those of *jobs* that were not reported yet, and remember them."""
        fresh = [job for job in jobs if job.position not in self._reported]
        for job in fresh:
            self._reported[job.position] = job.completed_at
            self._newest = max(self._newest, job.completed_at)
        self._forget()
        return fresh

    def _forget(self) -> None:
        """Drop what will not be read again; of too many, the oldest, at the risk of repeats."""
        since = self.since
        kept = {place: at for place, at in self._reported.items() if at >= since}
        excess = max(len(kept) - ENDED_REMEMBERED_MAX, 0)
        self._reported = dict(list(kept.items())[excess:])


Counts = Mapping[str, Mapping[State, int]]
Groups = Mapping[str, Sequence[EndedJob]]
OTHER = "other"
"""Stands for all names that are not listed."""
SHORTEST = 0.001
"""The shortest time, in seconds, over which a rate is taken: all may have ended at once."""


class Percentiles(msgspec.Struct, frozen=True):
    """In seconds: half of the jobs took no longer than p50, and so on."""

    p50: float
    p90: float
    p99: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One queue, or one type."""

    name: str
    counts: dict[State, int]
    """Jobs by state now."""
    ended: dict[State, int]
    """Jobs of the sample by the state in which they ended."""
    ended_rate: float
    """Ended jobs a second."""
    wait: Percentiles | None
    run: Percentiles | None


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counts now, and rates and times of a recent window."""

    at: datetime
    window: float
    """Seconds before ``at`` that the sample covers."""
    counts: dict[State, int]
    submitted_rate: float
    """Submitted jobs a second."""
    ended_rate: float
    wait: Percentiles | None
    run: Percentiles | None
    queues: list[Figures]
    """By name; of more than 1,000, the smallest are added up under the name ``other``."""
    types: list[Figures]
    sample: int
    """Jobs from which ``ended_rate`` and the times were computed."""
    is_sampled: bool
    """True if more jobs ended in the window; the sample has the newest."""
    refused: int = 0
    """Writes of workers without a valid lease that were recorded, since the store was made."""


def percentiles(values: Sequence[float]) -> Percentiles | None:
    """Return the nearest ranks among *values*; None if there are none."""
    if not values:
        return None
    ranked = sorted(values)
    return Percentiles(*(ranked[math.ceil(len(ranked) * p / 100) - 1] for p in (50, 90, 99)))


def waits(jobs: Sequence[EndedJob]) -> list[float]:
    """Return how long the completed jobs were claimable before they began."""
    return [
        max((job.started_at - job.scheduled_at).total_seconds(), 0.0)
        for job in jobs
        if job.state is State.COMPLETED and job.started_at and job.scheduled_at
    ]


def runs(jobs: Sequence[EndedJob]) -> list[float]:
    """Return the run times of the completed jobs."""
    return [
        max((job.completed_at - job.started_at).total_seconds(), 0.0)
        for job in jobs
        if job.state is State.COMPLETED and job.started_at
    ]


def covered(jobs: Sequence[EndedJob], *, now: datetime, window: float, is_sampled: bool) -> float:
    """Return for how many seconds before *now* the sample is complete."""
    if not is_sampled or not jobs:
        return window
    oldest = min(job.completed_at for job in jobs)
    return min(max((now - oldest).total_seconds(), SHORTEST), window)


def statistics(
    jobs: Sequence[EndedJob],
    *,
    now: datetime,
    window: float,
    is_sampled: bool,
    queues: Counts,
    types: Counts,
    submitted_rate: float,
    refused: int = 0,
) -> Statistics:
    """Return the statistics of *jobs*, the newest that ended, and of the counts."""
    seconds = covered(jobs, now=now, window=window, is_sampled=is_sampled)
    total = _sum(queues.values())
    return Statistics(
        at=now,
        window=seconds,
        counts={state: total[state] for state in State if total.get(state)},
        submitted_rate=submitted_rate,
        ended_rate=len(jobs) / seconds,
        wait=percentiles(waits(jobs)),
        run=percentiles(runs(jobs)),
        queues=_figures(queues, _grouped(jobs, "queue"), seconds),
        types=_figures(types, _grouped(jobs, "type"), seconds),
        sample=len(jobs),
        is_sampled=is_sampled,
        refused=refused,
    )


def _grouped(jobs: Sequence[EndedJob], name: str) -> Groups:
    groups: dict[str, list[EndedJob]] = {}
    for job in jobs:
        groups.setdefault(getattr(job, name), []).append(job)
    return groups


def _folded(counts: Counts, groups: Groups) -> tuple[Counts, Groups]:
    """Return at most STATS_NAMES_MAX names: the smallest are added up as OTHER."""
    names = counts.keys() | groups.keys()
    if len(names) <= STATS_NAMES_MAX:
        return counts, groups

    def size(name: str) -> tuple[int, str]:
        return -sum(counts.get(name, {}).values()) - len(groups.get(name, ())), name

    rest = sorted(names - {OTHER}, key=size)[STATS_NAMES_MAX - 1 :]
    kept = names.difference(rest)
    total = _sum(counts.get(name, {}) for name in (OTHER, *rest))
    jobs = [*groups.get(OTHER, ()), *chain.from_iterable(groups.get(name, ()) for name in rest)]
    return (
        {name: counts[name] for name in kept if name in counts} | {OTHER: total},
        {name: groups[name] for name in kept if name in groups} | {OTHER: jobs},
    )


def _sum(some: Iterable[Mapping[State, int]]) -> dict[State, int]:
    """Return the sum by state; a Counter takes five times as long for thousands of small ones."""
    total: dict[State, int] = {}
    for counts in some:
        for state, count in counts.items():
            total[state] = total.get(state, 0) + count
    return total


def _figures(given: Counts, grouped: Groups, seconds: float) -> list[Figures]:
    counts, groups = _folded(given, grouped)
    figures = []
    for name in sorted(counts.keys() | groups.keys()):
        jobs = groups.get(name, [])
        ended = Counter(job.state for job in jobs)
        figures.append(
            Figures(
                name=name,
                counts=dict(counts.get(name, {})),
                ended={state: ended[state] for state in State if ended[state]},
                ended_rate=len(jobs) / seconds,
                wait=percentiles(waits(jobs)),
                run=percentiles(runs(jobs)),
            )
        )
    return figures
