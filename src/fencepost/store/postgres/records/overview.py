"""The whole store in PostgreSQL: SQL for ``store/sql/records/overview.py``, and ended jobs.

The BRIN index on the end of jobs finds the pages with the jobs that ended in a span of time, and
costs next to nothing to keep; but it has no order, so the whole span is read and sorted. A page
therefore begins with a short span, and takes longer ones until it is full.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from fencepost.core.values.times import from_us
from fencepost.store.interface.records.overview import EndedPage
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.read import SETTINGS
from fencepost.store.postgres.jobs.rows import CODEC, utc
from fencepost.store.sql.paging import unpack
from fencepost.store.sql.records.overview import OverviewPlans, OverviewSql, ended_page, ended_sql

FIRST_SPAN = timedelta(seconds=1)
GROWTH = 8
"""If jobs end evenly, a span that is too short costs at most an eighth of the next."""
LAST = datetime.max.replace(tzinfo=UTC)

# The end of the ended job that was submitted first, or last: about where to begin.
AROUND = """
select coalesce(%s::timestamptz, clock_timestamp()),
  (select completed_at from fencepost.done order by seq {way} limit 1)
"""
ENDED = """
with page as materialized (
  select seq, completed_at, state, attempt, lease_version, scheduled_at, started_at
  from fencepost.done
  where completed_at >= %s and completed_at <= %s {place}
  order by completed_at {way}, seq {way} limit %s
)
select p.seq, p.completed_at, j.id::text, l.type, l.queue, p.state, p.attempt, j.created_at,
  nullif(coalesce(p.scheduled_at, j.created_at), '-infinity'),
  coalesce(p.started_at, (
    select a.started_at from fencepost.attempts a
    where a.seq = p.seq and p.lease_version > 0 order by a.lease_version desc limit 1))
from page p join fencepost.submissions j on j.seq = p.seq join fencepost.lanes l on l.lane = j.lane
order by p.completed_at {way}, p.seq {way}
"""

OVERVIEW = OverviewPlans(
    OverviewSql(
        # A lane that was made for a job which was then not stored has no counts.
        counts="""
select l.queue, l.type, t.state, sum(t.count)::bigint
from fencepost.lanes l join fencepost.counts t on t.lane = l.lane
where {condition}
group by 1, 2, 3
""",
        # One look into the index for each lane, however many jobs are claimable.
        oldest="""
select l.queue, min(first.run_at) from fencepost.marked_lanes l cross join lateral (
  select r.run_at from fencepost.ready r where r.lane = l.lane and r.run_at >= l.low
  order by r.run_at, r.seq limit 1
) as first where {condition} group by l.queue
""",
        among="l.{by} = any(%s::text[])",
        encode_names=list,
    ),
    CODEC,
    SETTINGS,
)


def ended(
    env: Env, since: datetime, *, limit: int, after: int | None = None, newest_first: bool = False
) -> Plan[EndedPage]:
    """Return one page of the jobs that ended at *since* or later."""
    around_ = AROUND.format(way="desc" if newest_first else "asc")
    ((now, around),) = yield Statement(around_, (env.now,))
    if around is None:
        return EndedPage([])
    at: datetime | None = None
    place: tuple[datetime, int] | tuple[()] = ()
    if after is not None:
        ended_us, seq = unpack(after)
        at = from_us(ended_us)
        place = at, seq
    sql = ended_sql(ENDED, "%s", newest_first=newest_first, goes_on=bool(place))
    rows: list[Row] = []
    if newest_first:
        spans = _down(since, min(utc(now), utc(around)), at)
    else:
        spans = _up(since if at is None else max(since, at), utc(around), utc(now))
    for start, end in spans:
        rows = list((yield Statement(sql, (start, end, *place, limit + 1))))
        if len(rows) > limit:
            break
    return ended_page(CODEC, rows, limit)


def _down(
    since: datetime, around: datetime, at: datetime | None
) -> Iterator[tuple[datetime, datetime]]:
    """Yield ever longer spans that end at *at*, or with the last; the longest begins at *since*."""
    end = LAST if at is None else at
    begin = min(around, end)
    span = FIRST_SPAN
    while begin - since > span:
        yield begin - span, end
        span *= GROWTH
    yield since, end


def _up(start: datetime, around: datetime, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield ever longer spans that begin at *start*; the last has no end."""
    begin = max(start, around)
    span = FIRST_SPAN
    while now - begin > span:
        yield start, begin + span
        span *= GROWTH
    yield start, LAST
