"""Exceptions thrown into threads: within the call or not at all, never amid the store's work."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from fencepost import HandlerStopped
from fencepost.store.interruption import Interruptible, undisturbed

LONG = 30.0
ROUNDS = 3_000


class Looping:
    """A function that goes on until something is raised in it, and says when it has begun."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.is_over = False

    def __call__(self) -> None:
        self.has_begun.set()
        while not self.is_over:
            pass


def in_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Run *work* in a thread; return it, and where its end will be found."""
    ends: list[Any] = []

    def run() -> None:
        try:
            ends.append(work())
        except BaseException as error:  # noqa: BLE001 - it is what the tests look at
            ends.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, ends


def test_a_call_is_stopped_amid_its_work() -> None:
    call, looping = Interruptible(), Looping()
    thread, ends = in_thread(lambda: call.run(looping))
    assert looping.has_begun.wait(LONG)
    assert call.stop()
    thread.join(LONG)
    assert isinstance(ends[0], HandlerStopped)
    assert not isinstance(ends[0], Exception), "`except Exception` would swallow it"


def test_one_that_is_stopped_before_it_begins_does_not_begin() -> None:
    call = Interruptible()
    assert call.stop()
    with pytest.raises(HandlerStopped):
        call.run(lambda: pytest.fail("it began"))


def test_one_that_has_ended_is_not_stopped() -> None:
    call = Interruptible()
    assert call.run(lambda: 42) == 42
    assert call.stop()
    for _ in range(1_000):
        pass  # it would be raised here


def test_it_is_thrown_once_and_whoever_catches_it_can_tidy_up() -> None:
    call, looping = Interruptible(), Looping()

    def tidy() -> str:
        try:
            looping()
        except HandlerStopped:
            assert call.stop()
            return "tidied up" * undisturbed(lambda: 1)
        raise AssertionError

    thread, ends = in_thread(lambda: call.run(tidy))
    assert looping.has_begun.wait(LONG)
    assert call.stop()
    thread.join(LONG)
    assert ends == ["tidied up"]


def test_the_store_is_left_to_finish_and_it_is_raised_afterwards() -> None:
    """A thread that commits for others must not be torn out of it."""
    call, looping = Interruptible(), Looping()
    done: list[str] = []

    def commit() -> None:
        looping()
        done.append("committed")

    def handler() -> None:
        undisturbed(lambda: undisturbed(commit))
        done.append("not reached")

    thread, ends = in_thread(lambda: call.run(handler))
    assert looping.has_begun.wait(LONG)
    assert call.stop()
    assert not ends
    looping.is_over = True
    thread.join(LONG)
    assert (done, type(ends[0])) == (["committed"], HandlerStopped)


def test_a_thread_that_writes_to_the_log_is_left_alone_for_the_moment() -> None:
    """logging takes its locks before its ``try``: an exception there would lock them for good."""
    call, looping = Interruptible(), Looping()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            looping()

    logger = logging.getLogger("tests.interruption")
    handler = Handler()
    logger.addHandler(handler)
    thread, ends = in_thread(lambda: call.run(lambda: logger.warning("slowly")))
    assert looping.has_begun.wait(LONG)
    assert not call.stop(), "to be asked again"
    looping.is_over = True
    thread.join(LONG)
    logger.removeHandler(handler)
    assert ends == [None]
    assert call.stop()


@pytest.fixture
def busy_threads() -> Iterator[None]:
    """Have threads take turns as often as they can."""
    was = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(was)


@pytest.mark.usefixtures("busy_threads")
def test_nothing_is_ever_raised_outside_the_call() -> None:
    """S0-92: the thread serves another job by then. Stops come at any moment, before and after."""
    strays: list[BaseException] = []
    torn: list[int] = []
    calls = [Interruptible() for _ in range(ROUNDS)]
    reached = 0

    def store(number: int) -> None:
        torn.append(number)
        for _ in range(3):
            pass
        torn.pop()

    def serve() -> None:
        nonlocal reached
        for number, call in enumerate(calls):
            try:
                reached = number
                with suppress(HandlerStopped):
                    call.run(partial(undisturbed, partial(store, number)))
                for _ in range(20):
                    pass
            except BaseException as error:  # noqa: BLE001 - which is what must not happen
                strays.append(error)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    while thread.is_alive():
        calls[min(reached, ROUNDS - 1)].stop()
    thread.join(LONG)
    assert not strays
    assert not torn, "a call of the store was torn"
    assert reached == ROUNDS - 1
