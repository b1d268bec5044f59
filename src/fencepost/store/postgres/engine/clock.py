"""The server's clock, for plans that decide by it."""

from __future__ import annotations

from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.jobs.catalog import Env

NOW = """
select (extract(epoch from coalesce(%s::timestamptz, clock_timestamp())) * 1000000)::bigint
"""


def now_us(env: Env) -> Plan[int]:
    """Return the time by the server's clock, or by that of a test, in microseconds since 1970."""
    ((now,),) = yield Statement(NOW, (env.now,))
    return int(now)
