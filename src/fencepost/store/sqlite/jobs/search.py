"""Searches: the rows of the jobs that meet a filter, the newest or the oldest first, by the page.

SQLite has no statistics of how rare a type or a tag is, but the counters show it for states, queues
and types. Rare jobs are fetched by an index and sorted; common ones are found among the newest WALK
jobs; others are read from an index in order, if there is one.

Searches by creation time need no index, which would cost every submission: rows are numbered in the
order of creation, and a binary search, about two dozen reads, finds where to begin. Exceptions to
the order are recorded in ``disorder``: jobs loaded from another store, and a clock that was set
back. Up to the recorded row no order is assumed; beyond it, no job was created more than
CREATION_DISORDER before one in a lower row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from fencepost.core.bounds import CREATION_DISORDER
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.lifecycle import State
from fencepost.core.values.names import id_range
from fencepost.core.values.times import seconds_to_us, to_us
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codec import COMPLETED, DELAYED, NUMBER, RETRYING, RUNNING, SCHEDULED
from fencepost.store.sql.search import (
    ALWAYS,
    Condition,
    Totals,
    all_of,
    given,
    lanes_of,
    numbers_of,
)
from fencepost.store.sqlite.jobs.catalog import Env
from fencepost.store.sqlite.jobs.rows import CODEC

WALK = 20_000
FEW = 5_000
"""Up to this many jobs, sorting is faster than a scan."""
LANES_MAX = 50
"""Lanes that are merged in one statement; with more, a scan is as good."""

LANES = "select lane from lanes where {conditions}"
# Lanes tell which types there are: the key itself has an index within its type only.
KEYED = """
select idempotency.seq from (select distinct type from lanes) as types
cross join idempotency on idempotency.type = types.type and idempotency.key = ?
"""
COUNT_JOBS = "select count(*) from jobs where {conditions}"
COUNTS = """
select
  coalesce(sum(count) filter (where {state} and {lane}), 0),
  coalesce(sum(count) filter (where {lane}), 0),
  coalesce(sum(count) filter (where {state}), 0)
from counters
"""
TAG_COUNT = f"select count(*) from (select 1 from tags where name = ? and value = ? limit {FEW})"
FIND = "select seq from {source} where {conditions} order by seq {order} limit ?"
RECENT = f"""
select seq from jobs where {{conditions}}
  and seq >= coalesce(?, (select max(seq) from jobs)) - {WALK} order by seq desc limit ?
"""
OLDEST = f"""
select seq from jobs where {{conditions}}
  and seq <= coalesce(?, (select min(seq) from jobs)) + {WALK} order by seq limit ?
"""
TAGGED = """
select jobs.seq from tags cross join jobs on jobs.seq = tags.seq
where tags.name = ? and tags.value = ? and {conditions} order by tags.seq {order} limit ?
"""
MERGED = "select seq from ({branches}) order by seq {order} limit ?"
BRANCH = "select * from (select seq from {source} where {conditions} order by seq {order} limit ?)"

OF_LANE = "jobs indexed by jobs_lane"
# Without statistics, the planner rather reads every row in order than a range of ids.
OF_ID = "jobs indexed by jobs_id"


class Source(NamedTuple):
    """An index that holds the jobs of a state, and its condition as the schema writes it."""

    name: str
    condition: Condition


READY = Source("jobs_ready", Condition(f"state = {SCHEDULED}"))
DUE = Source("jobs_due", Condition(f"state in ({DELAYED}, {RETRYING})"))
LEASE = Source("jobs_lease", Condition(f"state = {RUNNING}"))
UNSUCCESSFUL = Source("jobs_unsuccessful", Condition(f"state > {COMPLETED}"))
SOURCES = {
    State.SCHEDULED: READY,
    State.DELAYED: DUE,
    State.RETRYING: DUE,
    State.RUNNING: LEASE,
    State.FAILED: UNSUCCESSFUL,
    State.DEAD_LETTER: UNSUCCESSFUL,
    State.CANCELLED: UNSUCCESSFUL,
}


class Search(NamedTuple):
    """A filter whose names and times have been looked up."""

    states: tuple[State, ...]
    lanes: list[int] | None
    """None for all."""
    tags: list[tuple[str, str]]
    marks: list[Condition]
    """Conditions that have an index: correlation id, flow, key and the beginning of the id."""
    dates: list[Condition]
    is_by_id: bool
    rows: RowRange
    """Between which rows all of them are."""
    order: str = "desc"

    @property
    def of_state(self) -> Condition:
        # Written out: SQLite does not use a partial index for a parameter.
        numbers = ",".join(str(NUMBER[state]) for state in self.states)
        return Condition(f"state in ({numbers})") if numbers else ALWAYS

    @property
    def is_by_state(self) -> bool:
        """Whether each of the states has an index."""
        return bool(self.states) and all(state in SOURCES for state in self.states)

    @property
    def of_lane(self) -> Condition:
        if self.lanes is None:
            return ALWAYS
        return Condition(f"lane in ({','.join(map(str, self.lanes))})")

    @property
    def of_tags(self) -> list[Condition]:
        sql = "exists (select 1 from tags where name = ? and value = ? and tags.seq = jobs.seq)"
        return [Condition(sql, tag) for tag in self.tags]

    @property
    def of_stretch(self) -> list[Condition]:
        low, high = self.rows
        rows = [] if low is None else [Condition("jobs.seq >= ?", (low,))]
        return rows if high is None else [*rows, Condition("jobs.seq < ?", (high,))]

    @property
    def everything(self) -> Condition:
        """All conditions, on a row of ``jobs``."""
        of_row = (self.of_state, self.of_lane)
        return all_of(*of_row, *self.marks, *self.of_tags, *self.dates, *self.of_stretch)


def count(_: Env, filter: JobFilter, at_most: int | None = None) -> Plan[int]:
    """Count jobs: from the counters if they suffice, else through an index."""
    if at_most is not None and not filter.is_countable:
        return min(len((yield from find(filter, PageRequest(at_most)))), at_most)
    search = yield from _prepared(filter, PageRequest())
    if filter.is_countable:
        return (yield from _counted(search)).both
    every = search.everything
    ((total,),) = yield Statement(COUNT_JOBS.format(conditions=every.sql), every.params)
    return int(total)


def find(filter: JobFilter, page: PageRequest) -> Plan[list[int]]:
    """Return the rows of the first jobs that meet *filter*, one more than a page holds."""
    search = yield from _prepared(filter, page)
    totals = yield from _counted(search)
    limit = page.limit + 1
    if totals.both == 0:
        return []
    if search.marks:
        source = OF_ID if search.is_by_id else "jobs"
        return numbers_of((yield _from(source, search, limit)))
    if search.is_by_state and totals.of_state <= FEW:
        return numbers_of((yield _merged(_by_state(search), limit)))
    if search.lanes is not None and totals.of_lane <= FEW:
        return numbers_of((yield _from(OF_LANE, search, limit)))
    if search.tags:
        return numbers_of((yield from _tagged(search, limit)))
    return (yield from _walked(search, limit))


def _walked(search: Search, limit: int) -> Plan[list[int]]:
    if not search.states and search.lanes is None:
        return numbers_of((yield _from("jobs", search, limit)))
    found = numbers_of((yield _recent(search, limit)))
    if len(found) == limit:
        return found
    if search.lanes is not None and len(search.lanes) <= LANES_MAX:
        return numbers_of((yield _merged(_by_lane(search), limit)))
    if search.lanes is None and search.is_by_state:
        return numbers_of((yield _merged(_by_state(search), limit)))
    return numbers_of((yield _from("jobs", search, limit)))


def _by_state(search: Search) -> Iterator[tuple[str, Search]]:
    for state in search.states:
        source = SOURCES[state]
        marks = [*search.marks, source.condition]
        one = search._replace(states=(state,), marks=marks)
        yield f"jobs indexed by {source.name}", one


def _by_lane(search: Search) -> Iterator[tuple[str, Search]]:
    for lane in search.lanes or ():
        yield OF_LANE, search._replace(lanes=[lane])


def _prepared(filter: JobFilter, page: PageRequest) -> Plan[Search]:
    names = given(("type = ?", filter.type), ("queue = ?", filter.queue))
    lanes = yield from lanes_of(LANES, names)
    marks = given(("correlation_id = ?", filter.correlation_id), ("flow = ?", filter.flow))
    prefix = filter.id_prefix
    if prefix is not None:
        marks.append(Condition("id between ? and ?", id_range(prefix)))
    if filter.key is not None:
        keyed = ",".join(map(str, numbers_of((yield Statement(KEYED, (filter.key,))))))
        marks.append(Condition(f"jobs.seq in ({keyed})"))
    rows = (yield from row_range(filter)).beyond(page)
    tags, dates = list(filter.tags.items()), _dates(filter)
    order = "asc" if page.is_oldest_first else "desc"
    return Search(filter.states, lanes, tags, marks, dates, prefix is not None, rows, order)


def _dates(filter: JobFilter) -> list[Condition]:
    encode_time = CODEC.encode_time_or_none
    return given(
        ("created_at >= ?", encode_time(filter.created_after)),
        ("created_at < ?", encode_time(filter.created_before)),
    )


def _counted(search: Search) -> Plan[Totals]:
    sql = COUNTS.format(state=search.of_state.sql, lane=search.of_lane.sql)
    (totals,) = yield Statement(sql)
    return Totals(*totals)


def _from(source: str, search: Search, limit: int) -> Statement:
    sql, params = search.everything
    find = FIND.format(source=source, conditions=sql, order=search.order)
    return Statement(find, (*params, limit))


def _recent(search: Search, limit: int) -> Statement:
    sql, params = search.everything
    low, high = search.rows
    walk, start = (RECENT, high) if search.order == "desc" else (OLDEST, low)
    return Statement(walk.format(conditions=sql), (*params, start, limit))


def _tagged(search: Search, limit: int) -> Plan[Sequence[Row]]:
    """Read the rarest tag, which is in order, and check the other conditions job by job."""
    tag = search.tags[0]
    fewest = FEW
    for each in search.tags if len(search.tags) > 1 else ():
        ((having,),) = yield Statement(TAG_COUNT, each)
        if having < fewest:
            tag, fewest = each, having
    every = search._replace(tags=[each for each in search.tags if each != tag]).everything
    sql = TAGGED.format(conditions=every.sql, order=search.order)
    return (yield Statement(sql, (*tag, *every.params, limit)))


def _merged(parts: Iterable[tuple[str, Search]], limit: int) -> Statement:
    branches, params = [], []
    order = "desc"
    for source, search in parts:
        every, order = search.everything, search.order
        branches.append(BRANCH.format(source=source, conditions=every.sql, order=order))
        params += [*every.params, limit]
    sql = MERGED.format(branches=" union all ".join(branches), order=order)
    return Statement(sql, (*params, limit))


LAST = "select seq, created_at from jobs order by seq desc limit 1"
FROM = "select seq, created_at from jobs where seq >= ? order by seq limit 1"
DISORDER = "select max(seq), max(created_at) from disorder"
NOTE = "insert into disorder(seq, created_at) values (?, ?)"
FORGET = "delete from disorder"
# SQLite reuses row numbers once all higher rows are deleted.
LOWER = """
update disorder set seq = coalesce((select max(seq) from jobs), 0)
where seq > coalesce((select max(seq) from jobs), 0)
"""

SLACK_US = seconds_to_us(CREATION_DISORDER)


class RowRange(NamedTuple):
    """Rows from *low*, before *high*; None is unbounded."""

    low: int | None = None
    high: int | None = None

    def beyond(self, page: PageRequest) -> RowRange:
        """Return the rows of the range that come after those of earlier pages."""
        low, high, after = self.low, self.high, page.after
        if after is None:
            return self
        if page.is_oldest_first:
            return RowRange(after + 1 if low is None else max(low, after + 1), high)
        return RowRange(low, after if high is None else min(high, after))


def row_range(filter: JobFilter) -> Plan[RowRange]:
    """Return a range with every job of the creation time in *filter*, and perhaps others."""
    if not filter.is_dated:
        return RowRange()
    last = yield Statement(LAST)
    if not last:
        return RowRange()
    ((end, _),) = last
    ((until, latest),) = yield Statement(DISORDER)
    start = (until or 0) + 1
    low = high = None
    after, before = filter.created_after, filter.created_before
    if after is not None and (latest is None or to_us(after) > latest):
        low = yield from _first_since(to_us(after) - SLACK_US, start, end + 1)
    if before is not None:
        high = yield from _first_since(to_us(before) + SLACK_US, start, end + 1)
    return RowRange(low, high)


def _first_since(at: int, low: int, high: int) -> Plan[int]:
    """Return the row between *low* and *high* at which jobs created at *at* begin.

    No job before it was created SLACK_US after *at*, and none from it on SLACK_US before.
    """
    while low < high:
        middle = (low + high) // 2
        ((seq, created_at),) = yield Statement(FROM, (middle,))
        if created_at >= at:
            high = middle
        else:
            low = seq + 1
    return low


def note_disorder(seq: int, latest: int) -> Plan[None]:
    """Record that rows up to *seq* may be out of order, with no job created after *latest*."""
    ((until, known),) = yield Statement(DISORDER)
    yield Statement(FORGET)
    yield Statement(NOTE, (max(seq, until or 0), max(latest, known or latest)))


def note_deletion() -> Plan[None]:
    """Keep the record from covering rows that are yet to come."""
    yield Statement(LOWER)


def note_clock(env: Env, now: int) -> Plan[None]:
    """Before a job is created at *now*, record it if the clock was set back."""
    latest = env.catalog.latest
    if latest is None:
        rows = yield Statement(LAST)
        latest = rows[0][1] if rows else now
    if now < latest - SLACK_US // 2:
        rows = yield Statement(LAST)
        if rows:
            yield from note_disorder(rows[0][0], latest)
        latest = now
    env.catalog.latest = max(latest, now)
