"""Heartbeats end with what they keep alive: after a timeout, a cancel, a lost lease, a shutdown.

The handlers do not heed their interruption: one that stays must not keep its lease. Whether
heartbeats have ended is seen by those of a bystander that go on; nothing is judged by a pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self, TypeVar

import pytest
from tests.worker.flaky import FlakyStore, nothing, only
from tests.worker.support import eventually, take_leases_away, working

from fencepost import App, Context, JobHandle, State
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation

T = TypeVar("T")

TTL = 1
"""A heartbeat every third of a second."""
MORE = 3
"""Heartbeats of a bystander among which there would be one of the other job."""


class Listening(FlakyStore):
    """Notes for which leases it is asked to heartbeat."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.beats: list[str] = []

    def run(self, operation: Operation[T]) -> T:
        self._note(operation)
        return super().run(operation)

    async def run_async(self, operation: Operation[T]) -> T:
        self._note(operation)
        return await super().run_async(operation)

    def _note(self, operation: Operation[Any]) -> None:
        if operation.is_a(QueueFacet.heartbeat):
            self.beats += [beat.token for beat in operation.given[0]]


class Scene:
    """Jobs that stay until they are told to go."""

    def __init__(self, app: App) -> None:
        self.store = Listening(app.store)
        # Over it, another app, so that nothing is asked that is not noted.
        self.app = App(app.url, store=self.store)  # type: ignore[arg-type]  # a store in effect
        self.is_over = asyncio.Event()
        self.contexts: list[Context] = []
        self.stays = self.app.task(name="stays")(self.stay)
        self.timed = self.app.task(name="timed", timeout=0.5)(self.stay)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.is_over.set()  # whatever the test found: nothing else ends these handlers

    async def stay(self, ctx: Context) -> None:
        self.contexts.append(ctx)
        while not self.is_over.is_set():
            try:
                await self.is_over.wait()
            except asyncio.CancelledError:
                continue  # as a handler might that catches everything

    async def started(self, job: JobHandle[Any], number: int = 1) -> str:
        """Return the token of an attempt's lease, once the attempt has started."""

        def look() -> str | None:
            found = [ctx for ctx in self.contexts if ctx.job_id == job.id]
            return found[number - 1].lease.token if len(found) >= number else None

        return await eventually(look, "a start")

    async def is_left_alone(self, token: str, *, beside: str) -> bool:
        """Tell whether one lease is no longer heartbeated while another is."""
        start = len(self.store.beats)
        await eventually(lambda: self.store.beats[start:].count(beside) >= MORE, "heartbeats")
        return token not in self.store.beats[start:]


def wait_for_its_timeout(scene: Scene, job: JobHandle[Any]) -> None:
    """It has one of half a second."""


def cancel(scene: Scene, job: JobHandle[Any]) -> None:
    job.cancel()


@pytest.mark.parametrize(
    ("name", "end", "reason"),
    [("timed", wait_for_its_timeout, "timeout"), ("stays", cancel, "cancelled")],
)
async def test_a_handler_that_outstays_its_attempt_is_not_heartbeated(
    sqlite_app: App, name: str, end: Callable[[Scene, JobHandle[Any]], None], reason: str
) -> None:
    """S0-83, S2-35: its slot and its task may be gone for good, its lease is not."""
    async with Scene(sqlite_app) as scene:
        job = getattr(scene, name).submit()
        bystander = scene.stays.submit()
        async with working(scene.app, lease_ttl=TTL, concurrency=2, grace=0.1):
            other = await scene.started(bystander)
            token = await scene.started(job)
            end(scene, job)
            [ctx] = [ctx for ctx in scene.contexts if ctx.lease.token == token]
            await eventually(lambda: ctx.cancel_reason, "its interruption")
            await eventually(lambda: job.refresh().state is not State.RUNNING, "its end")
            assert await scene.is_left_alone(token, beside=other)
        assert ctx.cancel_reason == reason


async def test_a_handler_that_outstays_its_lease_is_not_heartbeated(sqlite_app: App) -> None:
    """S0-83, S2-9: one refusal is enough."""
    async with Scene(sqlite_app) as scene:
        job = scene.stays.submit()
        async with working(scene.app, lease_ttl=TTL, concurrency=2, grace=0.1):
            token = await scene.started(job)
            take_leases_away(sqlite_app)
            bystander = scene.stays.submit()
            await eventually(lambda: scene.contexts[0].cancel_reason, "its interruption")
            assert await scene.is_left_alone(token, beside=await scene.started(bystander))
        assert scene.contexts[0].cancel_reason == "lease_lost"


async def test_a_handler_that_outstays_its_worker_is_not_heartbeated(app: App) -> None:
    """S0-83: it goes to the next worker, and runs there under another lease."""
    async with Scene(app) as scene:
        job = scene.stays.submit()
        async with working(scene.app, lease_ttl=TTL, grace=0.1):
            token = await scene.started(job)
        assert scene.contexts[0].cancel_reason == "shutdown"
        assert job.refresh().state is State.SCHEDULED
        async with working(scene.app, lease_ttl=TTL, grace=0.1):
            assert await scene.is_left_alone(token, beside=await scene.started(job, 2))


async def test_a_job_that_could_not_be_given_back_is_not_heartbeated(app: App) -> None:
    """S0-83, S2-36: the store was away at the shutdown; the lease runs out, and others take it."""
    async with Scene(app) as scene:
        job = scene.stays.submit()
        async with working(scene.app, lease_ttl=TTL, grace=0.1):
            token = await scene.started(job)
            scene.store.is_away = only(QueueFacet.settle)
        assert job.refresh().state is State.RUNNING
        scene.store.is_away = nothing
        bystander = scene.stays.submit()
        async with working(scene.app, lease_ttl=TTL, grace=0.1, concurrency=2):
            assert await scene.is_left_alone(token, beside=await scene.started(bystander))
            assert await scene.started(job, 2) != token
