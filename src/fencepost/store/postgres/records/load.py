"""Jobs of another store, put down here as they were there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from fencepost.core.bounds import DUMP_BYTES
from fencepost.core.job.job import Body, Job, JobRecord, NewJob
from fencepost.core.values.instants import seconds_to_us
from fencepost.errors import DuplicateJobError
from fencepost.store.interface.transfer import Loaded, LoadReply, Present
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.flows.enqueue import DELIVERY, callback_fields
from fencepost.store.postgres.jobs.catalog import Env, Numbers
from fencepost.store.postgres.jobs.control import HOLDER
from fencepost.store.postgres.jobs.edit import HOLD_MARKS
from fencepost.store.postgres.jobs.rows import body_fields
from fencepost.store.postgres.limits.concurrency import Touched, key_fields, note
from fencepost.store.postgres.records.arrivals import with_slots
from fencepost.store.postgres.records.links import link
from fencepost.store.sql.codes import MODE_NUMBER, NUMBER
from fencepost.store.sql.texts import encode_failure, encode_json
from fencepost.store.sql.transfer import loadable, needs_key

# Numbered after they are sorted, so that jobs due at the same time keep their order. Whatever is
# put below a mark lowers it, as `fencepost.put` does; there are marks here that it need not lower.
LOAD = """
with given as materialized (
  select * from json_to_recordset(%s::json) as x(
    place integer, id uuid, lane integer, policy integer, state smallint, attempt integer,
    version bigint, max_attempts integer, reopened_version bigint, created_at timestamptz,
    updated_at timestamptz, run_at timestamptz, expires_at timestamptz, scheduled_at timestamptz,
    started_at timestamptz, completed_at timestamptz, worker text, is_dead_letter boolean,
    key text, key_window bigint, correlation_id text, tags jsonb, replay_of uuid, failure text,
    progress text, encoding smallint, payload text, payload_hex text, result_encoding smallint,
    result text, result_hex text, checkpoint_encoding smallint, checkpoint text,
    checkpoint_hex text, flow text, node text, mode smallint, depth smallint, gathers boolean,
    missing integer, callback_url text, callback json, slot bigint, concurrency_key text,
    max_running integer, own_priority smallint, submitter text
  )
), stored as (
  insert into fencepost.job(
    seq, id, created_at, run_at, expires_at, lane, policy, max_attempts, reopened_version, encoding,
    payload, payload_bytes, key, key_window, correlation_id, tags, replay_of, flow, node, mode,
    depth, gathers, callback_url, own_priority, submitter)
  select nextval('fencepost.seq'), id, created_at, run_at, expires_at, lane, policy, max_attempts,
    reopened_version, encoding, payload, decode(payload_hex, 'hex'), key, key_window,
    correlation_id, tags, replay_of, flow, node, mode, depth, gathers, callback_url,
    own_priority, submitter
  from (select * from given order by place) as sorted
  on conflict (id) do nothing returning seq, id
), fresh as materialized (
  select stored.seq, given.* from stored join given on given.id = stored.id
), named as (
  insert into fencepost.keyed(seq, slot, max_running, key)
  select seq, slot, max_running, concurrency_key from fresh where slot is not null
), ended as (
  insert into fencepost.done(
    seq, ended_at, started_at, scheduled_at, attempt, version, state, encoding, is_dead_letter,
    worker, result, result_bytes, failure)
  select seq, completed_at, started_at, coalesce(scheduled_at, '-infinity'), attempt, version,
    state, result_encoding, is_dead_letter, worker, result, decode(result_hex, 'hex'), failure
  from fresh where state >= 5
), waiting as (
  insert into fencepost.delayed(seq, run_at, since, scheduled_at, lane, attempt, version, state)
  select seq, run_at, updated_at, scheduled_at, lane, attempt, version, state
  from fresh where state in (2, 4)
), held_up as (
  insert into fencepost.pending(
    seq, run_at, since, scheduled_at, lane, attempt, version, mode, missing, slot, priority)
  select seq, run_at, updated_at, scheduled_at, fresh.lane, attempt, version, mode,
    coalesce(missing, 0), case when coalesce(missing, 0) = 0 then slot end,
    case when coalesce(missing, 0) = 0 then lane.priority end
  from fresh join fencepost.lane on lane.lane = fresh.lane where state = 0
), in_line as (
  insert into fencepost.ready(run_at, seq, scheduled_at, lane, attempt, version)
  select run_at, seq, nullif(scheduled_at, created_at), lane, attempt, version
  from fresh where state = 1
), asked as (
  select fencepost.ask_back(seq, callback) from fresh where callback is not null
), saves as (
  insert into fencepost.saved(seq, version, progress, encoding, checkpoint, checkpoint_bytes)
  select seq, version, progress, checkpoint_encoding, checkpoint, decode(checkpoint_hex, 'hex')
  from fresh where progress is not null or checkpoint_encoding is not null
), lowered as (
  select fencepost.lower_mark(first.lane, first.run_at)
  from (select lane, min(run_at) as run_at from fresh where state = 1 group by lane) as first
), marked as (
  update fencepost.pulse set due_mark = least(due_mark, first.run_at),
    lifetime_mark = least(lifetime_mark, first.expires_at)
  from (
    select min(run_at) filter (where state in (2, 4)) as run_at, min(expires_at) as expires_at
    from fresh where state < 5
  ) as first
  where due_mark > first.run_at or lifetime_mark > first.expires_at
), counted as (
  insert into fencepost.tally(lane, state, count)
  select lane, state, count(*) from fresh group by lane, state
)
select id::text, seq, (select count(*) from asked) + (select count(*) from lowered) from fresh
"""
LOAD_ATTEMPTS = """
insert into fencepost.attempt(
  seq, version, number, started_at, ended_at, worker, outcome, failure)
select seq, version, number, started_at, ended_at, worker, outcome, failure
from json_to_recordset(%s::json) as x(
  seq bigint, version bigint, number integer, started_at timestamptz, ended_at timestamptz,
  worker text, outcome text, failure text
)
"""
# A key is taken from a job that no longer holds it, as `fencepost.take_key` does.
LOAD_KEYS = """
insert into fencepost.idempotency as held(type, key, seq, window_ends_at)
select type, key, seq, window_ends_at
from json_to_recordset(%s::json) as x(
  type text, key text, seq bigint, window_ends_at timestamptz
)
on conflict (type, key) do update
set seq = excluded.seq, window_ends_at = excluded.window_ends_at
where exists (select 1 from fencepost.done where done.seq = held.seq)
  and (held.window_ends_at is null
    or held.window_ends_at <= coalesce(%s::timestamptz, clock_timestamp()))
returning seq
"""
# A lane may have been removed since it was asked for.
CHECK_NUMBERS = """
select fencepost.check_numbers(x.lane, x.policy)
from unnest(%s::integer[], %s::integer[]) as x(lane, policy)
"""
# Their numbers say when they came here, not when they were created.
NOTE_DISORDER = "select fencepost.note_disorder(greatest(%s::timestamptz, %s))"

_encoder = msgspec.json.Encoder()

ACCEPT_JOBS = "select fencepost.accept_jobs(%s)"


def accept_jobs(_: Env, is_accepted: bool) -> Plan[None]:
    """Refuse whatever inserts a job, or accept jobs again."""
    yield Statement(ACCEPT_JOBS, (is_accepted,))


def load(env: Env, records: Sequence[JobRecord]) -> Plan[list[LoadReply]]:
    """Store jobs that are not there yet, at the end of the order of submission."""
    wanted, taken = yield from with_slots(loadable(records))
    has_callbacks = any(record.job.callback_url is not None for record in wanted.values())
    kinds = [*_kinds(wanted.values()).values(), *([DELIVERY] if has_callbacks else [])]
    numbers = yield from env.catalog.number(kinds, afresh=True)
    yield Statement(HOLD_MARKS)
    yield Statement(CHECK_NUMBERS, _columns({numbers.of(kind) for kind in kinds}))
    fresh: dict[str, int] = {}
    for chunk in _chunks(list(wanted.values())):
        fields = [_fields(numbers, record, place) for place, record in enumerate(chunk)]
        rows = yield Statement(LOAD, (_json(fields),))
        fresh |= {job_id: seq for job_id, seq, _ in rows}
    loaded = {fresh[job_id]: record for job_id, record in wanted.items() if job_id in fresh}
    if loaded:
        latest = max(record.job.created_at for record in loaded.values())
        yield Statement(NOTE_DISORDER, (latest, env.now))
    attempts = [row for seq, record in loaded.items() for row in _attempts(record, seq)]
    if attempts:
        yield Statement(LOAD_ATTEMPTS, (_json(attempts),))
    yield from _take_keys(env, loaded)
    touched = Touched()
    yield from link(env, loaded, touched)
    touched.add_held(record.job for record in loaded.values() if record.job.is_held)
    # Somebody else may have loaded the job meanwhile, and have taken a slot for it.
    touched.add((slot, 1) for job_id, slot in taken.items() if job_id not in fresh)
    # Not admitted yet: whoever has the slot may come with the next page.
    yield from note(touched)
    replies: list[LoadReply] = []
    for record in records:
        job_id = record.job.id
        is_fresh = fresh.pop(job_id, None) is not None
        replies.append(Loaded(job_id) if is_fresh else Present(job_id))
    return replies


def _columns(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    return [list(column) for column in zip(*pairs, strict=True)] or [[], []]


def _kind(record: JobRecord) -> tuple[Any, ...]:
    job = record.job
    return job.queue, job.type, job.priority, job.policy


def _kinds(records: Iterable[JobRecord]) -> dict[tuple[Any, ...], NewJob]:
    """Return a job for each kind that has a lane and a policy of its own."""
    kinds: dict[tuple[Any, ...], NewJob] = {}
    for record in records:
        kind = _kind(record)
        if kind not in kinds:
            queue, type_, priority, policy = kind
            kinds[kind] = NewJob(type=type_, queue=queue, priority=priority, policy=policy)
    return kinds


def _chunks(records: Sequence[JobRecord]) -> Iterator[list[JobRecord]]:
    """Yield records so many at a time that a statement stays of a bounded size."""
    chunk: list[JobRecord] = []
    size = 0
    for record in records:
        job = record.job
        bodies = (job.payload, job.result, job.checkpoint)
        more = sum(len(body.data) for body in bodies if body is not None)
        if chunk and size + more > DUMP_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(record)
        size += more
    if chunk:
        yield chunk


def _json(fields: Any) -> str:
    return _encoder.encode(fields).decode()


def _fields(numbers: Numbers, record: JobRecord, place: int) -> dict[str, Any]:
    job, success, window = record.job, record.success, record.key_window
    numbered = NewJob(type=job.type, queue=job.queue, priority=job.priority, policy=job.policy)
    lane, policy = numbers.of(numbered)
    return {
        "place": place,
        "id": job.id,
        "lane": lane,
        "policy": policy,
        "state": NUMBER[job.state],
        "attempt": job.attempt,
        "version": job.lease_version,
        "max_attempts": job.max_attempts,
        "reopened_version": _reopened_version(record),
        "created_at": job.created_at,
        "updated_at": job.updated_at,
        "run_at": job.run_at,
        "expires_at": job.expires_at,
        "scheduled_at": job.scheduled_at,
        "started_at": job.started_at,
        "completed_at": job.completed_at,
        "worker": None if success is None else success.worker,
        "is_dead_letter": record.is_dead_letter or None,
        "key": job.key,
        "key_window": None if window is None else seconds_to_us(window),
        "correlation_id": job.correlation_id,
        "tags": job.tags or None,
        "replay_of": job.replay_of,
        "failure": encode_failure(job.failure),
        "submitter": job.submitter,
        **_waits(job),
        **callback_fields(job.callback_url, numbers),
        "progress": None if job.progress is None else encode_json(job.progress),
        **_body(job.payload, "encoding", "payload"),
        **_body(job.result, "result_encoding", "result"),
        **_body(job.checkpoint, "checkpoint_encoding", "checkpoint"),
    }


def _waits(job: Job) -> dict[str, Any]:
    fields: dict[str, Any] = {"flow": job.flow, "node": job.node}
    if job.waits is not None:
        fields |= {
            "mode": MODE_NUMBER[job.waits.mode],
            "depth": job.waits.depth,
            "gathers": job.waits.gathers or None,
            "missing": job.waits.missing,
            "own_priority": job.waits.own_priority,
        }
    return fields | key_fields(job)


def _body(body: Body | None, encoding_name: str, name: str) -> dict[str, Any]:
    if body is None:
        return {}
    encoding, text, data = body_fields(body)
    return {
        encoding_name: encoding,
        name: text,
        f"{name}_hex": None if data is None else data.hex(),
    }


def _reopened_version(record: JobRecord) -> int:
    """Return up to which attempt failures are forgotten: a live job shows its last one."""
    if record.job.failure is not None:
        return 0
    failed = [each.lease_version for each in record.unsuccessful if each.failure is not None]
    return max(failed, default=0)


def _attempts(record: JobRecord, seq: int) -> Iterator[dict[str, Any]]:
    for each in record.unsuccessful:
        yield {
            "seq": seq,
            "version": each.lease_version,
            "number": each.number,
            "started_at": each.started_at,
            "ended_at": each.ended_at,
            "worker": each.worker,
            "outcome": each.outcome.value,
            "failure": encode_failure(each.failure),
        }


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
            "window_ends_at": record.key_ends_at,
        }
        for seq, record in wanted.items()
    ]
    taken = {row[0] for row in (yield Statement(LOAD_KEYS, (_json(fields), env.now)))}
    for seq, record in wanted.items():
        if seq not in taken and needs_key(record):
            type_, key = record.job.type, record.job.key
            assert key is not None
            ((_, holder),) = yield Statement(HOLDER, (type_, key))
            raise DuplicateJobError(type=type_, key=key, existing_id=holder)
