"""Which workers have announced themselves, and which one leads."""

from __future__ import annotations

import msgspec

from fencepost.core.bounds import WORKER_SILENCE
from fencepost.core.values.times import from_us, seconds_to_us
from fencepost.store.interface.cluster import Term, WorkerInfo
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, read
from fencepost.store.sql.cluster import FORGOTTEN_US, encode_worker

_workers = msgspec.json.Decoder(WorkerInfo)


def announce(env: Env, worker: WorkerInfo) -> Plan[None]:
    """Note that a worker is alive, and forget those that were silent for long."""
    unit = Unit(env)
    now = yield from unit.start()
    (silent,) = yield from unit.read(
        [b"ZRANGEBYSCORE", env.key("seen"), b"-inf", f"({now - FORGOTTEN_US}"]
    )
    for name in silent:
        _forget(unit, name)
    name = worker.id.encode()
    unit.do(b"HSET", env.key("workers"), name, encode_worker(worker).encode())
    unit.do(b"ZADD", env.key("seen"), now, name)
    yield from unit.commit()


def _forget(unit: Unit, name: bytes) -> None:
    unit.do(b"HDEL", unit.env.key("workers"), name)
    unit.do(b"ZREM", unit.env.key("seen"), name)


def retire(env: Env, worker_id: str) -> Plan[None]:
    """Forget a worker that has stopped."""
    unit = Unit(env)
    _forget(unit, worker_id.encode())
    yield from unit.commit()


def workers(env: Env) -> Plan[list[WorkerInfo]]:
    """Return the workers that announced themselves lately."""
    now, flat, seen = yield from read(
        env,
        [b"HGETALL", env.key("workers")],
        [b"ZRANGE", env.key("seen"), 0, -1, b"WITHSCORES"],
    )
    since = now - seconds_to_us(WORKER_SILENCE)
    times = {name: int(float(at)) for name, at in zip(seen[::2], seen[1::2], strict=True)}
    infos = dict(zip(flat[::2], flat[1::2], strict=True))
    return [
        msgspec.structs.replace(_workers.decode(infos[name]), seen_at=from_us(times[name]))
        for name in sorted(infos)
        if times.get(name, 0) > since
    ]


def lead(env: Env, name: str, worker: str, ttl: float) -> Plan[Term | None]:
    """Take or keep a term; None while another worker holds it."""
    unit = Unit(env)
    now = yield from unit.start()
    held = yield from unit.field(env.key("terms"), name.encode())
    if held is not None:
        ends, _, holder = held.decode().partition(" ")
        if holder != worker and int(ends) > now:
            return None
    ends_at = now + seconds_to_us(ttl)
    unit.set_field(env.key("terms"), name.encode(), f"{ends_at} {worker}".encode())
    yield from unit.commit()
    return Term(name, worker, from_us(ends_at))


def resign(env: Env, name: str, worker: str) -> Plan[None]:
    """Give up a term, if *worker* holds it."""
    unit = Unit(env)
    held = yield from unit.field(env.key("terms"), name.encode())
    if held is not None and held.decode().partition(" ")[2] == worker:
        unit.set_field(env.key("terms"), name.encode(), None)
    yield from unit.commit()
