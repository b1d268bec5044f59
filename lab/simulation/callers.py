"""Those outside of workers: callers who submit and wait, operators who steer. All by the App."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any, Literal

from msgspec.structs import replace

from fencepost import App
from fencepost.actions.options import Options, UsingOptions
from fencepost.core.flows.dependencies import Dependencies, Mode
from fencepost.core.job.job import NewJob
from fencepost.errors import FencepostError, StoreError
from fencepost.handles.job import AsyncJobHandle
from fencepost.handles.task import TaskHandle
from lab.simulation.handlers import QUEUES
from lab.simulation.history import Acknowledged, History
from lab.simulation.process import Process
from lab.simulation.scenes import Cast

CALLS_PER_SECOND = 0.45
STEERING_PAUSE = 4.0
REPEATS_MAX = 4
"""How often a caller submits again, under the same key, what may not have been stored."""
WINDOWS: tuple[float | Literal["active"], ...] = ("active", 5.0, 60.0)
SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((), (0,), (0,), (1, 2)),
    ((), (0,), (1,), (2,)),
    ((), (), (), (0, 1, 2)),
    ((), (0,)),
)
"""Graphs: for each job the places of those that it waits for."""
KEYS = 30
"""So few that callers get into each other's way."""


class Known:
    """The ids that callers were given: what operators steer by."""

    def __init__(self) -> None:
        self.ids: list[str] = []


class Caller:
    """Submits jobs of every kind, one by one and in bulk, and now and then waits for a result."""

    def __init__(
        self, app: App, process: Process, history: History, known: Known, cast: Cast
    ) -> None:
        self._app = app
        self._process = process
        self._history = history
        self._known = known
        self._cast = cast
        self._number = 0

    async def run(self) -> None:
        rng = self._process.clock.rng
        while True:
            await self._process.clock.sleep_async(rng.expovariate(CALLS_PER_SECOND))
            with suppress(FencepostError):
                if await self._did_something_else(rng):
                    continue
                draw = rng.random()
                if draw < 0.08:
                    await self._submit_many(rng)
                elif draw < 0.16:
                    await self._submit_graph(rng)
                else:
                    handle = await self._submit(rng)
                    if draw > 0.85:
                        await handle.result(timeout=rng.uniform(0.5, 10.0))

    async def _did_something_else(self, rng: Random) -> bool:
        """Do one of the deeds of the scene at times, and tell whether it was done."""
        for likely, deed in self._cast.deeds:
            if rng.random() < likely:
                await deed(self, rng)
                return True
        return False

    async def send(self, event: str, rng: Random) -> None:
        """Send an event, under a key at times, which is then sent again if there is doubt."""
        handle = self._app.event(event).aio
        number = self._next()
        if rng.random() < 0.5:
            sent = await handle.send(number=number)
        else:
            sent = await handle.send_idempotent(f"event-{rng.randrange(KEYS)}", number=number)
        for job in sent.jobs:
            self._acknowledge(job)

    async def submit_with_callback(self, url: str, rng: Random) -> None:
        new = self._task(rng).using(**_options(rng, keys=False)).prepare(self._next())
        jobs = [replace(new, callback_url=url)]
        for handle in await self._app.aio.submit_many(jobs):
            self._acknowledge(handle)

    async def submit_bulk(self, name: str, count: int) -> None:
        """Submit many jobs of one task at once."""
        session = self._app.session
        task = TaskHandle[..., Any](session, session.task(name), Options())
        jobs = [task.prepare(self._next()) for _ in range(count)]
        for handle in await self._app.aio.submit_many(jobs):
            self._acknowledge(handle)

    async def _submit(self, rng: Random) -> AsyncJobHandle[Any]:
        options = _options(rng)
        task = self._task(rng).using(**options)
        number = self._next()
        for _ in range(REPEATS_MAX):
            try:
                return self._acknowledge(await task.aio.submit(number))
            except StoreError:
                if "key" not in options:
                    raise  # submitted again, it might be there twice
                await self._process.clock.sleep_async(rng.uniform(0.1, 3.0))
        return self._acknowledge(await task.aio.submit(number))

    async def _submit_many(self, rng: Random) -> None:
        jobs: list[NewJob] = [
            self._task(rng).using(**_options(rng, keys=False)).prepare(self._next())
            for _ in range(rng.randint(2, 8))
        ]
        for handle in await self._app.aio.submit_many(jobs):
            self._acknowledge(handle)

    async def _submit_graph(self, rng: Random) -> None:
        """Submit a diamond or a chain, at times behind jobs that are stored already."""
        shape = rng.choice(SHAPES)
        known = self._known.ids[-20:]
        stored = [rng.choice(known)] if known and rng.random() < 0.3 else []
        jobs: list[NewJob] = []
        for places in shape:
            new = self._task(rng).using(**_options(rng, keys=False)).prepare(self._next())
            on: tuple[str | int, ...] = places or tuple(stored)
            mode = rng.choice((Mode.ALL, Mode.ALL, Mode.ANY, Mode.ENDED))
            after = Dependencies(on, mode, gathers=rng.random() < 0.5) if on else None
            jobs.append(replace(new, after=after))
        for handle in await self._app.aio.submit_many(jobs):
            self._acknowledge(handle)

    def _task(self, rng: Random) -> TaskHandle[..., Any]:
        (name,) = rng.choices(list(self._cast.weights), list(self._cast.weights.values()))
        session = self._app.session
        return TaskHandle(session, session.task(name), Options())

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _acknowledge(self, handle: AsyncJobHandle[Any]) -> AsyncJobHandle[Any]:
        at = self._process.main.time()
        self._history.add(Acknowledged(at, self._process.name, handle.id))
        self._known.ids.append(handle.id)
        return handle


def _options(rng: Random, *, keys: bool = True) -> UsingOptions:
    options: UsingOptions = {}
    if rng.random() < 0.2:
        options["delay"] = rng.uniform(0.0, 8.0)
    if rng.random() < 0.2:
        options["priority"] = rng.choice(["high", "low", "bulk"])
    if keys and rng.random() < 0.35:
        options["key"] = f"key-{rng.randrange(KEYS)}"
        options["key_window"] = rng.choice(WINDOWS)
        options["on_duplicate"] = "return" if rng.random() < 0.5 else "reject"
    return options


class Operator:
    """Cancels, retries, replays, pauses, resumes and limits at random."""

    def __init__(self, app: App, process: Process, known: Known) -> None:
        self._app = app
        self._process = process
        self._known = known

    async def run(self) -> None:
        rng = self._process.clock.rng
        deeds = (
            self._cancel,
            self._cancel,
            self._retry,
            self._replay,
            self._pause,
            self._limit,
            self._edit,
        )
        while True:
            await self._process.clock.sleep_async(rng.expovariate(1 / STEERING_PAUSE))
            with suppress(FencepostError):
                await rng.choice(deeds)(rng)

    def _pick(self, rng: Random) -> str:
        """Return a job, of late more likely than not."""
        ids = self._known.ids[-40:] if rng.random() < 0.8 else self._known.ids
        return rng.choice(ids) if ids else "none"

    async def _cancel(self, rng: Random) -> None:
        await self._app.aio.jobs.cancel(self._pick(rng))

    async def _retry(self, rng: Random) -> None:
        for letter in await self._app.aio.dead_letters.list(limit=2):
            await self._app.aio.jobs.retry(
                letter.job_id, reset_attempts=rng.random() < 0.5, delay=rng.choice([0, 2.0])
            )
        await self._app.aio.jobs.retry(self._pick(rng))

    async def _replay(self, rng: Random) -> None:
        for letter in await self._app.aio.dead_letters.list(limit=3):
            await self._app.aio.dead_letters.replay(letter.job_id)

    async def _pause(self, rng: Random) -> None:
        queue = rng.choice(QUEUES)
        await self._app.aio.queues.pause(queue)
        await self._process.clock.sleep_async(rng.uniform(0.5, 8.0))
        await self._until_done(lambda: self._app.aio.queues.resume(queue))

    async def _limit(self, rng: Random) -> None:
        bound = rng.choice([None, 1, 2, 4])
        if rng.random() < 0.4:
            await self._app.aio.limit(max_running=bound)
        else:
            await self._app.aio.queues.limit(rng.choice(QUEUES), max_running=bound)

    async def _edit(self, rng: Random) -> None:
        await self._app.aio.jobs.edit(self._pick(rng), priority="high")

    async def _until_done(self, deed: Any) -> None:
        for _ in range(REPEATS_MAX):
            try:
                await deed()
            except StoreError:
                await self._process.clock.sleep_async(1.0)
            else:
                return
