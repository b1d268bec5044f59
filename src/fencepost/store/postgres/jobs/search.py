"""Which jobs meet a filter, the newest or the oldest first: their numbers, a page at a time.

No index covers every condition, and the planner cannot know how rare a tag or a type is. A search
that no index answers in order therefore takes two steps. First the next WALK jobs are checked one
by one until the page is full: that finds common jobs in a few milliseconds. Then the rest is read
from the best source: the index of a tag, or the table of each state. Jobs that are rare by the
counts are read from there at once.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from fencepost.core.bounds import CREATION_DISORDER
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.lifecycle import TERMINAL, State
from fencepost.core.values.names import id_range, id_text
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.sql.codec import NUMBER, encode_json
from fencepost.store.sql.search import (
    ALWAYS,
    Condition,
    Totals,
    all_of,
    given,
    lanes_of,
    numbers_of,
)

WALK = 5_000
WALK_DATED = 25_000
"""Longer, because many jobs that were submitted within one second may be in between."""
FEW = 5_000
"""Up to so many jobs, sorting is quicker than walking."""
SEQ_END = (1 << 63) - 1
SLACK = timedelta(seconds=CREATION_DISORDER)

DISORDER = "select coalesce(max(seq), 0), max(created_at) from fencepost.disorder"
FIRST_SINCE = "select fencepost.first_since(%s, %s)"

LANES = "select lane from fencepost.lanes where {conditions}"
TOTALS = """
select
  coalesce(sum(count) filter (where {lane} and {state}), 0)::bigint,
  coalesce(sum(count) filter (where {lane}), 0)::bigint,
  coalesce(sum(count) filter (where {state}), 0)::bigint
from fencepost.counts
"""
# Lanes tell which types there are: the key itself has an index within its type only.
KEYED = """
select held.seq from (select distinct type from fencepost.lanes) as types
cross join lateral (
  select seq from fencepost.idempotency where type = types.type and key = %s
) as held
"""
COUNT_JOBS = "select count(*) from fencepost.submissions j where {conditions}"

WALKED = """
select j.seq from (
  select seq, id, lane, run_at, created_at, correlation_id, tags, flow from fencepost.submissions
  where seq >= %s and seq < %s order by seq {order} limit {walk}
) as j
where {conditions} order by j.seq {order} limit %s
"""

FIRST = """
select j.seq from fencepost.submissions j where {conditions} and {beyond}
order by j.seq {order} limit %s
"""

# Sorted before their state is checked: no state is checked once the page is full.
MATCHED = """
with matched as materialized (
  select j.seq, j.lane, j.run_at from fencepost.submissions j where {conditions}
)
select j.seq from (select * from matched order by seq {order}) as j
where {state} order by j.seq {order} limit %s
"""

# The jobs of a lane are in order, and so is a page of several lanes that are read side by side.
# Compared and sorted by lane and number although the lane is fixed: otherwise the planner prefers
# the primary key, in which rare jobs are far apart.
LANED = """
select x.seq from unnest(%s::integer[]) as l(lane) cross join lateral (
  select j.seq from fencepost.submissions j
  where (j.lane, j.seq) >= (l.lane, %s::bigint) and (j.lane, j.seq) < (l.lane, %s::bigint)
    and {conditions} order by j.lane {order}, j.seq {order} limit %s
) as x order by x.seq {order} limit %s
"""

MERGED = "select x.seq from ({branches}) as x order by x.seq {order} limit %s"

# The jobs in one state; {lane} and {lane_of_job} are conditions on the lane, or true.
BRANCHES = {
    "ready": "select x.seq from fencepost.ready x where {lane}",
    "delayed": "select x.seq from fencepost.delayed x where x.state = {number} and {lane}",
    "pending": "select x.seq from fencepost.pending x where {lane}",
    "lease": """
select x.seq from (select lane, unnest(seqs) as seq from fencepost.leases) as x where {lane}
""",
    "done": "select x.seq from fencepost.done x where x.state = {number} and {lane_of_job}",
}
BRANCH = "({source} and {rest} order by x.seq {order} limit %s)"
LANE = "x.lane = any (%s)"
LANE_OF_JOB = """
exists (select 1 from fencepost.submissions j where j.seq = x.seq and j.lane = any (%s))
"""
OF_JOB = "exists (select 1 from fencepost.submissions j where j.seq = x.seq and {conditions})"

# Whether job j is in one of the states of a table. Not by `exists`, which the planner may turn into
# a scan of the whole table: a walk checks few jobs, and stops when its page is full.
PROBES = {
    "ready": """
(select true from fencepost.ready r
  where r.lane = j.lane and r.run_at = j.run_at and r.seq = j.seq)
or (select true from fencepost.ready r
  where r.seq = j.seq and r.scheduled_at is not null limit 1)
""",
    "delayed": """
(select true from fencepost.delayed w where w.seq = j.seq and w.state in ({numbers}))
""",
    "pending": "(select true from fencepost.pending w where w.seq = j.seq)",
    "lease": "j.seq in (select unnest(seqs) from fencepost.leases)",
    "done": """
(select true from fencepost.done d where d.seq = j.seq and d.state in ({numbers}))
""",
}
TABLES = {
    State.PENDING: "pending",
    State.SCHEDULED: "ready",
    State.DELAYED: "delayed",
    State.RETRYING: "delayed",
    State.RUNNING: "lease",
    **dict.fromkeys(TERMINAL, "done"),
}

# A generic plan is bad for most tags: everything depends on how rare the tag is.
PLAN_FOR_THIS = Statement("select set_config('plan_cache_mode', 'force_custom_plan', true)")
PLAN_FOR_ANY = Statement("select set_config('plan_cache_mode', 'auto', true)")


class Search(NamedTuple):
    """A filter whose names have been looked up."""

    states: tuple[State, ...]
    lanes: list[int] | None
    """None for all."""
    marks: Condition
    """Conditions that have an index: tags, correlation id, flow, key, the beginning of the id."""
    dates: Condition
    """When job j was created."""
    low: int
    high: int
    """All of them have numbers from ``low`` on and below ``high``."""
    is_tagged: bool
    """Whether the marks are tags only: a tag may be common, an id is not."""
    order: str

    def beyond(self, row: str) -> Condition:
        """The condition that row *row* comes after those of earlier pages."""
        if self.order == "desc":
            return Condition(f"{row}.seq < %s", (self.high,))
        return Condition(f"{row}.seq >= %s", (self.low,))

    @property
    def is_marked(self) -> bool:
        return self.marks is not ALWAYS

    @property
    def of_lane(self) -> Condition:
        return ALWAYS if self.lanes is None else Condition("j.lane = any (%s)", (self.lanes,))

    @property
    def of_state(self) -> Condition:
        """The condition that job j is in one of the states."""
        if not self.states:
            return ALWAYS
        numbers: dict[str, list[str]] = {}
        for state in self.states:
            numbers.setdefault(TABLES[state], []).append(str(NUMBER[state]))
        probes = [PROBES[name].format(numbers=",".join(each)) for name, each in numbers.items()]
        return Condition(f"({' or '.join(probes)})")

    @property
    def of_job(self) -> Condition:
        """The condition that the job of row x has the marks and the dates."""
        if self.marks is ALWAYS and self.dates is ALWAYS:
            return ALWAYS
        every = all_of(self.marks, self.dates)
        return Condition(OF_JOB.format(conditions=every.sql), every.params)

    @property
    def is_in_order(self) -> bool:
        """Whether an index has them in order; claimable jobs are so within their lane only."""
        is_any = not self.is_marked and self.lanes is None and self.dates is ALWAYS
        return is_any and State.SCHEDULED not in self.states


def count(_: Env, filter: JobFilter, at_most: int | None = None) -> Plan[int]:
    """Count jobs: from the counts if they suffice, else through an index."""
    if at_most is not None and not filter.is_countable:
        return min(len((yield from find(filter, PageRequest(at_most)))), at_most)
    search = yield from _prepared(filter, PageRequest())
    if filter.is_countable:
        return (yield from _counted(search)).both
    every = all_of(search.marks, search.dates, search.of_lane, search.of_state)
    yield PLAN_FOR_THIS
    ((total,),) = yield Statement(COUNT_JOBS.format(conditions=every.sql), every.params)
    yield PLAN_FOR_ANY
    return int(total)


def find(filter: JobFilter, page: PageRequest) -> Plan[list[int]]:
    """Return the numbers of the first jobs that meet *filter*, one more than a page holds."""
    search = yield from _prepared(filter, page)
    if not search.is_marked:
        return (yield from _find(search, page.limit + 1))
    yield PLAN_FOR_THIS
    found = yield from _find(search, page.limit + 1)
    yield PLAN_FOR_ANY
    return found


def _find(search: Search, limit: int) -> Plan[list[int]]:
    if search.is_in_order:
        return numbers_of((yield _exact(search, limit)))
    totals = yield from _counted(search)
    if totals.both == 0:
        return []
    if totals.both > FEW:
        found = numbers_of((yield _walked(search, limit)))
        if len(found) == limit:
            return found
    return numbers_of((yield _rare(search, totals, limit)))


def _prepared(filter: JobFilter, page: PageRequest) -> Plan[Search]:
    names = given(("type = %s", filter.type), ("queue = %s", filter.queue))
    lanes = yield from lanes_of(LANES, names)
    dates, low, high = yield from _dated(filter)
    order, after = "desc", page.after
    if page.is_oldest_first:
        order, low = "asc", low if after is None else max(low, after + 1)
    elif after is not None:
        high = min(high, after)
    keyed = None
    if filter.key is not None:
        keyed = numbers_of((yield Statement(KEYED, (filter.key,))))
    is_tagged = filter.correlation_id is filter.flow is filter.id_prefix is filter.key is None
    marks = _marks(filter, keyed)
    return Search(filter.states, lanes, marks, dates, low, high, is_tagged, order)


def _dated(filter: JobFilter) -> Plan[tuple[Condition, int, int]]:
    """Return the conditions on the dates of job j, and its range of numbers."""
    if not filter.is_dated:
        return ALWAYS, 0, SEQ_END
    low, high = 0, SEQ_END
    dates = given(
        ("j.created_at >= %s", filter.created_after),
        ("j.created_at < %s", filter.created_before),
    )
    ((until, latest),) = yield Statement(DISORDER)
    after, before = filter.created_after, filter.created_before
    if after is not None and (latest is None or after > latest):
        ((low,),) = yield Statement(FIRST_SINCE, (_moved(after, -SLACK), until))
        dates.append(Condition("j.seq >= %s", (low,)))
    if before is not None:
        ((high,),) = yield Statement(FIRST_SINCE, (_moved(before, SLACK), until))
        dates.append(Condition("j.seq < %s", (high,)))
    return all_of(*dates), low, high


def _moved(at: datetime, by: timedelta) -> datetime:
    """Return *at* moved by *by*, or unmoved if that is outside of the calendar."""
    try:
        return at + by
    except OverflowError:
        return at


def _marks(filter: JobFilter, keyed: list[int] | None) -> Condition:
    marks = given(
        ("j.seq = any (%s::bigint[])", keyed),
        ("j.tags @> %s::jsonb", encode_json(filter.tags) if filter.tags else None),
        ("j.correlation_id = %s", filter.correlation_id),
        ("j.flow = %s", filter.flow),
    )
    if filter.id_prefix is not None:
        ids = [id_text(end) for end in id_range(filter.id_prefix)]
        marks.append(Condition("j.id between %s::uuid and %s::uuid", ids))
    return all_of(*marks) if marks else ALWAYS


def _counted(search: Search) -> Plan[Totals]:
    """Return how many jobs are in these lanes and states, whatever their marks and dates."""
    lane = ALWAYS if search.lanes is None else Condition("lane = any (%s)", (search.lanes,))
    numbers = ",".join(str(NUMBER[state]) for state in search.states)
    state = Condition(f"state in ({numbers})") if numbers else ALWAYS
    sql = TOTALS.format(lane=lane.sql, state=state.sql)
    (totals,) = yield Statement(sql, (*lane.params, *lane.params))
    return Totals(*totals)


def _first(search: Search, limit: int) -> Statement:
    sql, params = all_of(search.dates, search.of_lane)
    beyond = search.beyond("j")
    sql = FIRST.format(conditions=sql, beyond=beyond.sql, order=search.order)
    return Statement(sql, (*params, *beyond.params, limit))


def _laned(search: Search, limit: int) -> Statement:
    every = all_of(search.marks, search.dates, search.of_state)
    sql = LANED.format(conditions=every.sql, order=search.order)
    return Statement(sql, (search.lanes, search.low, search.high, *every.params, limit, limit))


def _walked(search: Search, limit: int) -> Statement:
    every = all_of(search.marks, search.dates, search.of_lane, search.of_state)
    walk = WALK if search.dates is ALWAYS else WALK_DATED
    sql = WALKED.format(walk=walk, conditions=every.sql, order=search.order)
    return Statement(sql, (search.low, search.high, *every.params, limit))


def _rare(search: Search, totals: Totals, limit: int) -> Statement:
    """Read the smallest set: the jobs with the marks, in the lanes or in the states."""
    is_named = bool(search.states) or search.lanes is not None
    if search.is_marked and not (is_named and search.is_tagged and totals.both <= FEW):
        return _matched(search, limit)
    if search.lanes is not None and (not search.states or totals.of_lane <= totals.of_state):
        return _laned(search, limit)
    return _exact(search, limit)


def _matched(search: Search, limit: int) -> Statement:
    every = all_of(search.marks, search.dates, search.of_lane, search.beyond("j"))
    sql = MATCHED.format(conditions=every.sql, state=search.of_state.sql, order=search.order)
    return Statement(sql, (*every.params, limit))


def _exact(search: Search, limit: int) -> Statement:
    if not search.states:
        return _first(search, limit)
    branches = [_branch(state, search, limit) for state in search.states]
    every = Condition(
        " union all ".join(branch.sql for branch in branches),
        [param for branch in branches for param in branch.params],
    )
    sql = MERGED.format(branches=every.sql, order=search.order)
    return Statement(sql, (*every.params, limit))


def _branch(state: State, search: Search, limit: int) -> Condition:
    lanes = search.lanes
    source = BRANCHES[TABLES[state]].format(
        number=NUMBER[state],
        lane="true" if lanes is None else LANE,
        lane_of_job="true" if lanes is None else LANE_OF_JOB,
    )
    given = [] if lanes is None else [lanes]
    rest = all_of(search.of_job, search.beyond("x"))
    sql = BRANCH.format(source=source, rest=rest.sql, order=search.order)
    return Condition(sql, [*given, *rest.params, limit])
