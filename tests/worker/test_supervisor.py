"""The supervisor's decisions, with children that only pretend; real ones are in tests/cli."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from typing import Any, cast

import pytest

from fencepost.testing.clock import FakeClock
from fencepost.worker.retirement import REPLACE_CODE
from fencepost.worker.supervisor import DELAY_MAX, Lifeline, ProcessSlot, Supervisor


class Child:
    """A process that ends when it is told."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.code: int | None = None
        self.signals: list[int] = []

    def poll(self) -> int | None:
        return self.code

    def send_signal(self, number: int) -> None:
        self.signals.append(number)

    def kill(self) -> None:
        self.signals.append(signal.SIGKILL)


class Nursery:
    """A lifeline whose children only pretend."""

    def __init__(self) -> None:
        self.children: list[Child] = []

    def spawn(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        self.children.append(Child(len(self.children) + 1))
        return cast("subprocess.Popen[bytes]", self.children[-1])

    def close(self) -> None:
        pass


@pytest.fixture
def nursery(monkeypatch: pytest.MonkeyPatch) -> Nursery:
    made = Nursery()
    monkeypatch.setattr("fencepost.worker.supervisor.Lifeline", lambda: made)
    return made


def supervisor(clock: FakeClock, count: int = 2, **options: Any) -> Supervisor:
    return Supervisor(["worker"], count, clock=clock, stop_patience=10.0, **options)


def test_children_are_started_and_left_alone(nursery: Nursery) -> None:
    running = supervisor(FakeClock())
    assert all(running.step() for _ in range(5))
    assert len(nursery.children) == 2


def test_a_child_that_dies_young_is_replaced_after_growing_delays(nursery: Nursery) -> None:
    clock = FakeClock()
    slot = ProcessSlot(["worker"], cast(Lifeline, nursery), clock, is_burst=False)
    waits = []
    for _ in range(7):
        slot.step(is_stopping=False)
        nursery.children[-1].code = 1
        slot.step(is_stopping=False)
        count = len(nursery.children)
        waited = 0.0
        while len(nursery.children) == count:
            clock.advance(0.5)
            waited += 0.5
            slot.step(is_stopping=False)
        waits.append(waited)
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, DELAY_MAX, DELAY_MAX]


def test_a_child_that_has_lived_is_replaced_at_once(nursery: Nursery) -> None:
    clock = FakeClock()
    slot = ProcessSlot(["worker"], cast(Lifeline, nursery), clock, is_burst=False)
    slot.step(is_stopping=False)
    nursery.children[-1].code = -9
    slot.step(is_stopping=False)
    clock.advance(1.0)
    slot.step(is_stopping=False)
    clock.advance(61.0)
    nursery.children[-1].code = -9
    slot.step(is_stopping=False)
    assert len(nursery.children) == 3


def test_each_stop_is_passed_on_once_and_nobody_is_replaced(nursery: Nursery) -> None:
    running = supervisor(FakeClock())
    running.step()
    running.stop(signal.SIGTERM)
    assert running.step()
    running.stop(signal.SIGINT)
    assert running.step()
    assert running.step()
    assert [child.signals for child in nursery.children] == [[signal.SIGTERM, signal.SIGINT]] * 2
    for child in nursery.children:
        child.code = 0
    assert not running.step()
    assert len(nursery.children) == 2


def test_children_that_do_not_stop_are_killed_in_the_end(nursery: Nursery) -> None:
    clock = FakeClock()
    running = supervisor(clock, count=1)
    running.step()
    running.stop()
    running.step()
    clock.advance(9.9)
    running.step()
    assert nursery.children[0].signals == [signal.SIGTERM]
    clock.advance(0.2)
    running.step()
    assert nursery.children[0].signals == [signal.SIGTERM, signal.SIGKILL]


def test_in_a_burst_a_child_that_is_done_is_not_replaced_but_one_that_died_is(
    nursery: Nursery,
) -> None:
    clock = FakeClock()
    running = supervisor(clock, is_burst=True)
    running.step()
    nursery.children[0].code = 0
    nursery.children[1].code = 1
    assert running.step()
    clock.advance(1.0)
    assert running.step()
    assert len(nursery.children) == 3
    nursery.children[2].code = 0
    assert not running.step()


def test_a_stop_before_the_first_step_starts_nobody(nursery: Nursery) -> None:
    running = supervisor(FakeClock())
    running.stop()
    assert not running.step()
    assert nursery.children == []


def test_a_child_that_wants_a_successor_has_one_at_once(nursery: Nursery) -> None:
    """C44: it ended to have a thread end that did not stop; nothing is wrong with the next."""
    clock = FakeClock()
    for is_burst in (False, True):
        slot = ProcessSlot(["worker"], cast(Lifeline, nursery), clock, is_burst=is_burst)
        slot.step(is_stopping=False)
        count = len(nursery.children)
        nursery.children[-1].code = REPLACE_CODE
        assert slot.step(is_stopping=False)
        assert len(nursery.children) == count + 1
    nursery.children[-1].code = REPLACE_CODE
    assert not slot.step(is_stopping=True)
