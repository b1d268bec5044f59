"""Jobs of another store, put down here as they were there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from fencepost.core.flows.dependencies import Waits
from fencepost.core.job.job import JobRecord
from fencepost.core.values.ids import id_bytes
from fencepost.core.values.instants import seconds_to_us, to_us
from fencepost.errors import DuplicateJobError
from fencepost.store.interface.transfer import Loaded, LoadReply, Present
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codes import ENCODING_NUMBER, MODE_NUMBER, NUMBER
from fencepost.store.sql.texts import encode_failure, encode_json
from fencepost.store.sql.transfer import NOT_ACCEPTED, loadable, needs_key
from fencepost.store.sqlite.engine.values import values
from fencepost.store.sqlite.flows.parents import link
from fencepost.store.sqlite.jobs.catalog import Env, Tally
from fencepost.store.sqlite.jobs.chronology import note_disorder
from fencepost.store.sqlite.jobs.enqueue import TAG, TAKE_KEY, find_holder
from fencepost.store.sqlite.jobs.finish import RECORD
from fencepost.store.sqlite.jobs.rows import encode_body
from fencepost.store.sqlite.limits.concurrency import Arriving, note
from fencepost.store.sqlite.records.arrivals import arriving
from fencepost.store.sqlite.records.webhooks import call_back

PRESENT = "select id from jobs where id in ({values})"
LAST = "select coalesce(max(seq), 0) from jobs"
LOAD = """
insert into jobs(
  seq, id, lane, policy, priority, state, attempt, max_attempts, run_at, lease_version, worker,
  created_at, updated_at, scheduled_at, started_at, completed_at, expires_at, is_dead_letter, key,
  key_window, correlation_id, tags, replay_of, failure, progress, checkpoint, checkpoint_encoding,
  result, result_encoding, flow, node, mode, missing, depth, gathers, own_priority, slot,
  callback_url, submitter, payload_encoding, payload)
{values}
"""

# A trigger and not a flag: no submission pays for a question that is hardly ever answered with no,
# and what inserts jobs cannot forget to ask.
REFUSE = f"""
create trigger if not exists refuse_jobs before insert on jobs begin
  select raise(abort, '{NOT_ACCEPTED}');
end
"""
ACCEPT = "drop trigger if exists refuse_jobs"


def accept_jobs(_: Env, is_accepted: bool) -> Plan[None]:
    """Refuse whatever inserts a job, or accept jobs again."""
    yield Statement(ACCEPT if is_accepted else REFUSE)


def load(env: Env, records: Sequence[JobRecord]) -> Plan[list[LoadReply]]:
    """Store jobs that are not there yet, at the end of the order of submission."""
    present: set[bytes] = set()
    for sql, params in values(PRESENT, [(id_bytes(job_id),) for job_id in loadable(records)]):
        present |= {row[0] for row in (yield Statement(sql, params))}
    ((last,),) = yield Statement(LAST)
    fresh: dict[int, JobRecord] = {}
    replies: list[LoadReply] = []
    for record in records:
        id_ = id_bytes(record.job.id)
        if id_ in present:
            replies.append(Present(record.job.id))
            continue
        present.add(id_)
        fresh[last + len(fresh) + 1] = record
        replies.append(Loaded(record.job.id))
    now = env.clock.now_us()
    arrivals = yield from arriving(fresh, now)
    yield from _insert(env, arrivals.records)
    if fresh:
        created = [to_us(record.job.created_at) for record in fresh.values()]
        yield from note_disorder(max(fresh), max(now, *created))
    yield from link(arrivals.edges)
    yield from _take_keys(fresh, now)
    yield from call_back(env, arrivals.ended, now)
    return replies


def _take_keys(fresh: dict[int, JobRecord], now: int) -> Plan[None]:
    for seq, record in fresh.items():
        type_, key = record.job.type, record.job.key
        if key is None or not record.holds_key:
            continue
        holder = yield from find_holder(type_, key, now)
        if holder is None:
            ends_at = _us(record.key_ends_at)
            for sql, params in values(TAKE_KEY, [(type_, key, seq, ends_at)]):
                yield Statement(sql, params)
        elif needs_key(record):
            raise DuplicateJobError(type=type_, key=key, existing_id=holder.job_id)


def _insert(env: Env, fresh: dict[int, JobRecord]) -> Plan[None]:
    tally = Tally()
    rows: list[tuple[Any, ...]] = []
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
        rows.append(_row(record, seq=seq, lane=lane, policy=policy, slot=slot))
        tags += [(name, value, seq) for name, value in job.tags.items()]
        attempts += _attempts(record, seq)
        tally.move(lane, None, job.state)
    for template, lines in ((LOAD, rows), (TAG, tags), (RECORD, attempts)):
        for sql, params in values(template, lines):
            yield Statement(sql, params)
    # Whoever has the slot may come with the next page.
    yield from note(slots.numbers.values())
    yield from tally.write()


def _row(
    record: JobRecord, *, seq: int, lane: int, policy: int, slot: int | None
) -> tuple[Any, ...]:
    job, success, window = record.job, record.success, record.key_window
    return (
        seq,
        id_bytes(job.id),
        lane,
        policy,
        int(job.priority),
        NUMBER[job.state],
        job.attempt,
        job.max_attempts,
        to_us(job.run_at),
        job.lease_version,
        None if success is None else success.worker,
        to_us(job.created_at),
        to_us(job.updated_at),
        _us(job.scheduled_at),
        _us(job.started_at),
        _us(job.completed_at),
        to_us(job.expires_at),
        1 if record.is_dead_letter else None,
        job.key,
        None if window is None else seconds_to_us(window),
        job.correlation_id,
        encode_json(job.tags) if job.tags else None,
        None if job.replay_of is None else id_bytes(job.replay_of),
        encode_failure(job.failure),
        None if job.progress is None else encode_json(job.progress),
        *encode_body(job.checkpoint),
        *encode_body(job.result),
        job.flow,
        job.node,
        *_waits(job.waits, slot),
        slot,
        job.callback_url,
        job.submitter,
        ENCODING_NUMBER[job.payload.encoding],
        job.payload.data,
    )


def _waits(waits: Waits | None, slot: int | None) -> tuple[int | None, ...]:
    if waits is None:
        return (None, None if slot is None else 0, None, None, None)
    own = None if waits.own_priority is None else int(waits.own_priority)
    return (MODE_NUMBER[waits.mode], waits.missing, waits.depth, int(waits.gathers), own)


def _attempts(record: JobRecord, seq: int) -> Iterator[tuple[Any, ...]]:
    for each in record.unsuccessful:
        yield (
            seq,
            each.lease_version,
            each.number,
            each.worker,
            each.outcome.value,
            to_us(each.started_at),
            _us(each.ended_at),
            encode_failure(each.failure),
        )


def _us(instant: datetime | None) -> int | None:
    return None if instant is None else to_us(instant)
