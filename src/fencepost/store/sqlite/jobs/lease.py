"""Leasing the chosen rows, and decoding them. A row that cannot be read fails alone.

The token of a lease is ``<seq>.<lane>.<lease_token>``: it finds the row without a look-up by id,
and is valid only for this job and this claim (INV-2).
"""

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
    Body,
    ClaimedJob,
    Encoding,
    Lease,
)
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import CORRUPT
from fencepost.core.job.policy import Policy, Priority
from fencepost.core.job.timeouts import deadline, next_version, ttl_of
from fencepost.core.values.names import id_of_digits
from fencepost.core.values.times import from_us, seconds_to_us
from fencepost.store.interface.queue import ClaimRequest, Moved, WorkerLease
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codec import ENCODINGS, RUNNING, decode_tags, encode_json
from fencepost.store.sql.endings import Ending, moved
from fencepost.store.sqlite.flows.dependents import end_all
from fencepost.store.sqlite.jobs.catalog import Env, JobCounters, Lane
from fencepost.store.sqlite.jobs.finish import LiveRow
from fencepost.store.sqlite.jobs.rows import as_bytes, decode_body, numbers_json, values

INLINE_MAX = 8_192
SIZE = "length(payload) + coalesce(length(checkpoint), 0)"
CLAIM = f"""
update jobs
set state = {RUNNING}, attempt = attempt + 1, lease_version = max(lease_version + 1, ?),
    lease_token = ?, lease_expires_at = ?, lease_ttl = ?, timeout_grace = ?, worker = ?,
    started_at = ?, updated_at = ?, progress = null
where seq in (select value from json_each(?))
"""
# In one row, see settle.LOCATE. Large values are fetched apart rather than copied twice, and only
# if they are claimed. As bytes: text that is not UTF-8 (a damaged row) cannot be fetched as text.
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
LARGE = f"""
select seq, {as_bytes("payload")}, {as_bytes("checkpoint")} from jobs
where seq in (select value from json_each(?))
"""
HELD = f"""
select lower(hex(id)), seq, lane, lease_token, worker from jobs indexed by jobs_lease
where state = {RUNNING} and worker in (select value from json_each(?)) order by seq
"""
OWN_EXPIRY = """
with own(seq, expires_at) as ({values})
update jobs set lease_expires_at = own.expires_at from own where jobs.seq = own.seq
"""


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
    """Microseconds since it became claimable."""
    size: int
    """Bytes of payload and checkpoint."""
    payload_encoding: int
    payload: Any
    """As text, or in hexadecimal if it is binary; as bytes when it was fetched apart."""
    key: str | None
    tags: str | None
    correlation_id: str | None
    flow: str | None
    mode: int | None
    checkpoint: Any
    """In hexadecimal; as bytes when it was fetched apart."""
    checkpoint_encoding: int | None


_rows = msgspec.json.Decoder(list[_Row])


class Leasing(NamedTuple):
    """The leased jobs, those that cannot be read, and when the first lease ends."""

    jobs: list[ClaimedJob]
    corrupt: list[Moved]
    ends_at: int | None
    left: Counter[str]
    """How many jobs of each type exceeded the bytes of one claim, and were not leased."""


def lease(env: Env, request: ClaimRequest, seqs: Sequence[int], now: int) -> Plan[Leasing]:
    """Lease the rows *seqs*, up to the bytes of one claim."""
    if not seqs:
        return Leasing([], [], None, Counter())
    numbers = numbers_json(seqs)
    rows = yield from _look(numbers, now)
    assert len(rows) == len(seqs), "a claimable row vanished inside the transaction"
    lanes = yield from env.catalog.lanes({row.lane for row in rows.values()})
    taken = [rows[seq] for seq in seqs[: _fitting([rows[seq].size for seq in seqs])]]
    left = Counter(lanes[rows[seq].lane].type for seq in seqs[len(taken) :])
    yield from _fetch_large(taken)
    lease_token = env.clock.new_token()
    ttl, grace = seconds_to_us(request.lease_ttl), seconds_to_us(request.timeout_grace)
    if len(taken) < len(seqs):
        numbers = numbers_json([row.seq for row in taken])
    who = (request.worker, now, now)
    yield Statement(CLAIM, (now, lease_token, now + ttl, ttl, grace, *who, numbers))
    policies = yield from env.catalog.policies({row.policy for row in taken})
    reader = _Reader(lanes, policies, request, lease_token=lease_token, now=now)
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
    if own_expiry:
        for sql, params in values(OWN_EXPIRY, own_expiry):
            yield Statement(sql, params)
    counters = JobCounters()
    for lane, count in Counter(row.lane for row in taken).items():
        counters.move(lane, State.SCHEDULED, State.RUNNING, count)
    corrupt = yield from _fail(env, broken, request, now, counters)
    yield from counters.write()
    # Not from the request: each job of the claim may have its own lease_ttl.
    return Leasing(jobs, corrupt, reader.first_end(), left)


def _fitting(sizes: Sequence[int]) -> int:
    """Return how many of the first jobs fit into one claim; at least one."""
    if sum(sizes) <= CLAIM_BYTES_MAX:
        return len(sizes)
    totals = accumulate(sizes)
    return max(sum(1 for total in totals if total <= CLAIM_BYTES_MAX), 1)


def _look(numbers: str, now: int) -> Plan[dict[int, _Row]]:
    """Return the rows to lease, without large values."""
    ((text,),) = yield Statement(CLAIMABLE, (now, numbers))
    try:
        return {row.seq: row for row in _rows.decode(text)}
    except (msgspec.DecodeError, UnicodeDecodeError):  # a damaged row: decode each alone
        plain = yield Statement(CLAIMABLE_PLAIN, (now, numbers))
        return {row[0]: _from_plain(row) for row in plain}


def _fetch_large(rows: Sequence[_Row]) -> Plan[None]:
    """Add the large values."""
    apart = {row.seq: row for row in rows if row.payload is None or _lacks_checkpoint(row)}
    if apart:
        for seq, payload, checkpoint in (yield Statement(LARGE, (numbers_json(list(apart)),))):
            apart[seq].payload = payload
            apart[seq].checkpoint = checkpoint


def _lacks_checkpoint(row: _Row) -> bool:
    return row.checkpoint is None and row.checkpoint_encoding is not None


def _from_plain(row: Row) -> _Row:
    """Return a row of CLAIMABLE_PLAIN; one with invalid text is made unreadable."""
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
        lease_token: str,
        now: int,
    ) -> None:
        self._lanes = lanes
        self._policies = policies
        self._request = request
        self._lease_token = lease_token
        self._now = now
        self._ends: dict[tuple[float | None, float], tuple[int, datetime]] = {}

    def read(self, row: _Row) -> ClaimedJob | None:
        """Return the claimed job, or None if its row cannot be read."""
        policy = self._policies.get(row.policy)
        if policy is None:
            return None
        lane = self._lanes[row.lane]
        lease_ttl = ttl_of(policy, self._request.lease_ttl)
        token = make_token(row.seq, row.lane, self._lease_token)
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
            return job  # most jobs; two more arguments would cost a tenth of each claim
        return replace(job, flow=row.flow, has_dependencies=row.mode is not None)

    def end(self, policy: Policy) -> int:
        """Return when the lease of a job with *policy* ends."""
        return self._end(policy)[0]

    def first_end(self) -> int | None:
        """Return when the first of all leases ends."""
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
    if row.checkpoint is None:
        return None
    data = bytes.fromhex(row.checkpoint) if isinstance(row.checkpoint, str) else row.checkpoint
    return decode_body(data, row.checkpoint_encoding)


def _fail(
    env: Env, rows: Sequence[_Row], request: ClaimRequest, now: int, counters: JobCounters
) -> Plan[list[Moved]]:
    """Fail jobs whose rows cannot be read, rather than the whole claim."""
    if not rows:
        return []
    endings = [
        Ending(
            LiveRow(
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
                worker=request.worker,
                started_at=now,
            ),
            CORRUPT,
        )
        for row in rows
    ]
    followed = yield from end_all(env, endings, now, counters)
    moves = yield from moved(env, endings, followed)
    return [replace(move, was=State.SCHEDULED) for move in moves]


class Fence(NamedTuple):
    """The parts of a token; seq -1, which no row has, if it is malformed."""

    seq: int
    lane: int
    lease_token: str


SEQ_END = 1 << 63
NOWHERE = Fence(-1, -1, "")


def make_token(seq: int, lane: int, lease_token: str) -> str:
    """Return the token of one job of a claim."""
    return f"{seq:x}.{lane:x}.{lease_token}"


def held(_: Env, workers: Sequence[str]) -> Plan[list[WorkerLease]]:
    """Return the leases that workers hold."""
    rows = yield Statement(HELD, (encode_json(workers),))
    return [
        WorkerLease(id_of_digits(digits), make_token(*fence), worker)
        for digits, *fence, worker in rows
    ]


def read_token(token: str) -> Fence:
    """Return the parts of a token."""
    try:
        seq, lane, lease_token = token.split(".")
        fence = Fence(int(seq, 16), int(lane, 16), lease_token)
    except ValueError:
        return NOWHERE
    is_possible = 0 < fence.seq < SEQ_END and 0 < fence.lane < SEQ_END
    # Exactly as written: int() also accepts " 1", "0x1" and "1_0". SQLite rejects surrogates.
    is_own = token.isascii() and make_token(*fence) == token
    return fence if is_possible and is_own else NOWHERE
