"""Putting jobs of another store behind those that they waited for there."""

from __future__ import annotations

from fencepost.core.flows.dependents import MET, judge, propagated
from fencepost.core.job.job import JobRecord
from fencepost.core.job.lifecycle import State
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.flows.dependents import count_down, end
from fencepost.store.postgres.flows.parents import hold
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.finish import LIFT, Ending, lifted
from fencepost.store.postgres.limits.concurrency import Touched
from fencepost.store.sql.texts import encode_json

# What has been pruned there, and whatever was left behind, nobody waits for any more.
LINK = """
insert into fencepost.dependency(parent, child, place)
select parent.seq, x.child, x.place
from json_to_recordset(%s::json) as x(child bigint, parent uuid, place integer)
join fencepost.job as parent on parent.id = x.parent
"""
SET_MISSING = """
update fencepost.pending set missing = x.missing
from unnest(%s::bigint[], %s::integer[]) as x(seq, missing) where pending.seq = x.seq
"""


def link(env: Env, loaded: dict[int, JobRecord], touched: Touched) -> Plan[None]:
    """Note who waits for whom; what has ended here since is waited for no more."""
    links = [
        {"child": seq, "parent": parent, "place": place}
        for seq, record in loaded.items()
        for place, parent in enumerate(record.dependencies)
    ]
    if not links:
        return
    yield Statement(LINK, (encode_json(links),))
    waiting = {
        seq: record
        for seq, record in loaded.items()
        if record.job.state is State.PENDING and not record.job.is_held
    }
    parents = yield from hold({each for r in waiting.values() for each in r.dependencies})
    missing: dict[int, int] = {}
    doomed: dict[int, str] = {}
    for seq, record in waiting.items():
        assert record.job.waits is not None
        states = [parents[each][1].state for each in record.dependencies]
        missing[seq], doom = judge(record.job.waits.mode, states)
        if doom is not None:
            doomed[seq] = record.dependencies[doom]
    yield Statement(SET_MISSING, (list(missing), list(missing.values())))
    free = [seq for seq, count in missing.items() if count == MET and seq not in doomed]
    if free:
        yield from count_down(env, dict.fromkeys(free, MET), touched)
    endings = []
    for job in lifted((yield Statement(LIFT, (sorted(doomed),)))) if doomed else ():
        _, culprit = parents[doomed[job.seq]]
        decision = propagated(culprit.state, culprit.failure, culprit.job_id)
        endings.append(Ending(job, decision))
    yield from end(env, endings)
