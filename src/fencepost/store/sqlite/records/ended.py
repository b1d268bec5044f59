"""Jobs in the order of their end."""

from __future__ import annotations

from datetime import datetime

from fencepost.core.stats.ended import EndedJob
from fencepost.core.values.ids import id_text
from fencepost.core.values.instants import from_us, from_us_or_none, to_us
from fencepost.store.interface.overview import EndedPage
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codes import BY_NUMBER
from fencepost.store.sql.positions import pack, unpack
from fencepost.store.sqlite.jobs.catalog import Env, Lane

ENDED = """
select seq, completed_at, id, lane, state, attempt, created_at, scheduled_at, started_at
from jobs indexed by jobs_ended
where completed_at is not null and completed_at >= ? {place}
order by completed_at {way}, seq {way} limit ?
"""
OLDEST_FIRST = ENDED.format(place="", way="asc")
NEWEST_FIRST = ENDED.format(place="", way="desc")
OLDEST_AFTER = ENDED.format(place="and (completed_at, seq) > (?, ?)", way="asc")
NEWEST_AFTER = ENDED.format(place="and (completed_at, seq) < (?, ?)", way="desc")


def ended(
    env: Env, since: datetime, *, limit: int, after: int | None = None, newest_first: bool = False
) -> Plan[EndedPage]:
    """Return one page of the jobs that ended at *since* or later."""
    place: tuple[int, ...] = () if after is None else unpack(after)
    if after is None:
        sql = NEWEST_FIRST if newest_first else OLDEST_FIRST
    else:
        sql = NEWEST_AFTER if newest_first else OLDEST_AFTER
    rows = yield Statement(sql, (to_us(since), *place, limit + 1))
    lanes = yield from env.catalog.lanes({row[3] for row in rows})
    found = [_ended(row, lanes[row[3]]) for row in rows[:limit]]
    return EndedPage(found, found[-1].position if len(rows) > limit else None)


def _ended(row: Row, lane: Lane) -> EndedJob:
    seq, ended_at, id_, _, state, attempt, created_at, scheduled_at, started_at = row
    return EndedJob(
        id=id_text(id_),
        type=lane.type,
        queue=lane.queue,
        state=BY_NUMBER[state],
        attempt=attempt,
        created_at=from_us(created_at),
        scheduled_at=from_us_or_none(scheduled_at),
        started_at=from_us_or_none(started_at),
        ended_at=from_us(ended_at),
        position=pack(ended_at, seq),
    )
