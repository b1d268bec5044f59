"""Crons on the wire."""

from __future__ import annotations

from datetime import datetime

import msgspec

from fencepost.core.bounds import CRON_NEXT_DEFAULT
from fencepost.wire.terms import TickCount


class CronView(msgspec.Struct, frozen=True, kw_only=True):
    """A cron: its times, its pause, its last tick and its next."""

    name: str
    expression: str
    tz: str
    description: str
    """When it ticks, in English."""
    type: str | None
    """What it submits; null if what is stored cannot be read."""
    queue: str | None
    missed: str
    catch_up: int
    is_paused: bool
    last_tick: datetime | None
    next_tick: datetime | None
    declared_at: datetime | None
    changed_at: datetime | None


class Crons(msgspec.Struct, frozen=True):
    """Every cron, by name."""

    crons: list[CronView]


class TicksQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How many."""

    count: TickCount = CRON_NEXT_DEFAULT


class Ticks(msgspec.Struct, frozen=True):
    """The next times at which a cron ticks, in UTC."""

    ticks: list[datetime]
