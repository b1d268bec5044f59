"""How fast callers submit: one by one, a hundred at once, and in bulk."""

from __future__ import annotations

import asyncio
from collections.abc import Set as AbstractSet
from functools import partial

from bench.bench import Measurement
from bench.callers import CALLERS, bulk, callers, one_by_one, rate
from bench.figures import Figure, Target, pair
from bench.redis.bench import RedisBench

GAIN_TARGET = Target("ratio", at_least=8.0)

RAW, ONE = "submit: raw", "submit: one caller"
ONE_ASYNC, MANY = "submit: 1 async caller", "submit: async callers"
PIPELINED, BULK = "submit: raw, pipelined", "submit: bulk"


def measure(bench: RedisBench, names: AbstractSet[str]) -> list[Figure]:
    """Return the figures among *names*."""
    count, jobs = bench.sizes.singles, bench.sizes.jobs
    each = max(jobs // CALLERS, 1)
    sides: dict[str, Measurement] = {}
    if names & {"submit", "submit-async"}:
        sides[RAW] = partial(_raw, bench, count, is_bulk=False)
        sides[ONE] = partial(rate, bench, count, lambda app: one_by_one(app, count))
    if "submit-async" in names:
        sides[ONE_ASYNC] = partial(
            rate, bench, count, lambda app: asyncio.run(callers(app, 1, count))
        )
        sides[MANY] = partial(
            rate, bench, each * CALLERS, lambda app: asyncio.run(callers(app, CALLERS, each))
        )
    if "submit-many" in names:
        sides[PIPELINED] = partial(_raw, bench, jobs, is_bulk=True)
        sides[BULK] = partial(rate, bench, jobs, lambda app: bulk(app, jobs))
    found = bench.in_turns(sides)
    figures = []
    if "submit" in names:
        figures.append(_figure(found, "submit", "submit one by one", (ONE, RAW), "raw"))
    if "submit-async" in names:
        title = f"submit from {CALLERS} async callers"
        figures += [
            _figure(found, "submit-async", title, (MANY, ONE), "1 caller", GAIN_TARGET),
            _figure(
                found,
                "submit-async.gain",
                "… as a multiple of one async caller",
                (MANY, ONE_ASYNC),
                "1 async caller",
                GAIN_TARGET,
            ),
        ]
    if "submit-many" in names:
        title = f"submit {jobs:,} in bulk"
        figures.append(_figure(found, "submit-many", title, (BULK, PIPELINED), "raw"))
    return figures


def _figure(
    found: dict[str, list[float]],
    name: str,
    title: str,
    sides: tuple[str, str],
    beside: str,
    target: Target | None = None,
) -> Figure:
    both = pair(found[sides[0]], found[sides[1]])
    return Figure(
        name=name,
        title=title,
        unit="jobs/s",
        value=both.value,
        beside=both.beside,
        beside_what=beside,
        ratio=both.ratio,
        spread=both.spread,
        target=target,
    )


def _raw(bench: RedisBench, count: int, *, is_bulk: bool) -> float:
    bench.raw.empty()
    rows = bench.raw.rows(count)
    work = bench.raw.load if is_bulk else bench.raw.submit
    return count / bench.seconds(partial(work, rows))
