"""Jobs that others are to wait for: found, and kept where they stand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fencepost.core.flows.dependents import Parent
from fencepost.core.job.priority import Priority
from fencepost.core.values.ids import wanted_ids
from fencepost.errors import UnknownDependencyError
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codes import BY_NUMBER
from fencepost.store.sql.texts import decode_failure

COLUMNS = "id::text, seq, state, priority, depth, failure"
HOLD_IDS = f"""
select {COLUMNS} from fencepost.hold_parents(
  array(select seq from fencepost.job where id = any (%s::uuid[]) order by seq))
"""
LOOK_IDS = """
select id::text, seq, state, priority, coalesce(depth, 1), case when state > 5 then failure end
from fencepost.jobs where id = any (%s::uuid[])
"""
HOLD_FREE = f"select {COLUMNS} from fencepost.hold_parents(%s::bigint[], false)"
HOLD_OF_CHILD = f"""
select parent.*, dependency.place from fencepost.dependency
join (select {COLUMNS} from fencepost.hold_parents(
  array(select parent from fencepost.dependency where child = %s order by parent))
) as parent on parent.seq = dependency.parent
where dependency.child = %s order by dependency.place
"""


Held = dict[str, tuple[int, Parent]]
"""Number and standing of each job by its id."""


def hold(job_ids: Iterable[str], *, is_joined: bool = False) -> Plan[Held]:
    """Return number and standing of each job by its id, or raise UnknownDependencyError.

    Until the transaction is over nobody ends one of them: whoever wants to waits, and then sees
    who waits for it. In a caller's, for whose end nobody could wait, they are only looked at.
    """
    asked = list(job_ids)
    wanted = list(wanted_ids(asked).values())
    rows = (yield Statement(LOOK_IDS if is_joined else HOLD_IDS, (wanted,))) if wanted else []
    return named(rows, asked)


def named(rows: Sequence[Row], asked: Iterable[str]) -> Held:
    """Return the jobs that were found, or raise UnknownDependencyError."""
    found = {row[0]: (row[1], _parent(row)) for row in rows}
    for job_id in asked:
        if job_id.lower() not in found:
            raise UnknownDependencyError(job_id)
    return found


def hold_free(seqs: Iterable[int]) -> Plan[dict[int, Parent]]:
    """Return jobs by their numbers, kept where they stand; but none that somebody has in hand."""
    asked = sorted(seqs)
    rows = (yield Statement(HOLD_FREE, (asked,))) if asked else []
    return {row[1]: _parent(row) for row in rows}


def hold_of(seq: int) -> Plan[list[tuple[int, Parent]]]:
    """Return what a stored job waits for or waited for, in order, kept where it stands."""
    rows: Sequence[Row] = yield Statement(HOLD_OF_CHILD, (seq, seq))
    return [(row[1], _parent(row)) for row in rows]


def _parent(row: Row) -> Parent:
    job_id, _, state, priority, depth, failure, *_ = row
    return Parent(job_id, BY_NUMBER[state], Priority(priority), depth, decode_failure(failure))
