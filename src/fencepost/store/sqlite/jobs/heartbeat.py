"""Heartbeats: extend each lease that is still valid, never past its deadline."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.core.job.policy import DEFAULT_POLICY, Policy
from fencepost.core.job.timeouts import deadline, ttl_of
from fencepost.core.values.times import from_us, seconds_to_us
from fencepost.store.interface.queue import Beat, Extended, HeartbeatReply, LeaseLost
from fencepost.store.plan import Plan, Statement
from fencepost.store.sqlite.jobs.catalog import Env
from fencepost.store.sqlite.jobs.finish import LiveRow
from fencepost.store.sqlite.jobs.rows import values
from fencepost.store.sqlite.jobs.settle import leased, locate, with_states

EXTEND = """
with beat(seq, expires_at) as ({values})
update jobs set lease_expires_at = max(jobs.lease_expires_at, beat.expires_at)
from beat where jobs.seq = beat.seq
"""


def heartbeat(env: Env, beats: Sequence[Beat]) -> Plan[list[HeartbeatReply]]:
    """Extend each lease that is still valid; an expired one stays expired."""
    now = env.clock.now_us()
    jobs = yield from locate(beat.token for beat in beats)
    policies = yield from env.catalog.policies({job.policy for job in jobs.values()})
    replies: list[HeartbeatReply] = []
    rows: dict[int, tuple[int, int]] = {}
    for beat in beats:
        job = leased(jobs, beat, now)
        if job is not None:
            policy = policies.get(job.policy, DEFAULT_POLICY)
            expires_at = max(_extended(job, policy, beat, now), rows.get(job.seq, (0, 0))[1])
            rows[job.seq] = (job.seq, expires_at)
            replies.append(Extended(beat.job_id, from_us(expires_at)))
        else:
            replies.append(LeaseLost(beat.job_id))
    for sql, params in values(EXTEND, list(rows.values())):
        yield Statement(sql, params)
    return (yield from with_states(replies))


def _extended(job: LiveRow, policy: Policy, beat: Beat, now: int) -> int:
    """Return the new expiry of a lease: never earlier than before, never past its deadline."""
    assert job.lease_expires_at is not None and job.started_at is not None
    asked = ttl_of(policy, (job.lease_ttl or 0) / 1e6) if beat.lease_ttl is None else beat.lease_ttl
    latest = deadline(policy, job.started_at, job.timeout_grace or 0)
    return max(job.lease_expires_at, min(now + seconds_to_us(asked), latest))
