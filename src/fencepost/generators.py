"""The drivers of generators: store plans, callers' scripts, coroutines stepped by hand.

A generator yields steps (statements of a plan, store operations or HTTP requests of a script) and
is sent the result of each. An error of a step is raised inside it, and it decides what that means.
The loop around it is written once for each way to perform a step: in this thread (``drive``),
awaited (``drive_async``), by a surrounding generator (``delegate``). ``begin``, ``answer`` and
``proceed`` take a single step, for callers with work to do in between.

One loop stands elsewhere: ``worker/run/relay.py`` takes the first step of each coroutine handler
itself, where another call for every short job would cost. A test counts.
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

import msgspec

Y = TypeVar("Y")
S = TypeVar("S")
T = TypeVar("T")


def drive(generator: Generator[Y, S, T], perform: Callable[[Y], S], step: Y | None = None) -> T:
    """Run *generator* to its end in this thread; *perform* returns the result of a step or raises.

    *step* is what it yielded last, if it has begun.
    """
    try:
        if step is None:
            step = next(generator)
        while True:
            try:
                result = perform(step)
            except BaseException as error:  # noqa: BLE001 - the generator decides what it means
                step = generator.throw(error)
            else:
                step = generator.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


async def drive_async(generator: Generator[Y, S, T], perform: Callable[[Y], Awaitable[S]]) -> T:
    """Run *generator* to its end on the event loop, awaiting each step."""
    try:
        step = next(generator)
        while True:
            try:
                result = await perform(step)
            except BaseException as error:  # noqa: BLE001 - as above
                step = generator.throw(error)
            else:
                step = generator.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


def delegate(
    generator: Generator[Y, S, T] | Coroutine[Y, S, T],
    perform: Callable[[Y], Generator[Any, Any, S]],
) -> Generator[Any, Any, T]:
    """Run *generator* as a part of another one; *perform* yields what becomes of each step.

    With ``perform = lambda step: (yield step)`` this is ``yield from generator``.
    """
    try:
        step = generator.send(None)  # type: ignore[arg-type]  # starts it
        while True:
            try:
                result = yield from perform(step)
            except BaseException as error:  # noqa: BLE001 - as above
                step = generator.throw(error)
            else:
                step = generator.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


class Returned(msgspec.Struct, Generic[T], frozen=True):
    """The end of a generator that is stepped by hand."""

    value: T


def begin(generator: Generator[Y, Any, T] | Coroutine[Y, Any, T]) -> Y | Returned[T]:
    """Return the first step of *generator*, or that it has ended without one."""
    try:
        return generator.send(None)
    except StopIteration as stop:
        return Returned(stop.value)


def proceed(generator: Generator[Y, S, T] | Coroutine[Y, S, T], result: S) -> Y | Returned[T]:
    """Send *result* to *generator*; return its next step, or that it has ended."""
    try:
        return generator.send(result)
    except StopIteration as stop:
        return Returned(stop.value)


def answer(generator: Generator[Y, S, T], step: Y, perform: Callable[[Y], S]) -> Y | Returned[T]:
    """Perform *step*, the last that *generator* yielded, and go on with its result or error."""
    try:
        try:
            result = perform(step)
        except BaseException as error:  # noqa: BLE001 - as above
            return generator.throw(error)
        return generator.send(result)
    except StopIteration as stop:
        return Returned(stop.value)


def begun(coroutine: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
    """Take the first step of *coroutine* now, in this task; return the rest of it.

    Only for a coroutine that does not care which task takes that step.
    """
    try:
        waits_for = coroutine.send(None)
    except StopIteration as stop:
        return _ended(stop.value, None)
    except Exception as error:  # noqa: BLE001 - raised where the rest is awaited
        return _ended(None, error)
    return _resumed(coroutine, waits_for)


async def _ended(value: Any, error: Exception | None) -> Any:
    if error is not None:
        raise error
    return value


async def _resumed(coroutine: Coroutine[Any, Any, T], waits_for: Any) -> T:
    return await rest_of(coroutine, waits_for)


@types.coroutine
def rest_of(coroutine: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, None, T]:
    """Await a coroutine that has taken its first step and waits for *waits_for*.

    Only for asyncio, whose tasks send nothing but None to what a coroutine yields. Past the first
    wait the interpreter does the rest; ``delegate`` would run Python code at every wait.
    """
    while True:
        try:
            yield waits_for
        except BaseException as error:  # noqa: BLE001 - a cancellation belongs to the coroutine
            try:
                waits_for = coroutine.throw(error)
            except StopIteration as stop:
                value: T = stop.value
                return value
        else:
            returned: T = yield from coroutine
            return returned
