"""For monitors: how things went of late, how many workers a queue could use, and health."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from fencepost.core.bounds import CONCURRENCY_DEFAULT, SCALE_TARGET_DEFAULT, STATS_WINDOW_DEFAULT
from fencepost.core.stats.scale import Scale
from fencepost.core.values.duration import format_duration
from fencepost.wire.terms import QueryDuration


class StatsQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How far to look back, as seconds or text such as ``5m``."""

    window: QueryDuration = format_duration(STATS_WINDOW_DEFAULT)


class ScaleQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Within what time the backlog is to be gone, and how many jobs one worker runs at once."""

    target: QueryDuration = format_duration(SCALE_TARGET_DEFAULT)
    concurrency: Annotated[int, Meta(ge=1, le=10_000)] = CONCURRENCY_DEFAULT


class ScaleReply(Scale, frozen=True, kw_only=True):
    """How many slots a queue has, how many it could use, and how many workers have those."""

    wanted_workers: int
    """Of so many slots each as ``concurrency`` says."""


class Health(msgspec.Struct, frozen=True):
    """What the process says of itself."""

    status: str
