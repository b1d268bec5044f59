"""Storing new jobs and deliveries of webhooks, and finding the jobs that hold idempotency keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fencepost.core.job.idempotency import is_held
from fencepost.core.job.job import Body, NewJob
from fencepost.core.job.lifecycle import State, first_state
from fencepost.core.values.names import id_text
from fencepost.core.values.payload import COMPARED_BYTES_MAX, differences
from fencepost.core.values.times import from_us, seconds_to_us, to_us
from fencepost.core.webhooks.delivery import Delivery, delivery_job
from fencepost.store.interface.queue import Duplicate, Enqueued, EnqueueReply, Moved
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codec import BY_NUMBER, ENCODING_NUMBER, NUMBER, encode_json
from fencepost.store.sql.endings import Stored
from fencepost.store.sqlite.jobs.catalog import Env, JobCounters
from fencepost.store.sqlite.jobs.rows import (
    PARENT_COLUMNS,
    decode_body,
    numbers_json,
    stored,
    values,
)
from fencepost.store.sqlite.jobs.search import note_clock

COLUMNS = """
id, lane, policy, priority, state, max_attempts, run_at, created_at, updated_at, scheduled_at,
expires_at, key, key_window, correlation_id, tags, replay_of, submitter, payload_encoding, payload
"""
INSERT = f"insert into jobs({COLUMNS}) {{values}}"
INSERT_ONE = f"insert into jobs({COLUMNS}) values ({','.join('?' * 19)}) returning seq"
HOLDER = """
select jobs.seq, jobs.id, jobs.state, lanes.queue, idempotency.key_ends_at,
  jobs.payload, jobs.payload_encoding
from idempotency join jobs on jobs.seq = idempotency.seq join lanes on lanes.lane = jobs.lane
where idempotency.type = ? and idempotency.key = ?
"""
TAKE_KEY = """
insert into idempotency(type, key, seq, key_ends_at) {values}
on conflict(type, key) do update
set seq = excluded.seq, key_ends_at = excluded.key_ends_at
"""
TAG = "insert into tags(name, value, seq) {values}"


class Holder(NamedTuple):
    """The job that holds a key."""

    seq: int
    job_id: str
    state: State
    queue: str
    payload: Body | None


def enqueue(
    env: Env, jobs: Sequence[NewJob], *, atomic: bool, now: int
) -> Plan[list[EnqueueReply]]:
    """Store *jobs*, each unless its key is held."""
    counters = JobCounters()
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
            yield from _insert(plain)  # earlier jobs stay ahead in line
            plain = []
            duplicate = yield from insert_with_key(job, row, now)
            if duplicate is not None:
                if atomic and duplicate.is_rejected:
                    raise duplicate.error
                replies.append(duplicate)
                continue
        counters.move(lane, None, state)
        replies.append(Enqueued(id_text(row[0]), job.type, state))
    yield from _insert(plain)
    yield from counters.write()
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
    """Return the state in which *job* is stored: SCHEDULED or DELAYED."""
    return first_state(is_due=due_at(job, now) <= now)


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
    """Return the values of COLUMNS for a new job; *priority* replaces the job's own."""
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
                differences(holder.payload, job.payload),
            )
    ((seq,),) = yield Statement(INSERT_ONE, row)
    if job.key is not None:
        window = None if job.key.window is None else seconds_to_us(job.key.window)
        yield from take_key(job.type, job.key.value, seq, window, now)
    yield from write_tags(seq, job.tags)
    return None


def find_holder(type: str, key: str, now: int) -> Plan[Holder | None]:
    """Return the job that holds a key now. Keys are released lazily, judged by their job."""
    rows = yield Statement(HOLDER, (type, key))
    for seq, id_, number, queue, key_ends_at, *payload in rows:
        state = BY_NUMBER[number]
        if is_held(is_live=not state.is_terminal, window_ends_us=key_ends_at, now_us=now):
            return Holder(seq, id_text(id_), state, queue, decode_body(*payload))
    return None


def take_key(type: str, key: str, seq: int, window: int | None, now: int) -> Plan[None]:
    """Give a key to a job, for *window* from now or while the job is live."""
    key_ends_at = None if window is None else now + window
    for sql, params in values(TAKE_KEY, [(type, key, seq, key_ends_at)]):
        yield Statement(sql, params)


def write_tags(seq: int, tags: dict[str, str]) -> Plan[None]:
    """Store tags for searches."""
    for sql, params in values(TAG, [(name, value, seq) for name, value in tags.items()]):
        yield Statement(sql, params)


# Joined, because `(type, key) in (values ...)` makes SQLite scan all keys.
HOLDERS = f"""
with wanted(type, key) as ({{values}})
select wanted.type, wanted.key, idempotency.key_ends_at, lanes.queue,
  case when length(jobs.payload) <= {COMPARED_BYTES_MAX} then jobs.payload end,
  jobs.payload_encoding, {PARENT_COLUMNS}
from wanted
cross join idempotency on idempotency.type = wanted.type and idempotency.key = wanted.key
cross join jobs on jobs.seq = idempotency.seq
cross join lanes on lanes.lane = jobs.lane
"""


class Holding(NamedTuple):
    """The last job that took a key, and until when it holds it at least."""

    job: Stored
    queue: str
    key_ends_at: int | None
    payload: Body | None
    """Unless it is large: there may be thousands."""


class Holders:
    """The last job that took each key of a submission."""

    def __init__(self, now: int) -> None:
        self._now = now
        self._last: dict[tuple[str, str], Holding] = {}

    def put(self, type: str, key: str, holding: Holding) -> None:
        """Record that a job has taken a key."""
        self._last[type, key] = holding

    def get(self, type: str, key: str) -> Holding | None:
        """Return the job that holds a key now, if one does."""
        last = self._last.get((type, key))
        if last is None:
            return None
        is_live = not last.job.parent.state.is_terminal
        held = is_held(is_live=is_live, window_ends_us=last.key_ends_at, now_us=self._now)
        return last if held else None


def find_holders(jobs: Sequence[NewJob], now: int) -> Plan[Holders]:
    """Return the jobs that hold the keys of *jobs*, looked up at once."""
    holders = Holders(now)
    pairs = list({(job.type, job.key.value): None for job in jobs if job.key is not None})
    for sql, params in values(HOLDERS, pairs):
        for type_, key, key_ends_at, queue, data, encoding, *row in (yield Statement(sql, params)):
            payload = decode_body(data, encoding)
            holders.put(type_, key, Holding(stored(tuple(row)), queue, key_ends_at, payload))
    return holders


ASKED = """
select id, callback_url, state, completed_at, attempt, correlation_id
from jobs indexed by jobs_callback
where callback_url is not null and seq in (select value from json_each(?)) order by seq
"""


def call_back(env: Env, ended: Sequence[int], now: int) -> Plan[list[Moved]]:
    """Store the webhook deliveries of those of *ended* that have a callback, as they end."""
    rows = yield Statement(ASKED, (numbers_json(ended),))
    if not rows:
        return []
    jobs = []
    for id_, url, number, completed_at, attempt, correlation_id in rows:
        delivery = Delivery(
            job_id=id_text(id_),
            url=url,
            state=BY_NUMBER[number],
            completed_at=from_us(completed_at),
            attempt=attempt,
        )
        jobs.append(delivery_job(delivery, correlation_id))
    replies = yield from enqueue(env, jobs, atomic=False, now=now)
    return [
        Moved(reply.job_id, reply.type, reply.state, State.PENDING)
        for reply in replies
        if isinstance(reply, Enqueued)
    ]
