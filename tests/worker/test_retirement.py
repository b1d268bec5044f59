"""A process that has done its share claims no more, and ends with the last of its jobs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest
from tests.worker.flaky import FlakyStore, Times
from tests.worker.support import LONG, eventually

from fencepost import App, ConfigurationError, State
from fencepost.cli.commands.worker import child_command, surviving_lifespan
from fencepost.cli.options import Settings
from fencepost.clock import SystemClock
from fencepost.core.bounds import RETIREMENT_JITTER
from fencepost.core.values.times import parse_duration
from fencepost.platform.processes import resident_memory
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.interface.store import Store
from fencepost.store.memory.store import MemoryStore
from fencepost.testing import FakeClock
from fencepost.worker.retirement import REPLACE_CODE, Retirement, parse_size
from fencepost.worker.run.inflight import InFlight
from fencepost.worker.run.slots import WorkerSlots
from fencepost.worker.shutdown import Shutdown
from fencepost.worker.worker import Worker

pytestmark = pytest.mark.usefixtures("never_late")


def events(caplog: pytest.LogCaptureFixture, name: str) -> list[dict[str, Any]]:
    found = [each for each in caplog.records if vars(each).get("fencepost_event") == name]
    return [vars(each)["fencepost_fields"] for each in found]


async def test_a_run_ends_after_so_many_jobs_and_the_next_goes_on(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    ran: list[int] = []

    @app.task
    async def note(x: int) -> None:
        ran.append(x)

    jobs = note.submit_many(range(7))
    worker = app.worker(concurrency=5, max_jobs=3)
    for so_many in (3, 6, 7):
        await asyncio.wait_for(worker.aio.run(until_idle=True), LONG)
        assert len(ran) == so_many
        assert worker.is_retiring == (so_many < 7)
    assert {job.refresh().state for job in jobs} == {State.COMPLETED}
    assert [len(job.attempts()) for job in jobs] == [1] * 7, "nothing was claimed in vain"
    told = events(caplog, "worker.retiring")
    assert [(each["reason"], each["jobs"]) for each in told] == [("max_jobs", 3)] * 2


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_runs_when_the_limit_is_reached_may_finish(app: App, is_async: bool) -> None:
    """However long it takes: grace is for a stop by somebody."""
    finish, finish_thread = asyncio.Event(), threading.Event()
    began: list[int] = []

    async def coroutine(x: int) -> int:
        began.append(x)
        await finish.wait()
        return x

    def thread(x: int) -> int:
        began.append(x)
        finish_thread.wait(LONG)
        return x

    long = app.task(name="long")(coroutine if is_async else thread)
    first, second = long.submit(1), long.submit(2)
    worker = app.worker(concurrency=2, max_jobs=1, grace=0)
    running = asyncio.create_task(worker.aio.run())
    await eventually(lambda: worker.is_retiring)
    await eventually(lambda: began)
    assert not running.done()
    finish.set()
    finish_thread.set()
    await asyncio.wait_for(running, LONG)
    assert began == [1]
    assert first.result(0) == 1
    assert (second.refresh().state, second.attempts()) == (State.SCHEDULED, [])


async def test_a_stop_goes_before_a_limit(app: App) -> None:
    began = asyncio.Event()

    @app.task
    async def long() -> None:
        began.set()
        await asyncio.sleep(10 * LONG)

    job = long.submit()
    worker = app.worker(max_jobs=1, grace=0)
    running = asyncio.create_task(worker.aio.run())
    await began.wait()
    await eventually(lambda: worker.is_retiring)
    worker.stop()
    await asyncio.wait_for(running, LONG)
    assert not worker.is_retiring, "its process is not started again"
    assert (job.refresh().state, job.refresh().attempt) == (State.SCHEDULED, 0)


async def test_what_has_ended_is_recorded_though_the_store_is_away_for_longer_than_grace() -> None:
    """A process that retires loses no attempt; its leases last for longer than that."""
    store = FlakyStore(MemoryStore(clock=SystemClock()))
    store.is_away = Times(QueueFacet.settle, 5)  # for more than a second, by the backoff
    app = App(store=cast(Store, store))

    @app.task
    async def nothing() -> None: ...

    job = nothing.submit()
    worker = app.worker(max_jobs=1, grace=0)
    await asyncio.wait_for(worker.aio.run(), LONG)
    assert worker.is_retiring
    assert job.refresh().state is State.COMPLETED


@pytest.mark.parametrize("max_jobs", [1, None])
def test_a_process_is_replaced_though_its_lifespan_fails_as_it_is_left(
    app: App, max_jobs: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The error of a lifespan is one of the worker, unless another takes its place."""

    @app.lifespan
    async def pool(app: App) -> AsyncIterator[None]:
        yield
        raise OSError("cannot close")

    @app.task
    async def nothing() -> None: ...

    nothing.submit()
    worker = app.worker(max_jobs=max_jobs)
    expected = nullcontext() if max_jobs else pytest.raises(OSError, match="cannot close")
    with expected, surviving_lifespan(worker):
        worker.run(until_idle=True)
    assert worker.is_retiring == bool(max_jobs)
    assert len(events(caplog, "hook.failed")) == (1 if max_jobs else 0)


def test_the_children_of_a_supervisor_can_read_every_duration() -> None:
    given = {"grace": 12 * 86_400.0, "lease_ttl": 0.25}
    command = child_command(Settings(), None, **given)  # type: ignore[arg-type]  # two of many
    read = [parse_duration(command[command.index(f"--{n}") + 1]) for n in ("grace", "lease-ttl")]
    assert read == [12 * 86_400.0, 0.25]


class _StoppedLast(Worker):
    """Is sent SIGTERM at the last moment at which its loop still watches for it."""

    async def _unwatch_signals(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await super()._unwatch_signals()


def test_a_signal_that_comes_with_the_last_step_is_a_stop(app: App) -> None:
    """Else a process that retires would be replaced, though whoever sent it waits for its end."""

    @app.task
    async def nothing() -> None: ...

    nothing.submit()
    worker = _StoppedLast(app.store, app.session.tasks, max_jobs=1)
    worker.run()
    assert not worker.is_retiring


@pytest.mark.parametrize("is_supervised", [True, False])
def test_a_process_that_does_not_end_by_itself_is_replaced(
    tmp_path: Path, is_supervised: bool
) -> None:
    """C44, S0-92. Python waits for a thread of ``asyncio.to_thread``, however long it hangs."""
    marker = tmp_path / "marker"
    program = f"""
import asyncio, os, pathlib, sys, threading
from fencepost.clock import SystemClock
from fencepost.worker import retirement
marker = pathlib.Path({str(marker)!r})
if marker.exists():
    is_same = os.getpid() == int(marker.read_text())
    sys.exit(0 if is_same and os.getcwd() == {str(tmp_path)!r} else 1)
marker.write_text(str(os.getpid()))
retirement.RETIRED_PATIENCE = 0.1
made = retirement.Replacement(SystemClock(), is_supervised={is_supervised})
os.chdir("/")
async def main():
    asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
    made.watch()
asyncio.run(main())
"""
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, timeout=LONG, check=False)
    assert run.returncode == (REPLACE_CODE if is_supervised else 0)


async def test_processes_with_one_limit_do_not_retire_at_once() -> None:
    """Each has a limit of its own, at most a tenth lower than the one that was given."""
    shares = set()
    for seed in range(20):
        slots, clock = WorkerSlots(10, InFlight()), FakeClock(seed=seed)
        Retirement(
            slots,
            Shutdown("w", is_replaceable=True),
            clock,
            max_jobs=1_000,
            max_rss=None,
        )
        shares.add(slots.share)
    assert len(shares) > 10
    assert all(1_000 * (1 - RETIREMENT_JITTER) <= share <= 1_000 for share in shares)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512MB", 512 * 10**6),
        ("1.5 gib", 3 * 2**29),
        (256, 256 * 10**6),
        ("256", 256 * 10**6),
        ("20000KB", 20 * 10**6),
    ],
)
def test_a_size_is_read_as_people_write_it(text: object, size: int) -> None:
    assert parse_size(text, "max_rss", 1, 10**13) == size


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_jobs": 0}, "max_jobs must lie between 1 and"),
        ({"max_jobs": 1.5}, "max_jobs must lie between 1 and"),
        ({"max_rss": "much"}, "max_rss is a size such as 512MB or 2GB, got 'much'"),
        ({"max_rss": "512TB"}, "max_rss is a size such as"),
        ({"max_rss": -5}, "max_rss is a size such as"),
        ({"max_rss": True}, "max_rss is a size such as"),
        ({"max_rss": "1MB"}, "max_rss must lie between 10 MB and"),
        ({"max_rss": "10MB"}, "before its first job"),
    ],
)
def test_a_limit_that_is_none_is_refused(app: App, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        app.worker(**options)


def test_the_memory_of_this_process_is_known() -> None:
    before = resident_memory()
    ballast = bytearray(b"x" * 50_000_000)
    assert resident_memory() - before > 40_000_000
    del ballast
