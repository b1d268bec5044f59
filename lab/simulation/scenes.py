"""What a world is full of: the plain scene, one with everything that makes jobs, and the defaults.

``plain``: tasks, flows and spawned jobs, under short leases. ``varied``: events, crons, webhooks,
concurrency keys and rates as well. ``defaults``: workers without a single setting, beside jobs of a
moment and jobs of a minute, which is what most people run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING, Any

from fencepost import App, Context, TemporaryError
from fencepost.core.cron import Cron
from fencepost.core.job.task import Task
from fencepost.core.webhooks.delivery import DELIVERY_POLICY, DELIVERY_QUEUE, DELIVERY_TYPE
from lab.simulation.ledger import Ledger, chance, here

if TYPE_CHECKING:
    from lab.simulation.callers import Caller

RATE = 4
"""Starts of ``rated`` a second, over all workers."""
PER_KEY = 2
TENANTS = 3
HANDLERS = ("bill", "ship")
"""Of the event that callers send, both of which get a job or neither."""
EVENT = "order.paid"
RECEIVER = "https://receiver.example/hook"


class Scene(StrEnum):
    """Which of them."""

    PLAIN = "plain"
    VARIED = "varied"
    DEFAULTS = "defaults"


class Cast:
    """The tasks and the crons of a scene, and how often callers submit which."""

    def __init__(self, tasks: dict[str, Task], weights: dict[str, int]) -> None:
        self.tasks = tasks
        self.weights = weights
        self.crons: dict[str, Cron] = {}
        self.deeds: tuple[tuple[float, Deed], ...] = ()
        """What callers do besides submitting, each with how likely it is."""


Deed = Callable[["Caller", Random], Awaitable[None]]


def cast(scene: Scene, tasks: dict[str, Task], weights: dict[str, int], ledger: Ledger) -> Cast:
    """Return who plays in *scene*; *tasks* are those of the plain one."""
    match scene:
        case Scene.PLAIN:
            return Cast(tasks, weights)
        case Scene.VARIED:
            return _varied(tasks, weights, ledger)
        case Scene.DEFAULTS:
            return _defaults(ledger)


def _varied(tasks: dict[str, Task], weights: dict[str, int], ledger: Ledger) -> Cast:
    app = App("memory://")

    @app.task(
        concurrency_key=lambda number: f"tenant-{number % TENANTS}", max_running_per_key=PER_KEY
    )
    async def keyed(ctx: Context, number: int) -> int:
        with ledger.attempt(ctx):
            await _pause(0.1, 3.0)
            if chance().random() < 0.2:
                raise TemporaryError("not now", retry_after=0.5)
            return number

    @app.task(rate=f"{RATE}/s")
    async def rated(ctx: Context, number: int) -> int:
        with ledger.attempt(ctx):
            return number

    @app.event(EVENT).on
    async def bill(ctx: Context, number: int) -> int:
        with ledger.attempt(ctx):
            await _pause(0.0, 0.3)
            ledger.write(ctx)
            return number

    @app.event("order.*").on(queue="bulk")
    async def ship(ctx: Context, number: int) -> int:
        with ledger.attempt(ctx):
            await _pause(0.0, 3.0)
            return number

    @app.cron("* * * * *", missed="catch_up")
    @app.task
    async def tick(ctx: Context) -> None:
        with ledger.attempt(ctx):
            await _pause(0.0, 1.0)

    @app.task(name="deliver")
    async def deliver(ctx: Context, url: str, **rest: Any) -> int:  # noqa: ARG001 - as it is called
        """Stand in for the product's own, which blocks a thread and asks the network."""
        assert url == RECEIVER
        with ledger.attempt(ctx):
            await _pause(0.0, 0.5)
            # Not for long: its retries are minutes apart, and the world ends.
            if ctx.attempt == 1 and chance().random() < 0.2:
                raise TemporaryError("the receiver is away")
            return 200

    own = dict(app.session.tasks)
    own[DELIVERY_TYPE] = replace(
        own.pop("deliver"), type=DELIVERY_TYPE, queue=DELIVERY_QUEUE, policy=DELIVERY_POLICY
    )
    made = Cast({**tasks, **own}, {**weights, "keyed": 25, "rated": 20})
    made.crons = dict(app.session.crons)
    made.deeds = (
        (0.15, lambda caller, rng: caller.send(EVENT, rng)),
        (0.15, lambda caller, rng: caller.submit_with_callback(RECEIVER, rng)),
        (0.05, lambda caller, rng: caller.submit_bulk("rated", rng.randint(2 * RATE, 4 * RATE))),
    )
    return made


def _defaults(ledger: Ledger) -> Cast:
    """Return tasks as a first program has them: no TTL, no queue, no retry of their own."""
    app = App("memory://")

    @app.task
    async def brief(ctx: Context, number: int) -> int:
        with ledger.attempt(ctx):
            return number

    @app.task
    async def short(ctx: Context, number: int) -> int:
        with ledger.attempt(ctx):
            await _pause(0.01, 0.4)
            ledger.write(ctx)
            return number

    @app.task
    async def long(ctx: Context, number: int) -> int:
        """Takes a lease or two."""
        with ledger.attempt(ctx):
            await _pause(2.0, 60.0)
            ledger.write(ctx)
            return number

    @app.task
    async def failing(ctx: Context, number: int) -> int:
        with ledger.attempt(ctx):
            if chance().random() < 0.5:
                raise ValueError(number)
            return number

    made = Cast(dict(app.session.tasks), {"brief": 60, "short": 25, "long": 10, "failing": 5})
    made.deeds = (
        (0.12, lambda caller, rng: caller.submit_bulk("brief", rng.randint(50, 200))),
        (0.06, lambda caller, rng: caller.submit_bulk("short", rng.randint(50, 200))),
        (0.06, lambda caller, rng: caller.submit_bulk("long", rng.randint(10, 30))),
    )
    return made


async def _pause(least: float, most: float) -> None:
    process = here()
    await process.clock.sleep_async(process.clock.rng.uniform(least, most))


def options_of(scene: Scene, **settings: Any) -> dict[str, Any]:
    """Return what a worker of *scene* is given: in one of them, nothing."""
    return {} if scene is Scene.DEFAULTS else settings
