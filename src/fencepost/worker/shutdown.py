"""How a run of a worker ends: what has begun finishes within grace, then it is interrupted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from fencepost.core.bounds import FAREWELL, HURRIED_FAREWELL, INTERRUPT_GRACE, THREADS_FAREWELL
from fencepost.observe import names
from fencepost.observe.log import log

if TYPE_CHECKING:
    from fencepost.worker.pipeline import Pipeline
    from fencepost.worker.run.attempt import RunningAttempt


class Shutdown:
    """Whether a run is to end, and how fast. For the loop's thread."""

    def __init__(self, worker: str, *, is_replaceable: bool) -> None:
        self.is_stopping = False
        self.requests = 0
        """How often ``stop`` has been called."""
        self.cancels = 0
        """How often the run has been cancelled."""
        self.is_retiring = False
        """Whether it ends because a thread could not be stopped, and wants another in its place."""
        self._worker = worker
        self._is_replaceable = is_replaceable

    @property
    def haste(self) -> int:
        """0: what runs may finish within grace; 1: it is interrupted now; 2: nothing is awaited."""
        return 2 if self.requests > 1 else min(self.cancels, 2)

    def is_hasty(self) -> bool:
        return self.haste > 0

    def is_hurried(self) -> bool:
        return self.haste > 1

    def retire(self, attempt: RunningAttempt, running: int) -> bool:
        """Have the process end when its other jobs are done, because a thread did not stop.

        Return False if nobody would start another in its place, or if it ends anyway.
        """
        if self.is_stopping or not self._is_replaceable:
            return False
        self.is_retiring = True
        log(
            names.WORKER_RETIRING,
            level=logging.WARNING,
            worker=self._worker,
            id=attempt.job.id,
            type=attempt.job.type,
            running=running,
        )
        return True

    async def see_through(self, task: asyncio.Task[None], stop: Callable[[], None]) -> None:
        """Wait for *task* although we are cancelled; call *stop* then, and the second time hurry.

        What it raises is raised here, unless we are cancelled: that goes first.
        """
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                self.cancels += 1
                stop()
                if self.cancels > 1 and task.get_name() == "fencepost-work":
                    task.cancel()  # it waits for a store that does not answer
        if not task.cancelled() and not self.cancels:
            task.result()


async def drain(pipeline: Pipeline, grace: float, settling: asyncio.Task[None]) -> None:
    """Let what has begun finish within grace, then release it."""
    shutdown, executor = pipeline.shutdown, pipeline.executor
    running = pipeline.slots.running
    log(names.WORKER_STOPPING, worker=pipeline.worker, running=len(running))
    if shutdown.cancels and (unseen := await pipeline.claimer.unseen()) is not None:
        pipeline.slots.taken += len(unseen.held)
        executor.give_back(unseen.held)
    if shutdown.is_retiring:
        # Nobody has asked for it: every other job has the time that its own timeout gives it.
        await _until_quiet(pipeline, None, lambda: shutdown.requests > 0 or shutdown.is_hasty())
        shutdown.is_retiring = not shutdown.requests and not shutdown.cancels
    await _until_quiet(pipeline, grace, shutdown.is_hasty)
    for attempt in list(running.values()):
        attempt.interrupt("shutdown")
        if shutdown.is_hasty():
            executor.stop_thread(attempt)
    wait = INTERRUPT_GRACE if shutdown.cancels else min(INTERRUPT_GRACE, grace)
    await _until_quiet(pipeline, wait, shutdown.is_hurried)
    for attempt in list(running.values()):
        executor.stop_thread(attempt)
    # Also in a hurry: what was interrupted just now needs a turn of the loop to end.
    farewell = HURRIED_FAREWELL if shutdown.is_hurried() else THREADS_FAREWELL
    await _until_quiet(pipeline, farewell, lambda: False)
    for attempt in list(running.values()):
        executor.give_up(attempt, "shutdown")
    await _until_settled(pipeline, grace, settling)


async def _until_quiet(
    pipeline: Pipeline, seconds: float | None, is_over: Callable[[], bool]
) -> None:
    """Wait until nothing runs, for *seconds* at most, or until *is_over*."""
    slots = pipeline.slots
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while slots.running and not is_over():
                slots.quiet.clear()
                await slots.quiet.wait()


async def _until_settled(pipeline: Pipeline, grace: float, settling: asyncio.Task[None]) -> None:
    """Wait for the last settlements to be recorded; leases cover what the store refuses."""
    settler, concluder = pipeline.settler, pipeline.executor.concluder
    with suppress(TimeoutError):
        async with asyncio.timeout(max(grace, 1.0)) as limit:
            is_hurried = False
            while not (concluder.is_idle and settler.is_idle):
                if pipeline.shutdown.is_hurried() and not is_hurried:
                    is_hurried = True
                    limit.reschedule(asyncio.get_running_loop().time() + FAREWELL)
                if settling.done():  # a loop that is being closed has cancelled all tasks
                    await settler.step()
                else:
                    await pipeline.store.clock.sleep_async(0.005)
