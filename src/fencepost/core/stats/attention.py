"""What needs attention, and since when: rules over what a store knows, worst first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Literal

import msgspec

from fencepost.core.bounds import (
    PAUSED_LONG,
    RISING_FACTOR,
    WAIT_MIN,
    WAIT_POINTS_MIN,
    WORKER_QUIET,
)
from fencepost.core.fingerprints import HOUR, Group
from fencepost.core.job.lifecycle import LIVE
from fencepost.core.stats.lines import Line
from fencepost.core.stats.overview import Finding, QueueView, WorkerInfo, explain_unserved

Kind = Literal["queue", "type", "group", "worker", "store"]
ORPHANED = "orphaned_leases"
SAID_ELSEWHERE = frozenset(["no_worker", ORPHANED])
"""Findings of the doctor that other rules give in more detail."""


class Target(msgspec.Struct, frozen=True):
    """What an item is about."""

    kind: Kind
    name: str


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that needs attention."""

    code: str
    level: Literal["now", "soon"]
    since: datetime | None
    """Null if that is not known."""
    count: int
    """Jobs, leases or others that it is about."""
    target: Target
    text: str


class Paused(msgspec.Struct, frozen=True):
    """Who paused a queue, and when, as far as the audit log says."""

    by: str
    at: datetime


def rising(groups: Iterable[Group], now: datetime) -> Iterator[Item]:
    """Yield the groups of dead letters that grow far faster than usual."""
    for group in groups:
        if group.is_rising:
            what = (group.exception or "the same failure").rpartition(".")[2]
            yield Item(
                code="dead_letters_rising",
                level="now",
                since=max(group.first_at, now - HOUR),
                count=group.trend[-1],
                target=Target("group", group.id),
                text=(
                    f"{group.trend[-1]:,} jobs of type {group.type!r} died of {what} within an hour"
                ),
            )


def unserved(queues: Iterable[QueueView], workers: Sequence[WorkerInfo]) -> Iterator[Item]:
    """Yield the queues with claimable jobs that no live worker takes; paused ones need none."""
    for queue in queues:
        left = {
            type: count
            for type, count in queue.claimable.items()
            if explain_unserved(type, queue.name, workers) is not None
        }
        if left and not queue.is_paused:
            count = sum(left.values())
            jobs = "1 job waits" if count == 1 else f"{count:,} jobs wait"
            types = ", ".join(map(repr, sorted(left)[:3])) + (" and more" if len(left) > 3 else "")
            yield Item(
                code="no_worker",
                level="now",
                since=queue.oldest_at,
                count=count,
                target=Target("queue", queue.name),
                text=f"{jobs} on queue {queue.name!r}, and no live worker takes type {types}",
            )


def orphaned(findings: Iterable[Finding]) -> Iterator[Item]:
    """Yield that leases have ended and were not recovered."""
    for finding in findings:
        if finding.code == ORPHANED and finding.level != "ok":
            yield Item(
                code="leases_expired",
                level="now",
                since=None,
                count=finding.count,
                target=Target("store", ""),
                text=finding.text,
            )


def slow(lines: Iterable[Line], start: datetime, step: float) -> Iterator[Item]:
    """Yield the queues whose jobs wait far longer than usual, by lines of the p99 of waiting."""
    for line in lines:
        known = [(place, value) for place, value in enumerate(line.values) if value is not None]
        if len(known) <= WAIT_POINTS_MIN or line.name is None:
            continue
        (place, latest), usual = known[-1], median(value for _, value in known[:-1])
        if latest >= WAIT_MIN and latest > RISING_FACTOR * usual:
            yield Item(
                code="wait_high",
                level="now",
                since=start + timedelta(seconds=place * step),
                count=1,
                target=Target("queue", line.name),
                text=(
                    f"jobs on queue {line.name!r} wait {latest:.3g} s (p99), and usually "
                    f"{usual:.2g} s"
                ),
            )


def silent(workers: Iterable[WorkerInfo], now: datetime) -> Iterator[Item]:
    """Yield the workers that have not announced themselves for longer than they should."""
    for worker in workers:
        seen = worker.seen_at
        if seen is not None and (now - seen).total_seconds() > WORKER_QUIET:
            yield Item(
                code="worker_silent",
                level="soon",
                since=seen,
                count=worker.running,
                target=Target("worker", worker.id),
                text=f"worker {worker.id!r} was last heard {(now - seen).seconds} s ago",
            )


def paused(
    queues: Iterable[QueueView], known: Mapping[str, Paused], now: datetime
) -> Iterator[Item]:
    """Yield the queues with jobs that are paused, for long or nobody knows since when."""
    for queue in queues:
        waiting = sum(count for state, count in queue.counts.items() if state in LIVE)
        by = known.get(queue.name)
        is_recent = by is not None and now - by.at < timedelta(seconds=PAUSED_LONG)
        if queue.is_paused and waiting and not is_recent:
            who = "" if by is None else f" by {by.by!r}"
            yield Item(
                code="paused",
                level="soon",
                since=None if by is None else by.at,
                count=waiting,
                target=Target("queue", queue.name),
                text=f"queue {queue.name!r} is paused{who}, and {waiting:,} jobs have not ended",
            )


def found(findings: Iterable[Finding]) -> Iterator[Item]:
    """Yield what the doctor warns of, and no other rule."""
    for finding in findings:
        if finding.level in ("warn", "fail") and finding.code not in SAID_ELSEWHERE:
            yield Item(
                code="doctor",
                level="now" if finding.level == "fail" else "soon",
                since=None,
                count=max(finding.count, 1),
                target=Target("store", finding.code),
                text=finding.text,
            )


def ordered(items: Iterable[Item]) -> list[Item]:
    """Return *items* with what cannot wait first; otherwise in the order of the rules."""
    return sorted(items, key=lambda item: item.level != "now")
