"""Which jobs meet a filter, the newest first: their rows, a page at a time.

SQLite keeps no statistics of how rare a type or a tag is, but the counters know it of states,
queues and types. What is rare is fetched by its index, and sorted; what is common is found among
the newest WALK jobs; what is neither is read from an index that has it in order, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.lifecycle import State
from fencepost.core.values.instants import to_us
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codes import NUMBER
from fencepost.store.sqlite.jobs.chronology import Stretch, stretch

WALK = 20_000
FEW = 5_000
"""So many jobs are sorted sooner than as many are walked."""
LANES_MAX = 50
"""So many lanes are read side by side; with more, a walk is as good."""

LANES = "select lane from lanes where {conditions}"
COUNT_JOBS = "select count(*) from jobs where {conditions}"
COUNTS = """
select
  coalesce(sum(count) filter (where {state} and {lane}), 0),
  coalesce(sum(count) filter (where {state}), 0),
  coalesce(sum(count) filter (where {lane}), 0)
from counters
"""
TAG_COUNT = f"select count(*) from (select 1 from tags where name = ? and value = ? limit {FEW})"
FIND = "select seq from {source} where {conditions} order by seq desc limit ?"
RECENT = f"""
select seq from jobs where {{conditions}}
  and seq >= coalesce(?, (select max(seq) from jobs)) - {WALK} order by seq desc limit ?
"""
TAGGED = """
select jobs.seq from tags cross join jobs on jobs.seq = tags.seq
where tags.name = ? and tags.value = ? and {conditions} order by tags.seq desc limit ?
"""
MERGED = "select seq from ({branches}) order by seq desc limit ?"
BRANCH = "select * from (select seq from {source} where {conditions} order by seq desc limit ?)"

OF_LANE = "jobs indexed by jobs_lane"


class Condition(NamedTuple):
    """A piece of SQL and the parameters in it."""

    sql: str
    params: Sequence[Any] = ()


ALWAYS = Condition("true")


class Source(NamedTuple):
    """An index that holds the jobs of a state, and the words by which its condition is known."""

    name: str
    condition: Condition


READY = Source("jobs_ready", Condition("state = 1"))
DUE = Source("jobs_due", Condition("state in (2, 4)"))
LEASE = Source("jobs_lease", Condition("state = 3"))
UNSUCCESSFUL = Source("jobs_unsuccessful", Condition("state > 5"))
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
    """What has an index of its own: correlation id and flow."""
    dates: list[Condition]
    stretch: Stretch
    """Between which rows all of them are."""

    @property
    def of_state(self) -> Condition:
        # Written out: a partial index is not used for a number that is not known yet.
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
        low, high = self.stretch
        rows = [] if low is None else [Condition("jobs.seq >= ?", (low,))]
        return rows if high is None else [*rows, Condition("jobs.seq < ?", (high,))]

    @property
    def everything(self) -> Condition:
        """All conditions, on a row of ``jobs``."""
        of_row = (self.of_state, self.of_lane)
        return _all_of(*of_row, *self.marks, *self.of_tags, *self.dates, *self.of_stretch)


def count(filter: JobFilter) -> Plan[int]:
    """Count jobs: from the counters where they can tell, else through an index."""
    search = yield from _prepared(filter)
    if filter.is_countable:
        total, _, _ = yield from _counted(search)
        return total
    every = search.everything
    ((total,),) = yield Statement(COUNT_JOBS.format(conditions=every.sql), every.params)
    return int(total)


def find(filter: JobFilter, page: PageRequest) -> Plan[list[int]]:
    """Return the rows of the newest jobs that meet *filter*, one more than a page holds."""
    search = yield from _prepared(filter, page.after)
    total, of_state, of_lane = yield from _counted(search)
    limit = page.limit + 1
    if total == 0:
        return []
    if search.marks:
        return _numbers((yield _from("jobs", search, limit)))
    if search.is_by_state and of_state <= FEW:
        return _numbers((yield _merged(_by_state(search), limit)))
    if search.lanes is not None and of_lane <= FEW:
        return _numbers((yield _from(OF_LANE, search, limit)))
    if search.tags:
        return _numbers((yield from _tagged(search, limit)))
    return (yield from _walked(search, limit))


def _walked(search: Search, limit: int) -> Plan[list[int]]:
    if not search.states and search.lanes is None:
        return _numbers((yield _from("jobs", search, limit)))
    found = _numbers((yield _recent(search, limit)))
    if len(found) == limit:
        return found
    if search.lanes is not None and len(search.lanes) <= LANES_MAX:
        return _numbers((yield _merged(_by_lane(search), limit)))
    if search.lanes is None and search.is_by_state:
        return _numbers((yield _merged(_by_state(search), limit)))
    return _numbers((yield _from("jobs", search, limit)))


def _by_state(search: Search) -> Iterator[tuple[str, Search]]:
    for state in search.states:
        source = SOURCES[state]
        marks = [*search.marks, source.condition]
        one = search._replace(states=(state,), marks=marks)
        yield f"jobs indexed by {source.name}", one


def _by_lane(search: Search) -> Iterator[tuple[str, Search]]:
    for lane in search.lanes or ():
        yield OF_LANE, search._replace(lanes=[lane])


def _numbers(rows: Sequence[Row]) -> list[int]:
    return [row[0] for row in rows]


def _all_of(*conditions: Condition) -> Condition:
    return Condition(
        " and ".join(condition.sql for condition in conditions) or "true",
        [param for condition in conditions for param in condition.params],
    )


def _prepared(filter: JobFilter, after: int | None = None) -> Plan[Search]:
    lanes: list[int] | None = None
    named = [
        Condition(f"{column} = ?", (name,))
        for column, name in (("type", filter.type), ("queue", filter.queue))
        if name is not None
    ]
    if named:
        every = _all_of(*named)
        lanes = _numbers((yield Statement(LANES.format(conditions=every.sql), every.params)))
    marks = [
        Condition(f"{column} = ?", (value,))
        for column, value in (("correlation_id", filter.correlation_id), ("flow", filter.flow))
        if value is not None
    ]
    low, high = yield from stretch(filter)
    rows = Stretch(low, min((end for end in (high, after) if end is not None), default=None))
    return Search(filter.states, lanes, list(filter.tags.items()), marks, _dates(filter), rows)


def _dates(filter: JobFilter) -> list[Condition]:
    dates = []
    if filter.created_after is not None:
        dates.append(Condition("created_at >= ?", (to_us(filter.created_after),)))
    if filter.created_before is not None:
        dates.append(Condition("created_at < ?", (to_us(filter.created_before),)))
    return dates


def _counted(search: Search) -> Plan[tuple[int, int, int]]:
    """Return how many jobs are in these states and lanes, in these states, and in these lanes."""
    sql = COUNTS.format(state=search.of_state.sql, lane=search.of_lane.sql)
    (totals,) = yield Statement(sql)
    return totals[0], totals[1], totals[2]


def _from(source: str, search: Search, limit: int) -> Statement:
    sql, params = search.everything
    return Statement(FIND.format(source=source, conditions=sql), (*params, limit))


def _recent(search: Search, limit: int) -> Statement:
    sql, params = search.everything
    return Statement(RECENT.format(conditions=sql), (*params, search.stretch.high, limit))


def _tagged(search: Search, limit: int) -> Plan[Sequence[Row]]:
    """Read the tag that fewest jobs have, which is in order, and look at the rest of each job."""
    tag = search.tags[0]
    fewest = FEW
    for each in search.tags if len(search.tags) > 1 else ():
        ((having,),) = yield Statement(TAG_COUNT, each)
        if having < fewest:
            tag, fewest = each, having
    every = search._replace(tags=[each for each in search.tags if each != tag]).everything
    sql = TAGGED.format(conditions=every.sql)
    return (yield Statement(sql, (*tag, *every.params, limit)))


def _merged(parts: Iterable[tuple[str, Search]], limit: int) -> Statement:
    branches, params = [], []
    for source, search in parts:
        every = search.everything
        branches.append(BRANCH.format(source=source, conditions=every.sql))
        params += [*every.params, limit]
    return Statement(MERGED.format(branches=" union all ".join(branches)), (*params, limit))
