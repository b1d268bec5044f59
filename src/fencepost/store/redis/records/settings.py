"""Pauses and limits of queues, types and the whole store."""

from __future__ import annotations

from fencepost.core.limits.concurrency import check_max_running
from fencepost.core.limits.type_limits import TypeLimits
from fencepost.errors import ConfigurationError
from fencepost.store.interface.settings import Scope
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, field, read
from fencepost.store.sql.codec import decode_limits


def pause(env: Env, scope: Scope, name: str) -> Plan[None]:
    """Hand out no more jobs of a queue or a type."""
    return _set(env, b"SADD", scope, name)


def resume(env: Env, scope: Scope, name: str) -> Plan[None]:
    """Hand out jobs of a queue or a type again."""
    return _set(env, b"SREM", scope, name)


def _set(env: Env, command: bytes, scope: Scope, name: str) -> Plan[None]:
    if scope is Scope.APP:
        raise ConfigurationError("pause a queue or a type; to pause all, stop the workers")
    unit = Unit(env)
    unit.do(command, env.key("pauses"), field(scope.value, name))
    yield from unit.commit()


def limit(env: Env, scope: Scope, name: str, max_running: int | None) -> Plan[None]:
    """Limit how many jobs of a queue or of the whole store run at once."""
    if scope is Scope.TYPE:
        raise ConfigurationError("limits are for a queue or the whole app, not for a type")
    check_max_running(max_running)
    unit = Unit(env)
    key, at = env.key("limits"), field(scope.value, "" if scope is Scope.APP else name)
    if max_running is None:
        unit.do(b"HDEL", key, at)
    else:
        unit.do(b"HSET", key, at, max_running)
    yield from unit.commit()


def is_paused(env: Env, scope: Scope, name: str) -> Plan[bool]:
    """Tell whether a queue or a type is paused."""
    _, found = yield from read(env, [b"SISMEMBER", env.key("pauses"), field(scope.value, name)])
    return bool(found)


def paused(env: Env, scope: Scope) -> Plan[set[str]]:
    """Return which queues or types are paused."""
    _, names = yield from read(env, [b"SMEMBERS", env.key("pauses")])
    found = [name.decode().partition("\n") for name in names]
    return {name for kind, _, name in found if kind == scope.value}


def queue_limit(env: Env, name: str) -> Plan[int | None]:
    """Return the limit of a queue, None when there is none."""
    return (yield from _limits(env)).get((Scope.QUEUE.value, name))


def queue_limits(env: Env) -> Plan[dict[str, int]]:
    """Return the limits of all queues that have one."""
    limits = yield from _limits(env)
    return {name: most for (scope, name), most in limits.items() if scope == Scope.QUEUE.value}


def app_limit(env: Env) -> Plan[int | None]:
    """Return the limit of the whole store, None when there is none."""
    return (yield from _limits(env)).get((Scope.APP.value, ""))


def _limits(env: Env) -> Plan[dict[tuple[str, str], int]]:
    _, flat = yield from read(env, [b"HGETALL", env.key("limits")])
    found: dict[tuple[str, str], int] = {}
    for name, most in zip(flat[::2], flat[1::2], strict=True):
        scope, _, own = name.decode().partition("\n")
        found[scope, own] = int(most)
    return found


def type_limits(env: Env) -> Plan[dict[str, TypeLimits]]:
    """Return the limits of all types that have any."""
    _, flat = yield from read(env, [b"HGETALL", env.key("type_limits")])
    pairs = zip(flat[::2], flat[1::2], strict=True)
    return {name.decode(): decode_limits(text.decode()) for name, text in pairs}
