"""How soon a worker in another process starts a job: an idle one, and one that is kept at work."""

from __future__ import annotations

import asyncio
from collections.abc import Set as AbstractSet
from statistics import median
from typing import NamedTuple

from bench.figures import Figure, Target, percentile
from bench.noop import BenchApp
from bench.pickup import RESULT_TIMEOUT, WARM_UP, Waits, idle, working
from bench.postgres.bench import PostgresBench
from fencepost.app import AsyncJobHandle
from fencepost.clock import Clock
from fencepost.core.values.instants import to_us

RATE = 300
"""Jobs a second of the steady load."""


class Bounds(NamedTuple):
    """What is aimed at, in ms."""

    p50: float
    p99: float


IDLE = Bounds(p50=3.0, p99=12.0)
BUSY = Bounds(p50=2.0, p99=9.0)


def measure(bench: PostgresBench, names: AbstractSet[str]) -> list[Figure]:
    """Return medians and 99th percentiles."""
    figures: list[Figure] = []
    if "pickup" in names:
        figures += _figures(bench, "pickup", "pickup by an idle worker", idle(bench), IDLE)
    if "pickup-busy" in names:
        title = f"pickup at {RATE} jobs/s"
        figures += _figures(bench, "pickup-busy", title, steady(bench), BUSY)
    return figures


def _figures(
    bench: PostgresBench, name: str, title: str, waits: Waits, bounds: Bounds
) -> list[Figure]:
    # A job is created by the server's clock and started by ours: one clock only if one machine.
    if bench.meter.sees_processes:
        readings = [
            ("", title, waits.from_created),
            ("call.", "… from the call of submit", waits.from_call),
        ]
    else:
        readings = [("call.", f"{title}, from the call", waits.from_call)]
    return [
        Figure(
            name=f"{name}.{infix}p{percent}",
            title=f"{reading}, p{percent}",
            unit="ms",
            value=percentile(samples, percent / 100),
            target=Target("value", at_most=bound),
            note=f"submit itself returned after {median(waits.submits):.2f} ms"
            if (infix, percent) == (readings[0][0], 50)
            else "",
        )
        for infix, reading, samples in readings
        for percent, bound in ((50, bounds.p50), (99, bounds.p99))
    ]


def steady(bench: PostgresBench) -> Waits:
    """Submit at a fixed rate, whether or not the jobs before were picked up."""
    count = bench.sizes.steady
    bench.tell(f"pickup: {count:,} jobs at {RATE} a second")
    with bench.new_store() as url, BenchApp(url) as app, working(bench, url):
        asyncio.run(_submitted(app, bench.clock, WARM_UP))
        return asyncio.run(_submitted(app, bench.clock, count))


async def _submitted(app: BenchApp, clock: Clock, count: int) -> Waits:
    """Submit *count* jobs on time, then ask when each was started."""
    waits = Waits([], [], [])

    async def submit() -> tuple[int, AsyncJobHandle[int]]:
        called_at = clock.now_us()
        job = await app.started_at.aio.submit()
        waits.submits.append((clock.now_us() - called_at) / 1e3)
        return called_at, job

    start = clock.monotonic()
    calls = []
    for number in range(count):
        await clock.sleep_async(max(start + number / RATE - clock.monotonic(), 0.0))
        calls.append(asyncio.create_task(submit()))
    for called_at, job in await asyncio.gather(*calls):
        started_at = await job.result(RESULT_TIMEOUT)
        created_at = to_us((await job.refresh()).created_at)
        waits.from_call.append((started_at - called_at) / 1e3)
        waits.from_created.append((started_at - created_at) / 1e3)
    return waits
