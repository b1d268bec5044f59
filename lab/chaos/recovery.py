"""How long the jobs of a killed worker waited for their next attempt."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from lab.chaos.evidence import Evidence
from lab.chaos.windows import Windows

CALM = 1.5
"""Seconds beside a TTL for which nothing else may be amiss, for a recovery to be measured."""


def recoveries(evidence: Evidence) -> list[float]:
    """Return the seconds from each kill to the next start of each job that was in its hands.

    A job counts only where the store itself was well from the kill on: what a dead server delays
    is not the recovery.
    """
    return sorted(_found(evidence))


def _found(evidence: Evidence) -> Iterator[float]:
    hurt = Windows(
        [(each.at, each.until) for each in evidence.struck if each.is_wide] + evidence.slow
    )
    for record in evidence.records:
        for run, following in pairwise(record.runs):
            killed_at = evidence.killed.get(evidence.pids.get(run.worker, 0))
            if killed_at is None or run.code != "lease_expired" or run.ended is None:
                continue
            is_its_end = run.began <= killed_at <= run.ended
            if is_its_end and not hurt.touch(killed_at, killed_at + evidence.ttl + CALM):
                starts = evidence.started.get((record.id, following.version))
                began = starts[-1].at if starts else following.began
                yield began - killed_at


def percentile(values: list[float], share: float) -> float | None:
    """Return the value below which *share* of the sorted *values* lie; None if there are none."""
    return values[min(math.ceil(share * len(values)), len(values)) - 1] if values else None
