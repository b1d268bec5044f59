"""Leasing chosen rows: new tokens, and rows as jobs. One that cannot be read fails by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from fencepost.core.bounds import CLAIM_BYTES_MAX
from fencepost.core.job.job import (
    AttemptOutcome,
    Body,
    Category,
    ClaimedJob,
    Encoding,
    Failure,
    Lease,
)
from fencepost.core.job.lease import deadline, next_version, ttl_of
from fencepost.core.job.lifecycle import Event, State
from fencepost.core.job.outcome import Decision
from fencepost.core.job.policy import Policy
from fencepost.core.job.priority import Priority
from fencepost.core.values.ids import id_of_digits
from fencepost.core.values.instants import from_us, seconds_to_us
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.interface.replies import Moved
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codes import ENCODINGS, RUNNING
from fencepost.store.sql.texts import decode_tags
from fencepost.store.sqlite.engine.values import values
from fencepost.store.sqlite.flows.dependents import end_all, moved
from fencepost.store.sqlite.jobs.catalog import Env, Lane, Tally, numbers_json
from fencepost.store.sqlite.jobs.finish import Ending, Standing
from fencepost.store.sqlite.jobs.rows import decode_body
from fencepost.store.sqlite.jobs.settle import make_token

INLINE_MAX = 8_192
SIZE = "length(payload) + coalesce(length(checkpoint), 0)"
CLAIM = f"""
update jobs
set state = {RUNNING}, attempt = attempt + 1, lease_version = max(lease_version + 1, ?),
    lease_token = ?, lease_expires_at = ?, lease_ttl = ?, timeout_grace = ?, worker = ?,
    started_at = ?, updated_at = ?, progress = null
where seq in (select value from json_each(?))
"""
# In one row, see settling.LOCATE; what is large is fetched by itself rather than copied twice, and
# only if it is claimed. As bytes: text that is not UTF-8, which a damaged row may hold, cannot be
# fetched as text.
CLAIMABLE = f"""
select cast(json_group_array(json_array(
  seq, lower(hex(id)), lane, policy, priority, attempt, max_attempts, lease_version, run_at,
  expires_at, ? - scheduled_at, {SIZE}, payload_encoding,
  case when typeof(payload) = 'blob' and length(payload) <= {INLINE_MAX} then
    case payload_encoding when 0 then cast(payload as text) else hex(payload) end
  end,
  key, tags, correlation_id, flow, mode,
  case when length(checkpoint) <= {INLINE_MAX} then hex(checkpoint) end, checkpoint_encoding
)) as blob) from jobs where seq in (select value from json_each(?))
"""
CLAIMABLE_PLAIN = f"""
select seq, lower(hex(id)), lane, policy, priority, attempt, max_attempts, lease_version, run_at,
  expires_at, ? - scheduled_at, {SIZE}, payload_encoding, null, cast(key as blob),
  cast(tags as blob), cast(correlation_id as blob), cast(flow as blob), mode, null,
  checkpoint_encoding
from jobs where seq in (select value from json_each(?))
"""
LARGE = "select seq, payload, checkpoint from jobs where seq in (select value from json_each(?))"
OWN_EXPIRY = """
with own(seq, expires_at) as ({values})
update jobs set lease_expires_at = own.expires_at from own where jobs.seq = own.seq
"""

CORRUPT = Failure(Category.PERMANENT, "the stored job cannot be read", code="corrupt")


class _Row(msgspec.Struct, gc=False, array_like=True):
    """A row as it was before its claim."""

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
    size: int
    """Of payload and checkpoint."""
    payload_encoding: int
    payload: Any
    """As text, or in hexadecimal if it is binary; as bytes when it was fetched by itself."""
    key: str | None
    tags: str | None
    correlation_id: str | None
    flow: str | None
    mode: int | None
    checkpoint: Any
    """In hexadecimal; as bytes when it was fetched by itself."""
    checkpoint_encoding: int | None


_rows = msgspec.json.Decoder(list[_Row])


class Leasing(NamedTuple):
    """What came of a claim: jobs, those that cannot be read, and when the first lease ends."""

    jobs: list[ClaimedJob]
    corrupt: list[Moved]
    ends_at: int | None
    left: Counter[str]
    """How many jobs of each type were too many bytes for one claim, and stay in line."""


def lease(env: Env, request: ClaimRequest, seqs: Sequence[int], now: int) -> Plan[Leasing]:
    """Lease the rows *seqs*, as far as they are not too much for one claim."""
    if not seqs:
        return Leasing([], [], None, Counter())
    rows = yield from _look(numbers_json(seqs), now)
    assert len(rows) == len(seqs), "a claimable row vanished inside the transaction"
    lanes = yield from env.catalog.lanes({row.lane for row in rows.values()})
    taken = [rows[seq] for seq in seqs[: _fitting([rows[seq].size for seq in seqs])]]
    left = Counter(lanes[rows[seq].lane].type for seq in seqs[len(taken) :])
    yield from _fetch_large(taken)
    secret = env.clock.new_token()
    ttl, grace = seconds_to_us(request.lease_ttl), seconds_to_us(request.timeout_grace)
    numbers = numbers_json([row.seq for row in taken])
    who = (request.worker, now, now)
    yield Statement(CLAIM, (now, secret, now + ttl, ttl, grace, *who, numbers))
    policies = yield from env.catalog.policies({row.policy for row in taken})
    reader = _Reader(lanes, policies, request, secret=secret, now=now)
    jobs: list[ClaimedJob] = []
    broken: list[_Row] = []
    own_expiry: list[tuple[int, int]] = []
    for row in taken:
        job = reader.read(row)
        if job is None:
            broken.append(row)
            continue
        jobs.append(job)
        expires_at = reader.end(job.policy)
        if expires_at != now + ttl:
            own_expiry.append((row.seq, expires_at))
    for sql, params in values(OWN_EXPIRY, own_expiry):
        yield Statement(sql, params)
    tally = Tally()
    for lane, count in Counter(row.lane for row in taken).items():
        tally.move(lane, State.SCHEDULED, State.RUNNING, count)
    corrupt = yield from _fail(env, broken, request, now, tally)
    yield from tally.write()
    # Not the lease_ttl that was asked for: every job of the claim may have one of its own.
    return Leasing(jobs, corrupt, reader.first_end(), left)


def _fitting(sizes: Sequence[int]) -> int:
    """Return how many of the first jobs make one claim; the first always does."""
    if sum(sizes) <= CLAIM_BYTES_MAX:
        return len(sizes)
    totals = accumulate(sizes)
    return max(sum(1 for total in totals if total <= CLAIM_BYTES_MAX), 1)


def _look(numbers: str, now: int) -> Plan[dict[int, _Row]]:
    """Return rows that are about to be leased, without what is large."""
    ((text,),) = yield Statement(CLAIMABLE, (now, numbers))
    try:
        return {row.seq: row for row in _rows.decode(text)}
    except (msgspec.DecodeError, UnicodeDecodeError):  # a damaged row: take them one by one
        plain = yield Statement(CLAIMABLE_PLAIN, (now, numbers))
        return {row[0]: _from_plain(row) for row in plain}


def _fetch_large(rows: Sequence[_Row]) -> Plan[None]:
    """Add what was left out."""
    apart = {row.seq: row for row in rows if row.payload is None or _lacks_checkpoint(row)}
    if apart:
        for seq, payload, checkpoint in (yield Statement(LARGE, (numbers_json(list(apart)),))):
            apart[seq].payload = payload
            apart[seq].checkpoint = checkpoint


def _lacks_checkpoint(row: _Row) -> bool:
    return row.checkpoint is None and row.checkpoint_encoding is not None


def _from_plain(row: Row) -> _Row:
    """Return a row of CLAIMABLE_PLAIN; if its texts are none, so that it cannot be read either."""
    *head, payload_encoding, payload, key, tags, correlation_id, flow, mode, data, encoding = row
    try:
        raw = (key, tags, correlation_id, flow)
        texts = [None if text is None else text.decode() for text in raw]
    except (UnicodeDecodeError, AttributeError):
        payload_encoding, texts = UNREADABLE, [None] * 4
    fields: list[Any] = [*head, payload_encoding, payload, *texts, mode, data, encoding]
    return _Row(*fields)


UNREADABLE = 99
PRIORITIES = tuple(Priority)


class _Reader:
    """Turns the rows of one claim into jobs."""

    def __init__(
        self,
        lanes: dict[int, Lane],
        policies: dict[int, Policy],
        request: ClaimRequest,
        *,
        secret: str,
        now: int,
    ) -> None:
        self._lanes = lanes
        self._policies = policies
        self._request = request
        self._secret = secret
        self._now = now
        self._ends: dict[tuple[float | None, float], tuple[int, datetime]] = {}

    def read(self, row: _Row) -> ClaimedJob | None:
        """Return the claimed job, or None if its row cannot be read."""
        policy = self._policies.get(row.policy)
        if policy is None:
            return None
        lane = self._lanes[row.lane]
        lease_ttl = ttl_of(policy, self._request.lease_ttl)
        token = make_token(row.seq, row.lane, self._secret)
        try:
            job = ClaimedJob(
                id=id_of_digits(row.digits),
                type=lane.type,
                queue=lane.queue,
                priority=PRIORITIES[row.priority],
                attempt=row.attempt + 1,
                max_attempts=row.max_attempts,
                lease=Lease(
                    token, next_version(row.lease_version, self._now), self._end(policy)[1]
                ),
                lease_ttl=lease_ttl,
                payload=_payload(row),
                policy=policy,
                key=row.key,
                tags=decode_tags(row.tags) if row.tags else {},
                correlation_id=row.correlation_id,
                checkpoint=_checkpoint(row),
                waited=row.waited / 1e6 if row.waited > 0 else 0.0,
                last_version=row.lease_version,
            )
        except (msgspec.DecodeError, ValueError, TypeError, IndexError, AttributeError):
            return None
        if row.flow is None and row.mode is None:
            return job  # most are; two arguments more would cost each of them a tenth of its claim
        return replace(job, flow=row.flow, has_dependencies=row.mode is not None)

    def end(self, policy: Policy) -> int:
        """Return when the lease of a job with *policy* ends."""
        return self._end(policy)[0]

    def first_end(self) -> int | None:
        """Return when the first lease of all that were read ends."""
        return min((end for end, _ in self._ends.values()), default=None)

    def _end(self, policy: Policy) -> tuple[int, datetime]:
        key = (policy.lease_ttl, policy.timeout)
        if key not in self._ends:
            ttl = seconds_to_us(ttl_of(policy, self._request.lease_ttl))
            latest = deadline(policy, self._now, seconds_to_us(self._request.timeout_grace))
            end = min(self._now + ttl, latest)
            self._ends[key] = (end, from_us(end))
        return self._ends[key]


def _payload(row: _Row) -> Body:
    encoding = ENCODINGS[row.payload_encoding]
    if isinstance(row.payload, bytes):
        return Body(row.payload, encoding)
    if not isinstance(row.payload, str):
        raise TypeError("a payload is bytes")
    is_text = encoding is Encoding.JSON
    return Body(row.payload.encode() if is_text else bytes.fromhex(row.payload), encoding)


def _checkpoint(row: _Row) -> Body | None:
    data = bytes.fromhex(row.checkpoint) if isinstance(row.checkpoint, str) else row.checkpoint
    return decode_body(data, row.checkpoint_encoding)


def _fail(
    env: Env, rows: Sequence[_Row], request: ClaimRequest, now: int, tally: Tally
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
                attempt=row.attempt + 1,
                max_attempts=row.max_attempts,
                policy=row.policy,
                run_at=row.run_at,
                expires_at=row.expires_at,
                lease_version=next_version(row.lease_version, now),
                lease_token=None,
                lease_expires_at=None,
                settled_token=None,
                worker=request.worker,
                started_at=now,
                lease_ttl=None,
                timeout_grace=None,
            ),
            decision,
        )
        for row in rows
    ]
    followed = yield from end_all(env, endings, now, tally)
    moves = yield from moved(env, endings, followed)
    return [replace(move, was=State.SCHEDULED) for move in moves]
