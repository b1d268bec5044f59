"""Limits of types. The claim's script counts starts; what a rate means is computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fencepost.core.limits.rates import Rate, soonest
from fencepost.core.limits.type_limits import NO_LIMITS, TypeLimits, TypeUsage, check_limits
from fencepost.core.values.times import from_us_or_none, to_us
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, read
from fencepost.store.sql.codec import decode_limits


def encode_limits(limits: TypeLimits) -> bytes:
    """Return limits as the store keeps them, with what the claim's script needs beside."""
    fields: dict[str, Any] = msgspec.to_builtins(limits)
    rate = limits.rate
    if rate is not None:
        fields["rate"] |= {"window_us": rate.window_us, "grain_us": rate.grain_us}
    return msgspec.json.encode(fields)


def limit_types(env: Env, limits: Mapping[str, TypeLimits]) -> Plan[None]:
    """Set or clear limits of types; a changed rate keeps the uses that still count."""
    unit = Unit(env)
    key = env.key("type_limits")
    for type_, new in check_limits(limits).items():
        text = yield from unit.field(key, type_.encode())
        was = NO_LIMITS if text is None else decode_limits(text.decode())
        if new == was:
            continue
        unit.set_field(key, type_.encode(), None if new == NO_LIMITS else encode_limits(new))
        if new.rate is None:
            unit.do(b"DEL", env.key("uses", type_))
        elif was.rate is not None:
            now = yield from unit.start()
            for at, _ in (yield from _uses(env, type_)):
                if at <= now - was.rate.window_us:
                    unit.do(b"HDEL", env.key("uses", type_), at)
    yield from unit.commit()


def _uses(env: Env, type: str) -> Plan[list[tuple[int, int]]]:
    _, flat = yield from read(env, [b"HGETALL", env.key("uses", type)])
    return sorted(zip(map(int, flat[::2]), map(int, flat[1::2]), strict=True))


def _rate(env: Env, type: str) -> Plan[Rate | None]:
    return (yield from _limits(env, type)).rate


def _limits(env: Env, type: str) -> Plan[TypeLimits]:
    _, text = yield from read(env, [b"HGET", env.key("type_limits"), type.encode()])
    return NO_LIMITS if text is None else decode_limits(text.decode())


def usage_of(env: Env, type: str, now: int) -> Plan[tuple[TypeLimits, TypeUsage]]:
    """Return the limits of a type, and how far they are used up."""
    limits = yield from _limits(env, type)
    opens: int | None = None
    if limits.rate is not None:
        window = limits.rate.window_us
        uses = [use for use in (yield from _uses(env, type)) if use[0] > now - window]
        opens = limits.rate.opens_at(uses, now)
    return limits, TypeUsage(rate_opens_at=from_us_or_none(opens))


def opens_at(env: Env, types: Sequence[str], now: int) -> Plan[int | None]:
    """Return when the first of some types may start a job again."""
    moments: list[int | None] = []
    for type_ in types:
        _, usage = yield from usage_of(env, type_, now)
        moments.append(None if usage.opens_at is None else to_us(usage.opens_at))
    return soonest(moments)


def set_back(env: Env, type: str) -> Plan[None]:
    """Move the uses of a type back, after the clock was set back."""
    unit = Unit(env)
    now = yield from unit.start()
    rate = yield from _rate(env, type)
    key = env.key("uses", type)
    uses = yield from _uses(env, type)
    for at, _ in uses:
        yield from unit.field(key, str(at).encode())
    if rate is None:
        return
    live = [use for use in uses if use[0] > now - rate.window_us]
    unit.do(b"DEL", key)
    for at, count in rate.as_of(live, now):
        unit.do(b"HINCRBY", key, at, count)
    yield from unit.commit()
