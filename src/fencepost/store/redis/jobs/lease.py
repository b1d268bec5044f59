"""Leases: tokens, and the only rule for whether a write is accepted.

The token of a lease is ``<number>.<token of the claim>``: it finds the job without a look-up by id,
and is valid only for this job and this claim (INV-2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from fencepost.core.job.outcome import Settlement
from fencepost.core.values.names import wanted_ids
from fencepost.store.interface.queue import Beat, LeaseLost, Save, Spawn, WorkerLease
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.document import read_lease
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, number_of
from fencepost.store.sql.endings import informed

Reply = TypeVar("Reply")
W = TypeVar("W", bound=Beat | Save | Spawn)

SEQ_END = 1 << 53
"""Numbers in scripts are exact below this."""


class Fence(NamedTuple):
    """The parts of a token; seq 0, which no job has, if it is malformed."""

    seq: int
    claim: str


NOWHERE = Fence(0, "")


def make_token(seq: int, claim: str) -> str:
    """Return the token of one job of a claim."""
    return f"{seq:x}.{claim}"


def claim_of(token: str) -> str:
    """Return the part of a token that all jobs of a claim share."""
    return token.partition(".")[2]


def read_token(token: str) -> Fence:
    """Return the parts of a token."""
    number, _, claim = token.partition(".")
    try:
        fence = Fence(int(number, 16), claim)
    except ValueError:
        return NOWHERE
    # Exactly as written: int() also accepts " 1", "0x1" and "1_0".
    is_own = token.isascii() and bool(claim) and make_token(*fence) == token
    return fence if is_own and 0 < fence.seq < SEQ_END else NOWHERE


def held(env: Env, workers: Sequence[str]) -> Plan[list[WorkerLease]]:
    """Return the leases that workers hold."""
    unit = Unit(env)
    (pairs,) = yield from unit.read([b"HGETALL", env.key("lease")])
    leases = {
        number_of(number): read_lease(text)
        for number, text in zip(pairs[::2], pairs[1::2], strict=True)
    }
    own = {seq: lease for seq, lease in leases.items() if lease.worker in workers}
    jobs = yield from unit.jobs(sorted(own))
    return [
        WorkerLease(kept.id, make_token(seq, own[seq].token), own[seq].worker)
        for seq, kept in jobs.items()
    ]


def locate(unit: Unit, tokens: Iterable[str]) -> Plan[dict[int, Kept]]:
    """Return the jobs of *tokens*, by number."""
    seqs = {read_token(token).seq for token in tokens} - {0}
    yield from unit.start()
    return (yield from unit.jobs(sorted(seqs)))


def leased(unit: Unit, writes: Sequence[W]) -> Plan[list[tuple[W, Kept | None]]]:
    """Return each write with its job; None without a valid lease, on which the commit relies."""
    jobs = yield from locate(unit, (write.token for write in writes))
    found: list[tuple[W, Kept | None]] = []
    for write in writes:
        seq, claim = read_token(write.token)
        kept = jobs.get(seq)
        if kept is None or not is_valid(kept, write.job_id, claim, unit.now):
            found.append((write, None))
        else:
            assert kept.lease is not None
            unit.rely_on(kept.lease)
            found.append((write, kept))
    return found


def recall(unit: Unit, settlements: Sequence[Settlement]) -> list[Kept]:
    """Return the jobs of settlements, in their order, if all were claimed here; else nothing.

    Only of valid leases is anything believed: a refusal is never given without having looked.
    """
    env, now = unit.env, unit.env.believe()
    held = env.held.take([each.token for each in settlements])
    if now is not None and all(
        is_valid(kept, each.job_id, claim_of(each.token), now)
        for each, kept in zip(settlements, held, strict=True)
    ):
        found = [kept for kept in held if kept is not None]
        unit.adopt(found, now)
        return found
    return []


def is_valid(kept: Kept | None, job_id: str, claim: str, now: int) -> bool:
    """Tell whether a write to a running job is accepted: the only such rule (INV-2)."""
    return (
        kept is not None
        and kept.lease is not None
        and bool(claim)
        and kept.lease.token == claim
        and now < kept.lease.expires_at
        and is_of(kept, job_id)
    )


def is_of(kept: Kept, job_id: str) -> bool:
    """Tell whether a job has this id, however it is written."""
    return kept.id == job_id or kept.id.replace("-", "") == job_id.replace("-", "").lower()


def with_states(unit: Unit, replies: list[Reply]) -> Plan[list[Reply]]:
    """Add the present state of each job to the replies about lost leases."""
    ids = wanted_ids([reply.job_id for reply in replies if isinstance(reply, LeaseLost)])
    if not ids:
        return replies
    found = yield from unit.by_id(ids)
    return informed(replies, {job_id: kept.state for job_id, kept in found.items()})
