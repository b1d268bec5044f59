"""Jobs that arrive from another store: their slots of concurrency keys, and their dependencies."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from fencepost.core.flows.dependents import MET
from fencepost.core.job.job import JobRecord
from fencepost.core.job.lifecycle import State
from fencepost.core.limits.concurrency import limit_of
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.flows.dependents import count_down, end_waiting, hold
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.limits.concurrency import FreedSlots, slot_number
from fencepost.store.sql.codec import encode_json
from fencepost.store.sql.records.transfer import held_up, judge_loaded, waiting_among

PRESENT = "select id::text from fencepost.submissions where id = any (%s::uuid[])"
MAKE = """
insert into fencepost.slots(slot) select x from unnest(%s::bigint[]) as x order by x
on conflict do nothing
"""
LOCK = """
select slot, active from fencepost.slots where slot = any (%s::bigint[]) order by slot for update
"""
TAKE = """
update fencepost.slots set active = slots.active + x.count
from unnest(%s::bigint[], %s::integer[]) as x(slot, count) where slots.slot = x.slot
"""
# A dependency that was pruned there, or was not moved, is dropped.
LINK = """
insert into fencepost.dependencies(parent, child, place)
select parent.seq, x.child, x.place
from json_to_recordset(%s::json) as x(child bigint, parent uuid, place integer)
join fencepost.submissions as parent on parent.id = x.parent
"""
SET_MISSING = """
update fencepost.pending set missing = x.missing
from unnest(%s::bigint[], %s::integer[]) as x(seq, missing) where pending.seq = x.seq
"""


class Placed(NamedTuple):
    """Records as they will be stored, and the slots that were taken for some of them, by id."""

    records: dict[str, JobRecord]
    taken: dict[str, int]


def with_slots(wanted: dict[str, JobRecord]) -> Plan[Placed]:
    """Return *wanted*, each with its slot here or, if none is free, held up.

    Waits for transactions that have locked a slot: a loaded job should be as it was there.
    """
    asking = {
        job.id: slot_number(job.type, job.concurrency_key)
        for job in (record.job for record in wanted.values())
        if job.concurrency_key is not None and job.state is State.SCHEDULED
    }
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


def link(env: Env, loaded: dict[int, JobRecord], freed: FreedSlots) -> Plan[None]:
    """Store the dependencies of loaded jobs, and apply the ends that they were waiting for."""
    links = [
        {"child": seq, "parent": parent, "place": place}
        for seq, record in loaded.items()
        for place, parent in enumerate(record.dependencies)
    ]
    if not links:
        return
    yield Statement(LINK, (encode_json(links),))
    waiting = waiting_among(loaded)
    known = yield from hold({each for r in waiting.values() for each in r.dependencies})
    missing, failing = judge_loaded(waiting, known)
    yield Statement(SET_MISSING, (list(missing), list(missing.values())))
    free = [seq for seq, count in missing.items() if count == MET]
    if free:
        yield from count_down(env, dict.fromkeys(free, MET), freed)
    if failing:
        yield from end_waiting(env, failing)
