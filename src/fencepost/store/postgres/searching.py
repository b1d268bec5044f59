"""Which jobs meet a filter, the newest first: their numbers, a page at a time.

No index knows every condition, and the planner cannot know how rare a tag or a type is. So what
no index answers in order is answered in two steps: the newest WALK jobs are looked at one by one,
until the page is full. What is common is found so in a few milliseconds; what is not, is then
asked of whatever knows it best: the index of a tag, or each state's own table. What the counts
call rare goes there at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.lifecycle import TERMINAL, State
from fencepost.store.plan import Plan, Statement
from fencepost.store.states import NUMBER
from fencepost.store.texts import encode_json

WALK = 5_000
FEW = 5_000
"""So many jobs are sorted sooner than as many are walked."""
SEQ_END = (1 << 63) - 1

LANES = "select lane from fencepost.lane where {conditions}"
COUNT = "select coalesce(sum(count), 0)::bigint from fencepost.tally where {conditions}"
COUNT_JOBS = "select count(*) from fencepost.job j where {conditions}"

RECENT = f"""
select j.seq from (
  select seq, lane, run_at, created_at, correlation_id, tags, flow from fencepost.job
  where seq < %s order by seq desc limit {WALK}
) as j
where {{conditions}} order by j.seq desc limit %s
"""

NEWEST = """
select j.seq from fencepost.job j where {conditions} and j.seq < %s order by j.seq desc limit %s
"""

# Sorted before their state is asked: once the page is full nobody asks on.
MATCHED = """
with matched as materialized (
  select j.seq, j.lane, j.run_at from fencepost.job j where {conditions} and j.seq < %s
)
select j.seq from (select * from matched order by seq desc) as j
where {state} order by j.seq desc limit %s
"""

MERGED = "select x.seq from ({branches}) as x order by x.seq desc limit %s"

# What stands in one state; {lane} and {lane_of_job} are conditions on its lane, or true.
BRANCHES = {
    "ready": "select x.seq from fencepost.ready x where {lane}",
    "delayed": "select x.seq from fencepost.delayed x where x.state = {number} and {lane}",
    "pending": "select x.seq from fencepost.pending x where {lane}",
    "lease": """
select x.seq from (select lane, unnest(seqs) as seq from fencepost.lease) as x where {lane}
""",
    "done": "select x.seq from fencepost.done x where x.state = {number} and {lane_of_job}",
}
BRANCH = "({source} and {dates} and x.seq < %s order by x.seq desc limit %s)"
LANE = "x.lane = any (%s)"
LANE_OF_JOB = """
exists (select 1 from fencepost.job j where j.seq = x.seq and j.lane = any (%s))
"""
DATES_OF_JOB = "exists (select 1 from fencepost.job j where j.seq = x.seq and {dates})"

# Whether job j stands in one of the states of a table. Not by `exists`, which the planner may turn
# into reading all of a table at once: a walk asks of few jobs, and stops when its page is full.
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
    "lease": "j.seq in (select unnest(seqs) from fencepost.lease)",
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

# A plan that is made for any tag is a bad one for most: how rare one is decides everything.
PLAN_FOR_THIS = Statement("select set_config('plan_cache_mode', 'force_custom_plan', true)")
PLAN_FOR_ANY = Statement("select set_config('plan_cache_mode', 'auto', true)")


class Condition(NamedTuple):
    """A piece of SQL and the parameters in it."""

    sql: str
    params: Sequence[Any] = ()


ALWAYS = Condition("true")


class Search(NamedTuple):
    """A filter whose names have been looked up."""

    states: tuple[State, ...]
    lanes: list[int] | None
    """None for all."""
    marks: Condition
    """What indexes of ``job`` know: tags, the correlation id and the flow."""
    dates: Condition
    """When job j was created."""

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
    def is_in_order(self) -> bool:
        """Whether an index has them in order: what is claimable is in that of its lane only."""
        is_any = not self.is_marked and self.lanes is None and self.dates is ALWAYS
        return is_any and State.SCHEDULED not in self.states


def count(filter: JobFilter) -> Plan[int]:
    """Count jobs: from the counts where they can tell, else through an index."""
    search = yield from _prepared(filter)
    if filter.is_countable:
        return (yield from _tallied(search))
    every = _all_of(search.marks, search.dates, search.of_lane, search.of_state)
    yield PLAN_FOR_THIS
    ((total,),) = yield Statement(COUNT_JOBS.format(conditions=every.sql), every.params)
    yield PLAN_FOR_ANY
    return int(total)


def find(filter: JobFilter, page: PageRequest) -> Plan[list[int]]:
    """Return the numbers of the newest jobs that meet *filter*, one more than a page holds."""
    search = yield from _prepared(filter)
    if not search.is_marked:
        return (yield from _find(search, page))
    yield PLAN_FOR_THIS
    found = yield from _find(search, page)
    yield PLAN_FOR_ANY
    return found


def _find(search: Search, page: PageRequest) -> Plan[list[int]]:
    after = SEQ_END if page.after is None else min(page.after, SEQ_END)
    limit = page.limit + 1
    if not search.is_in_order:
        total = yield from _tallied(search)
        if total == 0:
            return []
        if total > FEW:
            found = _numbers((yield _recent(search, after, limit)))
            if len(found) == limit:
                return found
    return _numbers((yield _exact(search, after, limit)))


def _numbers(rows: Sequence[tuple[int, ...]]) -> list[int]:
    return [row[0] for row in rows]


def _prepared(filter: JobFilter) -> Plan[Search]:
    lanes: list[int] | None = None
    named = [
        Condition(f"{column} = %s", (name,))
        for column, name in (("type", filter.type), ("queue", filter.queue))
        if name is not None
    ]
    if named:
        every = _all_of(*named)
        rows = yield Statement(LANES.format(conditions=every.sql), every.params)
        lanes = _numbers(rows)
    return Search(filter.states, lanes, _marks(filter), _dates(filter))


def _dates(filter: JobFilter) -> Condition:
    dates = []
    if filter.created_after is not None:
        dates.append(Condition("j.created_at >= %s", (filter.created_after,)))
    if filter.created_before is not None:
        dates.append(Condition("j.created_at < %s", (filter.created_before,)))
    return _all_of(*dates) if dates else ALWAYS


def _marks(filter: JobFilter) -> Condition:
    marks = []
    if filter.tags:
        marks.append(Condition("j.tags @> %s::jsonb", (encode_json(filter.tags),)))
    if filter.correlation_id is not None:
        marks.append(Condition("j.correlation_id = %s", (filter.correlation_id,)))
    if filter.flow is not None:
        marks.append(Condition("j.flow = %s", (filter.flow,)))
    return _all_of(*marks) if marks else ALWAYS


def _all_of(*conditions: Condition) -> Condition:
    return Condition(
        " and ".join(condition.sql for condition in conditions),
        [param for condition in conditions for param in condition.params],
    )


def _tallied(search: Search) -> Plan[int]:
    """Return how many jobs are in these lanes and states, whatever their marks."""
    every = _all_of(
        ALWAYS if search.lanes is None else Condition("lane = any (%s)", (search.lanes,)),
        Condition("state = any (%s)", ([NUMBER[state] for state in search.states],))
        if search.states
        else ALWAYS,
    )
    ((total,),) = yield Statement(COUNT.format(conditions=every.sql), every.params)
    return int(total)


def _newest(search: Search, after: int, limit: int) -> Statement:
    sql, params = _all_of(search.dates, search.of_lane)
    return Statement(NEWEST.format(conditions=sql), (*params, after, limit))


def _recent(search: Search, after: int, limit: int) -> Statement:
    every = _all_of(search.marks, search.dates, search.of_lane, search.of_state)
    return Statement(RECENT.format(conditions=every.sql), (after, *every.params, limit))


def _exact(search: Search, after: int, limit: int) -> Statement:
    if search.is_marked:
        every = _all_of(search.marks, search.dates, search.of_lane)
        sql = MATCHED.format(conditions=every.sql, state=search.of_state.sql)
        return Statement(sql, (*every.params, after, limit))
    if not search.states:
        return _newest(search, after, limit)
    branches = [_branch(state, search, after, limit) for state in search.states]
    every = Condition(
        " union all ".join(branch.sql for branch in branches),
        [param for branch in branches for param in branch.params],
    )
    return Statement(MERGED.format(branches=every.sql), (*every.params, limit))


def _branch(state: State, search: Search, after: int, limit: int) -> Condition:
    lanes, dates = search.lanes, search.dates
    source = BRANCHES[TABLES[state]].format(
        number=NUMBER[state],
        lane="true" if lanes is None else LANE,
        lane_of_job="true" if lanes is None else LANE_OF_JOB,
    )
    given = [] if lanes is None else [lanes]
    dated = dates.sql if dates is ALWAYS else DATES_OF_JOB.format(dates=dates.sql)
    sql = BRANCH.format(source=source, dates=dated)
    return Condition(sql, [*given, *dates.params, after, limit])
