"""Leasing chosen rows: new tokens, and rows as jobs. One that cannot be read fails by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from fencepost.core.ids import id_of_digits
from fencepost.core.instants import from_us, seconds_to_us
from fencepost.core.job import (
    AttemptOutcome,
    Body,
    Category,
    ClaimedJob,
    Encoding,
    Failure,
    Lease,
)
from fencepost.core.lifecycle import Event, State
from fencepost.core.outcome import Decision
from fencepost.core.policy import Policy
from fencepost.core.priority import Priority
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.replies import Moved
from fencepost.store.requests import ClaimRequest
from fencepost.store.sqlite.catalog import Env, Lane, Tally, numbers_json
from fencepost.store.sqlite.dependents import end_all, moved
from fencepost.store.sqlite.endings import Ending, Standing
from fencepost.store.sqlite.rows import decode_body
from fencepost.store.sqlite.settling import make_token
from fencepost.store.sqlite.values import values
from fencepost.store.states import ENCODINGS, RUNNING
from fencepost.store.texts import decode_tags

INLINE_PAYLOAD_MAX = 8_192
CLAIM = f"""
update jobs
set state = {RUNNING}, attempt = attempt + 1, lease_version = lease_version + 1,
    lease_token = ?, lease_expires_at = ?, worker = ?, started_at = ?, updated_at = ?,
    progress = null
where seq in (select value from json_each(?))
"""
# In one row, see settling.LOCATE; a large payload is fetched by itself rather than copied twice.
# As bytes: text that is not UTF-8, which a damaged row may hold, cannot be fetched as text.
LEASED = f"""
select cast(json_group_array(json_array(
  seq, lower(hex(id)), lane, policy, priority, attempt, max_attempts, lease_version, run_at,
  expires_at, ? - scheduled_at, payload_encoding,
  case when typeof(payload) = 'blob' and length(payload) <= {INLINE_PAYLOAD_MAX} then
    case payload_encoding when 0 then cast(payload as text) else hex(payload) end
  end,
  key, tags, correlation_id, flow, mode, hex(checkpoint), checkpoint_encoding
)) as blob) from jobs where seq in (select value from json_each(?))
"""
LEASED_PLAIN = """
select seq, lower(hex(id)), lane, policy, priority, attempt, max_attempts, lease_version, run_at,
  expires_at, ? - scheduled_at, payload_encoding, null, cast(key as blob), cast(tags as blob),
  cast(correlation_id as blob), cast(flow as blob), mode, hex(checkpoint), checkpoint_encoding
from jobs where seq in (select value from json_each(?))
"""
PAYLOADS = "select seq, payload from jobs where seq in (select value from json_each(?))"
OWN_LEASE_TTL = """
with own(seq, expires_at) as ({values})
update jobs set lease_expires_at = own.expires_at from own where jobs.seq = own.seq
"""

CORRUPT = Failure(Category.PERMANENT, "the stored job cannot be read", code="corrupt")


class _Leased(msgspec.Struct, gc=False, array_like=True):
    """A claimed row."""

    seq: int
    digits: str
    lane: int
    policy: int
    priority: int
    attempt: int
    max_attempts: int
    lease_version: int
    run_at: int
    expires_at: int
    waited: int
    """Since it became claimable, in microseconds."""
    payload_encoding: int
    payload: Any
    """As text, or in hexadecimal if it is binary; as bytes when it was fetched by itself."""
    key: str | None
    tags: str | None
    correlation_id: str | None
    flow: str | None
    mode: int | None
    checkpoint: str | None
    checkpoint_encoding: int | None


_leased = msgspec.json.Decoder(list[_Leased])


def lease(
    env: Env, request: ClaimRequest, seqs: Sequence[int], now: int
) -> Plan[tuple[list[ClaimedJob], list[Moved], int | None]]:
    """Lease the rows *seqs*; return the jobs, the unreadable, and when the first lease ends."""
    if not seqs:
        return [], [], None
    secret = env.clock.new_token()
    expires_at = now + seconds_to_us(request.lease_ttl)
    numbers = numbers_json(seqs)
    yield Statement(CLAIM, (secret, expires_at, request.worker, now, now, numbers))
    leased = yield from _fetch(numbers, now)
    assert len(leased) == len(seqs), "a claimable row vanished inside the transaction"
    lanes = yield from env.catalog.lanes({row.lane for row in leased.values()})
    policies = yield from env.catalog.policies({row.policy for row in leased.values()})
    reader = _Reader(lanes, policies, secret=secret, lease_ttl=request.lease_ttl, now=now)
    jobs: list[ClaimedJob] = []
    broken: list[_Leased] = []
    own_ttl: list[tuple[int, int]] = []
    for seq in seqs:
        job = reader.read(leased[seq])
        if job is None:
            broken.append(leased[seq])
            continue
        jobs.append(job)
        if job.lease_ttl != request.lease_ttl:
            own_ttl.append((seq, now + seconds_to_us(job.lease_ttl)))
    for sql, params in values(OWN_LEASE_TTL, own_ttl):
        yield Statement(sql, params)
    tally = Tally()
    for lane, count in Counter(row.lane for row in leased.values()).items():
        tally.move(lane, State.SCHEDULED, State.RUNNING, count)
    corrupt = yield from _fail(env, broken, request, now, tally)
    yield from tally.write()
    # Not the lease_ttl that was asked for: every job of the claim may have one of its own.
    lease_ends = now + seconds_to_us(min(job.lease_ttl for job in jobs)) if jobs else None
    return jobs, corrupt, lease_ends


def _fetch(numbers: str, now: int) -> Plan[dict[int, _Leased]]:
    """Return the rows that were just leased."""
    ((text,),) = yield Statement(LEASED, (now, numbers))
    try:
        rows = {row.seq: row for row in _leased.decode(text)}
    except (msgspec.DecodeError, UnicodeDecodeError):  # a damaged row: take them one by one
        plain = yield Statement(LEASED_PLAIN, (now, numbers))
        rows = {row[0]: _from_plain(row) for row in plain}
    apart = [seq for seq, row in rows.items() if row.payload is None]
    if apart:
        for seq, payload in (yield Statement(PAYLOADS, (numbers_json(apart),))):
            rows[seq].payload = payload
    return rows


def _from_plain(row: Row) -> _Leased:
    """Return a row of LEASED_PLAIN; if its texts are none, in a way that cannot be read either."""
    *head, payload_encoding, payload, key, tags, correlation_id, flow, mode, data, encoding = row
    try:
        raw = (key, tags, correlation_id, flow)
        texts = [None if text is None else text.decode() for text in raw]
    except (UnicodeDecodeError, AttributeError):
        payload_encoding, texts = UNREADABLE, [None] * 4
    fields: list[Any] = [*head, payload_encoding, payload, *texts, mode, data, encoding]
    return _Leased(*fields)


UNREADABLE = 99
PRIORITIES = tuple(Priority)


class _Reader:
    """Turns the rows of one claim into jobs."""

    def __init__(
        self,
        lanes: dict[int, Lane],
        policies: dict[int, Policy],
        *,
        secret: str,
        lease_ttl: float,
        now: int,
    ) -> None:
        self._lanes = lanes
        self._policies = policies
        self._secret = secret
        self._lease_ttl = lease_ttl
        self._now = now
        self._expiries: dict[float, datetime] = {}

    def read(self, row: _Leased) -> ClaimedJob | None:
        """Return the claimed job, or None if its row cannot be read."""
        policy = self._policies.get(row.policy)
        if policy is None:
            return None
        lane = self._lanes[row.lane]
        lease_ttl = policy.lease_ttl or self._lease_ttl
        token = make_token(row.seq, row.lane, self._secret)
        try:
            job = ClaimedJob(
                id=id_of_digits(row.digits),
                type=lane.type,
                queue=lane.queue,
                priority=PRIORITIES[row.priority],
                attempt=row.attempt,
                max_attempts=row.max_attempts,
                lease=Lease(token, row.lease_version, self._expires_at(lease_ttl)),
                lease_ttl=lease_ttl,
                payload=_payload(row),
                policy=policy,
                key=row.key,
                tags=decode_tags(row.tags) if row.tags else {},
                correlation_id=row.correlation_id,
                checkpoint=_checkpoint(row),
                waited=row.waited / 1e6 if row.waited > 0 else 0.0,
            )
        except (msgspec.DecodeError, ValueError, TypeError, IndexError, AttributeError):
            return None
        if row.flow is None and row.mode is None:
            return job  # most are; two arguments more would cost each of them a tenth of its claim
        return replace(job, flow=row.flow, has_dependencies=row.mode is not None)

    def _expires_at(self, lease_ttl: float) -> datetime:
        expiry = self._expiries.get(lease_ttl)
        if expiry is None:
            expiry = self._expiries[lease_ttl] = from_us(self._now + seconds_to_us(lease_ttl))
        return expiry


def _payload(row: _Leased) -> Body:
    encoding = ENCODINGS[row.payload_encoding]
    if isinstance(row.payload, bytes):
        return Body(row.payload, encoding)
    if not isinstance(row.payload, str):
        raise TypeError("a payload is bytes")
    is_text = encoding is Encoding.JSON
    return Body(row.payload.encode() if is_text else bytes.fromhex(row.payload), encoding)


def _checkpoint(row: _Leased) -> Body | None:
    data = None if row.checkpoint is None else bytes.fromhex(row.checkpoint)
    return decode_body(data, row.checkpoint_encoding)


def _fail(
    env: Env, rows: Sequence[_Leased], request: ClaimRequest, now: int, tally: Tally
) -> Plan[list[Moved]]:
    """Fail rows that cannot be read: those jobs are lost to us, the worker is not."""
    if not rows:
        return []
    decision = Decision(Event.REJECT, State.FAILED, AttemptOutcome.FAILED, failure=CORRUPT)
    endings = [
        Ending(
            Standing(
                seq=row.seq,
                digits=row.digits,
                lane=row.lane,
                number=RUNNING,
                attempt=row.attempt,
                max_attempts=row.max_attempts,
                policy=row.policy,
                run_at=row.run_at,
                expires_at=row.expires_at,
                lease_version=row.lease_version,
                lease_token=None,
                lease_expires_at=None,
                settled_token=None,
                worker=request.worker,
                started_at=now,
            ),
            decision,
        )
        for row in rows
    ]
    followed = yield from end_all(env, endings, now, tally)
    moves = yield from moved(env, endings, followed)
    return [replace(move, was=State.SCHEDULED) for move in moves]
