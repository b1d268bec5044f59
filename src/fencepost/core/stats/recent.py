"""Rates and times of late, worked out from jobs that have ended.

Times are those of jobs that completed: how long they were claimable before their last attempt
began, and how long it took. How a job that failed or was cancelled came to its end says little of
either. Percentiles are nearest ranks: each is a time that some job did take.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain

import msgspec

from fencepost.core.bounds import STATS_NAMES_MAX
from fencepost.core.job.lifecycle import State
from fencepost.core.stats.ended import EndedJob

Counts = Mapping[str, Mapping[State, int]]
Groups = Mapping[str, Sequence[EndedJob]]
OTHER = "other"
"""Stands for all names beyond those that are listed."""
SHORTEST = 0.001
"""Seconds, at the least, over which a rate is taken: all may have ended at once."""


class Percentiles(msgspec.Struct, frozen=True):
    """In seconds: half of the jobs took no longer than p50, and so on."""

    p50: float
    p90: float
    p99: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One queue, or one type."""

    name: str
    counts: dict[State, int]
    """How many jobs are in which state now."""
    ended: dict[State, int]
    """How many of the sample ended in which state."""
    ended_rate: float
    """Jobs a second that ended."""
    wait: Percentiles | None
    run: Percentiles | None


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """How things stand, and how they went of late."""

    at: datetime
    window: float
    """Seconds before ``at`` that were looked at; fewer if there was much to look at."""
    counts: dict[State, int]
    submitted_rate: float
    """Jobs a second that were submitted."""
    ended_rate: float
    wait: Percentiles | None
    run: Percentiles | None
    queues: list[Figures]
    """By name; of more than 1,000, the smallest are added up under the name ``other``."""
    types: list[Figures]
    sample: int
    """Jobs from which rates of ends and times were worked out."""
    is_sampled: bool
    """True when more ended in the window than were looked at; the newest were."""


def percentiles(values: Sequence[float]) -> Percentiles | None:
    """Return the nearest ranks among *values*; None of none."""
    if not values:
        return None
    ranked = sorted(values)
    return Percentiles(*(ranked[math.ceil(len(ranked) * p / 100) - 1] for p in (50, 90, 99)))


def waits(jobs: Sequence[EndedJob]) -> list[float]:
    """Return how long those that completed were claimable before they began."""
    return [
        max((job.started_at - job.scheduled_at).total_seconds(), 0.0)
        for job in jobs
        if job.state is State.COMPLETED and job.started_at and job.scheduled_at
    ]


def runs(jobs: Sequence[EndedJob]) -> list[float]:
    """Return how long the last attempts took of those that completed."""
    return [
        max((job.ended_at - job.started_at).total_seconds(), 0.0)
        for job in jobs
        if job.state is State.COMPLETED and job.started_at
    ]


def covered(jobs: Sequence[EndedJob], *, now: datetime, window: float, is_sampled: bool) -> float:
    """Return over how many seconds before *now* the sample *jobs* is all that ended."""
    if not is_sampled or not jobs:
        return window
    oldest = min(job.ended_at for job in jobs)
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
) -> Statistics:
    """Work out what *jobs*, the newest that ended, and the counts say."""
    seconds = covered(jobs, now=now, window=window, is_sampled=is_sampled)
    total: Counter[State] = Counter()
    for counts in queues.values():
        total.update(counts)
    return Statistics(
        at=now,
        window=seconds,
        counts={state: total[state] for state in State if total[state]},
        submitted_rate=submitted_rate,
        ended_rate=len(jobs) / seconds,
        wait=percentiles(waits(jobs)),
        run=percentiles(runs(jobs)),
        queues=_figures(queues, _grouped(jobs, "queue"), seconds),
        types=_figures(types, _grouped(jobs, "type"), seconds),
        sample=len(jobs),
        is_sampled=is_sampled,
    )


def _grouped(jobs: Sequence[EndedJob], name: str) -> Groups:
    groups: dict[str, list[EndedJob]] = {}
    for job in jobs:
        groups.setdefault(getattr(job, name), []).append(job)
    return groups


def _folded(counts: Counts, groups: Groups) -> tuple[Counts, Groups]:
    """Return the same with no more than STATS_NAMES_MAX names: the smallest become one, OTHER."""
    names = counts.keys() | groups.keys()
    if len(names) <= STATS_NAMES_MAX:
        return counts, groups

    def size(name: str) -> tuple[int, str]:
        return -sum(counts.get(name, {}).values()) - len(groups.get(name, ())), name

    rest = sorted(names - {OTHER}, key=size)[STATS_NAMES_MAX - 1 :]
    kept = names.difference(rest)
    total: Counter[State] = Counter(counts.get(OTHER, {}))
    for name in rest:
        total.update(counts.get(name, {}))
    jobs = [*groups.get(OTHER, ()), *chain.from_iterable(groups.get(name, ()) for name in rest)]
    return (
        {name: counts[name] for name in kept if name in counts} | {OTHER: dict(total)},
        {name: groups[name] for name in kept if name in groups} | {OTHER: jobs},
    )


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
