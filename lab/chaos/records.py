"""Rules of what is stored beside what callers submit: events, ticks, webhooks; and of keys."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from fencepost.core.job.lifecycle import TERMINAL, State
from fencepost.core.webhooks.delivery import DELIVERY_TYPE
from lab.chaos.dependencies import SKEW
from lab.chaos.evidence import Evidence
from lab.chaos.tasks import EVENT_TYPES, PER_KEY, RATE, RATED, TICK
from lab.chaos.violation import Violation

MADE = frozenset({*EVENT_TYPES, TICK, DELIVERY_TYPE})
"""Types of which nobody submits a job by its key."""


def crowded(evidence: Evidence) -> Iterator[Violation]:
    """Of the jobs of one concurrency key, no more run at once than may."""
    spans: defaultdict[tuple[str, str], list[tuple[float, int, str]]] = defaultdict(list)
    for record in evidence.records:
        if record.concurrency_key is None:
            continue
        times = spans[record.type, record.concurrency_key]
        for run in record.runs:
            # A claim reads the clock before it looks: who it finds may have been let in since.
            ended = float("inf") if run.ended is None else run.ended - SKEW
            if ended > run.began:
                times += [(run.began, 1, record.id), (ended, -1, record.id)]
    for (_, key), times in spans.items():
        running = 0
        for at, change, job in sorted(times):
            running += change
            if change > 0 and running > PER_KEY:
                yield Violation("crowded", job, f"{running} of key {key} ran at {at}")


def too_often(evidence: Evidence) -> Iterator[Violation]:
    """Jobs of a rated type start no oftener than may be, whichever worker died meanwhile."""
    forgetful = evidence.forgetful()
    starts = sorted(
        (run.began, record.id)
        for record in evidence.records
        for run in record.runs
        if record.type == RATED and run.outcome != "released"
    )
    for (first, _), (last, job) in zip(starts, starts[RATE:], strict=False):
        if last - first < 1.0 - SKEW and not forgetful.touch(first, last):
            yield Violation("too_often", job, f"start {RATE + 1} within {last - first:.3f} s")


def half_sent(evidence: Evidence) -> Iterator[Violation]:
    """An event has a job for each of its handlers, or none at all."""
    counts = Counter(record.type for record in evidence.records)
    if len({counts[type] for type in EVENT_TYPES}) > 1:
        told = {type: counts[type] for type in EVENT_TYPES}
        yield Violation("half_sent", "events", f"jobs of their handlers: {told}")


def ticked_twice(evidence: Evidence) -> Iterator[Violation]:
    """A tick of the cron made one job, however many workers there were to fire it."""
    ticks = Counter(str(record.key) for record in evidence.records if record.type == TICK)
    for key, count in ticks.items():
        if count > 1 or key == "None":
            yield Violation("ticked_twice", key, f"{count} jobs")


def untold(evidence: Evidence) -> Iterator[Violation]:
    """Each end of a job with a callback has its webhook, and no job that goes on has one."""
    webhooks = Counter(record.about for record in evidence.records if record.about is not None)
    for record in evidence.records:
        if not record.has_callback:
            continue
        ended = int(State(record.state) in TERMINAL)
        if webhooks[record.id] != ended:
            detail = f"{record.state}, and {webhooks[record.id]} webhooks tell of it"
            yield Violation("untold", record.id, detail)
