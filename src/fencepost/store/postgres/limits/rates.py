"""Limits of types; claims apply them in ``fencepost.allow`` and ``use``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from fencepost.core.limits.type_limits import (
    NO_LIMITS,
    NO_USAGE,
    TypeLimits,
    TypeUsage,
    check_limits,
)
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.sql.codec import decode_limits, encode_json

USAGE = """
select limits::text, fencepost.type_usage(%s, type)::text from fencepost.type_limits where type = %s
"""
SET = "select fencepost.limit_types(%s, %s)"

_usage = msgspec.json.Decoder(TypeUsage)


def limit_types(env: Env, limits: Mapping[str, TypeLimits]) -> Plan[None]:
    """Set or clear limits of types; a changed rate goes on with what the old one has counted."""
    given = [
        {"type": type, "limits": None if each == NO_LIMITS else each}
        for type, each in check_limits(limits).items()
    ]
    # Not alone: claims wait for the locks that it takes.
    yield Statement(SET, (env.now, encode_json(given)))


def usage_of(type: str, now: datetime) -> Plan[tuple[TypeLimits, TypeUsage]]:
    """Return the limits of a type, and how far they are used up."""
    rows = yield Statement(USAGE, (now, type))
    if not rows:
        return NO_LIMITS, NO_USAGE
    ((limits, usage),) = rows
    return decode_limits(limits), _usage.decode(usage)
