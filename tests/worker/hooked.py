"""An app with hooks for child processes, which import it from here."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from fencepost import App, Context

app = App(os.environ.get("HOOKED_URL", "memory://"))
tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


@app.lifespan
async def pool(app: App) -> AsyncIterator[dict[str, int]]:
    yield {"pid": os.getpid(), "calls": 0}
    if "HOOKED_LEFT" in os.environ:
        await asyncio.sleep(0.2)  # a pool takes a moment to close
        Path(os.environ["HOOKED_LEFT"], str(os.getpid())).touch()


@app.around
async def outer(ctx: Context, call: Callable[[], Awaitable[Any]]) -> None:
    ctx.state["calls"] += 1
    tenant.set("acme")
    await call()


@app.around
def inner(ctx: Context, call: Callable[[], Any]) -> None:
    assert tenant.get() == "acme"
    call()


@app.task(isolation="process")
def look(ctx: Context) -> list[object]:
    return [ctx.state["pid"], os.getpid(), ctx.state["calls"], tenant.get()]


@app.task(isolation="process")
async def look_async(ctx: Context) -> list[object]:
    return [ctx.state["pid"], os.getpid(), ctx.state["calls"], tenant.get()]
