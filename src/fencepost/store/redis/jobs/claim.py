"""Claims: one script leases jobs; what is overdue is done before it, and does not fail it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from fencepost.core.bounds import (
    CLAIM_BYTES_MAX,
    CLAIM_MAX,
    EXPIRE_BATCH,
    PROMOTE_BATCH,
    RECOVER_BATCH,
)
from fencepost.core.job.job import ClaimedJob, Lease
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import CORRUPT
from fencepost.core.job.policy import DEFAULT_POLICY, Policy
from fencepost.core.job.timeouts import ttl_of
from fencepost.core.limits.weights import turns_from
from fencepost.core.values.names import RESERVED_TYPES
from fencepost.core.values.times import from_us, seconds_to_us
from fencepost.errors import StoreUnavailableError, UnknownOutcomeError
from fencepost.store.interface.queue import Claim, ClaimRequest, Moved
from fencepost.store.plan import Plan, Statement
from fencepost.store.redis.documents.commit import StaleError, at_once
from fencepost.store.redis.documents.document import (
    Document,
    LeaseRecord,
    body_of,
    decode_body,
    decode_document,
    read_lease,
)
from fencepost.store.redis.documents.job import PRIORITIES, Kept
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.flows.dependents import end_all
from fencepost.store.redis.jobs.catalog import Env, number_of, pack
from fencepost.store.redis.jobs.finish import KeptEnding
from fencepost.store.redis.jobs.lease import make_token
from fencepost.store.redis.jobs.rows import TIMEOUT_US
from fencepost.store.redis.jobs.upkeep import expire, promote, recover
from fencepost.store.redis.limits.rates import opens_at, set_back
from fencepost.store.sql.codec import RUNNING, SCHEDULED

T = TypeVar("T")

CHORES = ("recover", "expire", "promote")
CHORE_TRIES = 5


def claim(env: Env, request: ClaimRequest) -> Plan[Claim]:
    """Recover, expire and promote what is due, then lease up to ``request.limit`` jobs."""
    chores: dict[str, Callable[[], Plan[list[Moved]]]] = {
        "recover": lambda: recover(env, RECOVER_BATCH),
        "expire": lambda: expire(env, EXPIRE_BATCH),
        "promote": lambda: promote(env, PROMOTE_BATCH),
    }
    wanted = {name for name in CHORES if env.chores.may(name)}
    moves: dict[str, list[Moved]] = {name: [] for name in CHORES}
    token = env.clock.new_token()
    while True:
        answer: list[Any] = yield Statement("claim", _arguments(env, request, token, wanted))
        now, todo = int(answer[0]), [name.decode() for name in answer[1]]
        env.held.note(now, env.clock.monotonic())
        if not todo:
            break
        if todo == ["set_back"]:
            yield from at_once(set_back(env, answer[2].decode()))
            continue
        if "recover" in todo and "promote" in wanted:
            todo = list(dict.fromkeys([*todo, "promote"]))  # it may make jobs due at once
        for name in todo:
            wanted.discard(name)
            moves[name] += yield from _chore(env, name, chores[name])
    _, _, rows, due, ends, shut, short = answer
    jobs, corrupt = yield from _read(env, request, rows, now)
    moments = [int(float(moment)) for moment in (due, ends) if moment]
    opening = yield from opens_at(env, [type_.decode() for type_ in shut], now)
    waits = [moment - now for moment in (*moments, opening) if moment is not None]
    wait = max(min(waits), 0) / 1e6 if waits else None
    return Claim(
        jobs=jobs,
        recovered=moves["recover"],
        expired=moves["expire"],
        promoted=len(moves["promote"]),
        held=sum(move.state is State.PENDING for move in moves["promote"]),
        corrupt=corrupt,
        wait=env.chores.wait(wait) if env.chores.until else wait,
        is_short=bool(short),
    )


def _arguments(env: Env, request: ClaimRequest, token: str, chores: set[str]) -> list[Any]:
    weights = request.queues
    terms: dict[str, Any] = {
        "limit": max(min(request.limit, CLAIM_MAX), 0),
        "queues": None if weights is None else list(weights),
        "row": None if weights is None else turns_from(weights, request.turn),
        "turn": request.turn,
        "types": None if request.types is None else sorted(request.types),
        "own_types": request.own_types,
        "reserved": RESERVED_TYPES,
        "worker": request.worker,
        "token": token,
        "ttl": seconds_to_us(request.lease_ttl),
        "grace": seconds_to_us(request.timeout_grace),
        "timeout": TIMEOUT_US,
        "bytes": CLAIM_BYTES_MAX,
        "scheduled": str(SCHEDULED),
        "running": str(RUNNING),
        **{name: name in chores for name in CHORES},
    }
    listener = env.held.listener
    if listener is not None:
        env.held.has_claimed = True
        terms["listener"] = listener
        terms["terms"] = pack({"queues": terms["queues"], "types": terms["types"]})
    return [env.now, pack(terms)]


def _chore(env: Env, name: str, start: Callable[[], Plan[list[Moved]]]) -> Plan[list[Moved]]:
    """Do a chore as a commit of its own; if it fails, log it and go on."""
    for _ in range(CHORE_TRIES):
        try:
            moves = yield from at_once(start())
        except StaleError:
            continue  # another process was faster, and may have done it
        except (StoreUnavailableError, UnknownOutcomeError):
            raise  # the server is away: that is not the chore's fault
        except Exception as error:  # noqa: BLE001 - no failure of a chore fails the claim
            env.chores.failed(name, repr(error))
            return []
        env.chores.done(name)
        return moves
    return []


class _Row(NamedTuple):
    """What a claim brings of one job."""

    number: bytes
    text: bytes
    lease: bytes
    payload: bytes | None
    checkpoint: bytes | None


def _rows(columns: list[Any]) -> list[_Row]:
    numbers, texts, leases, payloads, checkpoints = columns
    nothing = [None] * len(numbers)
    columns = [numbers, texts, leases, payloads or nothing, checkpoints or nothing]
    return [_Row(*row) for row in zip(*columns, strict=True)]


def _read(
    env: Env, request: ClaimRequest, columns: list[Any], now: int
) -> Plan[tuple[list[ClaimedJob], list[Moved]]]:
    """Return the claimed jobs; those that cannot be read have failed."""
    rows = _rows(columns)
    documents: list[Document | None] = []
    for row in rows:
        try:
            documents.append(decode_document(row.text))
        except (msgspec.DecodeError, ValueError, TypeError):
            documents.append(None)
    digests = {document.policy for document in documents if document is not None}
    policies = yield from env.catalog.policies(env, digests)
    leases = {text: _lease(text) for text in {row.lease for row in rows}}  # most are equal
    jobs: list[ClaimedJob] = []
    broken: list[int] = []
    held: dict[str, Kept] = {}
    for row, document in zip(rows, documents, strict=True):
        lease, ends_at = leases[row.lease]
        kept = None if document is None else _kept(row, document, policies, lease)
        job = None if kept is None else _claimed(request, row, kept, now, ends_at)
        if job is None or kept is None:
            broken.append(number_of(row.number))
        else:
            jobs.append(job)
            held[job.lease.token] = kept
    env.held.remember(held)
    return jobs, (yield from at_once(_fail(env, broken)))


def _lease(text: bytes) -> tuple[LeaseRecord, datetime]:
    """Return a lease, and when it ends."""
    lease = read_lease(text)
    return lease, from_us(lease.expires_at)


def _kept(
    row: _Row, document: Document, policies: dict[bytes, Policy], lease: LeaseRecord
) -> Kept | None:
    """Return a claimed job as its settlement would read it."""
    policy = DEFAULT_POLICY if document.policy is None else policies.get(document.policy)
    if policy is None:
        return None
    return Kept(number_of(row.number), document, policy, lease, read=row.text, read_lease=row.lease)


def _claimed(
    request: ClaimRequest, row: _Row, kept: Kept, now: int, ends_at: datetime
) -> ClaimedJob | None:
    document, lease, policy = kept.document, kept.lease, kept.policy
    data = row.payload if document.payload is None else document.payload
    if lease is None or data is None:
        return None
    since = document.scheduled_at or now
    checkpoint = row.checkpoint if document.lease_version else None
    try:
        return ClaimedJob(
            id=kept.id,
            type=document.type,
            queue=document.queue_name,
            priority=PRIORITIES[document.priority],
            attempt=lease.attempt,
            max_attempts=document.max_attempts,
            lease=Lease(make_token(kept.seq, lease.token), lease.version, ends_at),
            lease_ttl=ttl_of(policy, request.lease_ttl),
            payload=body_of(document.payload_encoding, data),
            policy=policy,
            key=document.key,
            tags=document.tags or {},
            correlation_id=document.correlation_id,
            checkpoint=decode_body(checkpoint),
            waited=max(now - since, 0) / 1e6,
            last_version=document.lease_version,
            flow=document.flow,
            has_dependencies=document.waits is not None,
        )
    except (ValueError, TypeError, IndexError):
        return None


def _fail(env: Env, seqs: list[int]) -> Plan[list[Moved]]:
    """Fail claimed jobs that cannot be read, rather than the whole claim."""
    if not seqs:
        return []
    unit = Unit(env)
    yield from unit.start()
    found = yield from unit.jobs(seqs)
    moves, followed = yield from end_all(
        unit, [KeptEnding(kept, CORRUPT) for kept in found.values()]
    )
    yield from unit.commit()
    if moves and followed:
        moves[0] = replace(moves[0], followed=followed)
    return [replace(move, was=State.SCHEDULED) for move in moves]
