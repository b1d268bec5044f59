"""The simulated loop and process: time jumps, threads interleave, and the dead do not stir."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from lab.simulation.clock import SimulatedClock
from lab.simulation.history import Defect, History, Turn
from lab.simulation.loop import SimulatedLoop
from lab.simulation.process import Process
from lab.simulation.scheduler import Deadlock, Livelock, Scheduler


class Stage:
    """Some processes, and how long to let them run."""

    def __init__(self, seed: int = 0) -> None:
        self.scheduler = Scheduler(seed)
        self.outside = SimulatedLoop(self.scheduler)
        self.history = History()
        self.processes: list[Process] = []

    def boot(self, program: Coroutine[Any, Any, None]) -> Process:
        name = f"p{len(self.processes)}"
        clock = SimulatedClock(self.scheduler, name)
        process = Process(name, self.outside, clock, self.history)
        self.processes.append(process)
        process.start(program)
        return process

    def run(self, seconds: float) -> None:
        self.scheduler.is_over = False
        self.outside.call_later(seconds, self._finish)
        self.scheduler.run()

    def _finish(self) -> None:
        self.scheduler.is_over = True

    def turns(self) -> list[str]:
        return [event.what for event in self.history.events if isinstance(event, Turn)]


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.history.seal()
    for process in stage.processes:
        process.dispose()
    stage.outside.dispose()


async def tick(seen: list[float], pause: float = 1.0) -> None:
    while True:
        await asyncio.sleep(pause)
        seen.append(asyncio.get_running_loop().time())


def test_time_jumps_from_timer_to_timer(stage: Stage) -> None:
    seen: list[float] = []
    stage.boot(tick(seen, 3600.0))
    stage.run(4 * 3600.0 + 1)
    assert seen == [3600.0, 7200.0, 10800.0, 14400.0]
    assert stage.scheduler.steps < 50


def test_a_stopped_process_finds_its_timers_when_it_goes_on(stage: Stage) -> None:
    seen: list[float] = []
    process = stage.boot(tick(seen))
    stage.outside.call_later(1.5, process.stop)
    stage.outside.call_later(9.5, process.resume)
    stage.run(12.0)
    assert seen == [1.0, 9.5, 10.5, 11.5]
    assert stage.turns() == ["booted", "stopped", "continued"]


def test_a_killed_process_never_runs_again_not_even_its_finally(stage: Stage) -> None:
    seen: list[str] = []

    async def program() -> None:
        try:
            await asyncio.sleep(5)
            seen.append("woke")
        finally:
            seen.append("tidied up")

    process = stage.boot(program())
    stage.outside.call_later(1.0, process.kill)
    stage.run(60.0)
    assert seen == []


def test_a_fuse_strikes_between_any_two_awaits(stage: Stage) -> None:
    seen: list[int] = []

    async def program() -> None:
        for number in range(100):
            seen.append(number)
            await asyncio.sleep(0)

    process = stage.boot(program())
    process.light_fuse(10, process.kill)
    stage.run(1.0)
    assert seen == list(range(10))


def test_a_blocked_thread_holds_up_no_other(stage: Stage) -> None:
    blocked: list[float] = []
    free: list[float] = []
    process = stage.boot(tick(blocked))
    process.add_thread().create_task(tick(free))
    stage.outside.call_later(1.5, process.block, 5.0)
    stage.run(8.0)
    assert blocked == [1.0, 6.5, 7.5]
    assert free == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


def test_the_seed_decides_who_goes_first_and_asyncio_the_order_within() -> None:
    def order(seed: int) -> list[str]:
        stage = Stage(seed)
        seen: list[str] = []

        async def program(name: str) -> None:
            for number in range(5):
                seen.append(f"{name}{number}")
                await asyncio.sleep(0)

        for name in "ab":
            stage.boot(program(name))
        stage.run(1.0)
        return seen

    orders = {tuple(order(seed)) for seed in range(20)}
    assert len(orders) > 5
    assert order(3) == order(3)
    for each in orders:
        assert [step for step in each if step[0] == "a"] == ["a0", "a1", "a2", "a3", "a4"]


def test_nothing_left_to_wait_for_is_a_deadlock(stage: Stage) -> None:
    stage.boot(asyncio.Event.wait(asyncio.Event()))  # type: ignore[arg-type]  # never set
    with pytest.raises(Deadlock):
        stage.scheduler.run()


def test_time_that_does_not_pass_is_a_livelock(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.simulation.scheduler.STEPS_MAX", 1_000)

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    stage.boot(spin())
    with pytest.raises(Livelock):
        stage.run(1.0)


def test_an_error_that_nobody_catches_is_a_defect(stage: Stage) -> None:
    async def program() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(0)
        raise ValueError("out of the main task")

    stage.boot(program())
    stage.run(1.0)
    texts = [event.text for event in stage.history.events if isinstance(event, Defect)]
    assert len(texts) == 2
    assert "ZeroDivisionError" in texts[0]
    assert "p0 died of ValueError" in texts[1]


def test_asyncio_works_as_ever(stage: Stage) -> None:
    """Timeouts, shields, gathering and cancelling: what product code relies on."""
    seen: list[object] = []

    async def program() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.0):
                await asyncio.sleep(60)
        seen.append(asyncio.get_running_loop().time())
        inner = asyncio.ensure_future(asyncio.sleep(3, "kept"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(inner), 1.0)
        seen.extend(await asyncio.gather(inner, asyncio.sleep(1, "both")))
        task = asyncio.create_task(asyncio.sleep(9))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        seen.append(asyncio.get_running_loop().time())

    stage.boot(program())
    stage.run(20.0)
    assert seen == [2.0, "kept", "both", 5.0]
    assert stage.turns()[-1] == "ended"
