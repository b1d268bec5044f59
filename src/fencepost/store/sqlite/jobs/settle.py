"""Writes under a lease: heartbeats, settlements, checkpoints. Fenced or refused.

A token is ``<seq>.<lane>.<secret of the claim>``: it finds the row without a look-up by id, and is
good for nothing but the one job and the one claim (INV-2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from fencepost.core.job.lease import deadline, ttl_of
from fencepost.core.job.lifecycle import Event, State
from fencepost.core.job.outcome import Settlement
from fencepost.core.job.policy import DEFAULT_POLICY, Policy
from fencepost.core.values.ids import wanted_ids
from fencepost.core.values.instants import from_us, seconds_to_us
from fencepost.core.values.payload import NULL
from fencepost.store.interface.batches import told_in_order
from fencepost.store.interface.queue import (
    AlreadySettled,
    Beat,
    Extended,
    HeartbeatReply,
    Save,
    Saved,
    SaveReply,
    Settled,
    SettleReply,
)
from fencepost.store.interface.replies import LeaseLost, Moved
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codes import BY_NUMBER, NUMBER, RUNNING
from fencepost.store.sql.texts import encode_json
from fencepost.store.sqlite.engine.values import values
from fencepost.store.sqlite.flows.dependents import Ended, end_all, follow
from fencepost.store.sqlite.jobs.catalog import Env, Tally, numbers_json
from fencepost.store.sqlite.jobs.finish import STANDING_COLUMNS, Ending, Standing, standing
from fencepost.store.sqlite.jobs.rows import encode_body

Reply = TypeVar("Reply")

_standings = msgspec.json.Decoder(list[Standing])

# Every row fetched gives up the interpreter's lock and queues for it again behind the thread that
# runs handlers. All of a batch in one row of JSON does so once.
LOCATE = f"""
select cast(json_group_array(
  json_array({STANDING_COLUMNS.replace(" id,", " lower(hex(id)),")})
) as blob) from jobs where seq in (select value from json_each(?))
"""
LOCATE_ROWS = f"select {STANDING_COLUMNS} from jobs where seq in (select value from json_each(?))"
STATES = "select id, state from jobs where id in ({values})"
EXTEND = """
with beat(seq, expires_at) as ({values})
update jobs set lease_expires_at = max(jobs.lease_expires_at, beat.expires_at)
from beat where jobs.seq = beat.seq
"""
# The rule of is_valid, as a condition; one statement a claim, whose jobs share lane and secret.
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
# Whether the end of a job can concern anybody at all: one who waits for it or for a slot of its
# key, or a webhook. In most stores nobody does, and this one look is what that costs.
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


class Fence(NamedTuple):
    """What a token says; seq -1, which no row has, if it is malformed."""

    seq: int
    lane: int
    secret: str


SEQ_END = 1 << 63
NOWHERE = Fence(-1, -1, "")
COMPLETED = Ended(State.COMPLETED)
"""How all of a batch have ended; of a success, nobody asks whose it was."""


def make_token(seq: int, lane: int, secret: str) -> str:
    """Return the token of one job of a claim."""
    return f"{seq:x}.{lane:x}.{secret}"


def read_token(token: str) -> Fence:
    """Return where a token points and its secret."""
    try:
        seq, lane, secret = token.split(".")
        fence = Fence(int(seq, 16), int(lane, 16), secret)
    except ValueError:
        return NOWHERE
    is_possible = 0 < fence.seq < SEQ_END and 0 < fence.lane < SEQ_END
    # Only as it was written: int() also takes " 1", "0x1" and "1_0". And SQLite no surrogates.
    is_own = token.isascii() and make_token(*fence) == token
    return fence if is_possible and is_own else NOWHERE


def locate(tokens: Iterable[str]) -> Plan[dict[int, Standing]]:
    """Return the jobs to which *tokens* point, by row."""
    seqs = numbers_json(sorted({read_token(token).seq for token in tokens}))
    ((text,),) = yield Statement(LOCATE, (seqs,))
    try:
        found = _standings.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):  # a damaged row: take them one by one
        found = [standing(row) for row in (yield Statement(LOCATE_ROWS, (seqs,)))]
    return {job.seq: job for job in found}


def is_valid(job: Standing | None, job_id: str, secret: str, now: int) -> bool:
    """INV-2: the one rule by which a write to a running job is accepted."""
    return (
        job is not None
        and job.number == RUNNING
        and job.lease_token == secret
        and bool(secret)
        and job.lease_expires_at is not None
        and now < job.lease_expires_at
        and _is_id(job, job_id)
    )


def _is_id(job: Standing, job_id: str) -> bool:
    return job.digits == job_id.replace("-", "").lower()


def with_states(replies: list[Reply]) -> Plan[list[Reply]]:
    """Tell those who lost a lease what has become of their job."""
    ids = wanted_ids([reply.job_id for reply in replies if isinstance(reply, LeaseLost)])
    states: dict[str, State] = {}
    for sql, params in values(STATES, [(id_,) for id_ in ids]):
        for id_, state in (yield Statement(sql, params)):
            states[ids[id_]] = BY_NUMBER[state]
    for index, reply in enumerate(replies):
        if isinstance(reply, LeaseLost):
            informed = LeaseLost(reply.job_id, states.get(reply.job_id.lower()))
            replies[index] = informed  # type: ignore[assignment]  # every Reply includes it
    return replies


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

    That is nearly every batch of a healthy worker. Otherwise nothing is written, and each
    settlement is looked at by itself.
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
    tally = Tally()
    for claim, rows in claims.items():
        _, lane, secret = read_token(f"1.{claim}")
        for sql, params in values(COMPLETE_VALID, rows):
            yield Statement(sql, [*params, now, now, lane, secret, now])
            ((count, has_followers),) = yield Statement(CHANGES)
            changed += count
        tally.move(lane, State.RUNNING, State.COMPLETED, len(rows))
    if changed != len(settlements):
        yield Statement("rollback to complete_all")
    yield Statement("release complete_all")
    if changed != len(settlements):
        return None
    followed: tuple[Moved, ...] = ()
    if has_followers:
        ended = {row[0]: COMPLETED for rows in claims.values() for row in rows}
        followed = yield from follow(env, ended, ended, now, tally)
    yield from tally.write()
    types = yield from _types_of(env, claims)
    settled: list[SettleReply] = [
        Settled(s.job_id, types[s.token.partition(".")[2]], State.COMPLETED) for s in settlements
    ]
    return _told(settled, followed)


def _told(replies: list[SettleReply], followed: tuple[Moved, ...]) -> list[SettleReply]:
    """Have the first that was settled tell what became of all who waited."""
    for place, reply in enumerate(replies):
        if followed and isinstance(reply, Settled):
            replies[place] = Settled(reply.job_id, reply.type, reply.state, followed)
            break
    return replies


def _types_of(env: Env, claims: Iterable[str]) -> Plan[dict[str, str]]:
    """Return the type of the jobs of each claim, as the ends of their tokens name it."""
    numbers = {claim: read_token(f"1.{claim}").lane for claim in claims}
    lanes = yield from env.catalog.lanes(set(numbers.values()))
    return {claim: lanes[number].type for claim, number in numbers.items()}


def _settle_each(env: Env, settlements: Sequence[Settlement], now: int) -> Plan[list[SettleReply]]:
    jobs = yield from locate(s.token for s in settlements)
    lanes = yield from env.catalog.lanes({job.lane for job in jobs.values()})
    accepted: dict[int, Ending] = {}
    replies: list[SettleReply] = []
    for settlement in settlements:
        job_id, decision = settlement.job_id, settlement.decision
        seq, _, secret = read_token(settlement.token)
        job = jobs.get(seq)
        if job is None or not is_valid(job, job_id, secret, now):
            # Once the job has been settled, no older lease is the last under which it was.
            replies.append(_refusal(None if seq in accepted else job, job_id, secret))
        elif seq in accepted:
            replies.append(AlreadySettled(job_id, accepted[seq].decision.state))
        else:
            accepted[seq] = Ending(job, decision, secret)
            replies.append(Settled(job_id, lanes[job.lane].type, decision.state))
    tally = Tally()
    followed = yield from end_all(env, list(accepted.values()), now, tally)
    yield from tally.write()
    return told_in_order((yield from with_states(_told(replies, followed))))


def _refusal(job: Standing | None, job_id: str, secret: str) -> AlreadySettled | LeaseLost:
    """Tell a repeat of the last settlement, which is safe, from a stale worker."""
    if job is not None and secret and job.settled_token == secret and _is_id(job, job_id):
        return AlreadySettled(job_id, job.state)
    return LeaseLost(job_id)


def heartbeat(env: Env, beats: Sequence[Beat]) -> Plan[list[HeartbeatReply]]:
    """Extend each lease that is still valid; an expired one is not revived."""
    now = env.clock.now_us()
    jobs = yield from locate(beat.token for beat in beats)
    policies = yield from env.catalog.policies({job.policy for job in jobs.values()})
    replies: list[HeartbeatReply] = []
    rows: dict[int, tuple[int, int]] = {}
    for beat in beats:
        seq, _, secret = read_token(beat.token)
        job = jobs.get(seq)
        if job is not None and is_valid(job, beat.job_id, secret, now):
            policy = policies.get(job.policy, DEFAULT_POLICY)
            expires_at = max(_extended(job, policy, beat, now), rows.get(seq, (seq, 0))[1])
            rows[seq] = (seq, expires_at)
            replies.append(Extended(beat.job_id, from_us(expires_at)))
        else:
            replies.append(LeaseLost(beat.job_id))
    for sql, params in values(EXTEND, list(rows.values())):
        yield Statement(sql, params)
    return (yield from with_states(replies))


def _extended(job: Standing, policy: Policy, beat: Beat, now: int) -> int:
    """Return until when *beat* has a job's lease last: never shorter, never past its deadline."""
    assert job.lease_expires_at is not None and job.started_at is not None
    asked = ttl_of(policy, (job.lease_ttl or 0) / 1e6) if beat.lease_ttl is None else beat.lease_ttl
    latest = deadline(policy, job.started_at, job.timeout_grace or 0)
    return max(job.lease_expires_at, min(now + seconds_to_us(asked), latest))


def save(env: Env, saves: Sequence[Save]) -> Plan[list[SaveReply]]:
    """Keep what handlers ask to keep, under valid leases."""
    now = env.clock.now_us()
    jobs = yield from locate(item.token for item in saves)
    replies: list[SaveReply] = []
    for item in saves:
        seq, _, secret = read_token(item.token)
        job = jobs.get(seq)
        if not is_valid(job, item.job_id, secret, now):
            replies.append(LeaseLost(item.job_id))
            continue
        progress = None if item.progress is None else encode_json(item.progress)
        yield Statement(SAVE, (*encode_body(item.checkpoint), progress, seq))
        replies.append(Saved(item.job_id))
    return (yield from with_states(replies))
