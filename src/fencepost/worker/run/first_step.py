"""A coroutine's first step, taken apart from the rest: most short handlers need no other."""

from __future__ import annotations

import types
from collections.abc import Coroutine, Generator
from typing import Any


@types.coroutine
def rest_of(coroutine: Coroutine[Any, Any, Any], waits_for: Any) -> Generator[Any, None, Any]:
    """Await a coroutine that has taken its first step, and waits for *waits_for*.

    Only for asyncio, whose tasks answer nothing but None to what a coroutine yields.
    """
    while True:
        try:
            yield waits_for
        except BaseException as error:  # noqa: BLE001 - a cancellation belongs to the coroutine
            try:
                waits_for = coroutine.throw(error)
            except StopIteration as stop:
                return stop.value
        else:
            return (yield from coroutine)
