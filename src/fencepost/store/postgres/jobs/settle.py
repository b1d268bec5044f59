"""Writes under a lease: settlements, checkpoints, progress; refused without a valid one."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec

from fencepost.core.job.job import Body
from fencepost.core.job.lifecycle import TERMINAL, Event, State
from fencepost.core.job.outcome import Settlement
from fencepost.core.values.payload import NULL
from fencepost.store.interface.queue import (
    AlreadySettled,
    LeaseLost,
    Moved,
    Save,
    Saved,
    SaveReply,
    Settled,
    SettleReply,
    settled_in_order,
)
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.flows.dependents import ReleasedJob, end, moves_of
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.finish import DETACH_LEASED, detached
from fencepost.store.postgres.jobs.lease import (
    NOWHERE,
    Fence,
    array,
    by_lease,
    lease_groups,
    read_token,
    states_by_id,
    with_states,
)
from fencepost.store.postgres.jobs.rows import body_fields, plain_json
from fencepost.store.sql.codec import encode_json
from fencepost.store.sql.endings import Ending

SAVE = "select fencepost.save(%s, %s, %s, %s, %s, %s, %s)"
COMPLETE = "select fencepost.complete(%s, %s, %s)::text"
HOLD_ALL = "select fencepost.hold_all(%s, %s, %s, %s::bigint[], %s::bigint[])"
# Whether a settlement that is refused now is the last one recorded; one that comes later in the
# same batch does not count.
REPEATED = """
select given.seq, given.lease_token::text
from unnest(%s::bigint[], %s::uuid[], %s::uuid[]) as given(seq, lease_token, later)
left join fencepost.done
  on done.seq = given.seq and done.lease_token is distinct from given.later
where given.lease_token = coalesce(done.lease_token, (
  select attempts.lease_token from fencepost.attempts
  where attempts.seq = given.seq and attempts.lease_token is not null
    and attempts.lease_token is distinct from given.later
  order by attempts.lease_version desc limit 1
))
"""


class _Completed(msgspec.Struct):
    """What happened besides recording a batch of successes."""

    lost: list[tuple[str, int]] | None
    moved: list[ReleasedJob] | None
    deliveries: list[ReleasedJob] | None


_completed = msgspec.json.Decoder(_Completed)


def save(env: Env, saves: Sequence[Save]) -> Plan[list[SaveReply]]:
    """Keep progress and checkpoints of handlers, under valid leases."""
    fences = [read_token(item.token, item.job_id) for item in saves]
    replies: list[SaveReply] = [LeaseLost(item.job_id) for item in saves]
    # In the one order in which all operations lock leases.
    for place in sorted(range(len(saves)), key=lambda place: fences[place].lease_token):
        item, fence = saves[place], fences[place]
        if fence is NOWHERE:
            continue
        progress = None if item.progress is None else encode_json(item.progress)
        checkpoint = (None, None, None) if item.checkpoint is None else body_fields(item.checkpoint)
        params = (env.now, fence.lease_token, fence.seq, progress, *checkpoint)
        leases = (fence.lease_token,)
        ((is_saved,),) = yield Statement(SAVE, params, alone=len(saves) == 1, leases=leases)
        if is_saved:
            replies[place] = Saved(item.job_id)
    return (yield from with_states(replies))


def settle(env: Env, settlements: Sequence[Settlement]) -> Plan[list[SettleReply]]:
    """Record each decision whose lease is valid."""
    fences = [read_token(each.token, each.job_id) for each in settlements]
    first: dict[Fence, Settlement] = {}
    for fence, settlement in zip(fences, settlements, strict=True):
        if fence is not NOWHERE:
            first.setdefault(fence, settlement)
    successes = {fence: each for fence, each in first.items() if _is_plain_success(each)}
    others = {fence: each for fence, each in first.items() if fence not in successes}
    if others and (successes or env.is_joined):
        yield from _hold_all(env, successes, others)
    lost, followed = yield from _complete(env, successes, alone=not others)
    if others:
        more_lost, more_followed = yield from _settle_each(env, others)
        lost, followed = lost | more_lost, followed + more_followed
    lanes = yield from env.catalog.lanes({fence.lane for fence in first})
    replies: list[SettleReply] = []
    settled: set[Fence] = set()
    for fence, settlement in zip(fences, settlements, strict=True):
        job_id = settlement.job_id
        if fence is NOWHERE or fence in lost:
            replies.append(LeaseLost(job_id))
        elif fence in settled:
            replies.append(AlreadySettled(job_id, first[fence].decision.state))
        else:
            settled.add(fence)
            state, type_ = settlement.decision.state, lanes[fence.lane].type
            replies.append(Settled(job_id, type_, state, followed))
            followed = ()
    if lost:
        replies = yield from _with_repeats(replies, fences)
    if len(settled) < len(replies):
        replies = settled_in_order((yield from with_states(replies)))
    return replies


def _hold_all(
    env: Env, successes: dict[Fence, Settlement], others: dict[Fence, Settlement]
) -> Plan[None]:
    """Lock in one order what is recorded in two steps, or in a caller's transaction."""
    groups = lease_groups([*successes, *others])
    states = {fence.seq: each.decision.state for fence, each in others.items()}
    completed = [seq for seq, each in states.items() if each is State.COMPLETED]
    failed = [seq for seq, each in states.items() if each in TERMINAL - {State.COMPLETED}]
    if failed or completed:
        completed += [fence.seq for fence in successes]
    params = (env.now, encode_json(groups), env.is_joined, failed, completed)
    yield Statement(HOLD_ALL, params, leases=[lease_token for lease_token, _ in groups])


def _is_plain_success(settlement: Settlement) -> bool:
    decision = settlement.decision
    if decision.event is not Event.SUCCEED:
        return False
    result = decision.result
    return result is None or result is NULL or plain_json(result) is not None


def _complete(
    env: Env, successes: dict[Fence, Settlement], *, alone: bool
) -> Plan[tuple[set[Fence], tuple[Moved, ...]]]:
    """Record successes; return those without a valid lease, and the jobs that moved as a result."""
    if not successes:
        return set(), ()
    groups = []
    leases = by_lease(successes)
    for lease_token, fences in leases.items():
        results = [successes[fence].decision.result or NULL for fence in fences]
        seqs = array(fence.seq for fence in fences)
        groups.append(f'["{lease_token}","{seqs}",{_results(results)}]')
    groups_json = "[" + ",".join(groups) + "]"
    params = (env.now, groups_json, env.is_joined)
    ((text,),) = yield Statement(COMPLETE, params, alone=alone, leases=list(leases))
    if text is None:
        return set(), ()
    completed = _completed.decode(text)
    lost = {(UUID(lease_token).hex, seq) for lease_token, seq in completed.lost or ()}
    released = [*(completed.moved or ()), *(completed.deliveries or ())]
    followed = yield from moves_of(env, released)
    return {fence for fence in successes if (fence.lease_token, fence.seq) in lost}, tuple(followed)


def _results(results: Sequence[Body]) -> str:
    if all(result is NULL for result in results):
        return "null"
    return "[" + ",".join([result.data.decode() for result in results]) + "]"


def _settle_each(
    env: Env, others: dict[Fence, Settlement]
) -> Plan[tuple[set[Fence], tuple[Moved, ...]]]:
    """Record failures, releases and the like; return the same."""
    groups = encode_json(lease_groups(others))
    jobs = detached((yield Statement(DETACH_LEASED, (env.now, groups))))
    held = {Fence(job.seq, job.lane, UUID(job.lease_token).hex): job for job in jobs}
    endings = [Ending(job, others[fence].decision, job.lease_token) for fence, job in held.items()]
    followed = yield from end(env, endings)
    return others.keys() - held.keys(), followed


def _with_repeats(replies: list[SettleReply], fences: Sequence[Fence]) -> Plan[list[SettleReply]]:
    """Replace refusals by AlreadySettled where a settlement is only repeated, which is safe."""
    lost: dict[int, Fence] = {}
    settled: dict[int, str] = {}
    for index, (reply, fence) in enumerate(zip(replies, fences, strict=True)):
        if isinstance(reply, Settled):
            settled[fence.seq] = fence.lease_token
        # Once the job is settled, no older lease is the last that settled it.
        elif isinstance(reply, LeaseLost) and fence is not NOWHERE and fence.seq not in settled:
            lost[index] = fence
    asked = sorted(set(lost.values()))
    params = (
        [fence.seq for fence in asked],
        [fence.lease_token for fence in asked],
        [settled.get(fence.seq) for fence in asked],
    )
    found = yield Statement(REPEATED, params)
    repeats = {(seq, UUID(lease_token).hex) for seq, lease_token in found}
    repeated = [index for index, each in lost.items() if (each.seq, each.lease_token) in repeats]
    states = yield from states_by_id(replies[index].job_id for index in repeated)
    for index in repeated:
        job_id = replies[index].job_id
        if job_id.lower() in states:  # a token holds only the end of an id
            replies[index] = AlreadySettled(job_id, states[job_id.lower()])
    return replies
