"""Heartbeats: extend each lease that is still valid, never past its deadline."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.core.job.timeouts import deadline, ttl_of
from fencepost.core.values.times import from_us, seconds_to_us
from fencepost.store.interface.queue import Beat, Extended, HeartbeatReply, LeaseLost
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.document import LeaseRecord
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env
from fencepost.store.redis.jobs.lease import leased, with_states


def heartbeat(env: Env, beats: Sequence[Beat]) -> Plan[list[HeartbeatReply]]:
    """Extend each lease that is still valid; an expired one stays expired."""
    unit = Unit(env)
    replies: list[HeartbeatReply] = []
    for beat, kept in (yield from leased(unit, beats)):
        if kept is None or kept.lease is None:
            replies.append(LeaseLost(beat.job_id))
            continue
        expires_at = _extended(kept, kept.lease, beat, unit.now)
        kept.lease = kept.lease._replace(expires_at=expires_at)
        replies.append(Extended(beat.job_id, from_us(expires_at)))
    replies = yield from with_states(unit, replies)
    yield from unit.commit()
    return replies


def _extended(kept: Kept, lease: LeaseRecord, beat: Beat, now: int) -> int:
    """Return the new expiry of a lease: never earlier than before, never past its deadline."""
    asked = ttl_of(kept.policy, lease.ttl / 1e6) if beat.lease_ttl is None else beat.lease_ttl
    latest = deadline(kept.policy, lease.started_at, lease.grace)
    return max(lease.expires_at, min(now + seconds_to_us(asked), latest))
