"""Jobs with concurrency keys that come from another store: they keep their slots if they can."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from fencepost.core.job.job import Job, JobRecord
from fencepost.core.job.lifecycle import State
from fencepost.core.limits.concurrency import limit_of
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.limits.concurrency import slot_number
from fencepost.store.sql.transfer import held_up

PRESENT = "select id::text from fencepost.job where id = any (%s::uuid[])"
MAKE = """
insert into fencepost.slot(slot) select x from unnest(%s::bigint[]) as x order by x
on conflict do nothing
"""
LOCK = """
select slot, active from fencepost.slot where slot = any (%s::bigint[]) order by slot for update
"""
TAKE = """
update fencepost.slot set active = slot.active + x.count
from unnest(%s::bigint[], %s::integer[]) as x(slot, count) where slot.slot = x.slot
"""


class Placed(NamedTuple):
    """Records as they are to be stored, and the slots that were taken for some of them, by id."""

    records: dict[str, JobRecord]
    taken: dict[str, int]


def with_slots(wanted: dict[str, JobRecord]) -> Plan[Placed]:
    """Return *wanted*, with those held up for which there is no slot here; the others have theirs.

    Waits for whoever has a slot in hand: what is loaded is to stand as it stood.
    """
    asking = {job_id: slot_of(each.job) for job_id, each in wanted.items() if takes_slot(each.job)}
    if not asking:
        return Placed(wanted, {})
    present = {row[0] for row in (yield Statement(PRESENT, (list(asking),)))}
    slots = sorted(set(asking.values()))
    yield Statement(MAKE, (slots,))
    active: Counter[int] = Counter(dict((yield Statement(LOCK, (slots,)))))
    placed = Placed(dict(wanted), {})
    for job_id, slot in asking.items():
        record = wanted[job_id]
        if job_id in present:
            continue
        if active[slot] < limit_of(record.job.policy):
            active[slot] += 1
            placed.taken[job_id] = slot
        else:
            placed.records[job_id] = held_up(record)
    counts = Counter(placed.taken.values())
    yield Statement(TAKE, (list(counts), list(counts.values())))
    return placed


def takes_slot(job: Job) -> bool:
    """Tell whether the job stands in line by a slot of its key."""
    return job.concurrency_key is not None and job.state is State.SCHEDULED


def slot_of(job: Job) -> int:
    """Return the slot of a job that has a concurrency key."""
    assert job.concurrency_key is not None
    return slot_number(job.type, job.concurrency_key)
