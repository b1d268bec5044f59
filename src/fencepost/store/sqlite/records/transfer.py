"""Whole jobs out of and into SQLite, as they are in the other store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencepost.core.flows.dependents import MET
from fencepost.core.job.job import JobRecord
from fencepost.core.values.names import id_bytes, wanted_ids
from fencepost.core.values.times import to_us
from fencepost.errors import DuplicateJobError
from fencepost.store.interface.records.transfer import LoadReply
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codec import encode_json
from fencepost.store.sql.records.transfer import (
    NOT_ACCEPTED,
    DumpPlans,
    DumpSql,
    attempt_fields,
    job_fields,
    judge_loaded,
    loadable,
    needs_key,
    waiting_among,
    without_present,
)
from fencepost.store.sqlite.flows.dependents import COUNT_DOWN, end_waiting, find_parents, link
from fencepost.store.sqlite.jobs.catalog import Env, JobCounters
from fencepost.store.sqlite.jobs.enqueue import TAG, TAKE_KEY, find_holder
from fencepost.store.sqlite.jobs.finish import RECORD
from fencepost.store.sqlite.jobs.read import READER
from fencepost.store.sqlite.jobs.rows import CODEC, JOB_COLUMNS, encode_body, values
from fencepost.store.sqlite.jobs.search import note_disorder
from fencepost.store.sqlite.limits.concurrency import Arriving, note

PRESENT = "select id from jobs where id in ({values})"
LAST = "select coalesce(max(seq), 0) from jobs"
LOAD = "insert into jobs({columns}) {{values}}"

# A trigger and not a flag: submissions pay nothing while jobs are accepted, and no code that
# inserts jobs can forget the check.
REFUSE = f"""
create trigger if not exists refuse_jobs before insert on jobs begin
  select raise(abort, '{NOT_ACCEPTED}');
end
"""
ACCEPT = "drop trigger if exists refuse_jobs"


DUMP: DumpPlans[Env] = DumpPlans(
    DumpSql(
        # The length of a blob is known without reading it.
        sizes="""
select seq, length(payload) + coalesce(length(result), 0) + coalesce(length(checkpoint), 0)
from jobs where seq > ? order by seq limit ?
""",
        records=f"""
select key_window, is_dead_letter, {JOB_COLUMNS}, ? from jobs
where seq in (select value from json_each(?)) order by seq
""",
        attempts="""
select seq, lease_version, number, worker, outcome, started_at, ended_at, failure
from attempts where seq in (select value from json_each(?)) order by seq, lease_version
""",
        dependencies="""
select dependencies.child, jobs.id from dependencies join jobs on jobs.seq = dependencies.parent
where dependencies.child in (select value from json_each(?))
order by dependencies.child, dependencies.place
""",
        keys="""
select jobs.seq, idempotency.key_ends_at from jobs
join lanes on lanes.lane = jobs.lane
join idempotency on idempotency.type = lanes.type and idempotency.key = jobs.key
where jobs.seq in (select value from json_each(?)) and idempotency.seq = jobs.seq
""",
    ),
    READER,
)


def accept_jobs(_: Env, is_accepted: bool) -> Plan[None]:
    """Refuse new jobs, or accept them again."""
    yield Statement(ACCEPT if is_accepted else REFUSE)


def load(env: Env, records: Sequence[JobRecord]) -> Plan[list[LoadReply]]:
    """Store jobs that are not there yet, at the end of the order of submission."""
    present: set[bytes] = set()
    for sql, params in values(PRESENT, [(id_bytes(job_id),) for job_id in loadable(records)]):
        present |= {row[0] for row in (yield Statement(sql, params))}
    ((last,),) = yield Statement(LAST)
    new, replies = without_present(records, present)
    fresh = dict(enumerate(new.values(), start=last + 1))
    now = env.clock.now_us()
    yield from _insert(env, fresh)
    if fresh:
        created = [to_us(record.job.created_at) for record in fresh.values()]
        yield from note_disorder(max(fresh), max(now, *created))
    yield from _take_keys(fresh, now)
    yield from _link(env, fresh, now)
    return replies


def _link(env: Env, fresh: dict[int, JobRecord], now: int) -> Plan[None]:
    """Store the dependencies of loaded jobs, and apply the ends that they were waiting for."""
    named = {job_id for record in fresh.values() for job_id in record.dependencies}
    known = yield from find_parents(wanted_ids(list(named)))
    missing, failing = judge_loaded(waiting_among(fresh), known)
    edges = []
    for seq, record in fresh.items():
        # A dependency that was pruned there, or was not moved, is dropped.
        parents = [known[job_id] for job_id in record.dependencies if job_id in known]
        edges += [(seq, place, each.seq) for place, each in enumerate(parents)]
    yield from link(edges)
    for sql, params in values(COUNT_DOWN, [row for row in missing.items() if row[1]]):
        yield Statement(sql, params)
    free = [seq for seq, count in missing.items() if count == MET]
    if free or failing:
        counters = JobCounters()
        yield from end_waiting(env, {**dict.fromkeys(free), **failing}, now, counters)
        yield from counters.write()


def _take_keys(fresh: dict[int, JobRecord], now: int) -> Plan[None]:
    for seq, record in fresh.items():
        type_, key = record.job.type, record.job.key
        if key is None or not record.holds_key:
            continue
        holder = yield from find_holder(type_, key, now)
        if holder is None:
            ends_at = CODEC.encode_time_or_none(record.key_ends_at)
            for sql, params in values(TAKE_KEY, [(type_, key, seq, ends_at)]):
                yield Statement(sql, params)
        elif needs_key(record):
            raise DuplicateJobError(type=type_, key=key, existing_id=holder.job_id)


def _insert(env: Env, fresh: dict[int, JobRecord]) -> Plan[None]:
    counters = JobCounters()
    rows: list[dict[str, Any]] = []
    tags: list[tuple[Any, ...]] = []
    attempts: list[tuple[Any, ...]] = []
    slots = Arriving()
    for seq, each in fresh.items():
        record = yield from slots.placed(each)
        job = record.job
        lane = yield from env.catalog.lane_number(job.queue, job.type)
        policy = yield from env.catalog.policy_number(job.policy)
        slot = None
        if job.concurrency_key is not None:
            slot = yield from slots.number(job.type, job.concurrency_key)
        rows.append(
            {"seq": seq, "lane": lane, "policy": policy, "slot": slot, **_fields(record, slot)}
        )
        tags += [(name, value, seq) for name, value in job.tags.items()]
        attempts += [tuple(each.values()) for each in attempt_fields(CODEC, record, seq)]
        counters.move(lane, None, job.state)
    load = LOAD.format(columns=", ".join(rows[0] if rows else ()))
    jobs = [tuple(row.values()) for row in rows]
    for template, lines in ((load, jobs), (TAG, tags), (RECORD, attempts)):
        for sql, params in values(template, lines):
            yield Statement(sql, params)
    # Not admitted yet: the job that has the slot may come with the next page.
    yield from note(slots.numbers.values())
    yield from counters.write()


def _fields(record: JobRecord, slot: int | None) -> dict[str, Any]:
    job = record.job
    fields = job_fields(CODEC, record)
    if job.waits is None and slot is not None:
        fields["missing"] = 0
    fields["priority"] = int(job.priority)
    fields["tags"] = encode_json(job.tags) if job.tags else None
    fields["checkpoint"], fields["checkpoint_encoding"] = encode_body(job.checkpoint_body)
    fields["result"], fields["result_encoding"] = encode_body(job.result_body)
    fields["payload"], fields["payload_encoding"] = encode_body(job.payload_body)
    return fields
