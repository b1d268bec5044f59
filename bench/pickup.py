"""How soon an idle worker in another process starts a job, from the moment that it was created."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from statistics import median
from typing import NamedTuple

from bench.bench import Bench
from bench.child import Order
from bench.children import Child
from bench.figures import Figure, Target, percentile
from bench.noop import BenchApp
from fencepost.app import AsyncJobHandle, JobHandle
from fencepost.clock import Clock
from fencepost.core.values.times import to_us

PAUSE_MIN, PAUSE_MAX = 0.005, 0.025
RESULT_TIMEOUT = 10.0
WARM_UP = 10
RATE = 300
"""Jobs a second of the steady load."""

P50_TARGET = Target("value", below=2.0)


class Waits(NamedTuple):
    """In ms, a list each: until a job started, and until submit returned."""

    from_created: list[float]
    from_call: list[float]
    submits: list[float]


def measure(bench: Bench, _: AbstractSet[str]) -> list[Figure]:
    """Return the medians, from created_at and from the call, and the 99th percentile."""
    waits = idle(bench)
    note = f"submit itself returned after {median(waits.submits):.2f} ms"
    return [
        Figure(
            name="pickup.p50",
            title="pickup by an idle worker, p50",
            unit="ms",
            value=percentile(waits.from_created, 0.5),
            target=P50_TARGET,
        ),
        # Both are fair readings of "pickup"; a reader should not have to guess which was chosen.
        Figure(
            name="pickup.call.p50",
            title="… from the call of submit, p50",
            unit="ms",
            value=percentile(waits.from_call, 0.5),
            target=P50_TARGET,
            note=note,
        ),
        Figure(
            name="pickup.p99",
            title="pickup by an idle worker, p99",
            unit="ms",
            value=percentile(waits.from_created, 0.99),
        ),
    ]


def idle(bench: Bench) -> Waits:
    """Submit jobs one at a time, with pauses, to a worker that has nothing else to do."""
    bench.tell(f"pickup: {bench.sizes.samples} jobs, one at a time")
    with bench.new_store() as url, BenchApp(url) as app, working(bench, url):
        _latencies(bench, app, WARM_UP)
        return _latencies(bench, app, bench.sizes.samples)


@contextmanager
def working(bench: Bench, url: str) -> Iterator[None]:
    """Have a worker in another process; it must have ended well."""
    order = Order(url, until_idle=False)
    with Child(order, log=bench.folder / "child.log", clock=bench.clock) as child:
        child.wait_until_ready()
        child.go()
        yield
        child.stop()
        child.report()


def _latencies(bench: Bench, app: BenchApp, count: int) -> Waits:
    """Return how long *count* jobs took to start, and submit to return."""
    clock = bench.clock
    submitted: list[tuple[int, int, JobHandle[int]]] = []
    for _ in range(count):
        clock.sleep(clock.rng.uniform(PAUSE_MIN, PAUSE_MAX))
        called_at = clock.now_us()
        job = app.started_at.submit()
        submitted.append((called_at, clock.now_us(), job))
    calls = [(job.result(RESULT_TIMEOUT) - called) / 1e3 for called, _, job in submitted]
    pickups = [
        (job.result(RESULT_TIMEOUT) - to_us(job.refresh().created_at)) / 1e3
        for _, _, job in submitted
    ]
    submits = [(returned - called) / 1e3 for called, returned, _ in submitted]
    return Waits(pickups, calls, submits)


def steady(bench: Bench, count: int) -> Waits:
    """Submit at a fixed rate, whether or not the jobs before were picked up."""
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
