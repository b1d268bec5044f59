"""Jobs in the order of their end.

The index on the end of a job knows which pages have what ended in some time, and costs next to
nothing to keep; but it has no order, so that all of that time is read and sorted. So a page begins
with a short time, and takes a longer one until it is full.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from fencepost.core.ended import Ended
from fencepost.core.instants import from_us, to_us
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.positions import pack, unpack
from fencepost.store.postgres.catalog import Env
from fencepost.store.postgres.rows import utc, utc_or_none
from fencepost.store.replies import EndedPage
from fencepost.store.states import BY_NUMBER

FIRST_SPAN = timedelta(seconds=1)
GROWTH = 8
"""A time that is too short costs an eighth of the next at the most, if jobs end evenly."""
LAST = datetime.max.replace(tzinfo=UTC)

NOW = "select coalesce(%s::timestamptz, clock_timestamp())"
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
    env: Env, since: datetime, *, limit: int, after: int | None, newest_first: bool
) -> Plan[EndedPage]:
    """Return one page of the jobs that ended at *since* or later."""
    ((now,),) = yield Statement(NOW, (env.now,))
    place: tuple[datetime, int] | None = None
    if after is not None:
        ended_us, seq = unpack(after)
        place = from_us(ended_us), seq
    rows: list[Row] = []
    for start, end in _spans(since, utc(now), place, newest_first):
        rows = list((yield _statement(start, end, place, limit, newest_first)))
        if len(rows) > limit:
            break
    found = [_ended(row) for row in rows[:limit]]
    return EndedPage(found, found[-1].position if len(rows) > limit else None)


def _spans(
    since: datetime, now: datetime, place: tuple[datetime, int] | None, newest_first: bool
) -> Iterator[tuple[datetime, datetime]]:
    """Yield ever longer times, from where the page begins on; the last is all there is."""
    span = FIRST_SPAN
    at = None if place is None else place[0]
    if newest_first:
        # What another clock dated after ours is in the first time too.
        end = LAST if at is None else at
        begin = min(now, end)
        while begin - since > span:
            yield begin - span, end
            span *= GROWTH
        yield since, end
        return
    start = since if at is None else max(since, at)
    while now - start > span:
        yield start, start + span
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


def _ended(row: Row) -> Ended:
    seq, ended_at, id_, type_, queue, state, attempt, created_at, scheduled_at, started_at = row
    return Ended(
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
