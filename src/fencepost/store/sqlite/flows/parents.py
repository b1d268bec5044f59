"""The jobs that others wait for, as those see them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fencepost.core.flows.dependents import MET, Parent, judge
from fencepost.core.job.priority import Priority
from fencepost.core.values.ids import id_text
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codes import BY_NUMBER, MODES
from fencepost.store.sql.texts import decode_failure
from fencepost.store.sqlite.engine.values import values

PARENT_COLUMNS = "jobs.seq, jobs.id, jobs.state, jobs.priority, jobs.depth, jobs.failure"
BY_ID = f"select {PARENT_COLUMNS} from jobs where id in ({{values}})"
OF_CHILD = f"""
select {PARENT_COLUMNS} from dependencies join jobs on jobs.seq = dependencies.parent
where dependencies.child = ? order by dependencies.place
"""
LINK = "insert into dependencies(child, place, parent) {values}"

PRIORITIES = tuple(Priority)


class Stored(NamedTuple):
    """A job that can be waited for, and where its row is."""

    seq: int
    parent: Parent


def stored(row: Row) -> Stored:
    """Return the job in a row with PARENT_COLUMNS."""
    seq, id_, state, priority, depth, failure = row
    urgency = PRIORITIES[priority]
    parent = Parent(id_text(id_), BY_NUMBER[state], urgency, depth or 1, decode_failure(failure))
    return Stored(seq, parent)


def find_parents(ids: Iterable[bytes]) -> Plan[dict[str, Stored]]:
    """Return the jobs that there are of *ids*, by the text of theirs."""
    found: dict[str, Stored] = {}
    for sql, params in values(BY_ID, [(id_,) for id_ in ids]):
        for row in (yield Statement(sql, params)):
            each = stored(row)
            found[each.parent.job_id] = each
    return found


def parents_of(seq: int) -> Plan[list[Stored]]:
    """Return what the job in row *seq* waits for or waited for, in order."""
    return [stored(row) for row in (yield Statement(OF_CHILD, (seq,)))]


def judge_parents(seq: int, mode: int | None) -> Plan[tuple[int, Parent | None]]:
    """Return how many more the job in row *seq* waits for, or whose end forbids that it runs."""
    if mode is None:
        return MET, None
    parents = [each.parent for each in (yield from parents_of(seq))]
    missing, doom = judge(MODES[mode], [parent.state for parent in parents])
    return missing, None if doom is None else parents[doom]


def link(edges: list[tuple[int, int, int]]) -> Plan[None]:
    """Store who waits for whom: child, place among what it waits for, parent."""
    for sql, params in values(LINK, edges):
        yield Statement(sql, params)
