"""Handlers of every temper, all async, as users write them."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fencepost import App, Context, PermanentError, Retry, Snooze, TemporaryError
from fencepost.core.job.task import Task
from lab.simulation.ledger import Ledger, chance, here

LEASE_TTL = 5.0
"""Of the workers; some tasks have shorter ones."""
SHORT_TTL = 2.0
QUEUES = ("default", "bulk")
TIDY_MAX = 8.0
"""Seconds for which a stubborn handler goes on: past the worker's patience, at times."""

PATIENT = Retry(max_attempts=6, initial_delay=0.2, max_delay=3.0, jitter=0.5)
HASTY = Retry(max_attempts=3, initial_delay=0.0)


def declare(ledger: Ledger) -> dict[str, Task]:
    """Return the tasks by name; which process runs one, it finds out by itself."""
    app = App("memory://", retry=PATIENT)

    @app.task
    async def quick(ctx: Context, number: int) -> int:
        with ledger.attempt(ctx):
            if chance().random() < 0.5:
                await _pause(0.0, 0.1)
            ledger.write(ctx)
            return number

    @app.task(queue="bulk", lease_ttl=SHORT_TTL, timeout=60)
    async def slow(ctx: Context, number: int) -> int:
        """Takes several leases."""
        with ledger.attempt(ctx):
            for _ in range(chance().randint(2, 12)):
                await _pause(0.3, 1.2)
                ledger.write(ctx)
            return number

    @app.task(retry=HASTY)
    async def flaky(ctx: Context, number: int) -> int:
        with ledger.attempt(ctx):
            await _pause(0.0, 0.5)
            if chance().random() < 0.5:
                raise TemporaryError("not now", retry_after=chance().choice([None, 0.5]))
            return number

    @app.task
    async def failing(ctx: Context, number: int) -> int:
        with ledger.attempt(ctx):
            if chance().random() < 0.8:
                raise PermanentError(f"number {number} never will")
            raise ValueError(number)

    @app.task(queue="bulk")
    async def drowsy(ctx: Context, number: int) -> int:
        with ledger.attempt(ctx):
            await _pause(0.0, 0.2)
            if chance().random() < 0.6:
                raise Snooze(chance().uniform(0.0, 4.0))
            ledger.write(ctx)
            return number

    @app.task(lease_ttl=SHORT_TTL)
    async def saver(ctx: Context, number: int) -> int:
        """Goes on where the attempt before has stopped."""
        with ledger.attempt(ctx):
            for step in range(ctx.last_checkpoint or 0, 5):
                await _pause(0.1, 1.0)
                await ctx.aio.checkpoint(step + 1)
                await ctx.aio.progress((step + 1) / 5)
            ledger.write(ctx)
            return number

    @app.task
    async def stubborn(ctx: Context, number: int) -> int:
        """Tidies up when interrupted, longer than it should."""
        with ledger.attempt(ctx, is_stubborn=True):
            try:
                await _pause(0.5, 8.0)
            except asyncio.CancelledError:
                with suppress(asyncio.CancelledError):
                    await _pause(0.0, TIDY_MAX)
                raise
            return number

    @app.task
    async def blocker(ctx: Context, number: int) -> int:
        """Blocks the loop for up to two leases; the heart must go on."""
        with ledger.attempt(ctx):
            here().block(chance().uniform(0.1, 2 * LEASE_TTL))
            await _pause(0.0, 0.1)
            ledger.write(ctx)
            return number

    @app.task(timeout=1.5, lease_ttl=SHORT_TTL)
    async def endless(ctx: Context, number: int) -> int:
        """Runs into its timeout, mostly."""
        with ledger.attempt(ctx):
            await _pause(1.0, 10.0)
            return number

    @app.task(queue="bulk", lifetime=20)
    async def mortal(ctx: Context, number: int) -> int:
        """May outlive its lifetime."""
        with ledger.attempt(ctx):
            await _pause(0.0, 12.0)
            if chance().random() < 0.5:
                raise TemporaryError("again", retry_after=3.0)
            return number

    @app.task(lease_ttl=SHORT_TTL)
    async def spawner(ctx: Context, number: int) -> int:
        """Spawns other jobs, which the jobs that wait for it gather."""
        with ledger.attempt(ctx):
            await _pause(0.0, 0.5)
            await ctx.aio.spawn(*(quick.prepare(each) for each in range(chance().randint(1, 3))))
            await _pause(0.0, 2 * SHORT_TTL)
            return number

    return dict(app.session.tasks)


WEIGHTS = {
    "quick": 40,
    "slow": 8,
    "flaky": 14,
    "failing": 5,
    "drowsy": 8,
    "saver": 8,
    "stubborn": 3,
    "blocker": 2,
    "endless": 4,
    "mortal": 5,
    "spawner": 4,
}
"""How often callers submit which."""


async def _pause(least: float, most: float) -> None:
    process = here()
    await process.clock.sleep_async(process.clock.rng.uniform(least, most))
