"""Which rows jobs of a time have: rows are numbered in the order in which jobs are created.

So a search by time needs no index of its own, which every submission would pay for: two dozen
looks at the rows find where it has to look. What breaks the order is written down: jobs that came
from another store, and a clock that was set back. Up to the row that was noted last, nothing is
assumed; beyond it, no job was created CREATION_DISORDER before one whose row is lower.
"""

from __future__ import annotations

from typing import NamedTuple

from fencepost.core.bounds import CREATION_DISORDER
from fencepost.core.filter import JobFilter
from fencepost.core.values.instants import seconds_to_us, to_us
from fencepost.store.plan import Plan, Statement
from fencepost.store.sqlite.jobs.catalog import Env

LAST = "select seq, created_at from jobs order by seq desc limit 1"
FROM = "select seq, created_at from jobs where seq >= ? order by seq limit 1"
DISORDER = "select max(seq), max(created_at) from disorder"
NOTE = "insert into disorder(seq, created_at) values (?, ?)"
FORGET = "delete from disorder"
# Numbers of rows are given out again once all that were higher are gone.
LOWER = """
update disorder set seq = coalesce((select max(seq) from jobs), 0)
where seq > coalesce((select max(seq) from jobs), 0)
"""

SLACK_US = seconds_to_us(CREATION_DISORDER)


class Stretch(NamedTuple):
    """Rows from *low* on and before *high*; None is open."""

    low: int | None = None
    high: int | None = None


def stretch(filter: JobFilter) -> Plan[Stretch]:
    """Return where every job is that was created when *filter* says; others may be there too."""
    if not filter.is_dated:
        return Stretch()
    last = yield Statement(LAST)
    if not last:
        return Stretch()
    ((end, _),) = last
    ((until, latest),) = yield Statement(DISORDER)
    start = (until or 0) + 1
    low = high = None
    after, before = filter.created_after, filter.created_before
    if after is not None and (latest is None or to_us(after) > latest):
        low = yield from _first_since(to_us(after) - SLACK_US, start, end + 1)
    if before is not None:
        high = yield from _first_since(to_us(before) + SLACK_US, start, end + 1)
    return Stretch(low, high)


def _first_since(at: int, low: int, high: int) -> Plan[int]:
    """Return where jobs created at *at* or later begin, among rows from *low* on.

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
    """Write down that up to row *seq*, no job created after *latest*, the order may be any."""
    ((until, known),) = yield Statement(DISORDER)
    yield Statement(FORGET)
    yield Statement(NOTE, (max(seq, until or 0), max(latest, known or latest)))


def note_deletion() -> Plan[None]:
    """Keep what is written down from meaning rows that are yet to come."""
    yield Statement(LOWER)


def note_clock(env: Env, now: int) -> Plan[None]:
    """Have a clock that was set back noticed, before a job is created at *now*."""
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
