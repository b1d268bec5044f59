"""JobTable in the order of their end. They are found by looking at all: this store has few."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from fencepost.core.stats.ended import EndedJob
from fencepost.core.values.instants import from_us, from_us_or_none, to_us
from fencepost.store.interface.overview import EndedPage
from fencepost.store.memory.jobs.record import Record
from fencepost.store.sql.positions import pack

if TYPE_CHECKING:
    from fencepost.store.memory.world import MemoryWorld


def ended(
    world: MemoryWorld,
    since: datetime,
    *,
    limit: int,
    after: int | None = None,
    newest_first: bool = False,
) -> EndedPage:
    """Return one page of the jobs that ended at *since* or later."""
    places = {
        pack(record.completed_at, record.seq): record
        for record in world.jobs.roll.after(0)
        if record.completed_at is not None and record.completed_at >= to_us(since)
    }
    if after is not None and newest_first:
        places = {place: record for place, record in places.items() if place < after}
    elif after is not None:
        places = {place: record for place, record in places.items() if place > after}
    shown = sorted(places, reverse=newest_first)
    found = [_ended(places[place], place) for place in shown[:limit]]
    return EndedPage(found, found[-1].position if len(shown) > limit else None)


def _ended(record: Record, position: int) -> EndedJob:
    assert record.completed_at is not None
    return EndedJob(
        id=record.id,
        type=record.type,
        queue=record.queue,
        state=record.state,
        attempt=record.attempt,
        created_at=from_us(record.created_at),
        scheduled_at=from_us_or_none(record.scheduled_at),
        started_at=from_us_or_none(record.started_at),
        ended_at=from_us(record.completed_at),
        position=position,
    )
