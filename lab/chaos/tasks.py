"""The app under chaos: one task for every way in which a job can be in somebody's hands.

Also run by a version of Fencepost from the past, so it uses only what every version has.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from fencepost import App, Context, PermanentError, Retry, TaskHandle, TemporaryError, Timeouts
from fencepost.core.webhooks.delivery import DELIVERY_POLICY, DELIVERY_QUEUE, DELIVERY_TYPE
from lab.chaos.entries import Effected, Ended, Kept, Started
from lab.chaos.ledger import Ledger
from lab.chaos.settings import ATTEMPTS_MAX, Settings

QUEUE = "default"
ORDERED_QUEUE = "ordered"
BAIT_QUEUE = "bait55"
"""Served by zombies alone, until a worker finishes what is left in it. Jobs of one type that have
keys are in one partition: by this name it is that of QUEUE."""
LEFT_QUEUE, RIGHT_QUEUE = "left", "right"
"""Where some of the tasks are, if queues are spread: each on another master of a new cluster."""

QUICK = "quick"
ORDERED = "ordered"
KEYED = "keyed"
RATED = "rated"
RATED_QUEUE = "rated"
TYPES = (QUICK, "threaded", "beating", "lasting", "failing", "keeping", KEYED, RATED)
WEIGHTS = (75, 6, 3, 1, 4, 2, 6, 3)
SPREAD_WEIGHTS = (40, 30, 3, 1, 16, 6, 4, 0)
"""Of jobs that wait for each other in different partitions."""
PLAIN_WEIGHTS = (84, 6, 3, 1, 4, 2, 0, 0)
"""Where a defect was planted, which is to be found soon: nothing that makes the run slower."""

WEBHOOK_QUEUE = DELIVERY_QUEUE
RECEIVER = "https://receiver.example/hook"
"""Where webhooks would go: what is tried is that each end has one, not how it is sent."""
EVENT = "order.paid"
EVENT_TYPES = ("billing", "shipping")
"""Its handlers, each of which gets a job, or neither does."""
TICK = "tick"
TENANTS = 7
PER_KEY = 2
"""Jobs of one tenant that may run at once."""
RATE = 20
"""Starts of the rated task a second, over all workers."""
KEYED_SECONDS = 0.25
"""Longer than what the checker forgives for clocks that are read early."""

CHECKPOINTS = 4
CHECKPOINT_DELAY = 0.1
RETRY_DELAY = 0.05
SUBMISSION_TIMEOUT = 5.0


def make_app(url: str, settings: Settings) -> App:
    """Return an app with short leases that tries again soon, and often."""
    return App(
        url,
        retry=Retry(max_attempts=ATTEMPTS_MAX, backoff="constant", initial_delay=RETRY_DELAY),
        timeouts=Timeouts(lease_ttl=settings.ttl, submission=SUBMISSION_TIMEOUT),
    )


def declare(app: App, settings: Settings, ledger: Ledger) -> dict[str, TaskHandle[[int], int]]:
    """Add the tasks, by type. Each returns the version of the lease under which it ran."""
    sleep = ledger.clock.sleep_async
    left, right = (LEFT_QUEUE, RIGHT_QUEUE) if settings.is_spread else (QUEUE, QUEUE)

    @contextmanager
    def noting(ctx: Context, checkpoint: int | None = None) -> Iterator[None]:
        version = ctx.lease.version
        ledger.note(
            Started(
                ledger.now(),
                ctx.job_id,
                ctx.type,
                version,
                ctx.attempt,
                ctx.lease.token,
                os.getpid(),
                checkpoint,
            )
        )
        how = "interrupted"
        try:
            yield
            how = "returned"
        except Exception:
            how = "raised"
            raise
        finally:
            ledger.note(Ended(ledger.now(), ctx.job_id, version, how))

    def effect(ctx: Context) -> None:
        ledger.note(Effected(ledger.now(), ctx.job_id, ctx.lease.version))

    @app.task
    async def quick(ctx: Context, number: int) -> int:  # noqa: ARG001 - as all are called
        with noting(ctx):
            effect(ctx)
        return ctx.lease.version

    @app.task(queue=left)
    def threaded(ctx: Context, number: int) -> int:  # noqa: ARG001 - as all are called
        with noting(ctx):
            ledger.clock.sleep(0.01)
            effect(ctx)
        return ctx.lease.version

    @app.task(queue=ORDERED_QUEUE)
    async def ordered(ctx: Context, number: int) -> int:  # noqa: ARG001 - as all are called
        with noting(ctx):
            effect(ctx)
        return ctx.lease.version

    @app.task(queue=left)
    async def beating(ctx: Context, number: int) -> int:  # noqa: ARG001 - as all are called
        """Live longer than the interval between two heartbeats."""
        with noting(ctx):
            await sleep(settings.ttl * 0.5)
            effect(ctx)
        return ctx.lease.version

    @app.task
    async def lasting(ctx: Context, number: int) -> int:  # noqa: ARG001 - as all are called
        """Live longer than a lease."""
        with noting(ctx):
            await sleep(settings.ttl * 1.6)
            effect(ctx)
        return ctx.lease.version

    @app.task(queue=right)
    async def failing(ctx: Context, number: int) -> int:
        """Fail for good, or twice and then no more."""
        with noting(ctx):
            if number % 4 == 0:
                raise PermanentError("it never works", code="never")
            if ctx.attempt <= 2:
                raise TemporaryError("not yet")
            effect(ctx)
        return ctx.lease.version

    @app.task(queue=right)
    async def keeping(ctx: Context, number: int) -> int:  # noqa: ARG001 - as all are called
        """Keep a checkpoint after every step, and begin after the last that was kept."""
        done = ctx.last_checkpoint
        with noting(ctx, done):
            for step in range((done or 0) + 1, CHECKPOINTS + 1):
                await sleep(CHECKPOINT_DELAY)
                effect(ctx)
                await ctx.aio.checkpoint(step)
                ledger.note(Kept(ledger.now(), ctx.job_id, ctx.lease.version, step))
        return ctx.lease.version

    @app.task(concurrency_key=lambda number: f"{number % TENANTS}", max_running_per_key=PER_KEY)
    async def keyed(ctx: Context, number: int) -> int:  # noqa: ARG001 - as all are called
        with noting(ctx):
            await sleep(KEYED_SECONDS)
            effect(ctx)
        return ctx.lease.version

    @app.task(queue=RATED_QUEUE, rate=f"{RATE}/s")
    async def rated(ctx: Context, number: int) -> int:  # noqa: ARG001 - as all are called
        with noting(ctx):
            effect(ctx)
        return ctx.lease.version

    @app.event(EVENT).on(queue=left)
    async def billing(ctx: Context, number: int) -> int:  # noqa: ARG001 - as all are called
        with noting(ctx):
            effect(ctx)
        return ctx.lease.version

    @app.event(EVENT).on(queue=right)
    async def shipping(ctx: Context, number: int) -> int:  # noqa: ARG001 - as all are called
        with noting(ctx):
            effect(ctx)
        return ctx.lease.version

    @app.cron("* * * * *")
    @app.task
    async def tick(ctx: Context) -> int:
        with noting(ctx):
            effect(ctx)
        return ctx.lease.version

    @app.task
    async def webhook(ctx: Context, **delivery: Any) -> int:
        """Stand in for the product's own, which would ask the network."""
        assert delivery["url"] == RECEIVER
        with noting(ctx):
            effect(ctx)
        return ctx.lease.version

    app.session.tasks[DELIVERY_TYPE] = replace(
        app.session.tasks.pop("webhook"),
        type=DELIVERY_TYPE,
        queue=DELIVERY_QUEUE,
        policy=DELIVERY_POLICY,
    )
    tasks = (quick, threaded, ordered, beating, lasting, failing, keeping, keyed, rated)
    return {task.type: task for task in tasks}
