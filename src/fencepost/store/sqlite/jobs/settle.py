"""Writes under a lease: settlements, checkpoints, progress; refused without a valid one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from fencepost.core.job.lifecycle import Event, State
from fencepost.core.job.outcome import Settlement
from fencepost.core.values.names import wanted_ids
from fencepost.core.values.payload import NULL
from fencepost.core.values.times import from_us
from fencepost.store.interface.queue import (
    AlreadySettled,
    Beat,
    LeaseLost,
    Moved,
    Save,
    Saved,
    SaveReply,
    Settled,
    SettleReply,
    Spawn,
    settled_in_order,
)
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codec import BY_NUMBER, NUMBER, RUNNING, encode_json
from fencepost.store.sql.endings import Ended, Ending, informed
from fencepost.store.sqlite.flows.dependents import end_all, follow
from fencepost.store.sqlite.jobs.catalog import Env, JobCounters
from fencepost.store.sqlite.jobs.finish import LIVE_COLUMNS, LiveEnding, LiveRow, live_row
from fencepost.store.sqlite.jobs.lease import SEQ_END, read_token
from fencepost.store.sqlite.jobs.rows import encode_body, numbers_json, values

Reply = TypeVar("Reply")

_live_rows = msgspec.json.Decoder(list[LiveRow])

# Each fetched row releases the interpreter's lock, and waits for the thread that runs handlers to
# get it back. A batch as one row of JSON does so once.
LOCATE = f"""
select cast(json_group_array(
  json_array({LIVE_COLUMNS.replace(" id,", " lower(hex(id)),")})
) as blob) from jobs where seq in (select value from json_each(?))
"""
LOCATE_ROWS = f"select {LIVE_COLUMNS} from jobs where seq in (select value from json_each(?))"
STATES = "select id, state from jobs where id in ({values})"
# The rule of is_valid as a condition; one statement per claim: its jobs share lane and token.
COMPLETE_VALID = f"""
with done(seq, id, result, result_encoding) as ({{values}})
update jobs
set state = {NUMBER[State.COMPLETED]}, result = done.result,
    result_encoding = done.result_encoding, settled_token = lease_token,
    completed_at = ?, updated_at = ?, failure = null, lease_token = null, lease_expires_at = null
from done
where jobs.seq = done.seq and jobs.id = done.id and jobs.state = {RUNNING} and jobs.lane = ?
  and jobs.lease_token = ? and jobs.lease_expires_at > ?
"""
# Whether the end of a job can have an effect on others: dependents, jobs that wait for a slot of
# its key, or a webhook. In most stores it cannot, and this check is the only cost.
CHANGES = """
select changes(), exists (select 1 from dependencies) or exists (select 1 from slots)
  or exists (select 1 from jobs indexed by jobs_callback where callback_url is not null)
"""
SAVE = """
update jobs set
  checkpoint = coalesce(?, checkpoint), checkpoint_encoding = coalesce(?, checkpoint_encoding),
  progress = coalesce(?, progress)
where seq = ?
"""


COMPLETED = Ended(State.COMPLETED)
"""How all jobs of a batch have ended; for a success, the id is not needed."""


def locate(tokens: Iterable[str]) -> Plan[dict[int, LiveRow]]:
    """Return the jobs of *tokens*, by row."""
    seqs = numbers_json(sorted({read_token(token).seq for token in tokens}))
    ((text,),) = yield Statement(LOCATE, (seqs,))
    try:
        found = _live_rows.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):  # a damaged row: decode each alone
        found = [live_row(row) for row in (yield Statement(LOCATE_ROWS, (seqs,)))]
    return {job.seq: job for job in found}


def is_valid(job: LiveRow | None, job_id: str, lease_token: str, now: int) -> bool:
    """Return whether a write to a running job is accepted: the only such rule (INV-2)."""
    return (
        job is not None
        and job.number == RUNNING
        and job.lease_token == lease_token
        and bool(lease_token)
        and job.lease_expires_at is not None
        and now < job.lease_expires_at
        and _is_id(job, job_id)
    )


def leased(jobs: Mapping[int, LiveRow], write: Beat | Save | Spawn, now: int) -> LiveRow | None:
    """Return the job of a write, if its lease is valid."""
    seq, _, lease_token = read_token(write.token)
    job = jobs.get(seq)
    return job if is_valid(job, write.job_id, lease_token, now) else None


def _is_id(job: LiveRow, job_id: str) -> bool:
    return job.digits == job_id.replace("-", "").lower()


def with_states(replies: list[Reply]) -> Plan[list[Reply]]:
    """Add the present state of each job to the replies about lost leases."""
    ids = wanted_ids([reply.job_id for reply in replies if isinstance(reply, LeaseLost)])
    states: dict[str, State] = {}
    for sql, params in values(STATES, [(id_,) for id_ in ids]):
        for id_, state in (yield Statement(sql, params)):
            states[ids[id_]] = BY_NUMBER[state]
    return informed(replies, states)


def settle(env: Env, settlements: Sequence[Settlement]) -> Plan[list[SettleReply]]:
    """Record each decision whose lease is valid."""
    now = env.clock.now_us()
    if all(s.decision.event is Event.SUCCEED for s in settlements):
        settled = yield from _complete_all(env, settlements, now)
        if settled is not None:
            return settled
    return (yield from _settle_each(env, settlements, now))


def _complete_all(
    env: Env, settlements: Sequence[Settlement], now: int
) -> Plan[list[SettleReply] | None]:
    """Record a batch of successes without reading it first; None if not every lease was valid.

    Nearly every batch of a healthy worker passes here. Otherwise nothing is written, and each
    settlement is checked alone.
    """
    claims: dict[str, list[tuple[int, bytes, bytes | None, int | None]]] = {}
    try:
        for settlement in settlements:
            digits, _, claim = settlement.token.partition(".")
            seq = int(digits, 16)
            id_ = bytes.fromhex(settlement.job_id.replace("-", ""))
            if not 0 < seq < SEQ_END or f"{seq:x}" != digits:
                return None
            row = (seq, id_, *encode_body(settlement.decision.result or NULL))
            claims.setdefault(claim, []).append(row)
    except ValueError:
        return None
    yield Statement("savepoint complete_all")
    changed = has_followers = 0
    counters = JobCounters()
    for claim, rows in claims.items():
        _, lane, lease_token = read_token(f"1.{claim}")
        for sql, params in values(COMPLETE_VALID, rows):
            yield Statement(sql, [*params, now, now, lane, lease_token, now])
            ((count, has_followers),) = yield Statement(CHANGES)
            changed += count
        counters.move(lane, State.RUNNING, State.COMPLETED, len(rows))
    if changed != len(settlements):
        yield Statement("rollback to complete_all")
    yield Statement("release complete_all")
    if changed != len(settlements):
        return None
    followed: tuple[Moved, ...] = ()
    if has_followers:
        ended = {row[0]: COMPLETED for rows in claims.values() for row in rows}
        followed = yield from follow(env, ended, ended, now, counters)
    yield from counters.write()
    types = yield from _types_of(env, claims)
    settled: list[SettleReply] = [
        Settled(s.job_id, types[s.token.partition(".")[2]], State.COMPLETED) for s in settlements
    ]
    return _with_followed(settled, followed)


def _with_followed(replies: list[SettleReply], followed: tuple[Moved, ...]) -> list[SettleReply]:
    """Put the moves of all dependents into the first settled reply."""
    for place, reply in enumerate(replies):
        if followed and isinstance(reply, Settled):
            replies[place] = Settled(reply.job_id, reply.type, reply.state, followed)
            break
    return replies


def _types_of(env: Env, claims: Iterable[str]) -> Plan[dict[str, str]]:
    """Return the type of the jobs of each claim, given by the end of their tokens."""
    numbers = {claim: read_token(f"1.{claim}").lane for claim in claims}
    lanes = yield from env.catalog.lanes(set(numbers.values()))
    return {claim: lanes[number].type for claim, number in numbers.items()}


def _settle_each(env: Env, settlements: Sequence[Settlement], now: int) -> Plan[list[SettleReply]]:
    jobs = yield from locate(s.token for s in settlements)
    lanes = yield from env.catalog.lanes({job.lane for job in jobs.values()})
    accepted: dict[int, LiveEnding] = {}
    replies: list[SettleReply] = []
    for settlement in settlements:
        job_id, decision = settlement.job_id, settlement.decision
        seq, _, lease_token = read_token(settlement.token)
        job = jobs.get(seq)
        if job is None or not is_valid(job, job_id, lease_token, now):
            # After a settlement of this batch, settled_token in the row is outdated.
            replies.append(_refusal(None if seq in accepted else job, job_id, lease_token))
        elif seq in accepted:
            replies.append(AlreadySettled(job_id, accepted[seq].decision.state))
        else:
            accepted[seq] = Ending(job, decision, lease_token)
            replies.append(Settled(job_id, lanes[job.lane].type, decision.state))
    counters = JobCounters()
    followed = yield from end_all(env, list(accepted.values()), now, counters)
    yield from counters.write()
    return settled_in_order((yield from with_states(_with_followed(replies, followed))))


def _refusal(job: LiveRow | None, job_id: str, lease_token: str) -> AlreadySettled | LeaseLost:
    """Return whether this repeats the last settlement, which is safe, or the lease is lost."""
    if job is not None and lease_token and job.settled_token == lease_token and _is_id(job, job_id):
        return AlreadySettled(job_id, job.state)
    return LeaseLost(job_id)


def save(env: Env, saves: Sequence[Save]) -> Plan[list[SaveReply]]:
    """Store checkpoints and progress under valid leases."""
    now = env.clock.now_us()
    jobs = yield from locate(item.token for item in saves)
    replies: list[SaveReply] = []
    for item in saves:
        job = leased(jobs, item, now)
        if job is None:
            replies.append(LeaseLost(item.job_id))
            continue
        progress = item.progress and encode_json({**item.progress, "at": from_us(now)})
        yield Statement(SAVE, (*encode_body(item.checkpoint), progress, job.seq))
        replies.append(Saved(item.job_id))
    return (yield from with_states(replies))
