"""The jobs that others wait for."""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.core.flows.dependents import Parent
from fencepost.core.job.policy import Priority
from fencepost.core.values.names import id_text
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codec import BY_NUMBER, decode_failure
from fencepost.store.sql.endings import Stored
from fencepost.store.sqlite.jobs.rows import values

PARENT_COLUMNS = "jobs.seq, jobs.id, jobs.state, jobs.priority, jobs.depth, jobs.failure"
BY_ID = f"select {PARENT_COLUMNS} from jobs where id in ({{values}})"
OF_CHILD = f"""
select {PARENT_COLUMNS} from dependencies join jobs on jobs.seq = dependencies.parent
where dependencies.child = ? order by dependencies.place
"""
LINK = "insert into dependencies(child, place, parent) {values}"

PRIORITIES = tuple(Priority)


def stored(row: Row) -> Stored:
    """Return the job in a row with PARENT_COLUMNS."""
    seq, id_, state, priority, depth, failure = row
    urgency = PRIORITIES[priority]
    parent = Parent(id_text(id_), BY_NUMBER[state], urgency, depth or 1, decode_failure(failure))
    return Stored(seq, parent)


def find_parents(ids: Iterable[bytes]) -> Plan[dict[str, Stored]]:
    """Return the stored jobs of *ids*, by id as text."""
    found: dict[str, Stored] = {}
    for sql, params in values(BY_ID, [(id_,) for id_ in ids]):
        for row in (yield Statement(sql, params)):
            each = stored(row)
            found[each.parent.job_id] = each
    return found


def parents_of(seq: int) -> Plan[list[Stored]]:
    """Return what the job in row *seq* waits for or waited for, in order."""
    return [stored(row) for row in (yield Statement(OF_CHILD, (seq,)))]


def link(edges: list[tuple[int, int, int]]) -> Plan[None]:
    """Store dependencies: child, place among its dependencies, parent."""
    for sql, params in values(LINK, edges):
        yield Statement(sql, params)
