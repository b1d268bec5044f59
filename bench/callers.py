"""Callers that submit: one by one, many at once, and in bulk. The same on every ground."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from bench.bench import Bench
from bench.noop import BenchApp

CALLERS = 100


def rate(bench: Bench, count: int, submit: Callable[[BenchApp], None]) -> float:
    """Return the jobs a second of *submit*, which stores *count* in a new store."""
    with bench.new_store() as url, BenchApp(url) as app:
        app.noop.submit(0)  # opens the store, and makes the lane and the policy
        seconds = bench.seconds(partial(submit, app))
    return count / seconds


def one_by_one(app: BenchApp, count: int) -> None:
    for number in range(count):
        app.noop.submit(number)


async def callers(app: BenchApp, count: int, each: int) -> None:
    """Have *count* coroutines submit *each* jobs, one after the other."""
    submit = app.noop.aio.submit

    async def caller() -> None:
        for number in range(each):
            await submit(number)

    await asyncio.gather(*(caller() for _ in range(count)))


def bulk(app: BenchApp, count: int) -> None:
    app.noop.submit_many(range(count))
