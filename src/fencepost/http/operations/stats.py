"""How things stand and how they went of late, and how many workers a queue could use."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
from msgspec import Meta

from fencepost.actions.stats import scale, stats
from fencepost.core.bounds import CONCURRENCY_DEFAULT, SCALE_TARGET_DEFAULT, STATS_WINDOW_DEFAULT
from fencepost.core.stats.scale import Scale
from fencepost.core.values.duration import format_duration
from fencepost.core.values.names import check_queue
from fencepost.http.auth.scope import check_queue_allowed
from fencepost.http.operations.jobs import duration_of
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.wire.terms import QueryDuration


class StatsQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How far to look back, as seconds or text such as ``5m``."""

    window: QueryDuration = format_duration(STATS_WINDOW_DEFAULT)


async def get_stats(call: Call[Nothing, StatsQuery]) -> Reply:
    """Return counts, and rates and times of wait and run of late, in all, by queue and by type."""
    return Reply(await call.session.run_async(stats(call.session, duration_of(call.query.window))))


class ScaleQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Within what time the backlog is to be gone, and how many jobs one worker runs at once."""

    target: QueryDuration = format_duration(SCALE_TARGET_DEFAULT)
    concurrency: Annotated[int, Meta(ge=1, le=10_000)] = CONCURRENCY_DEFAULT


class ScaleReply(Scale, frozen=True, kw_only=True):
    """How many slots a queue has, how many it could use, and how many workers have those."""

    wanted_workers: int
    """Of so many slots each as ``concurrency`` says."""


async def get_scale(call: Call[Nothing, ScaleQuery]) -> Reply:
    """Return how many slots a queue could use, for whoever starts and stops workers."""
    name = check_queue(call.path["queue"])
    check_queue_allowed(call.principal, name)
    hint: Scale = await call.session.run_async(
        scale(call.session, name, duration_of(call.query.target))
    )
    workers = math.ceil(hint.wanted_slots / call.query.concurrency)
    return Reply(ScaleReply(**msgspec.structs.asdict(hint), wanted_workers=workers))
