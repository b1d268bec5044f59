"""Heartbeats: extend each lease that is still valid, never past its deadline."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fencepost.core.values.times import from_us, seconds_to_us
from fencepost.store.interface.queue import Beat, Extended, HeartbeatReply, LeaseLost
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.lease import NOWHERE, array, read_token, with_states
from fencepost.store.sql.codec import encode_json

HEARTBEAT = "select fencepost.heartbeat(%s, %s)::text"

_extended = msgspec.json.Decoder(list[tuple[int, int, int]])


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
