"""How fast callers submit: one by one, a hundred at once, and in bulk."""

from __future__ import annotations

import asyncio
from collections.abc import Set as AbstractSet
from functools import partial

from bench.callers import CALLERS, bulk, callers, one_by_one, rate
from bench.figures import Figure, Target, pair
from bench.raw import RawDatabase
from bench.sqlite_bench import SqliteBench

BULK_TARGET = Target("ratio", at_least=0.3)


def measure(bench: SqliteBench, names: AbstractSet[str]) -> list[Figure]:
    """Return the figures among *names*, each beside its own raw limit."""
    figures: list[Figure] = []
    if "submit" in names:
        figures.append(_one_by_one(bench))
    if "submit-async" in names:
        figures += _from_many_callers(bench)
    if "submit-many" in names:
        figures.append(_bulk(bench))
    return figures


def _one_by_one(bench: SqliteBench) -> Figure:
    count = bench.sizes.singles
    found = bench.in_turns(
        {
            "submit: raw": partial(rate_raw, bench, count, group=1),
            "submit: one by one": partial(rate, bench, count, lambda app: one_by_one(app, count)),
        }
    )
    both = pair(found["submit: one by one"], found["submit: raw"])
    return Figure(
        name="submit",
        title="submit one by one",
        unit="jobs/s",
        value=both.value,
        beside=both.beside,
        ratio=both.ratio,
        spread=both.spread,
    )


def _from_many_callers(bench: SqliteBench) -> list[Figure]:
    lone = bench.sizes.singles
    each = max(bench.sizes.jobs // CALLERS, 1)
    total = each * CALLERS
    found = bench.in_turns(
        {
            "submit: raw": partial(rate_raw, bench, total, group=CALLERS),
            "submit: 1 async caller": partial(
                rate, bench, lone, lambda app: asyncio.run(callers(app, 1, lone))
            ),
            "submit: async callers": partial(
                rate, bench, total, lambda app: asyncio.run(callers(app, CALLERS, each))
            ),
        }
    )
    raw = pair(found["submit: async callers"], found["submit: raw"])
    one = pair(found["submit: async callers"], found["submit: 1 async caller"])
    return [
        Figure(
            name="submit-async",
            title=f"submit from {CALLERS} async callers",
            unit="jobs/s",
            value=raw.value,
            beside=raw.beside,
            beside_what=f"raw, {CALLERS} a commit",
            ratio=raw.ratio,
            spread=raw.spread,
        ),
        Figure(
            name="submit-async.gain",
            title="… as a multiple of one",
            unit="jobs/s",
            value=one.value,
            beside=one.beside,
            beside_what="1 caller",
            ratio=one.ratio,
            spread=one.spread,
        ),
    ]


def _bulk(bench: SqliteBench) -> Figure:
    count = bench.sizes.jobs
    found = bench.in_turns(
        {
            "submit: raw bulk": partial(rate_raw, bench, count, group=count),
            "submit: bulk": partial(rate, bench, count, lambda app: bulk(app, count)),
        }
    )
    both = pair(found["submit: bulk"], found["submit: raw bulk"])
    return Figure(
        name="submit-many",
        title=f"submit {count:,} in bulk",
        unit="jobs/s",
        value=both.value,
        beside=both.beside,
        ratio=both.ratio,
        spread=both.spread,
        target=BULK_TARGET,
    )


def rate_raw(bench: SqliteBench, count: int, *, group: int) -> float:
    """Return the jobs a second of plain inserts, *group* a transaction."""
    path = bench.new_path()
    raw = RawDatabase(path, durability=bench.durability, clock=bench.clock)
    rows = raw.rows(count)
    groups = [rows[start : start + group] for start in range(0, count, group)]

    def work() -> None:
        for each in groups:
            raw.submit(each)

    seconds = bench.seconds(work)
    raw.close()
    bench.remove(path)
    return count / seconds
