"""Handlers for child processes, which import them from here."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from pathlib import Path

from fencepost import App, Context, PermanentError, Snooze, TemporaryError


def pid_of(x: int) -> int:
    return os.getpid()


async def double(x: int) -> int:
    await asyncio.sleep(0)
    return 2 * x


def length(data: bytes) -> int:
    return len(data)


def echo(text: str) -> str:
    return text


def fail(kind: str) -> None:
    match kind:
        case "temporary":
            raise TemporaryError("later", retry_after=3600)
        case "permanent":
            raise PermanentError("never", code="no")
        case "snooze":
            raise Snooze(3600)
        case "exit":
            raise SystemExit(7)
        case _:
            raise ValueError(kind)


def die(how: str) -> None:
    """End the process in a way that no ``except`` sees."""
    if how == "exit":
        os._exit(3)
    ctypes.string_at(0)


def hang(path: str) -> None:
    """Say who we are and never return."""
    Path(path).write_text(str(os.getpid()))
    time.sleep(600)


def resume(ctx: Context) -> list[object]:
    """Die after a checkpoint, and go on from it in the next attempt."""
    if ctx.attempt == 1:
        ctx.checkpoint({"page": 7})
        ctx.progress(0.5, "half")
        os._exit(1)
    return [ctx.last_checkpoint, ctx.attempt, ctx.previous_attempt_id is not None]


def told_of(ctx: Context, user_id: int) -> list[object]:
    """Return what a handler of an event is told."""
    return [user_id, ctx.event and ctx.event.name, ctx.event and ctx.event.id]


def record(path: str, text: str) -> None:
    Path(path).write_text(text)


class FlakyError(Exception): ...


class FlakierError(FlakyError): ...


def raise_kind(kind: str) -> None:
    match kind:
        case "flaky":
            raise FlakyError
        case "flakier":
            raise FlakierError
        case "exit":
            raise SystemExit(7)
        case _:
            raise ValueError(kind)


def nothing() -> None:
    """Is there to be spawned."""


def spawn_one(ctx: Context) -> None:
    ctx.spawn(App("memory://").task(name="spawned")(nothing).prepare())
