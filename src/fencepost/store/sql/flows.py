"""Lists of flows: plans over the SQL of an engine, and what all engines share.

Ids of flows begin with the time (``actions/local/flows.py``), so the index of jobs by flow has them
in order: the newest is one look into it, and the one before that another. A flow costs as many rows
as it has jobs, so a page looks at no more than about FLOW_JOBS_MAX of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fencepost.core.bounds import FLOW_JOBS_MAX
from fencepost.core.flows.listing import FlowGroup, FlowRequest, FlowSummary, summary_of
from fencepost.store.interface.records.overview import FlowPage
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codec import BY_NUMBER, Codec, SqlEnv

FLOW_PORTION = 100
"""Flows that are counted at once."""


class FlowPortion(NamedTuple):
    """Some flows, the newest first."""

    ids: list[str]
    """Those that were looked at."""
    found: Mapping[str, FlowSummary]
    """Those that have jobs which may be counted."""
    looked: int
    """How many jobs they have."""
    has_more: bool


Portion = Callable[[str | None], Plan[FlowPortion]]
"""Return the flows that follow an id, or the first."""


def flow_page(request: FlowRequest, portion: Portion) -> Plan[FlowPage]:
    """Return flows of a kind, from as many portions as a page may look at."""
    found: list[FlowSummary] = []
    after, looked = request.after, 0
    while looked < FLOW_JOBS_MAX:
        part = yield from portion(after)
        for flow_id in part.ids:
            flow = part.found.get(flow_id)
            if flow is not None and flow.is_a(request.kind):
                found.append(flow)
            if len(found) == request.limit:
                is_last = flow_id == part.ids[-1] and not part.has_more
                return FlowPage(found, None if is_last else flow_id)
        if not part.has_more:
            return FlowPage(found)
        after = part.ids[-1]
        looked += part.looked
    return FlowPage(found, after)


def chosen(sizes: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the flows of a portion, with their numbers of jobs: at least one, if there is one."""
    some: list[tuple[str, int]] = []
    total = 0
    for flow_id, size in sizes[:FLOW_PORTION]:
        if some and total + size > FLOW_JOBS_MAX:
            break
        some.append((flow_id, size))
        total += size
    return some


class FlowSql(NamedTuple):
    """Statements about flows, with their parameters."""

    newest: str
    """returns ids, each with its number of jobs, up to FLOW_JOBS_MAX + 1; ``{below}`` is a
    condition on the first id"""
    below: str
    """that an id comes before the one that is given"""
    whole: str
    """selects the jobs of the flows that are given"""
    sample: str
    """selects as many jobs of one flow as are given"""
    groups: str
    """returns, of the jobs that ``{source}`` selects: flow, type, state, count, the first
    times of creation and start, the last end, the number of the oldest, a correlation id;
    ``{scope}`` is a condition"""
    scope: str
    """that the queue is one of those that are given"""


class FlowPlans(NamedTuple):
    sql: FlowSql
    codec: Codec

    def flows(self, env: SqlEnv, request: FlowRequest) -> Plan[FlowPage]:
        """Return one page of the flows."""

        def portion(after: str | None) -> Plan[FlowPortion]:
            return self._portion(after, request.queues)

        return flow_page(request, portion)

    def _portion(self, after: str | None, queues: Sequence[str] | None) -> Plan[FlowPortion]:
        below, params = ("true", ()) if after is None else (self.sql.below, (after,))
        rows = yield Statement(self.sql.newest.format(below=below), params)
        sizes = [(flow_id, size) for flow_id, size in rows if flow_id is not None]
        some = chosen(sizes)
        small = [flow_id for flow_id, size in some if size <= FLOW_JOBS_MAX]
        groups: dict[str, list[FlowGroup]] = {}
        if small:
            yield from self._count(groups, self.sql.whole, (self.codec.encode_list(small),), queues)
        for flow_id, size in some:
            if size > FLOW_JOBS_MAX:
                yield from self._count(groups, self.sql.sample, (flow_id, FLOW_JOBS_MAX), queues)
        found = {
            flow_id: summary_of(flow_id, groups[flow_id], is_complete=size <= FLOW_JOBS_MAX)
            for flow_id, size in some
            if flow_id in groups
        }
        looked = sum(size for _, size in some)
        return FlowPortion([each for each, _ in some], found, looked, len(some) < len(sizes))

    def _count(
        self,
        groups: dict[str, list[FlowGroup]],
        source: str,
        params: tuple[Any, ...],
        queues: Sequence[str] | None,
    ) -> Plan[None]:
        scope = "true" if queues is None else self.sql.scope
        given = () if queues is None else (self.codec.encode_list(list(queues)),)
        sql = self.sql.groups.format(source=source, scope=scope)
        decode = self.codec.decode_time_or_none
        for row in (yield Statement(sql, (*params, *given))):
            flow_id, type_, state, count, created_at, started_at, completed_at, *rest = row
            group = FlowGroup(
                type_,
                BY_NUMBER[state],
                count,
                self.codec.decode_time(created_at),
                decode(started_at),
                decode(completed_at),
                *rest,
            )
            groups.setdefault(flow_id, []).append(group)
