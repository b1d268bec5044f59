"""Leases: fencing tokens, heartbeats, checkpoints. A write is fenced or refused.

A job's token is ``<seq>.<lane>.<lease token>.<end of the job's id>``. The lease token finds the
lease, and the number the job in it, without a look-up by id. A token is valid for one job and one
claim only (INV-2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

import msgspec

from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement
from fencepost.core.values.names import wanted_ids
from fencepost.core.values.times import from_us, seconds_to_us
from fencepost.store.interface.queue import (
    Beat,
    Extended,
    HeartbeatReply,
    LeaseLost,
    Save,
    Saved,
    SaveReply,
)
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.rows import body_fields
from fencepost.store.sql.codec import BY_NUMBER, encode_json
from fencepost.store.sql.endings import informed

ISOLATE = "select fencepost.isolate(%s, %s)"
HEARTBEAT = "select fencepost.heartbeat(%s, %s)::text"
SAVE = "select fencepost.save(%s, %s, %s, %s, %s, %s, %s)"
STATES = "select id::text, state from fencepost.jobs where id = any (%s::uuid[])"

SEQ_END = 1 << 63
LANE_END = 1 << 31
ID_DIGITS = 12
TOKEN_DIGITS = 32
HEX_DIGITS = frozenset("0123456789abcdef")

Reply = TypeVar("Reply")

_extended = msgspec.json.Decoder(list[tuple[int, int, int]])


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


def array(numbers: Iterable[int]) -> str:
    """Return numbers as the server reads an array."""
    return "{" + ",".join(map(str, numbers)) + "}"


def isolate(env: Env, settlements: Sequence[Settlement]) -> Plan[None]:
    """Give the jobs of *settlements* leases of their own, so that locking these locks no others."""
    fences = {read_token(each.token, each.job_id) for each in settlements} - {NOWHERE}
    groups = lease_groups(sorted(fences))
    params = (env.now, encode_json(groups))
    leases = [lease_token for lease_token, _ in groups]
    yield Statement(ISOLATE, params, alone=True, prepares=True, leases=leases)


def heartbeat(env: Env, beats: Sequence[Beat]) -> Plan[list[HeartbeatReply]]:
    """Extend each lease that is still valid; an expired one is not revived."""
    groups: dict[tuple[str, int | None], list[int]] = {}
    keys: list[tuple[str, int | None, int]] = []
    for beat in beats:
        fence = read_token(beat.token, beat.job_id)
        ttl = None if beat.lease_ttl is None else seconds_to_us(beat.lease_ttl)
        keys.append((fence.lease_token, ttl, fence.seq))
        if fence is not NOWHERE:
            groups.setdefault((fence.lease_token, ttl), []).append(fence.seq)
    extended: dict[tuple[str, int | None, int], int] = {}
    if groups:
        ordered = sorted(groups, key=lambda key: (key[0], key[1] or 0))
        asked = [[*key, array(groups[key])] for key in ordered]
        leases = sorted({lease_token for lease_token, _ in ordered})
        params = (env.now, encode_json(asked))
        ((text,),) = yield Statement(HEARTBEAT, params, alone=True, leases=leases)
        extended = {(*ordered[n - 1], seq): end for n, seq, end in _extended.decode(text)}
    replies: list[HeartbeatReply] = []
    for beat, key in zip(beats, keys, strict=True):
        expires_at = extended.get(key)
        if expires_at is None:
            replies.append(LeaseLost(beat.job_id))
        else:
            replies.append(Extended(beat.job_id, from_us(expires_at)))
    return (yield from with_states(replies))


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
