"""The drivers of generators, without any store; ``tests/store/test_plan.py`` has plans."""

from __future__ import annotations

import ast
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from fencepost.generators import Returned, answer, begin, delegate, drive, drive_async, proceed

Sums = Generator[str, int, int]


def add() -> Sums:
    first = yield "a"
    second = yield "b"
    return first + second


def lenient() -> Generator[str, int, str]:
    try:
        yield "broken"
    except (KeyError, KeyboardInterrupt) as error:
        yield f"after {type(error).__name__}"
    return "done"


def empty() -> Sums:
    yield from ()
    return 7


def perform(step: str) -> int:
    if step == "broken":
        raise KeyError(step)
    return {"a": 1, "b": 2}.get(step, 0)


async def perform_async(step: str) -> int:
    return perform(step)


def test_a_generator_that_has_begun_is_driven_from_its_last_step() -> None:
    generator = add()
    assert drive(generator, perform, next(generator)) == 3


async def test_both_drivers_raise_interruptions_inside_the_generator() -> None:
    """Whatever a step raises, the generator gets it: also what is no ``Exception``."""

    def interrupted(step: str) -> int:
        if step == "broken":
            raise KeyboardInterrupt
        return perform(step)

    async def interrupted_async(step: str) -> int:
        return interrupted(step)

    assert drive(lenient(), interrupted) == "done"
    assert await drive_async(lenient(), interrupted_async) == "done"
    with pytest.raises(KeyboardInterrupt):
        drive(add(), lambda _: interrupted("broken"))


def test_a_delegate_changes_steps_and_passes_errors_on() -> None:
    def louder(step: str) -> Generator[str, int, int]:
        return (yield step.upper())

    outer = delegate(add(), louder)
    assert (next(outer), outer.send(1)) == ("A", "B")
    with pytest.raises(StopIteration) as stop:
        outer.send(2)
    assert stop.value.value == 3
    other = delegate(lenient(), louder)
    assert next(other) == "BROKEN"
    assert other.throw(KeyError("x")) == "AFTER KEYERROR"


def test_a_delegate_that_is_closed_closes_the_generator() -> None:
    closed: list[bool] = []

    def careful() -> Sums:
        try:
            return (yield "a")
        finally:
            closed.append(True)

    def same(step: str) -> Generator[str, int, int]:
        return (yield step)

    outer = delegate(careful(), same)
    next(outer)
    outer.close()
    assert closed == [True]


def test_a_generator_is_stepped_by_hand() -> None:
    generator = add()
    assert begin(generator) == "a"
    assert answer(generator, "a", perform) == "b"
    assert proceed(generator, 2) == Returned(3)
    assert begin(empty()) == Returned(7)
    failing = lenient()
    assert begin(failing) == "broken"
    assert answer(failing, "broken", perform) == "after KeyError"
    assert answer(failing, "after KeyError", perform) == Returned("done")


def test_a_step_by_hand_raises_what_the_generator_does_not_catch() -> None:
    generator = add()
    step: Any = begin(generator)
    assert step == "a"
    with pytest.raises(KeyError):
        answer(generator, "broken", perform)


PACKAGE = Path(__file__).parents[1] / "src" / "fencepost"
LOOPS = {
    "generators.py",
    "worker/run/relay.py",  # the first step of each coroutine handler, where a call would cost
    "worker/run/threads.py",  # no loop: it refuses to pass a handler's StopIteration to a future
}


def test_no_other_file_drives_a_generator() -> None:
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name) and node.id == "StopIteration"
    }
    assert users == LOOPS
