"""Queues, types, workers and limits on the wire."""

from __future__ import annotations

import msgspec

from fencepost.core.stats.overview import QueueView, TypeView, WorkerInfo
from fencepost.wire.terms import RunningLimit


class Queues(msgspec.Struct, frozen=True):
    """Every queue with its counts by state."""

    queues: list[QueueView]


class Types(msgspec.Struct, frozen=True):
    """Every type with its counts by state."""

    types: list[TypeView]


class Workers(msgspec.Struct, frozen=True):
    """The workers heard from within the last minute."""

    workers: list[WorkerInfo]


class LimitBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How many jobs may run at once, over all workers; null lifts the limit."""

    max_running: RunningLimit | None


class AppLimit(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs may run at once in all; null: any number."""

    max_running: int | None
