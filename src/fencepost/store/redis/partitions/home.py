"""What the home partition keeps for all, and what a new partition copies from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.store.interface.settings import Scope
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, field, read
from fencepost.store.redis.partitions.numbers import OUTBOX, PARTITIONS, SPREAD

APP = field(Scope.APP.value, "")
"""The field of the limit of the app, or of a partition's quota of it."""
NUMBER = b"number"
"""The field beside bounds with the number of the last change of quotas, see ``quotas.py``."""


def directory(env: Env) -> Plan[tuple[list[int], bool]]:
    """Return which partitions there are, and whether ids name another than theirs."""
    _, numbers, strays = yield from read(
        env, [b"HKEYS", env.key("partitions")], [b"HLEN", env.key("strays")]
    )
    return [int(number) for number in numbers], bool(strays)


def note(env: Env, number: int) -> Plan[None]:
    """Note that there is a partition."""
    assert 0 <= number < PARTITIONS
    unit = Unit(env)
    name = str(number).encode()
    if (yield from unit.field(env.key("partitions"), name)) is None:
        unit.set_field(env.key("partitions"), name, b"1")
        yield from unit.commit()


class Shared(NamedTuple):
    """What holds in all partitions."""

    pauses: frozenset[bytes]
    limits: dict[bytes, bytes]
    is_refusing: bool


class Quota(NamedTuple):
    """The limit of the app in the home, or the quota of a partition, and since which change."""

    most: int | None
    number: int


def quota_of(env: Env) -> Plan[Quota]:
    """Return the limit, in the home, or the quota of a partition."""
    _, most, number = yield from read(
        env, [b"HGET", env.key("limits"), APP], [b"HGET", env.key("bounds"), NUMBER]
    )
    return Quota(None if most is None else int(most), int(number or 0))


def _is_shared(pause: bytes) -> bool:
    scope, _, name = pause.decode().partition("\n")
    return scope == "type" or name in SPREAD or name == OUTBOX


def shared_settings(env: Env) -> Plan[Shared]:
    """Return the settings of all partitions, as this one has them."""
    _, pauses, flat, refusing = yield from read(
        env,
        [b"SMEMBERS", env.key("pauses")],
        [b"HGETALL", env.key("type_limits")],
        [b"EXISTS", env.key("refusing")],
    )
    return Shared(
        frozenset(filter(_is_shared, pauses)),
        dict(zip(flat[::2], flat[1::2], strict=True)),
        bool(refusing),
    )


def adopt(env: Env, shared: Shared, limit: Quota) -> Plan[bool]:
    """Take over what holds in all; tell whether anything was different.

    If the app is limited, a partition begins without a quota to start any job.
    """
    own = yield from shared_settings(env)
    wanted = shared._replace(pauses=shared.pauses | {field("queue", OUTBOX)})
    unit = Unit(env)
    is_limited = yield from _adopt_quota(unit, limit)
    if own == wanted and not is_limited:
        return False
    for name in wanted.pauses - own.pauses:
        unit.do(b"SADD", env.key("pauses"), name)
    for name in own.pauses - wanted.pauses:
        unit.do(b"SREM", env.key("pauses"), name)
    for name, text in wanted.limits.items():
        unit.do(b"HSET", env.key("type_limits"), name, text)
    for name in own.limits.keys() - wanted.limits.keys():
        unit.do(b"HDEL", env.key("type_limits"), name)
    if wanted.is_refusing:
        unit.do(b"SET", env.key("refusing"), 1)
    else:
        unit.do(b"DEL", env.key("refusing"))
    yield from unit.commit()
    return True


def _adopt_quota(unit: Unit, limit: Quota) -> Plan[bool]:
    """Start no job unless a quota was given, or the limit taken off since; tell whether it is
    new."""
    limits, bounds = unit.env.key("limits"), unit.env.key("bounds")
    known = int((yield from unit.field(bounds, NUMBER)) or 0)
    has_quota = (yield from unit.field(limits, APP)) is not None
    if limit.most is None or has_quota or known > limit.number:
        return False
    unit.set_field(limits, APP, b"0")
    unit.set_field(bounds, NUMBER, str(limit.number).encode())
    return True


def strays_of(env: Env, job_ids: Sequence[str]) -> Plan[list[int | None]]:
    """Return the partitions of jobs whose ids name another; None where the id is right."""
    _, found = yield from read(env, [b"HMGET", env.key("strays"), *map(str.encode, job_ids)])
    return [None if number is None else int(number) for number in found]


def add_strays(env: Env, strays: dict[str, int]) -> Plan[None]:
    """Record the partitions of jobs whose ids name another one."""
    unit = Unit(env)
    for job_id, number in strays.items():
        unit.do(b"HSET", env.key("strays"), job_id.encode(), number)
    yield from unit.commit()


def bind(env: Env, types: dict[str, int]) -> Plan[dict[str, int]]:
    """Bind types to partitions, unless they are bound; return where they are."""
    unit = Unit(env)
    key = env.key("bound")
    found: dict[str, int] = {}
    for type_, number in types.items():
        text = yield from unit.field(key, type_.encode())
        if text is None:
            unit.set_field(key, type_.encode(), str(number).encode())
        found[type_] = number if text is None else int(text)
    yield from unit.commit()
    return found
