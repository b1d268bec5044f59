"""Whole jobs out of and into PostgreSQL, as they are in the other store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fencepost.core.bounds import DUMP_BYTES
from fencepost.core.job.job import JobRecord, NewJob
from fencepost.errors import DuplicateJobError
from fencepost.store.interface.records.transfer import Loaded, LoadReply, Present
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.flows.enqueue import DELIVERY, callback_fields
from fencepost.store.postgres.jobs.catalog import Env, JobNumbers
from fencepost.store.postgres.jobs.control import HOLDER
from fencepost.store.postgres.jobs.edit import HOLD_MARKS
from fencepost.store.postgres.jobs.read import READER
from fencepost.store.postgres.jobs.rows import CODEC, JOB_COLUMNS, json_fields
from fencepost.store.postgres.limits.concurrency import FreedSlots, key_fields, note
from fencepost.store.postgres.records.arrivals import link, with_slots
from fencepost.store.sql.codec import (
    COMPLETED,
    DELAYED,
    PENDING,
    RETRYING,
    SCHEDULED,
    encode_json,
)
from fencepost.store.sql.records.transfer import (
    DumpPlans,
    DumpSql,
    attempt_fields,
    job_fields,
    loadable,
    needs_key,
)

# Numbered after they are sorted, so that jobs due at the same time keep their order. A job that is
# put below a mark lowers it, as `fencepost.attach` does; some marks need not be lowered here.
LOAD = f"""
with given as materialized (
  select * from json_to_recordset(%s::json) as x(
    place integer, id uuid, lane integer, policy integer, state smallint, attempt integer,
    lease_version bigint, max_attempts integer, reopened_version bigint, created_at timestamptz,
    updated_at timestamptz, run_at timestamptz, expires_at timestamptz, scheduled_at timestamptz,
    started_at timestamptz, completed_at timestamptz, worker text, is_dead_letter boolean,
    key text, key_window bigint, correlation_id text, tags jsonb, replay_of uuid, failure text,
    progress text, payload_encoding smallint, payload text, payload_hex text,
    result_encoding smallint, result text, result_hex text, checkpoint_encoding smallint,
    checkpoint text, checkpoint_hex text, flow text, node text, mode smallint, depth smallint,
    gathers boolean, missing integer, callback_url text, callback json, slot bigint,
    concurrency_key text, max_running integer, own_priority smallint, submitter text
  )
), stored as (
  insert into fencepost.submissions(
    seq, id, created_at, run_at, expires_at, lane, policy, max_attempts, reopened_version,
    payload_encoding, payload, payload_bytes, key, key_window, correlation_id, tags, replay_of,
    flow, node, mode, depth, gathers, callback_url, own_priority, submitter)
  select nextval('fencepost.seq'), id, created_at, run_at, expires_at, lane, policy, max_attempts,
    reopened_version, payload_encoding, payload, decode(payload_hex, 'hex'), key, key_window,
    correlation_id, tags, replay_of, flow, node, mode, depth, gathers, callback_url,
    own_priority, submitter
  from (select * from given order by place) as sorted
  on conflict (id) do nothing returning seq, id
), fresh as materialized (
  select stored.seq, given.* from stored join given on given.id = stored.id
), named as (
  insert into fencepost.keyed_jobs(seq, slot, max_running, concurrency_key)
  select seq, slot, max_running, concurrency_key from fresh where slot is not null
), ended as (
  insert into fencepost.done(
    seq, completed_at, started_at, scheduled_at, attempt, lease_version, state,
    result_encoding, is_dead_letter, worker, result, result_bytes, failure)
  select seq, completed_at, started_at, coalesce(scheduled_at, '-infinity'), attempt, lease_version,
    state, result_encoding, is_dead_letter, worker, result, decode(result_hex, 'hex'), failure
  from fresh where state >= {COMPLETED}
), waiting as (
  insert into fencepost.delayed(
    seq, run_at, updated_at, scheduled_at, lane, attempt, lease_version, state)
  select seq, run_at, updated_at, scheduled_at, lane, attempt, lease_version, state
  from fresh where state in ({DELAYED}, {RETRYING})
), held_up as (
  insert into fencepost.pending(
    seq, run_at, updated_at, scheduled_at, lane, attempt, lease_version, mode, missing, slot,
    priority)
  select seq, run_at, updated_at, scheduled_at, fresh.lane, attempt, lease_version, mode,
    coalesce(missing, 0), case when coalesce(missing, 0) = 0 then slot end,
    case when coalesce(missing, 0) = 0 then lanes.priority end
  from fresh join fencepost.lanes on lanes.lane = fresh.lane where state = {PENDING}
), in_line as (
  insert into fencepost.ready(run_at, seq, scheduled_at, lane, attempt, lease_version)
  select run_at, seq, nullif(scheduled_at, created_at), lane, attempt, lease_version
  from fresh where state = {SCHEDULED}
), asked as (
  select fencepost.ask_back(seq, callback) from fresh where callback is not null
), saves as (
  insert into fencepost.saved(
    seq, lease_version, progress, checkpoint_encoding, checkpoint, checkpoint_bytes)
  select seq, lease_version, progress, checkpoint_encoding, checkpoint,
    decode(checkpoint_hex, 'hex')
  from fresh where progress is not null or checkpoint_encoding is not null
), lowered as (
  select fencepost.lower_mark(first.lane, first.run_at)
  from (
    select lane, min(run_at) as run_at from fresh where state = {SCHEDULED} group by lane
  ) as first
), marked as (
  update fencepost.marks set due_mark = least(due_mark, first.run_at),
    lifetime_mark = least(lifetime_mark, first.expires_at)
  from (
    select min(run_at) filter (where state in ({DELAYED}, {RETRYING})) as run_at,
      min(expires_at) as expires_at
    from fresh where state < {COMPLETED}
  ) as first
  where due_mark > first.run_at or lifetime_mark > first.expires_at
), counted as (
  insert into fencepost.counters(lane, state, count)
  select lane, state, count(*) from fresh group by lane, state
)
select id::text, seq, (select count(*) from asked) + (select count(*) from lowered) from fresh
"""
LOAD_ATTEMPTS = """
insert into fencepost.attempts(
  seq, lease_version, number, started_at, ended_at, worker, outcome, failure)
select seq, lease_version, number, started_at, ended_at, worker, outcome, failure
from json_to_recordset(%s::json) as x(
  seq bigint, lease_version bigint, number integer, started_at timestamptz, ended_at timestamptz,
  worker text, outcome text, failure text
)
"""
# A key is taken from a job that no longer holds it, as `fencepost.take_key` does.
LOAD_KEYS = """
insert into fencepost.idempotency as held(type, key, seq, key_ends_at)
select type, key, seq, key_ends_at
from json_to_recordset(%s::json) as x(
  type text, key text, seq bigint, key_ends_at timestamptz
)
on conflict (type, key) do update
set seq = excluded.seq, key_ends_at = excluded.key_ends_at
where exists (select 1 from fencepost.done where done.seq = held.seq)
  and (held.key_ends_at is null
    or held.key_ends_at <= coalesce(%s::timestamptz, clock_timestamp()))
returning seq
"""
# A lane may have been removed since its number was read.
CHECK_NUMBERS = """
select fencepost.check_numbers(x.lane, x.policy)
from unnest(%s::integer[], %s::integer[]) as x(lane, policy)
"""
# Their numbers follow the order of loading, not of creation.
NOTE_DISORDER = "select fencepost.note_disorder(greatest(%s::timestamptz, %s))"

ACCEPT_JOBS = "select fencepost.accept_jobs(%s)"


DUMP: DumpPlans[Env] = DumpPlans(
    DumpSql(
        # The length of a long value is known without reading it.
        sizes="""
select page.seq, (
    coalesce(octet_length(page.payload), octet_length(page.payload_bytes), 0)
    + coalesce(octet_length(done.result), octet_length(done.result_bytes), 0)
    + coalesce(octet_length(saved.checkpoint), octet_length(saved.checkpoint_bytes), 0)
  )::bigint
from (
  select seq, payload, payload_bytes from fencepost.submissions where seq > %s::bigint
  order by seq limit %s
) as page
left join fencepost.done on done.seq = page.seq
left join fencepost.saved on saved.seq = page.seq
order by page.seq
""",
        records=f"""
select key_window, is_dead_letter, {JOB_COLUMNS}, coalesce(%s::timestamptz, clock_timestamp())
from fencepost.jobs where seq = any (%s::bigint[]) order by seq
""",
        attempts="""
select seq, lease_version, number, worker, outcome, started_at, ended_at, failure
from fencepost.attempts where seq = any (%s::bigint[]) order by seq, lease_version
""",
        dependencies="""
select dependencies.child, submissions.id::text
from fencepost.dependencies join fencepost.submissions on submissions.seq = dependencies.parent
where dependencies.child = any (%s::bigint[]) order by dependencies.child, dependencies.place
""",
        keys="""
select submissions.seq, held.key_ends_at from fencepost.submissions
join fencepost.lanes on lanes.lane = submissions.lane
join fencepost.idempotency as held on held.type = lanes.type and held.key = submissions.key
where submissions.seq = any (%s::bigint[]) and held.seq = submissions.seq
""",
    ),
    READER,
)


def accept_jobs(_: Env, is_accepted: bool) -> Plan[None]:
    """Refuse new jobs, or accept them again."""
    yield Statement(ACCEPT_JOBS, (is_accepted,))


def load(env: Env, records: Sequence[JobRecord]) -> Plan[list[LoadReply]]:
    """Store jobs that are not there yet, at the end of the order of submission."""
    wanted, taken = yield from with_slots(loadable(records))
    has_callbacks = any(record.job.callback_url is not None for record in wanted.values())
    kinds = [*map(_kind, wanted.values()), *([DELIVERY] if has_callbacks else [])]
    numbers = yield from env.catalog.number(kinds, afresh=True)
    yield Statement(HOLD_MARKS)
    yield Statement(CHECK_NUMBERS, _columns({numbers.of(kind) for kind in kinds}))
    fresh: dict[str, int] = {}
    for chunk in _chunks(list(wanted.values())):
        fields = [_fields(numbers, record, place) for place, record in enumerate(chunk)]
        rows = yield Statement(LOAD, (encode_json(fields),))
        fresh |= {job_id: seq for job_id, seq, _ in rows}
    loaded = {fresh[job_id]: record for job_id, record in wanted.items() if job_id in fresh}
    if loaded:
        latest = max(record.job.created_at for record in loaded.values())
        yield Statement(NOTE_DISORDER, (latest, env.now))
    attempts = [row for seq, record in loaded.items() for row in attempt_fields(CODEC, record, seq)]
    if attempts:
        yield Statement(LOAD_ATTEMPTS, (encode_json(attempts),))
    yield from _take_keys(env, loaded)
    freed = FreedSlots()
    yield from link(env, loaded, freed)
    freed.add_held(record.job for record in loaded.values() if record.job.is_held)
    # Another session may have loaded the job meanwhile, and have taken a slot for it.
    freed.add((slot, 1) for job_id, slot in taken.items() if job_id not in fresh)
    # Not admitted yet: the job that has the slot may come with the next page.
    yield from note(freed)
    replies: list[LoadReply] = []
    for record in records:
        job_id = record.job.id
        is_fresh = fresh.pop(job_id, None) is not None
        replies.append(Loaded(job_id) if is_fresh else Present(job_id))
    return replies


def _columns(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    return [list(column) for column in zip(*pairs, strict=True)] or [[], []]


def _kind(record: JobRecord) -> NewJob:
    """Return a job of the same lane and policy."""
    job = record.job
    return NewJob(type=job.type, queue=job.queue, priority=job.priority, policy=job.policy)


def _chunks(records: Sequence[JobRecord]) -> Iterator[list[JobRecord]]:
    """Yield records in portions that keep a statement within a bounded size."""
    chunk: list[JobRecord] = []
    size = 0
    for record in records:
        job = record.job
        bodies = (job.payload_body, job.result_body, job.checkpoint_body)
        more = sum(len(body.data) for body in bodies if body is not None)
        if chunk and size + more > DUMP_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(record)
        size += more
    if chunk:
        yield chunk


def _fields(numbers: JobNumbers, record: JobRecord, place: int) -> dict[str, Any]:
    job = record.job
    lane, policy = numbers.of(_kind(record))
    return {
        **job_fields(CODEC, record),
        "place": place,
        "lane": lane,
        "policy": policy,
        "reopened_version": _reopened_version(record),
        "tags": job.tags or None,
        "gathers": (job.waits is not None and job.waits.gathers) or None,
        **key_fields(job),
        **callback_fields(job.callback_url, numbers),
        **json_fields("payload", job.payload_body),
        **json_fields("result", job.result_body),
        **json_fields("checkpoint", job.checkpoint_body),
    }


def _reopened_version(record: JobRecord) -> int:
    """Return the last attempt whose failure is not shown; a live job shows that of its last."""
    if record.job.failure is not None:
        return 0
    failed = [each.lease_version for each in record.unsuccessful if each.failure is not None]
    return max(failed, default=0)


def _take_keys(env: Env, loaded: dict[int, JobRecord]) -> Plan[None]:
    wanted = {
        seq: record
        for seq, record in loaded.items()
        if record.holds_key and record.job.key is not None
    }
    if not wanted:
        return
    fields = [
        {
            "type": record.job.type,
            "key": record.job.key,
            "seq": seq,
            "key_ends_at": record.key_ends_at,
        }
        for seq, record in wanted.items()
    ]
    taken = {row[0] for row in (yield Statement(LOAD_KEYS, (encode_json(fields), env.now)))}
    for seq, record in wanted.items():
        if seq not in taken and needs_key(record):
            type_, key = record.job.type, record.job.key
            assert key is not None
            ((_, holder),) = yield Statement(HOLDER, (type_, key))
            raise DuplicateJobError(type=type_, key=key, existing_id=holder)
