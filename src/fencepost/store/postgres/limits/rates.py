"""How often jobs of a type may start; claims do the counting in ``fencepost.allow`` and ``use``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from fencepost.core.limits.rates import Rate, check_rates
from fencepost.core.values.instants import from_us_or_none, to_us
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.sql.texts import encode_json

ALL = "select type, count, window_us from fencepost.rate"
OF_TYPE = """
select count, window_us, fencepost.rate_opens_at(type, %s) from fencepost.rate where type = %s
"""
SET = "select fencepost.set_rates(%s, %s)"


def set_rates(env: Env, rates: Mapping[str, Rate | None]) -> Plan[None]:
    """Set or clear rates; a changed one goes on with what the old one has counted."""
    given = [
        {"type": type}
        if rate is None
        else {
            "type": type,
            "count": rate.count,
            "window_us": rate.window_us,
            "grain_us": rate.grain_us,
        }
        for type, rate in check_rates(rates).items()
    ]
    # Not alone: whoever claims waits for the locks it takes.
    yield Statement(SET, (env.now, encode_json(given)))


def rates_by_type() -> Plan[dict[str, Rate]]:
    """Return every rate."""
    rows = yield Statement(ALL)
    return {type: Rate(count, window_us / 1e6) for type, count, window_us in rows}


def rate_of(type: str, now: datetime) -> Plan[tuple[Rate | None, datetime | None]]:
    """Return the rate of a type, and when its next job can start (None: now)."""
    rows = yield Statement(OF_TYPE, (to_us(now), type))
    if not rows:
        return None, None
    count, window_us, opens_at = rows[0]
    return Rate(count, window_us / 1e6), from_us_or_none(opens_at)
