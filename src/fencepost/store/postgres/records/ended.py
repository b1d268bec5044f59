"""Jobs in the order of their end.

The index on the end of a job knows which pages have what ended in some time, and costs next to
nothing to keep; but it has no order, so that all of that time is read and sorted. So a page begins
with a short time, and takes a longer one until it is full.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from fencepost.core.stats.ended import EndedJob
from fencepost.core.values.instants import from_us, to_us
from fencepost.store.interface.overview import EndedPage
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.rows import utc, utc_or_none
from fencepost.store.sql.codes import BY_NUMBER
from fencepost.store.sql.positions import pack, unpack

FIRST_SPAN = timedelta(seconds=1)
GROWTH = 8
"""A time that is too short costs an eighth of the next at the most, if jobs end evenly."""
LAST = datetime.max.replace(tzinfo=UTC)

# When a job ended that was submitted first, or last, of those that ended: about where to begin.
AROUND = """
select coalesce(%s::timestamptz, clock_timestamp()),
  (select ended_at from fencepost.done order by seq {way} limit 1)
"""
AROUND_FIRST = AROUND.format(way="asc")
AROUND_LAST = AROUND.format(way="desc")
ENDED = """
with page as materialized (
  select seq, ended_at, state, attempt, version, scheduled_at, started_at from fencepost.done
  where ended_at >= %s and ended_at <= %s {place}
  order by ended_at {way}, seq {way} limit %s
)
select p.seq, p.ended_at, j.id::text, l.type, l.queue, p.state, p.attempt, j.created_at,
  nullif(coalesce(p.scheduled_at, j.created_at), '-infinity'),
  coalesce(p.started_at, (
    select a.started_at from fencepost.attempt a
    where a.seq = p.seq and p.version > 0 order by a.version desc limit 1))
from page p join fencepost.job j on j.seq = p.seq join fencepost.lane l on l.lane = j.lane
order by p.ended_at {way}, p.seq {way}
"""
OLDEST_FIRST = ENDED.format(place="", way="asc")
NEWEST_FIRST = ENDED.format(place="", way="desc")
OLDEST_AFTER = ENDED.format(place="and (ended_at, seq) > (%s, %s)", way="asc")
NEWEST_AFTER = ENDED.format(place="and (ended_at, seq) < (%s, %s)", way="desc")


def ended(
    env: Env, since: datetime, *, limit: int, after: int | None = None, newest_first: bool = False
) -> Plan[EndedPage]:
    """Return one page of the jobs that ended at *since* or later."""
    ((now, around),) = yield Statement(AROUND_LAST if newest_first else AROUND_FIRST, (env.now,))
    if around is None:
        return EndedPage([])
    place: tuple[datetime, int] | None = None
    if after is not None:
        ended_us, seq = unpack(after)
        place = from_us(ended_us), seq
    rows: list[Row] = []
    at = None if place is None else place[0]
    if newest_first:
        spans = _down(since, min(utc(now), utc(around)), at)
    else:
        spans = _up(since if at is None else max(since, at), utc(around), utc(now))
    for start, end in spans:
        rows = list((yield _statement(start, end, place, limit, newest_first)))
        if len(rows) > limit:
            break
    found = [_ended(row) for row in rows[:limit]]
    return EndedPage(found, found[-1].position if len(rows) > limit else None)


def _down(
    since: datetime, around: datetime, at: datetime | None
) -> Iterator[tuple[datetime, datetime]]:
    """Yield ever longer times that end at *at*, or with the last; the longest begins at *since*."""
    end = LAST if at is None else at
    begin = min(around, end)
    span = FIRST_SPAN
    while begin - since > span:
        yield begin - span, end
        span *= GROWTH
    yield since, end


def _up(start: datetime, around: datetime, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield ever longer times that begin at *start*; the last is all there is from then on."""
    begin = max(start, around)
    span = FIRST_SPAN
    while now - begin > span:
        yield start, begin + span
        span *= GROWTH
    yield start, LAST


def _statement(
    start: datetime,
    end: datetime,
    place: tuple[datetime, int] | None,
    limit: int,
    newest_first: bool,
) -> Statement:
    if place is None:
        sql = NEWEST_FIRST if newest_first else OLDEST_FIRST
        return Statement(sql, (start, end, limit + 1))
    sql = NEWEST_AFTER if newest_first else OLDEST_AFTER
    return Statement(sql, (start, end, *place, limit + 1))


def _ended(row: Row) -> EndedJob:
    seq, ended_at, id_, type_, queue, state, attempt, created_at, scheduled_at, started_at = row
    return EndedJob(
        id=id_,
        type=type_,
        queue=queue,
        state=BY_NUMBER[state],
        attempt=attempt,
        created_at=utc(created_at),
        scheduled_at=utc_or_none(scheduled_at),
        started_at=utc_or_none(started_at),
        ended_at=utc(ended_at),
        position=pack(to_us(utc(ended_at)), seq),
    )
