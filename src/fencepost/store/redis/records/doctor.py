"""What an operator should know about a store and its server: durability first."""

from __future__ import annotations

from fencepost.core.values.times import format_duration
from fencepost.store.interface.records.overview import Finding
from fencepost.store.plan import Plan, Statement
from fencepost.store.redis.engine.connections import FACTS
from fencepost.store.redis.engine.durability import MEANINGS, Durability, Facts, lacking, unknown
from fencepost.store.redis.jobs.catalog import Env, read
from fencepost.store.redis.records.cluster import workers
from fencepost.store.redis.records.overview import queues
from fencepost.store.sql.records.overview import orphaned_leases, unserved_jobs

SKEW_MAX_US = 2_000_000


def examine(env: Env) -> Plan[list[Finding]]:
    """Look at the server, at its keys, at expired leases, and at jobs without a worker."""
    ((facts, promise, replicas),) = yield Statement(FACTS)
    before = env.clock.now_us()
    (now,) = yield from read(env)
    ahead = now - (before + env.clock.now_us()) // 2
    _, orphans = yield from read(env, [b"ZCOUNT", env.key("leases"), b"-inf", now])
    live = yield from workers(env)
    return [
        durability(facts, promise, replicas),
        eviction(facts),
        _version(facts),
        _clock(ahead),
        *(yield from _keys(env)),
        orphaned_leases(orphans),
        *unserved_jobs((yield from queues(env)), live),
    ]


def durability(facts: Facts, promise: Durability, replicas: int) -> Finding:
    """Say what survives what, and which setting to change."""
    name = f"durability {promise.value}"
    changes = list(lacking(facts, promise, replicas))
    if changes:
        return Finding("fail", "durability", f"{name} is not given: {'; '.join(changes)}")
    hidden = ", ".join(unknown(facts, promise))
    if hidden:
        return Finding(
            "warn",
            "durability",
            f"{name}, if the server is set up for it: {MEANINGS[promise]}. It does not let this "
            f"user read {hidden}",
        )
    if promise is Durability.NONE:
        change = "name a stronger durability in the URL"
        if facts.keeps_log is False:
            change = "set `appendonly yes` in the server's configuration, and drop durability=none"
        return Finding("fail", "durability", f"{name}: {MEANINGS[promise]}; {change}")
    level = "note" if promise is Durability.PROCESS else "ok"
    return Finding(level, "durability", f"{name}: {MEANINGS[promise]}")


def eviction(facts: Facts) -> Finding:
    """Say whether the server may delete jobs."""
    if facts.eviction is None:
        return Finding("warn", "eviction", "the server does not let this user read its policy")
    if facts.eviction == "noeviction":
        return Finding("ok", "eviction", "the server evicts nothing when its memory is full")
    return Finding(
        "fail",
        "eviction",
        f"the server may delete jobs when its memory is full (maxmemory-policy {facts.eviction}); "
        f"set `maxmemory-policy noeviction`",
    )


def _version(facts: Facts) -> Finding:
    if facts.version is None:
        return Finding("warn", "redis_version", "the server does not let this user read INFO")
    name = f"Redis {facts.version}" if facts.valkey is None else f"Valkey {facts.valkey}"
    return Finding("ok", "redis_version", name)


def _clock(ahead: int) -> Finding:
    """Compare this machine's clock with the server's, in microseconds."""
    if abs(ahead) <= SKEW_MAX_US:
        return Finding("ok", "clock", "this machine's clock agrees with the server's")
    return Finding(
        "warn",
        "clock",
        f"this machine's clock is {format_duration(float(round(abs(ahead) / 1e6)))} off the "
        f"server's, which judges every lease; a run_at that is computed here is off by as much",
    )


def _keys(env: Env) -> Plan[list[Finding]]:
    """Look for keys that are gone: deleted by hand, or by a server that evicted them."""
    _, jobs, ids, seq, leases, expiries = yield from read(
        env,
        [b"HLEN", env.key("job")],
        [b"HLEN", env.key("ids")],
        [b"GET", env.key("seq")],
        [b"HLEN", env.key("lease")],
        [b"ZCARD", env.key("leases")],
    )
    lost = [
        name
        for name, is_lost in (
            ("job", jobs < ids),
            ("ids", ids < jobs),
            ("seq", int(seq or 0) < jobs),
            ("lease", leases < expiries),
            ("leases", expiries < leases),
        )
        if is_lost
    ]
    if not lost:
        return []
    names = ", ".join(f"{env.prefix.decode()}{name}" for name in lost)
    return [
        Finding(
            "fail",
            "keys",
            f"keys were deleted or evicted, in whole or in part: {names}; restore the server's "
            f"data from a backup, and look for what deletes keys",
        )
    ]
