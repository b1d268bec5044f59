"""What is shown of the lanes that jobs wait in, queues and types, and of the workers."""

from __future__ import annotations

from datetime import datetime

import msgspec

from fencepost.core.job.lifecycle import State
from fencepost.core.limits.rates import Rate


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue and how many of its jobs are in which state."""

    name: str
    is_paused: bool = False
    max_running: int | None = None
    counts: dict[State, int] = {}
    oldest_at: datetime | None = None
    """Since when the claimable job has been due that has been so for longest; those of paused types
    count, since they wait too. None when there is none."""


class TypeView(msgspec.Struct, frozen=True, kw_only=True):
    """A type and how many of its jobs are in which state."""

    name: str
    is_paused: bool = False
    rate: Rate | None = None
    counts: dict[State, int] = {}


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of itself. Nothing depends on it being true (S2-16)."""

    id: str
    host: str
    pid: int
    queues: dict[str, int] | None
    types: tuple[str, ...]
    concurrency: int
    started_at: datetime
    running: int = 0
    seen_at: datetime | None = None
    """By the store's clock, when it last said so."""
