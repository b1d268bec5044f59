"""Refused writes: a list for each job, and the jobs that have one by time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fencepost.core.bounds import REFUSALS_MAX, REFUSALS_OF_JOB_MAX
from fencepost.core.refusals import NewRefusal, RefusedWrite
from fencepost.core.values.names import wanted_ids
from fencepost.core.values.times import from_us
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, read

JOBS_MAX = REFUSALS_MAX // REFUSALS_OF_JOB_MAX

_decoder = msgspec.msgpack.Decoder(RefusedWrite)


def record(env: Env, refusals: Sequence[NewRefusal]) -> Plan[None]:
    """Keep refusals, and forget those that are too many."""
    unit = Unit(env)
    now = yield from unit.start()
    jobs = yield from unit.by_id(wanted_ids([each.job_id for each in refusals]))
    (names,) = yield from unit.read([b"ZRANGE", env.key("refused_jobs"), 0, -1])
    for each in refusals:
        kept = jobs.get(each.job_id.lower())
        if kept is None:
            continue
        present = kept.document.lease_version if kept.lease is None else kept.lease.version
        refusal = RefusedWrite(
            at=from_us(now),
            operation=each.operation,
            fence_held=each.fence_held,
            fence_present=present,
        )
        name = each.job_id.lower().encode()
        key = env.key("refusals", name)
        unit.do(b"LPUSH", key, msgspec.msgpack.encode(refusal))
        unit.do(b"LTRIM", key, 0, REFUSALS_OF_JOB_MAX - 1)
        unit.do(b"ZADD", env.key("refused_jobs"), now, name)
        unit.do(b"INCR", env.key("refused"))
    for name in names[: max(len(names) - JOBS_MAX, 0)]:
        unit.do(b"DEL", env.key("refusals", name))
        unit.do(b"ZREM", env.key("refused_jobs"), name)
    yield from unit.commit()


def refusals_of(env: Env, job_id: str) -> Plan[list[RefusedWrite]]:
    """Return the refusals of a job, the newest first."""
    found: list[RefusedWrite] = []
    for text in wanted_ids([job_id]).values():
        _, texts = yield from read(env, [b"LRANGE", env.key("refusals", text), 0, -1])
        found += map(_decoder.decode, texts)
    return found


def total(env: Env) -> Plan[int]:
    """Return how many refusals were recorded."""
    _, text = yield from read(env, [b"GET", env.key("refused")])
    return int(text or 0)
