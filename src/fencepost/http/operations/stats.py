"""How things stand and how they went of late, and how many workers a queue could use."""

from __future__ import annotations

import math

import msgspec

from fencepost.core.values.names import check_queue
from fencepost.http.auth.scope import check_queue_allowed
from fencepost.http.operations.jobs import duration_of
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.wire.stats import ScaleQuery, ScaleReply, StatsQuery


async def get_stats(call: Call[Nothing, StatsQuery]) -> Reply:
    """Return counts, and rates and times of wait and run of late, in all, by queue and by type."""
    return Reply(await call.run(call.actions.stats(duration_of(call.query.window))))


async def get_scale(call: Call[Nothing, ScaleQuery]) -> Reply:
    """Return how many slots a queue could use, for whoever starts and stops workers."""
    name = check_queue(call.path["queue"])
    check_queue_allowed(call.principal, name)
    hint = await call.run(call.actions.queues.scale(name, duration_of(call.query.target)))
    workers = math.ceil(hint.wanted_slots / call.query.concurrency)
    return Reply(ScaleReply(**msgspec.structs.asdict(hint), wanted_workers=workers))
