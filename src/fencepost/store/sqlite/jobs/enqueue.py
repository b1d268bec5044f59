"""Storing new jobs, and the keys that keep a second one from being stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fencepost.core.job.idempotency import is_held
from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import Event, State, advance
from fencepost.core.values.ids import id_text
from fencepost.core.values.instants import seconds_to_us, to_us
from fencepost.errors import DuplicateJobError
from fencepost.store.interface.replies import Duplicate, Enqueued, EnqueueReply
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codes import BY_NUMBER, ENCODING_NUMBER, NUMBER
from fencepost.store.sql.texts import encode_json
from fencepost.store.sqlite.engine.values import values
from fencepost.store.sqlite.jobs.catalog import Env, Tally
from fencepost.store.sqlite.jobs.chronology import note_clock

COLUMNS = """
id, lane, policy, priority, state, max_attempts, run_at, created_at, updated_at, scheduled_at,
expires_at, key, key_window, correlation_id, tags, replay_of, submitter, payload_encoding, payload
"""
INSERT = f"insert into jobs({COLUMNS}) {{values}}"
INSERT_ONE = f"insert into jobs({COLUMNS}) values ({','.join('?' * 19)}) returning seq"
HOLDER = """
select jobs.seq, jobs.id, jobs.state, lanes.queue, idempotency.window_ends_at
from idempotency join jobs on jobs.seq = idempotency.seq join lanes on lanes.lane = jobs.lane
where idempotency.type = ? and idempotency.key = ?
"""
TAKE_KEY = """
insert into idempotency(type, key, seq, window_ends_at) {values}
on conflict(type, key) do update
set seq = excluded.seq, window_ends_at = excluded.window_ends_at
"""
TAG = "insert into tags(name, value, seq) {values}"


class Holder(NamedTuple):
    """The job that a key belongs to."""

    seq: int
    job_id: str
    state: State
    queue: str


def enqueue(
    env: Env, jobs: Sequence[NewJob], *, atomic: bool, now: int
) -> Plan[list[EnqueueReply]]:
    """Store *jobs*, each unless its key is held."""
    tally = Tally()
    replies: list[EnqueueReply] = []
    plain: list[tuple[Any, ...]] = []
    yield from note_clock(env, now)
    for job, fresh in zip(jobs, env.clock.new_ids(len(jobs)), strict=True):
        lane = yield from env.catalog.lane_number(job.queue, job.type)
        policy = yield from env.catalog.policy_number(job.policy)
        state = initial_state(job, now)
        row = new_row(job.id or fresh, job, lane=lane, policy=policy, state=state, now=now)
        if job.key is None and not job.tags:
            plain.append(row)
        else:
            yield from _insert(plain)  # what came before stays before in line
            plain = []
            duplicate = yield from insert_with_key(job, row, now)
            if duplicate is not None:
                if atomic and duplicate.is_rejected:
                    raise DuplicateJobError(
                        type=job.type, key=duplicate.key, existing_id=duplicate.job_id
                    )
                replies.append(duplicate)
                continue
        tally.move(lane, None, state)
        replies.append(Enqueued(id_text(row[0]), job.type, state))
    yield from _insert(plain)
    yield from tally.write()
    return replies


def _insert(rows: Sequence[tuple[Any, ...]]) -> Plan[None]:
    for sql, params in values(INSERT, rows):
        yield Statement(sql, params)


def due_at(job: NewJob, now: int) -> int:
    """Return when *job* is to run; a time in the past means now."""
    if job.run_at is not None:
        return max(to_us(job.run_at), now)
    return now + seconds_to_us(job.delay)


def initial_state(job: NewJob, now: int) -> State:
    """Return the state in which *job* is stored: accepted, then at once scheduled or delayed."""
    return advance(State.PENDING, Event.READY if due_at(job, now) <= now else Event.DELAY)


def new_row(
    id: bytes,
    job: NewJob,
    *,
    lane: int,
    policy: int,
    state: State,
    now: int,
    priority: int | None = None,
) -> tuple[Any, ...]:
    """Return what COLUMNS hold of a new job; *priority* if it is not the job's own."""
    key = job.key
    return (
        id,
        lane,
        policy,
        int(job.priority if priority is None else priority),
        NUMBER[state],
        job.policy.max_attempts,
        due_at(job, now),
        now,
        now,
        now if state is State.SCHEDULED else None,
        now + seconds_to_us(job.policy.lifetime),
        None if key is None else key.value,
        None if key is None or key.window is None else seconds_to_us(key.window),
        job.correlation_id,
        encode_json(job.tags) if job.tags else None,
        None,
        job.submitter,
        ENCODING_NUMBER[job.payload.encoding],
        job.payload.data,
    )


def insert_with_key(job: NewJob, row: tuple[Any, ...], now: int) -> Plan[Duplicate | None]:
    """Insert one job with its tags and its key, unless the key is held."""
    if job.key is not None:
        holder = yield from find_holder(job.type, job.key.value, now)
        if holder is not None:
            return Duplicate(
                holder.job_id,
                job.type,
                job.key.value,
                holder.state,
                job.key.refuses(holder.queue),
            )
    ((seq,),) = yield Statement(INSERT_ONE, row)
    if job.key is not None:
        window = None if job.key.window is None else seconds_to_us(job.key.window)
        yield from take_key(job.type, job.key.value, seq, window, now)
    yield from write_tags(seq, job.tags)
    return None


def find_holder(type: str, key: str, now: int) -> Plan[Holder | None]:
    """Return the job that holds a key now. Keys are released lazily, by looking at the job."""
    rows = yield Statement(HOLDER, (type, key))
    for seq, id_, number, queue, window_ends_at in rows:
        state = BY_NUMBER[number]
        if is_held(is_live=not state.is_terminal, window_ends_us=window_ends_at, now_us=now):
            return Holder(seq, id_text(id_), state, queue)
    return None


def take_key(type: str, key: str, seq: int, window: int | None, now: int) -> Plan[None]:
    """Give a key to a job, for a window from now or for as long as the job is live."""
    window_ends_at = None if window is None else now + window
    for sql, params in values(TAKE_KEY, [(type, key, seq, window_ends_at)]):
        yield Statement(sql, params)


def write_tags(seq: int, tags: dict[str, str]) -> Plan[None]:
    """Store tags where a search finds them."""
    for sql, params in values(TAG, [(name, value, seq) for name, value in tags.items()]):
        yield Statement(sql, params)
