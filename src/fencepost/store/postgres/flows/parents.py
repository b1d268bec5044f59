"""Jobs that others are to depend on: found, and locked where they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fencepost.core.flows.dependents import Parent
from fencepost.core.job.policy import Priority
from fencepost.core.values.names import wanted_ids
from fencepost.errors import UnknownDependencyError
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codec import BY_NUMBER, COMPLETED, decode_failure
from fencepost.store.sql.endings import Stored

COLUMNS = "id::text, seq, state, priority, depth, failure"
HOLD_IDS = f"""
select {COLUMNS} from fencepost.hold_parents(
  array(select seq from fencepost.submissions where id = any (%s::uuid[]) order by seq))
"""
LOOK_IDS = f"""
select id::text, seq, state, priority, coalesce(depth, 1),
  case when state > {COMPLETED} then failure end
from fencepost.jobs where id = any (%s::uuid[])
"""
HOLD_FREE = f"select {COLUMNS} from fencepost.hold_parents(%s::bigint[], false)"
HOLD_OF_CHILD = f"""
select parent.*, dependencies.place from fencepost.dependencies
join (select {COLUMNS} from fencepost.hold_parents(
  array(select parent from fencepost.dependencies where child = %s order by parent))
) as parent on parent.seq = dependencies.parent
where dependencies.child = %s order by dependencies.place
"""


Held = dict[str, Stored]
"""Jobs by their ids."""


def hold(job_ids: Iterable[str], *, is_joined: bool = False) -> Plan[Held]:
    """Return jobs by their ids, or raise UnknownDependencyError.

    They cannot end before this transaction does; a transaction that ends one then sees its new
    dependents. In a caller's transaction, which may stay open for long, they are only read.
    """
    asked = list(job_ids)
    wanted = list(wanted_ids(asked).values())
    rows = (yield Statement(LOOK_IDS if is_joined else HOLD_IDS, (wanted,))) if wanted else []
    return named(rows, asked)


def named(rows: Sequence[Row], asked: Iterable[str]) -> Held:
    """Return the jobs that were found, or raise UnknownDependencyError."""
    found = {row[0]: Stored(row[1], _parent(row)) for row in rows}
    for job_id in asked:
        if job_id.lower() not in found:
            raise UnknownDependencyError(job_id)
    return found


def hold_free(seqs: Iterable[int]) -> Plan[dict[int, Parent]]:
    """Return jobs by number, locked where they are, without those that are already locked."""
    asked = sorted(seqs)
    rows = (yield Statement(HOLD_FREE, (asked,))) if asked else []
    return {row[1]: _parent(row) for row in rows}


def hold_of(seq: int) -> Plan[list[Parent]]:
    """Return the dependencies of a stored job, in order, locked where they are."""
    return [_parent(row) for row in (yield Statement(HOLD_OF_CHILD, (seq, seq)))]


def _parent(row: Row) -> Parent:
    job_id, _, state, priority, depth, failure, *_ = row
    return Parent(job_id, BY_NUMBER[state], Priority(priority), depth, decode_failure(failure))
