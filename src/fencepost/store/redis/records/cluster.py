"""Which workers have announced themselves, and which one leads."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec.structs import replace

from fencepost.core.bounds import WORKER_SILENCE, WORKERS_GONE_MAX
from fencepost.core.values.times import from_us, seconds_to_us
from fencepost.store.interface.records.cluster import CHORES_TERM, Term, WorkerInfo
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, read
from fencepost.store.sql.records.cluster import FORGOTTEN_US, encode_worker

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
    """List a worker that has stopped as gone."""
    unit = Unit(env)
    now = yield from unit.start()
    name = worker_id.encode()
    text = yield from unit.field(env.key("workers"), name)
    if text is None:
        return
    stopped = replace(_workers.decode(text), has_stopped=True)
    unit.set_field(env.key("workers"), name, msgspec.json.encode(stopped))
    unit.do(b"ZADD", env.key("seen"), now, name)
    yield from unit.commit()


def workers(env: Env) -> Plan[list[WorkerInfo]]:
    """Return the workers that announced themselves lately."""
    now, known = yield from _known(env)
    _, term = yield from read(env, [b"HGET", env.key("terms"), CHORES_TERM.encode()])
    ends, _, leader = (term or b"0 ").decode().partition(" ")
    return [
        replace(each, is_leader=each.id == leader and int(ends) > now)
        for each in known
        if not _is_gone(each, now)
    ]


def gone(env: Env) -> Plan[list[WorkerInfo]]:
    """Return the workers that stopped or fell silent lately."""
    now, known = yield from _known(env)
    kept = from_us(now - FORGOTTEN_US)
    lost = [each for each in known if _is_gone(each, now) and (each.seen_at or kept) > kept]
    return sorted(lost, key=_silence, reverse=True)[:WORKERS_GONE_MAX]


def _silence(worker: WorkerInfo) -> datetime:
    assert worker.seen_at is not None
    return worker.seen_at


def _is_gone(worker: WorkerInfo, now: int) -> bool:
    since = from_us(now - seconds_to_us(WORKER_SILENCE))
    return worker.has_stopped or _silence(worker) <= since


def _known(env: Env) -> Plan[tuple[int, list[WorkerInfo]]]:
    """Return the time, and all workers by name."""
    now, flat, seen = yield from read(
        env,
        [b"HGETALL", env.key("workers")],
        [b"ZRANGE", env.key("seen"), 0, -1, b"WITHSCORES"],
    )
    times = {name: int(float(at)) for name, at in zip(seen[::2], seen[1::2], strict=True)}
    infos = dict(zip(flat[::2], flat[1::2], strict=True))
    return now, [
        replace(_workers.decode(infos[name]), seen_at=from_us(times[name]))
        for name in sorted(infos)
        if name in times
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
