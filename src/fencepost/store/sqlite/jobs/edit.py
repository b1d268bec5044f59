"""Edits: what operators change about a waiting job, its due time included."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from fencepost.core.job.lifecycle import HASTENED, WAITING, State, rescheduled
from fencepost.core.job.policy import Priority
from fencepost.core.values.times import from_us, seconds_to_us, to_us
from fencepost.store.interface.control import (
    Conflict,
    Edit,
    Edited,
    EditReply,
    RetryReply,
    RetryRequest,
    TooLate,
)
from fencepost.store.interface.queue import Moved, with_admitted
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codec import (
    BY_NUMBER,
    ENCODING_NUMBER,
    NUMBER,
    PENDING,
    encode_json,
    readable_tags,
)
from fencepost.store.sql.control import each_found, one, policy_of
from fencepost.store.sqlite.jobs.catalog import Env, JobCounters
from fencepost.store.sqlite.jobs.enqueue import write_tags
from fencepost.store.sqlite.jobs.read import READER
from fencepost.store.sqlite.jobs.rows import CODEC, numbers_json
from fencepost.store.sqlite.limits.concurrency import admit

EDITED_COLUMNS = "seq, lane, policy, state, missing, slot, expires_at, tags"
FIND = f"select {EDITED_COLUMNS} from jobs where id = ?"
SET_TAGS = "update jobs set tags = ? where seq = ?"
DROP_TAGS = "delete from tags where name = ? and value = ? and seq = ?"
SET_PAYLOAD = "update jobs set payload_encoding = ?, payload = ? where seq = ?"
SET_CORRELATION = "update jobs set correlation_id = ? where seq = ?"
SET_CALLBACK = "update jobs set callback_url = ? where seq = ?"
SET_RUN_AT = "update jobs set run_at = ? where seq = ?"
SET_STATE = """
update jobs set state = ?, run_at = ?, updated_at = ?, scheduled_at = coalesce(?, scheduled_at)
where seq = ?
"""
SET_ATTEMPTS = "update jobs set attempt = 0, max_attempts = ? where seq = ?"
SET_PRIORITY = "update jobs set priority = ?, own_priority = null where seq = ?"
# A dependent is as urgent as the most urgent job that it waits for. A row that this very statement
# changes may be read before or after; it is then among the parents of the next round.
INHERITED = """
min(own_priority, (
  select min(parent.priority) from dependencies
  join jobs as parent on parent.seq = dependencies.parent where dependencies.child = jobs.seq
))
"""
INHERIT = f"""
update jobs set priority = {INHERITED}
where state = {PENDING} and missing > 0 and own_priority is not null
  and seq in (
    select child from dependencies where parent in (select value from json_each(?))
  )
  and priority <> {INHERITED}
returning seq
"""


class EditedRow(NamedTuple):
    """The columns of a job that an edit needs."""

    seq: int
    lane: int
    policy: int
    number: int
    missing: int | None
    slot: int | None
    expires_at: int
    tags: str | None

    @property
    def state(self) -> State:
        return BY_NUMBER[self.number]

    @property
    def is_held(self) -> bool:
        """Whether only its concurrency key keeps it from being claimable."""
        return self.state is State.PENDING and self.slot is not None and not self.missing


def edit(env: Env, edits: Sequence[Edit]) -> Plan[list[EditReply]]:
    """Change tags at any time, all else while the job waits (S1-106, S1-107, C46)."""
    return (yield from each_found(CODEC, FIND, edits, partial(_edit, env)))


def _edit(env: Env, item: Edit, row: Row) -> Plan[EditReply]:
    now = env.clock.now_us()
    job = EditedRow(*row)
    if item.is_for_waiting and job.state not in WAITING:
        return Conflict(item.job_id, job.state)
    if item.run_at is not None and max(to_us(item.run_at), now) >= job.expires_at:
        return TooLate(item.job_id, from_us(job.expires_at))
    yield from _set_content(job, item)
    if item.priority is not None:
        yield from set_priority(job.seq, item.priority)
    moves: tuple[Moved, ...] = ()
    if item.run_at is not None:
        moved = yield from _reschedule(env, item.job_id, job, to_us(item.run_at), now)
        if moved.state is not moved.was:
            moves = (replace(moved, followed=()), *moved.followed)
    (seen,) = yield from READER.get(env, [item.job_id])
    assert seen is not None
    return Edited(seen, moves)


def _set_content(job: EditedRow, item: Edit) -> Plan[None]:
    if item.tags is not None:
        for name, value in readable_tags(job.tags).items():
            yield Statement(DROP_TAGS, (name, value, job.seq))
        yield Statement(SET_TAGS, (encode_json(item.tags) if item.tags else None, job.seq))
        yield from write_tags(job.seq, item.tags)
    if item.payload is not None:
        encoding = ENCODING_NUMBER[item.payload.encoding]
        yield Statement(SET_PAYLOAD, (encoding, item.payload.data, job.seq))
    if item.correlation_id is not None:
        yield Statement(SET_CORRELATION, (item.correlation_id or None, job.seq))
    if item.callback_url is not None:
        yield Statement(SET_CALLBACK, (item.callback_url or None, job.seq))


def set_priority(seq: int, priority: Priority) -> Plan[None]:
    """Set the priority of a job by hand; jobs that inherited the old one follow (S1-37)."""
    yield Statement(SET_PRIORITY, (int(priority), seq))
    changed = [seq]
    while changed:
        rows = yield Statement(INHERIT, (numbers_json(changed),))
        changed = [row[0] for row in rows]


def hasten(env: Env, request: RetryRequest, now: int) -> Plan[RetryReply]:
    """Make a job that waits for its time run now, or after another delay (C45)."""
    row = yield from one(CODEC, FIND, request.job_id)
    assert row is not None
    job = EditedRow(*row)
    if job.state not in HASTENED:
        return Conflict(request.job_id, job.state)
    due = now + seconds_to_us(request.delay)
    if due >= job.expires_at:
        return TooLate(request.job_id, from_us(job.expires_at))
    if request.reset_attempts:
        policy = yield from policy_of(env, job.policy)
        yield Statement(SET_ATTEMPTS, (policy.max_attempts, job.seq))
    if request.priority is not None:
        yield from set_priority(job.seq, request.priority)
    return (yield from _reschedule(env, request.job_id, job, due, now))


def _reschedule(env: Env, job_id: str, job: EditedRow, due: int, now: int) -> Plan[Moved]:
    """Set the due time of a waiting job; return its move, and the jobs admitted to its slot."""
    type_ = (yield from env.catalog.lanes([job.lane]))[job.lane].type
    has_key = job.slot is not None
    found = rescheduled(job.state, is_held=job.is_held, has_key=has_key, due=due, now=now)
    state, run_at = (job.state, None) if found is None else found
    moved = Moved(job_id.lower(), type_, state, job.state)
    if run_at is None:
        return moved
    if state is job.state:
        yield Statement(SET_RUN_AT, (run_at, job.seq))
        return moved
    scheduled_at = now if state is State.SCHEDULED else None
    yield Statement(SET_STATE, (NUMBER[state], run_at, now, scheduled_at, job.seq))
    counters = JobCounters()
    counters.move(job.lane, job.state, state)
    admitted = yield from admit(env, () if job.slot is None else (job.seq,), now, counters)
    yield from counters.write()
    return with_admitted([moved], admitted)[0]
