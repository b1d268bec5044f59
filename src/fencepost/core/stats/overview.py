"""Queues, types and workers as they are shown, and how many slots a queue could use.

A worker takes jobs of its types from its queues, so that whether a job is served depends on both of
its names. A typo in one of them shows as a pair that nobody serves, beside one that is.

The slots for autoscaling are a sum. To keep up, ``arrivals a second * run time`` slots are always
busy. To clear the backlog within *target* seconds, ``depth * run time / target`` more are. Running
jobs keep their slots, a limit on the queue bounds the sum, and a paused queue needs no more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from fencepost.core.bounds import SCALE_RUN_DEFAULT, SCALE_SLOTS_MAX
from fencepost.core.display import did_you_mean
from fencepost.core.job.lifecycle import State
from fencepost.core.limits.type_limits import TypeLimits

SHOWN_NAMES = 5


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue and its jobs by state."""

    name: str
    is_paused: bool = False
    max_running: int | None = None
    counts: dict[State, int] = {}
    claimable: dict[str, int] = {}
    """Its claimable jobs by type."""
    oldest_at: datetime | None = None
    """Since when the oldest claimable job has been due, paused types included; None if none is."""

    @property
    def limit_notes(self) -> list[str]:
        """What a list of queues says of its limit."""
        return [] if self.max_running is None else [f"at most {self.max_running}"]


class TypeView(TypeLimits, frozen=True):  # not kw_only, or the limits would come before its name
    """A type, its jobs by state, and its limits."""

    name: str
    is_paused: bool = False
    counts: dict[State, int] = msgspec.field(default_factory=dict)


PauseKind = Literal["queue", "type", "cron"]


class PauseView(msgspec.Struct, frozen=True, kw_only=True):
    """What is paused, and by whom, as far as the newest 200 entries of the audit log say."""

    kind: PauseKind
    name: str
    by: str | None = None
    """The name of the token; null if it was not paused over HTTP, or longer ago."""
    at: datetime | None = None


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker reports about itself. Nothing depends on it (S2-16)."""

    id: str
    host: str
    pid: int
    queues: dict[str, int] | None
    types: tuple[str, ...]
    concurrency: int
    started_at: datetime
    running: int = 0
    seen_at: datetime | None = None
    """When it last reported, by the store's clock."""
    version: str | None = None
    """Of the code that it runs, as its app says."""
    fencepost_version: str | None = None
    lag: float | None = None
    """By how many seconds its event loop was late at worst, between its last two reports."""
    is_leader: bool = False
    """Whether it does the chores of the store."""
    has_stopped: bool = False
    """Whether it said that it stops; one that is gone without was killed, or cannot be heard."""

    def serves(self, type: str, queue: str) -> bool:
        """Return whether it takes jobs of *type* from *queue*."""
        return type in self.types and self.serves_queue(queue)

    def serves_queue(self, queue: str) -> bool:
        """Return whether it takes jobs of any type from *queue*."""
        return self.queues is None or queue in self.queues


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that a look at a store found: ``ok``, ``note``, ``warn`` or ``fail``."""

    level: str
    code: str
    text: str
    count: int = 0
    """Of how many things it speaks, if that was counted."""


class Unserved(msgspec.Struct, frozen=True):
    """Claimable jobs that no live worker takes, and what it takes instead."""

    queue: str
    type: str
    count: int
    text: str


def unserved(queues: Iterable[QueueView], workers: Sequence[WorkerInfo]) -> list[Unserved]:
    """Return the claimable jobs that no live worker takes, by queue and type."""
    return [
        Unserved(queue.name, type, count, f"{_waiting(count)}: {text}")
        for queue in queues
        for type, count in sorted(queue.claimable.items())
        if (text := explain_unserved(type, queue.name, workers))
    ]


def _waiting(count: int) -> str:
    return "1 job waits" if count == 1 else f"{count:,} jobs wait"


def explain_unserved(type: str, queue: str, workers: Sequence[WorkerInfo]) -> str | None:
    """Return that no live worker takes these jobs, and what is served; None if one takes them."""
    if any(worker.serves(type, queue) for worker in workers):
        return None
    queues = {name for each in workers if type in each.types for name in each.queues or ()}
    types = {name for each in workers if each.serves_queue(queue) for name in each.types}
    facts = [f"no live worker serves type {type!r} on queue {queue!r}"]
    if queues:
        facts.append(f"this type is served on {_named('queue', queues)}")
    if types:
        facts.append(f"this queue is served for {_named('type', types)}")
    if workers and not (queues or types):
        queues = {name for each in workers for name in each.queues or ()}
        types = {name for each in workers for name in each.types}
        facts.append(f"live workers serve {_named('queue', queues)}, for {_named('type', types)}")
    step = did_you_mean(queue, queues) or did_you_mean(type, types)
    return "; ".join(facts) + (step or "; start one with `fencepost worker APP`")


def _named(kind: str, names: Iterable[str]) -> str:
    ordered = sorted(names)
    rest = f" and {len(ordered) - SHOWN_NAMES} more" if len(ordered) > SHOWN_NAMES else ""
    listed = ", ".join(map(repr, ordered[:SHOWN_NAMES])) + rest
    return f"{kind}{'s' if len(ordered) > 1 else ''} {listed}" if ordered else f"no {kind}"


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The load of a queue."""

    depth: int
    """Claimable jobs."""
    running: int
    slots: int
    """Slots of all workers that serve this queue, among others."""
    arrivals: float
    """Recently submitted jobs a second."""
    run_time: float | None
    """The median of recent run times in seconds; None if no job has completed."""
    max_running: int | None = None
    is_paused: bool = False
    oldest_age: float | None = None


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """The slots that a queue has and could use."""

    queue: str
    depth: int
    running: int
    slots: int
    wanted_slots: int
    drain_seconds: float | None
    """Until the present slots clear the backlog; None if they never do."""
    oldest_age: float | None
    """Seconds since the oldest claimable job was due."""


def scale(queue: str, load: Load, *, target: float) -> Scale:
    """Return the slots for *load* that clear its backlog within *target* seconds."""
    assert target > 0
    return Scale(
        queue=queue,
        depth=load.depth,
        running=load.running,
        slots=load.slots,
        wanted_slots=_wanted(load, target),
        drain_seconds=_drain_seconds(load),
        oldest_age=load.oldest_age,
    )


def _wanted(load: Load, target: float) -> int:
    if load.is_paused:
        return load.running
    each = _run_time(load)
    busy = load.arrivals * each + load.depth * each / target
    # A tiny share of a slot is a slot if a job is waiting, else a rounding error.
    wanted = math.ceil(min(busy, SCALE_SLOTS_MAX) - 1e-9) if busy else 0
    limit = SCALE_SLOTS_MAX if load.max_running is None else load.max_running
    return max(min(max(wanted, 1 if load.depth else 0), limit), load.running)


def _drain_seconds(load: Load) -> float | None:
    if load.depth == 0:
        return 0.0
    usable = load.slots if load.max_running is None else min(load.slots, load.max_running)
    if load.is_paused or usable == 0:
        return None
    net = usable / max(_run_time(load), 1e-6) - load.arrivals
    return load.depth / net if net > 0 else None


def _run_time(load: Load) -> float:
    return SCALE_RUN_DEFAULT if load.run_time is None else load.run_time
