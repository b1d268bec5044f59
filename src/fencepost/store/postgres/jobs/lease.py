"""Leases: fencing tokens, and leased jobs as the server hands them out.

A job's token is ``<seq>.<lane>.<lease token>.<end of the job's id>``. The lease token finds the
lease, and the number the job in it, without a look-up by id. A token is valid for one job and one
claim only (INV-2). Whether its lease has expired is decided by the server, when it writes:
``hold_leases`` in ``schema/functions/lease.sql``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec

from fencepost.core.job.job import Body, ClaimedJob, Lease
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement
from fencepost.core.job.policy import Policy, Priority
from fencepost.core.job.timeouts import deadline, ttl_of
from fencepost.core.values.names import wanted_ids
from fencepost.core.values.times import from_us, seconds_to_us
from fencepost.store.interface.queue import ClaimRequest, LeaseLost, WorkerLease
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.jobs.catalog import Env, Lane
from fencepost.store.sql.codec import BY_NUMBER, ENCODINGS, encode_json
from fencepost.store.sql.endings import informed

ISOLATE = "select fencepost.isolate(%s, %s)"
STATES = "select id::text, state from fencepost.jobs where id = any (%s::uuid[])"

HELD = """
select j.id::text, x.seq, e.lane, replace(e.lease_token::text, '-', ''), e.worker
from fencepost.leases e cross join lateral unnest(e.seqs) as x(seq)
join fencepost.submissions j on j.seq = x.seq where e.worker = any (%s) order by x.seq
"""

SEQ_END = 1 << 63
LANE_END = 1 << 31
ID_DIGITS = 12
TOKEN_DIGITS = 32
HEX_DIGITS = frozenset("0123456789abcdef")
PRIORITIES = tuple(Priority)

Reply = TypeVar("Reply")


class Fence(NamedTuple):
    """What a token says; seq 0, which no row has, if it is malformed or another job's."""

    seq: int
    lane: int
    lease_token: str


NOWHERE = Fence(0, 0, "")


def token_mark(lane: int, lease_token: str) -> str:
    """Return the part that the tokens of one claim in one lane share."""
    return f".{lane:x}.{lease_token}."


def make_token(seq: int, mark: str, job_id: str) -> str:
    """Return the token of one job of a claim."""
    return f"{seq:x}{mark}{job_id[-ID_DIGITS:]}"


def held(_: Env, workers: Sequence[str]) -> Plan[list[WorkerLease]]:
    """Return the leases that workers hold."""
    rows = yield Statement(HELD, (list(workers),))
    return [
        WorkerLease(job_id, make_token(seq, token_mark(lane, lease_token), job_id), worker)
        for job_id, seq, lane, lease_token, worker in rows
    ]


def read_token(token: str, job_id: str) -> Fence:
    """Return where a token points, if it is *job_id*'s."""
    try:
        digits, lane_digits, lease_token, end = token.split(".")
        seq = int(digits, 16)
    except ValueError:
        return NOWHERE
    lane = _lane_of(lane_digits, lease_token)
    own_end = job_id[-ID_DIGITS:]
    is_own = len(end) == ID_DIGITS and (end == own_end or end == own_end.lower())
    if f"{seq:x}" != digits:  # int() also takes " 1", "0x1" and "1_0"
        return NOWHERE
    return Fence(seq, lane, lease_token) if lane and is_own and 0 < seq < SEQ_END else NOWHERE


@lru_cache(maxsize=1_000)
def _lane_of(digits: str, lease_token: str) -> int:
    """Return the lane from the shared part of a token; 0 if it is malformed."""
    try:
        lane = int(digits, 16)
    except ValueError:
        return 0
    # PostgreSQL reads capitals too, but answers in small letters; and it refuses other characters.
    is_token = len(lease_token) == TOKEN_DIGITS and HEX_DIGITS.issuperset(lease_token)
    return lane if is_token and 0 < lane < LANE_END and f"{lane:x}" == digits else 0


def by_lease(fences: Iterable[Fence]) -> dict[str, list[Fence]]:
    """Return fences by lease token, in the one order in which all operations lock leases."""
    groups: dict[str, list[Fence]] = {}
    for fence in fences:
        groups.setdefault(fence.lease_token, []).append(fence)
    return dict(sorted(groups.items()))


def lease_groups(fences: Iterable[Fence]) -> list[list[str]]:
    """Return ``[[lease token, "{seq,…}"], …]``, as the server's functions read it."""
    return [[token, array(fence.seq for fence in own)] for token, own in by_lease(fences).items()]


def array(elements: Iterable[int | str]) -> str:
    """Return numbers, or quoted texts, as the server reads an array."""
    return "{" + ",".join(map(str, elements)) + "}"


def isolate(env: Env, settlements: Sequence[Settlement]) -> Plan[None]:
    """Give the jobs of *settlements* leases of their own, so that locking these locks no others."""
    fences = {read_token(each.token, each.job_id) for each in settlements} - {NOWHERE}
    groups = lease_groups(sorted(fences))
    params = (env.now, encode_json(groups))
    leases = [lease_token for lease_token, _ in groups]
    yield Statement(ISOLATE, params, alone=True, prepares=True, leases=leases)


def states_by_id(job_ids: Iterable[str]) -> Plan[dict[str, State]]:
    """Return the states of those jobs that exist, by id."""
    wanted = list(wanted_ids(list(job_ids)).values())
    if not wanted:
        return {}
    rows = yield Statement(STATES, (wanted,))
    return {job_id: BY_NUMBER[number] for job_id, number in rows if number is not None}


def with_states(replies: list[Reply]) -> Plan[list[Reply]]:
    """Add the present state of each job to the replies about lost leases."""
    lost = [reply.job_id for reply in replies if isinstance(reply, LeaseLost)]
    return informed(replies, (yield from states_by_id(lost))) if lost else replies


class _Particulars(msgspec.Struct, gc=False):
    """What few jobs have."""

    payload_encoding: int
    bytes: str | None
    key: str | None
    tags: dict[str, Any] | None
    correlation_id: str | None
    last: int
    """The version of the lease before, 0 if there was none."""
    checkpoint_encoding: int | None
    checkpoint: str | None
    checkpoint_bytes: str | None


_NOTHING = _Particulars(0, None, None, None, None, 0, None, None, None)


class LeasedRow(msgspec.Struct, gc=False, array_like=True):
    """A job as the server hands it out."""

    seq: int
    id: str
    policy: int
    max_attempts: int
    attempt: int
    lease_version: int
    waited: int
    """Since it became claimable, in microseconds."""
    payload: msgspec.Raw
    particulars: _Particulars | None = None
    flow: str | None = None
    has_dependencies: bool = False


class _Terms(NamedTuple):
    """What the leases of jobs with one policy share in a claim."""

    policy: Policy
    lease_ttl: float
    lasts: int
    """In microseconds."""
    expires_at: datetime


class LeaseReader:
    """Turns the rows of one claim into jobs."""

    def __init__(
        self, policies: dict[int, Policy], lease_token: str, request: ClaimRequest, now: int
    ) -> None:
        self._lease_token = lease_token
        self._terms = {number: _terms(policies[number], request, now) for number in policies}

    def read_all(self, rows: Sequence[LeasedRow], lane: Lane) -> list[ClaimedJob | None]:
        """Return the claimed jobs of a lane, and None for each that cannot be read."""
        mark = token_mark(lane.number, self._lease_token)
        priority = PRIORITIES[lane.priority]
        return [self._read(row, lane, priority, mark) for row in rows]

    def _read(self, row: LeasedRow, lane: Lane, priority: Priority, mark: str) -> ClaimedJob | None:
        terms = self._terms.get(row.policy)
        if terms is None:
            return None
        special = row.particulars or _NOTHING
        if special.tags and not all(isinstance(each, str) for each in special.tags.values()):
            return None  # or it would stand in the way of every claim
        data = bytes(row.payload) if special.bytes is None else bytes.fromhex(special.bytes)
        return ClaimedJob(
            id=row.id,
            type=lane.type,
            queue=lane.queue,
            priority=priority,
            attempt=row.attempt,
            max_attempts=row.max_attempts,
            lease=Lease(make_token(row.seq, mark, row.id), row.lease_version, terms.expires_at),
            lease_ttl=terms.lease_ttl,
            payload=Body(data, ENCODINGS[special.payload_encoding]),
            policy=terms.policy,
            key=special.key,
            tags=special.tags or {},
            correlation_id=special.correlation_id,
            checkpoint=_checkpoint(special),
            flow=row.flow,
            has_dependencies=row.has_dependencies,
            waited=row.waited / 1e6,
            last_version=special.last,
        )

    def lengths(self) -> list[float]:
        """Return how many seconds the leases of the claim last."""
        return [terms.lasts / 1e6 for terms in self._terms.values()]


def _terms(policy: Policy, request: ClaimRequest, now: int) -> _Terms:
    """Return when a lease runs out, by the same rule as ``fencepost.pop``."""
    lease_ttl = ttl_of(policy, request.lease_ttl)
    latest = deadline(policy, now, seconds_to_us(request.timeout_grace))
    end_ = min(now + seconds_to_us(lease_ttl), latest)
    return _Terms(policy, lease_ttl, end_ - now, from_us(end_))


def _checkpoint(special: _Particulars) -> Body | None:
    if special.checkpoint_encoding is None:
        return None
    text, digits = special.checkpoint, special.checkpoint_bytes
    data = bytes.fromhex(digits or "") if text is None else text.encode()
    return Body(data, ENCODINGS[special.checkpoint_encoding])
