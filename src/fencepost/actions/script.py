"""What a caller's request does, written once for both faces and for both backends.

A script is a generator: it yields steps and is sent their results. An app's steps are store
operations and pauses (``actions/steps.py``), a client's are HTTP requests and rests
(``client/exchange.py``). The two drivers here run any script, in the calling thread or on the event
loop; they contain no other logic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

T = TypeVar("T")

Script = Generator[Any, Any, T]


def drive(script: Script[T], perform: Callable[[Any], Any]) -> T:
    """Run *script* to its end in this thread; it is sent what *perform* returns or raises."""
    try:
        step = next(script)
        while True:
            try:
                reply = perform(step)
            except BaseException as error:  # noqa: BLE001 - the script decides, or lets it pass
                step = script.throw(error)
            else:
                step = script.send(reply)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def drive_async(script: Script[T], perform: Callable[[Any], Awaitable[Any]]) -> T:
    """Run *script* to its end without blocking the event loop."""
    try:
        step = next(script)
        while True:
            try:
                reply = await perform(step)
            except BaseException as error:  # noqa: BLE001 - the script decides, or lets it pass
                step = script.throw(error)
            else:
                step = script.send(reply)
    except StopIteration as stop:
        result: T = stop.value
        return result
