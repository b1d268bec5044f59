"""How fast callers submit: one by one, a hundred at once, and in bulk."""

from __future__ import annotations

import asyncio
from collections.abc import Set as AbstractSet
from functools import partial
from statistics import median

from bench.bench import Measurement
from bench.callers import CALLERS, bulk, callers, one_by_one, rate
from bench.figures import Figure, Target, pair
from bench.noop import BenchApp
from bench.postgres.bench import PostgresBench
from bench.postgres.meter import Cost

SINGLE_TARGET = Target("ratio", at_least=0.5)
GAIN_TARGET = Target("ratio", at_least=8.0)
BULK_TARGET = Target("ratio", at_least=0.3)

RAW, ONE = "submit: raw", "submit: one caller"
ONE_ASYNC, MANY = "submit: 1 async caller", "submit: async callers"
COPY, BULK = "submit: COPY", "submit: bulk"


def measure(bench: PostgresBench, names: AbstractSet[str]) -> list[Figure]:
    """Return the figures among *names*."""
    figures: list[Figure] = []
    if names & {"submit", "submit-async"}:
        figures += _singles(bench, names)
    if "submit-many" in names:
        figures.append(_bulk(bench))
    return figures


def _singles(bench: PostgresBench, names: AbstractSet[str]) -> list[Figure]:
    count = bench.sizes.singles
    each = max(bench.sizes.jobs // CALLERS, 1)
    sides: dict[str, Measurement] = {
        ONE: partial(rate, bench, count, lambda app: one_by_one(app, count))
    }
    if "submit" in names:
        sides = {RAW: partial(_rate_raw, bench, count), **sides}
    if "submit-async" in names:
        sides[ONE_ASYNC] = partial(
            rate, bench, count, lambda app: asyncio.run(callers(app, 1, count))
        )
        sides[MANY] = partial(
            rate, bench, each * CALLERS, lambda app: asyncio.run(callers(app, CALLERS, each))
        )
    found = bench.in_turns(sides)
    figures = []
    if "submit" in names:
        figures.append(_single(found))
    if "submit-async" in names:
        figures += _gains(found)
    return figures


def _single(found: dict[str, list[float]]) -> Figure:
    both = pair(found[ONE], found[RAW])
    return Figure(
        name="submit",
        title="submit one by one",
        unit="jobs/s",
        value=both.value,
        beside=both.beside,
        ratio=both.ratio,
        spread=both.spread,
        target=SINGLE_TARGET,
    )


def _gains(found: dict[str, list[float]]) -> list[Figure]:
    """Return the gain over either kind of lone caller; the blocking one is the faster."""
    blocking, awaiting = pair(found[MANY], found[ONE]), pair(found[MANY], found[ONE_ASYNC])
    return [
        Figure(
            name="submit-async",
            title=f"submit from {CALLERS} async callers",
            unit="jobs/s",
            value=blocking.value,
            beside=blocking.beside,
            beside_what="1 caller",
            ratio=blocking.ratio,
            spread=blocking.spread,
            target=GAIN_TARGET,
        ),
        Figure(
            name="submit-async.gain",
            title="… as a multiple of one async caller",
            unit="jobs/s",
            value=awaiting.value,
            beside=awaiting.beside,
            beside_what="1 async caller",
            ratio=awaiting.ratio,
            spread=awaiting.spread,
            target=GAIN_TARGET,
        ),
    ]


def _bulk(bench: PostgresBench) -> Figure:
    count = bench.sizes.jobs
    copied: list[Cost] = []
    submitted: list[Cost] = []
    found = bench.in_turns(
        {
            COPY: partial(_rate_copy, bench, count, copied),
            BULK: partial(_rate_bulk, bench, count, submitted),
        }
    )
    both = pair(found[BULK], found[COPY])
    return Figure(
        name="submit-many",
        title=f"submit {count:,} in bulk",
        unit="jobs/s",
        value=both.value,
        beside=both.beside,
        beside_what="COPY",
        ratio=both.ratio,
        spread=both.spread,
        target=BULK_TARGET,
        note=f"{_spent(submitted)} a job; COPY {_spent(copied)}",
    )


def _spent(costs: list[Cost]) -> str:
    text = f"{median(cost.wal_bytes for cost in costs):.0f} bytes of WAL"
    times = [cost.cpu_us for cost in costs if cost.cpu_us is not None]
    return f"{text}, {median(times):.1f} µs of server CPU" if times else text


# The sides.


def _rate_raw(bench: PostgresBench, count: int) -> float:
    bench.raw.empty()
    rows = bench.raw.rows(count)
    return count / bench.seconds(partial(bench.raw.submit, rows))


def _rate_copy(bench: PostgresBench, count: int, costs: list[Cost]) -> float:
    bench.raw.empty()
    block = bench.raw.block(bench.raw.rows(count))
    before = bench.meter.read()
    seconds = bench.seconds(partial(bench.raw.load, block))
    costs.append(bench.meter.cost(before, count))
    return count / seconds


def _rate_bulk(bench: PostgresBench, count: int, costs: list[Cost]) -> float:
    with bench.new_store() as url, BenchApp(url) as app:
        app.noop.submit(0)  # opens the store, and makes the lane and the policy
        before = bench.meter.read()
        seconds = bench.seconds(partial(bulk, app, count))
        costs.append(bench.meter.cost(before, count))
    return count / seconds
