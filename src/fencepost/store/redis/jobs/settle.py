"""Writes under a lease: settlements, checkpoints, progress; refused without a valid one."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from fencepost.core.job.outcome import Settlement
from fencepost.core.values.times import from_us
from fencepost.store.interface.queue import (
    AlreadySettled,
    LeaseLost,
    Save,
    Saved,
    SaveReply,
    Settled,
    SettleReply,
    settled_in_order,
)
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.flows.dependents import end_all
from fencepost.store.redis.jobs.catalog import Env
from fencepost.store.redis.jobs.finish import KeptEnding
from fencepost.store.redis.jobs.lease import (
    claim_of,
    is_of,
    is_valid,
    leased,
    read_token,
    recall,
    with_states,
)
from fencepost.store.sql.codec import encode_json


def settle(env: Env, settlements: Sequence[Settlement]) -> Plan[list[SettleReply]]:
    """Record each decision whose lease is valid."""
    unit = Unit(env)
    known = recall(unit, settlements)
    if known:
        accepted, replies = _accept(unit, settlements, known)
    else:
        accepted, replies = yield from _judge(unit, settlements)
    _, followed = yield from end_all(unit, accepted)
    if not known:
        replies = yield from with_states(unit, replies)
    yield from unit.commit()
    for place, reply in enumerate(replies):
        if followed and isinstance(reply, Settled):
            replies[place] = replace(reply, followed=followed)
            break
    return replies if known else settled_in_order(replies)


def _accept(
    unit: Unit, settlements: Sequence[Settlement], jobs: Sequence[Kept]
) -> tuple[list[KeptEnding], list[SettleReply]]:
    """Return the ends of jobs whose leases are known to be valid, and the replies."""
    unit.rely_on(*(kept.lease for kept in jobs if kept.lease is not None))
    accepted: list[KeptEnding] = []
    replies: list[SettleReply] = []
    for settlement, kept in zip(settlements, jobs, strict=True):
        job_id, decision = settlement.job_id, settlement.decision
        accepted.append(KeptEnding(kept, decision, claim_of(settlement.token)))
        replies.append(Settled(job_id, kept.type, decision.state))
    return accepted, replies


def _judge(
    unit: Unit, settlements: Sequence[Settlement]
) -> Plan[tuple[list[KeptEnding], list[SettleReply]]]:
    """Read the jobs; return the ends of those whose leases are valid, and the replies to all."""
    fences = [read_token(each.token) for each in settlements]
    yield from unit.start()
    jobs = yield from unit.jobs(sorted({fence.seq for fence in fences} - {0}))
    accepted: dict[int, KeptEnding] = {}
    replies: list[SettleReply] = []
    for settlement, (seq, claim) in zip(settlements, fences, strict=True):
        job_id, decision = settlement.job_id, settlement.decision
        kept = jobs.get(seq)
        if kept is None or not is_valid(kept, job_id, claim, unit.now):
            # After a settlement of this batch, the token that was read is outdated.
            replies.append(_refusal(None if seq in accepted else kept, job_id, claim))
        elif seq in accepted:
            replies.append(AlreadySettled(job_id, accepted[seq].decision.state))
        else:
            assert kept.lease is not None
            unit.rely_on(kept.lease)
            accepted[seq] = KeptEnding(kept, decision, claim)
            replies.append(Settled(job_id, kept.type, decision.state))
    return list(accepted.values()), replies


def _refusal(kept: Kept | None, job_id: str, claim: str) -> AlreadySettled | LeaseLost:
    """Return whether this repeats the last settlement, which is safe, or the lease is lost."""
    if kept is not None and claim and kept.document.settled_token == claim and is_of(kept, job_id):
        return AlreadySettled(job_id, kept.state)
    return LeaseLost(job_id)


def save(env: Env, saves: Sequence[Save]) -> Plan[list[SaveReply]]:
    """Store checkpoints and progress under valid leases."""
    unit = Unit(env)
    replies: list[SaveReply] = []
    for item, kept in (yield from leased(unit, saves)):
        if kept is None:
            replies.append(LeaseLost(item.job_id))
            continue
        if item.checkpoint is not None:
            unit.put_body("checkpoint", kept, item.checkpoint)
        if item.progress is not None:
            progress = {**item.progress, "at": from_us(unit.now)}
            unit.put_progress(kept, encode_json(progress).encode())
        replies.append(Saved(item.job_id))
    replies = yield from with_states(unit, replies)
    yield from unit.commit()
    return replies
