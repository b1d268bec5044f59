"""Handlers of flows for child processes, which import them from here."""

from __future__ import annotations

from fencepost import App, Context

flow_app = App("memory://")
"""Only declares; the store is whichever the worker has."""


@flow_app.task
def leaf(number: int) -> int:
    return number


@flow_app.task(isolation="process")
def brood(ctx: Context, count: int) -> list[str]:
    """Spawn, die once, and spawn the same again."""
    ids = ctx.spawn(*(leaf.prepare(number) for number in range(count)))
    if ctx.attempt == 1:
        raise RuntimeError("after the spawn")
    return ids


@flow_app.task(isolation="process")
async def brood_awaited(ctx: Context, count: int) -> list[str]:
    return await ctx.aio.spawn(*(leaf.prepare(number) for number in range(count)))


@flow_app.task(isolation="process")
def total(ctx: Context) -> dict[str, int]:
    return dict(ctx.dependency_results)
