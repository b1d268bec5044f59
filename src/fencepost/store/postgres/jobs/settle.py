"""Writes under a lease: heartbeats, settlements, checkpoints. Fenced or refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar
from uuid import UUID

import msgspec

from fencepost.core.job.job import Body
from fencepost.core.job.lifecycle import TERMINAL, Event, State
from fencepost.core.job.outcome import Settlement
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
from fencepost.store.postgres.flows.dependents import Told, end, told
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.finish import LIFT_LEASED, Ending, lifted
from fencepost.store.postgres.jobs.rows import body_fields, plain_json
from fencepost.store.postgres.jobs.tokens import NOWHERE, Fence, read_token
from fencepost.store.sql.codes import BY_NUMBER
from fencepost.store.sql.texts import encode_json

COMPLETE = "select fencepost.complete(%s, %s, %s)::text"
HOLD_ALL = "select fencepost.hold_all(%s, %s, %s, %s::bigint[], %s::bigint[])"
ISOLATE = "select fencepost.isolate(%s, %s)"
HEARTBEAT = "select fencepost.heartbeat(%s, %s)::text"
SAVE = "select fencepost.save(%s, %s, %s, %s, %s, %s, %s)"
STATES = "select id::text, state from fencepost.jobs where id = any (%s::uuid[])"
# Whether a settlement that is refused now is the last that was recorded; that of the same batch,
# if it comes later there, does not count.
REPEATED = """
select given.seq, given.secret::text
from unnest(%s::bigint[], %s::uuid[], %s::uuid[]) as given(seq, secret, later)
left join fencepost.done
  on done.seq = given.seq and done.secret is distinct from given.later
where given.secret = coalesce(done.secret, (
  select attempt.secret from fencepost.attempt
  where attempt.seq = given.seq and attempt.secret is not null
    and attempt.secret is distinct from given.later
  order by attempt.version desc limit 1
))
"""

Reply = TypeVar("Reply")


class _Completed(msgspec.Struct):
    """What there is to say of a batch of successes."""

    lost: list[tuple[str, int]] | None
    moved: list[Told] | None
    told: list[Told] | None


_completed = msgspec.json.Decoder(_Completed)
_extended = msgspec.json.Decoder(list[tuple[int, int, int]])


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
        replies = told_in_order((yield from with_states(replies)))
    return replies


def _hold_all(
    env: Env, successes: dict[Fence, Settlement], others: dict[Fence, Settlement]
) -> Plan[None]:
    """Lock in the one order what is recorded in two steps, or in a caller's transaction."""
    groups = _groups([*successes, *others])
    states = {fence.seq: each.decision.state for fence, each in others.items()}
    completed = [seq for seq, each in states.items() if each is State.COMPLETED]
    failed = [seq for seq, each in states.items() if each in TERMINAL - {State.COMPLETED}]
    if failed or completed:
        completed += [fence.seq for fence in successes]
    params = (env.now, encode_json(groups), env.is_joined, failed, completed)
    yield Statement(HOLD_ALL, params, leases=[secret for secret, _ in groups])


def _is_plain_success(settlement: Settlement) -> bool:
    decision = settlement.decision
    if decision.event is not Event.SUCCEED:
        return False
    result = decision.result
    return result is None or result is NULL or plain_json(result) is not None


def _complete(
    env: Env, successes: dict[Fence, Settlement], *, alone: bool
) -> Plan[tuple[set[Fence], tuple[Moved, ...]]]:
    """Record successes; return those whose lease was not valid, and who was let go."""
    if not successes:
        return set(), ()
    groups = []
    by_secret = _by_secret(successes)
    for secret, fences in by_secret.items():
        results = [successes[fence].decision.result or NULL for fence in fences]
        seqs = ",".join([str(fence.seq) for fence in fences])
        groups.append(f'["{secret}","{{{seqs}}}",{_results(results)}]')
    groups_json = "[" + ",".join(groups) + "]"
    params = (env.now, groups_json, env.is_joined)
    ((text,),) = yield Statement(COMPLETE, params, alone=alone, leases=list(by_secret))
    if text is None:
        return set(), ()
    completed = _completed.decode(text)
    lost = {(UUID(secret).hex, seq) for secret, seq in completed.lost or ()}
    followed = yield from told(env, [*(completed.moved or ()), *(completed.told or ())])
    return {fence for fence in successes if (fence.secret, fence.seq) in lost}, tuple(followed)


def _results(results: Sequence[Body]) -> str:
    if all(result is NULL for result in results):
        return "null"
    return "[" + ",".join([result.data.decode() for result in results]) + "]"


def _by_secret(fences: Iterable[Fence]) -> dict[str, list[Fence]]:
    """Return fences by lease, in the one order in which everybody locks leases."""
    groups: dict[str, list[Fence]] = {}
    for fence in fences:
        groups.setdefault(fence.secret, []).append(fence)
    return dict(sorted(groups.items()))


def _settle_each(
    env: Env, others: dict[Fence, Settlement]
) -> Plan[tuple[set[Fence], tuple[Moved, ...]]]:
    """Record failures, releases and the like; return the same."""
    jobs = lifted((yield Statement(LIFT_LEASED, (env.now, encode_json(_groups(others))))))
    held = {Fence(job.seq, job.lane, UUID(job.secret).hex): job for job in jobs}
    endings = [Ending(job, others[fence].decision, True) for fence, job in held.items()]
    followed = yield from end(env, endings)
    return others.keys() - held.keys(), followed


def isolate(env: Env, settlements: Sequence[Settlement]) -> Plan[None]:
    """Keep what locks the leases of *settlements* from locking those of others."""
    fences = {read_token(each.token, each.job_id) for each in settlements} - {NOWHERE}
    groups = _groups(sorted(fences))
    params = (env.now, encode_json(groups))
    leases = [secret for secret, _ in groups]
    yield Statement(ISOLATE, params, alone=True, prepares=True, leases=leases)


def _groups(fences: Iterable[Fence]) -> list[list[str]]:
    return [
        [secret, "{" + ",".join(str(fence.seq) for fence in own) + "}"]
        for secret, own in _by_secret(fences).items()
    ]


def _with_repeats(replies: list[SettleReply], fences: Sequence[Fence]) -> Plan[list[SettleReply]]:
    """Tell a repeat of a settlement, which is safe, from a stale worker."""
    lost: dict[int, Fence] = {}
    settled: dict[int, str] = {}
    for index, (reply, fence) in enumerate(zip(replies, fences, strict=True)):
        if isinstance(reply, Settled):
            settled[fence.seq] = fence.secret
        # Once the job has been settled, no older lease is the last under which it was.
        elif isinstance(reply, LeaseLost) and fence is not NOWHERE and fence.seq not in settled:
            lost[index] = fence
    asked = sorted(set(lost.values()))
    params = (
        [fence.seq for fence in asked],
        [fence.secret for fence in asked],
        [settled.get(fence.seq) for fence in asked],
    )
    found = yield Statement(REPEATED, params)
    repeats = {(seq, UUID(secret).hex) for seq, secret in found}
    repeated = [index for index, each in lost.items() if (each.seq, each.secret) in repeats]
    states = yield from _states(replies[index].job_id for index in repeated)
    for index in repeated:
        job_id = replies[index].job_id
        if job_id.lower() in states:  # a token holds but the end of an id
            replies[index] = AlreadySettled(job_id, states[job_id.lower()])
    return replies


def _states(job_ids: Iterable[str]) -> Plan[dict[str, State]]:
    wanted = list(wanted_ids(list(job_ids)).values())
    if not wanted:
        return {}
    rows = yield Statement(STATES, (wanted,))
    return {job_id: BY_NUMBER[number] for job_id, number in rows if number is not None}


def with_states(replies: list[Reply]) -> Plan[list[Reply]]:
    """Tell those who lost a lease what has become of their job."""
    lost = [reply.job_id for reply in replies if isinstance(reply, LeaseLost)]
    if not lost:
        return replies
    states = yield from _states(lost)
    for index, reply in enumerate(replies):
        if isinstance(reply, LeaseLost):
            informed = LeaseLost(reply.job_id, states.get(reply.job_id.lower()))
            replies[index] = informed  # type: ignore[assignment]  # every Reply includes it
    return replies


def heartbeat(env: Env, beats: Sequence[Beat]) -> Plan[list[HeartbeatReply]]:
    """Extend each lease that is still valid; an expired one is not revived."""
    groups: dict[tuple[str, int | None], list[int]] = {}
    keys: list[tuple[str, int | None, int]] = []
    for beat in beats:
        fence = read_token(beat.token, beat.job_id)
        ttl = None if beat.lease_ttl is None else seconds_to_us(beat.lease_ttl)
        keys.append((fence.secret, ttl, fence.seq))
        if fence is not NOWHERE:
            groups.setdefault((fence.secret, ttl), []).append(fence.seq)
    extended: dict[tuple[str, int | None, int], int] = {}
    if groups:
        ordered = sorted(groups, key=lambda key: (key[0], key[1] or 0))
        asked = [[*key, "{" + ",".join(map(str, groups[key])) + "}"] for key in ordered]
        secrets = sorted({secret for secret, _ in ordered})
        params = (env.now, encode_json(asked))
        ((text,),) = yield Statement(HEARTBEAT, params, alone=True, leases=secrets)
        extended = {(*ordered[n - 1], seq): end_ for n, seq, end_ in _extended.decode(text)}
    replies: list[HeartbeatReply] = []
    for beat, key in zip(beats, keys, strict=True):
        expires_at = extended.get(key)
        if expires_at is None:
            replies.append(LeaseLost(beat.job_id))
        else:
            replies.append(Extended(beat.job_id, from_us(expires_at)))
    return (yield from with_states(replies))


def save(env: Env, saves: Sequence[Save]) -> Plan[list[SaveReply]]:
    """Keep what handlers ask to keep, under valid leases."""
    saved: list[SaveReply | None] = [None] * len(saves)
    # In the one order in which everybody locks leases.
    for place, item in sorted(enumerate(saves), key=lambda each: _secret(each[1])):
        fence = read_token(item.token, item.job_id)
        is_saved = False
        if fence is not NOWHERE:
            progress = None if item.progress is None else encode_json(item.progress)
            checkpoint = (None, None, None)
            if item.checkpoint is not None:
                checkpoint = body_fields(item.checkpoint)  # type: ignore[assignment]
            params = (env.now, fence.secret, fence.seq, progress, *checkpoint)
            leases = (fence.secret,)
            ((is_saved,),) = yield Statement(SAVE, params, alone=len(saves) == 1, leases=leases)
        saved[place] = Saved(item.job_id) if is_saved else LeaseLost(item.job_id)
    replies = [reply for reply in saved if reply is not None]
    return (yield from with_states(replies))


def _secret(item: Save) -> str:
    return read_token(item.token, item.job_id).secret
