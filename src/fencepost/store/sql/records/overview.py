"""A store as a whole: queues, types, jobs in the order of their end, and findings of the doctor.

Plans over the SQL of an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from fencepost.core.job.lifecycle import State
from fencepost.core.limits.type_limits import NO_LIMITS, TypeLimits
from fencepost.core.stats.overview import unserved
from fencepost.core.stats.statistics import EndedJob
from fencepost.core.values.times import to_us
from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.store.interface.records.overview import EndedPage, Finding, QueueView, TypeView
from fencepost.store.interface.settings import Scope
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codec import BY_NUMBER, Codec, SqlEnv
from fencepost.store.sql.paging import pack
from fencepost.store.sql.settings import SettingPlans

T = TypeVar("T")
Counts = dict[str, dict[T, int]]
Names = Sequence[str] | None
"""Which are asked for; None: all."""
UNSERVED_SHOWN = 20


class OverviewSql(NamedTuple):
    """Statements about queues and types, with their parameters."""

    counts: str
    """returns queue, type, state and count, of lanes that ``{condition}`` selects"""
    oldest: str
    """returns each queue that has claimable jobs, and since when the oldest is due; as above"""
    among: str
    """the condition that the column ``{by}`` of a lane is one of the names that it is given"""
    encode_names: Callable[[Sequence[str]], Any]
    """returns names in the form in which the condition is given them"""


class OverviewPlans(NamedTuple):
    sql: OverviewSql
    codec: Codec
    settings: SettingPlans

    def queues(self, env: SqlEnv, names: Names = None) -> Plan[list[QueueView]]:
        """Return every queue that has had a job or a setting, or those of *names*."""
        counts, claimable = yield from self._counts("queue", names)
        paused = yield from self.settings.paused(Scope.QUEUE)
        limits = yield from self.settings.queue_limits()
        oldest: dict[str, Any] = dict((yield self._statement(self.sql.oldest, "queue", names)))
        times = {name: self.codec.decode_time(at) for name, at in oldest.items()}
        return queue_views(counts, claimable, paused, limits, times, names)

    def types(self, env: SqlEnv, names: Names = None) -> Plan[list[TypeView]]:
        """Return every type that has had a job or a setting, or those of *names*."""
        counts, _ = yield from self._counts("type", names)
        paused = yield from self.settings.paused(Scope.TYPE)
        limits = yield from self.settings.type_limits()
        return type_views(counts, paused, limits, names)

    def _counts(
        self, by: Literal["queue", "type"], names: Names
    ) -> Plan[tuple[Counts[State], Counts[str]]]:
        """Return by queue or type how many jobs are in each state, and the claimable by type."""
        counts: Counts[State] = {}
        claimable: Counts[str] = {}
        for queue, type_, number, total in (yield self._statement(self.sql.counts, by, names)):
            name, state = queue if by == "queue" else type_, BY_NUMBER[number]
            by_state = counts.setdefault(name, {})
            if total:
                by_state[state] = by_state.get(state, 0) + total
            if total and state is State.SCHEDULED:
                claimable.setdefault(name, {})[type_] = total
        return counts, claimable

    def _statement(self, sql: str, by: str, names: Names) -> Statement:
        """Return *sql* for all lanes, or for those of *names*: no other lane is read."""
        if names is None:
            return Statement(sql.format(condition="true"))
        condition = self.sql.among.format(by=by)
        return Statement(sql.format(condition=condition), (self.sql.encode_names(names),))


def queue_views(
    counts: Counts[State],
    claimable: Counts[str],
    paused: set[str],
    limits: Mapping[str, int],
    oldest: Mapping[str, datetime],
    names: Names,
) -> list[QueueView]:
    """Return every queue that has had a job or a setting, or those of *names*."""
    return [
        QueueView(
            name=name,
            is_paused=name in paused,
            max_running=limits.get(name),
            counts=counts.get(name, {}),
            claimable=claimable.get(name, {}),
            oldest_at=oldest.get(name),
        )
        for name in _sorted(counts.keys() | paused | limits.keys(), names)
    ]


def type_views(
    counts: Counts[State], paused: set[str], limits: Mapping[str, TypeLimits], names: Names
) -> list[TypeView]:
    """Return every type that has had a job or a setting, or those of *names*."""
    return [
        TypeView(
            name=name,
            is_paused=name in paused,
            counts=counts.get(name, {}),
            **msgspec.structs.asdict(limits.get(name, NO_LIMITS)),
        )
        for name in _sorted(counts.keys() | paused | limits.keys(), names)
    ]


def _sorted(found: set[str], names: Names) -> list[str]:
    return sorted(found if names is None else found.intersection(names))


def ended_sql(template: str, mark: str, *, newest_first: bool, goes_on: bool) -> str:
    """Return the statement for a page of ended jobs; one that goes on begins behind a place."""
    way, beyond = ("desc", "<") if newest_first else ("asc", ">")
    place = f"and (completed_at, seq) {beyond} ({mark}, {mark})" if goes_on else ""
    return template.format(place=place, way=way)


def ended_page(codec: Codec, rows: Sequence[Row], limit: int) -> EndedPage:
    """Return the page of rows that are one more than it holds if there are more pages."""
    found = [_ended(codec, row) for row in rows[:limit]]
    return EndedPage(found, found[-1].position if len(rows) > limit else None)


def _ended(codec: Codec, row: Row) -> EndedJob:
    seq, at, id_, type_, queue, state, attempt, created_at, scheduled_at, started_at = row
    completed_at = codec.decode_time(at)
    return EndedJob(
        id=codec.decode_id(id_),
        type=type_,
        queue=queue,
        state=BY_NUMBER[state],
        attempt=attempt,
        created_at=codec.decode_time(created_at),
        scheduled_at=codec.decode_time_or_none(scheduled_at),
        started_at=codec.decode_time_or_none(started_at),
        completed_at=completed_at,
        position=pack(to_us(completed_at), seq),
    )


def orphaned_leases(count: int) -> Finding:
    """Return what the doctor says of leases that have expired and were not recovered."""
    if count == 0:
        return Finding("ok", "orphaned_leases", "no lease has run out unrecovered")
    return Finding(
        "warn",
        "orphaned_leases",
        f"{count} leases have run out and wait for recovery; `fencepost recover` does it now",
        count,
    )


def unserved_jobs(queues: Iterable[QueueView], workers: Sequence[WorkerInfo]) -> list[Finding]:
    """Return what the doctor says of claimable jobs that no worker takes."""
    found = unserved(queues, workers)
    findings = [Finding("warn", "no_worker", each.text) for each in found[:UNSERVED_SHOWN]]
    if len(found) > UNSERVED_SHOWN:
        rest = f"{len(found) - UNSERVED_SHOWN} more pairs of type and queue wait for a worker"
        findings.append(Finding("warn", "no_worker", rest))
    return findings
