"""Writes under a lease: heartbeats, settlements, checkpoints. Fenced or refused.

A token is ``<seq in hex>.<secret of the claim>``: it finds the row without a look-up by id, and is
good for nothing but the one job and the one claim (INV-2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from fencepost.core.ids import id_bytes
from fencepost.core.instants import from_us, seconds_to_us
from fencepost.core.lifecycle import Event, State
from fencepost.core.outcome import Settlement
from fencepost.errors import JobNotFoundError
from fencepost.store.plan import Plan, Statement
from fencepost.store.replies import (
    AlreadySettled,
    Extended,
    HeartbeatReply,
    LeaseLost,
    Saved,
    SaveReply,
    Settled,
    SettleReply,
)
from fencepost.store.requests import Beat, Save
from fencepost.store.sqlite.catalog import Env, Tally, numbers_json
from fencepost.store.sqlite.endings import (
    STANDING_COLUMNS,
    Ending,
    Standing,
    complete,
    end,
    standing,
)
from fencepost.store.sqlite.rows import encode_body, encode_json
from fencepost.store.sqlite.states import BY_NUMBER, RUNNING
from fencepost.store.sqlite.values import values

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
SAVE = """
update jobs set
  checkpoint = coalesce(?1, checkpoint), checkpoint_encoding = coalesce(?2, checkpoint_encoding),
  progress = coalesce(?3, progress)
where seq = ?4
"""


def make_token(seq: int, secret: str) -> str:
    """Return the token of one job of a claim."""
    return f"{seq:x}.{secret}"


def _seq_and_secret(token: str) -> tuple[int, str]:
    """Return where a token points and its secret; seq -1, which no row has, if it is malformed."""
    head, _, secret = token.partition(".")
    try:
        seq = int(head, 16)
    except ValueError:
        return -1, ""
    return (seq, secret) if 0 < seq < 1 << 63 else (-1, "")


def _locate(tokens: Iterable[str]) -> Plan[dict[int, Standing]]:
    seqs = numbers_json(sorted({_seq_and_secret(token)[0] for token in tokens}))
    ((text,),) = yield Statement(LOCATE, (seqs,))
    try:
        found = _standings.decode(text)
    except (
        msgspec.DecodeError,
        UnicodeDecodeError,
    ):  # a damaged row among them: take them one by one
        found = [standing(row) for row in (yield Statement(LOCATE_ROWS, (seqs,)))]
    return {job.seq: job for job in found}


def _is_valid(job: Standing | None, job_id: str, secret: str, now: int) -> bool:
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


def _with_states(replies: list[Reply]) -> Plan[list[Reply]]:
    """Tell those who lost a lease what has become of their job."""
    ids = {}
    for reply in replies:
        if isinstance(reply, LeaseLost):
            with suppress(JobNotFoundError):
                ids[id_bytes(reply.job_id)] = reply.job_id
    states: dict[str, State] = {}
    for sql, params in values(STATES, [(id_,) for id_ in ids]):
        for id_, state in (yield Statement(sql, params)):
            states[ids[id_]] = BY_NUMBER[state]
    for index, reply in enumerate(replies):
        if isinstance(reply, LeaseLost):
            informed = LeaseLost(reply.job_id, states.get(reply.job_id))
            replies[index] = informed  # type: ignore[assignment]  # every Reply includes it
    return replies


def settle(env: Env, settlements: Sequence[Settlement]) -> Plan[list[SettleReply]]:
    """Record each decision whose lease is valid."""
    now = env.clock.now_us()
    jobs = yield from _locate(s.token for s in settlements)
    lanes = yield from env.catalog.lanes({job.lane for job in jobs.values()})
    accepted: dict[int, Ending] = {}
    replies: list[SettleReply] = []
    for settlement in settlements:
        job_id, decision = settlement.job_id, settlement.decision
        seq, secret = _seq_and_secret(settlement.token)
        job = jobs.get(seq)
        if job is None or not _is_valid(job, job_id, secret, now):
            replies.append(_refusal(job, job_id, secret))
        elif seq in accepted:
            replies.append(AlreadySettled(job_id, accepted[seq].decision.state))
        else:
            accepted[seq] = Ending(job, decision, secret)
            replies.append(Settled(job_id, lanes[job.lane].type, decision.state))
    yield from _write(list(accepted.values()), now)
    return (yield from _with_states(replies))


def _refusal(job: Standing | None, job_id: str, secret: str) -> AlreadySettled | LeaseLost:
    """Tell a repeat of the last settlement, which is safe, from a stale worker."""
    if job is not None and secret and job.settled_token == secret and _is_id(job, job_id):
        return AlreadySettled(job_id, job.state)
    return LeaseLost(job_id)


def _write(endings: Sequence[Ending], now: int) -> Plan[None]:
    tally = Tally()
    successes = [e for e in endings if e.decision.event is Event.SUCCEED]
    others = [e for e in endings if e.decision.event is not Event.SUCCEED]
    yield from complete(successes, now, tally)
    yield from end(others, now, tally)
    yield from tally.write()


def heartbeat(env: Env, beats: Sequence[Beat]) -> Plan[list[HeartbeatReply]]:
    """Extend each lease that is still valid; an expired one is not revived."""
    now = env.clock.now_us()
    jobs = yield from _locate(beat.token for beat in beats)
    replies: list[HeartbeatReply] = []
    rows: dict[int, tuple[int, int]] = {}
    for beat in beats:
        seq, secret = _seq_and_secret(beat.token)
        job = jobs.get(seq)
        if job is not None and _is_valid(job, beat.job_id, secret, now):
            assert job.lease_expires_at is not None
            expires_at = max(job.lease_expires_at, now + seconds_to_us(beat.lease_ttl))
            expires_at = max(expires_at, rows.get(seq, (seq, 0))[1])
            rows[seq] = (seq, expires_at)
            replies.append(Extended(beat.job_id, from_us(expires_at)))
        else:
            replies.append(LeaseLost(beat.job_id))
    for sql, params in values(EXTEND, list(rows.values())):
        yield Statement(sql, params)
    return (yield from _with_states(replies))


def save(env: Env, saves: Sequence[Save]) -> Plan[list[SaveReply]]:
    """Keep what handlers ask to keep, under valid leases."""
    now = env.clock.now_us()
    jobs = yield from _locate(item.token for item in saves)
    replies: list[SaveReply] = []
    for item in saves:
        seq, secret = _seq_and_secret(item.token)
        job = jobs.get(seq)
        if not _is_valid(job, item.job_id, secret, now):
            replies.append(LeaseLost(item.job_id))
            continue
        progress = None if item.progress is None else encode_json(item.progress)
        yield Statement(SAVE, (*encode_body(item.checkpoint), progress, seq))
        replies.append(Saved(item.job_id))
    return (yield from _with_states(replies))
