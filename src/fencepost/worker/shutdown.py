"""How a run of a worker ends: running jobs finish within grace, then they are interrupted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fencepost.core.bounds import FAREWELL, HURRIED_FAREWELL, INTERRUPT_GRACE, THREADS_FAREWELL
from fencepost.core.values.times import format_duration
from fencepost.observe import names
from fencepost.observe.log import log, log_job, write

if TYPE_CHECKING:
    from fencepost.worker.pipeline import Pipeline
    from fencepost.worker.run.attempt import RunningAttempt
    from fencepost.worker.run.slots import WorkerSlots


class Shutdown:
    """Whether a run is to end, and how fast. For the loop's thread."""

    def __init__(self, worker: str, *, is_replaceable: bool) -> None:
        self.is_stopping = False
        self.requests = 0
        """How often ``stop`` has been called."""
        self.cancels = 0
        """How often the run has been cancelled."""
        self._retires = False
        self._worker = worker
        self._is_replaceable = is_replaceable

    @property
    def is_retiring(self) -> bool:
        """Whether the process ends to be replaced; a stop by a user takes precedence."""
        return self._retires and not self.requests and not self.cancels

    @property
    def haste(self) -> int:
        """0: running jobs may finish within grace; 1: interrupt them now; 2: wait for nothing."""
        return 2 if self.requests > 1 else min(self.cancels, 2)

    def is_hasty(self) -> bool:
        return self.haste > 0

    def is_hurried(self) -> bool:
        return self.haste > 1

    def retire(self, attempt: RunningAttempt, running: int) -> bool:
        """End the process when its other jobs are done, because a thread did not stop.

        Return False if it would not be replaced, or if it ends anyway.
        """
        if self.is_stopping or not self._is_replaceable:
            return False
        self._retires = True
        about = {"worker": self._worker, "reason": "stuck_thread", "running": running}
        log_job(names.WORKER_RETIRING, attempt.job, level=logging.WARNING, **about)
        return True

    def retire_at_limit(self, reason: str, slots: WorkerSlots, **about: Any) -> None:
        """End the run once its jobs have ended: the process has reached a limit."""
        jobs, slots.share = slots.turn, 0
        if not self._retires and not self.is_stopping:
            self._retires = True
            about |= {"reason": reason, "jobs": jobs, "running": len(slots.running)}
            log(names.WORKER_RETIRING, worker=self._worker, **about)

    async def see_through(self, task: asyncio.Task[None], stop: Callable[[], None]) -> None:
        """Wait for *task* also when cancelled; call *stop* then, and hurry the second time.

        Its exception is raised here, unless the run was cancelled.
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
    """Let running jobs finish within grace, then interrupt and release them."""
    shutdown, executor = pipeline.shutdown, pipeline.executor
    running = pipeline.slots.running
    _log_stop(pipeline, grace)
    if shutdown.cancels and (unseen := await pipeline.claimer.unseen()) is not None:
        pipeline.slots.taken += len(unseen.held)
        executor.give_back(unseen.held)
    if shutdown.is_retiring:
        # Not stopped by a user: every other job may run until its own timeout.
        await _until_quiet(pipeline, None, lambda: shutdown.requests > 0 or shutdown.is_hasty())
    await _until_quiet(pipeline, grace, shutdown.is_hasty)
    for attempt in list(running.values()):
        attempt.interrupt("shutdown")
        if shutdown.is_hasty():
            executor.stop_thread(attempt)
    wait = INTERRUPT_GRACE if shutdown.cancels else min(INTERRUPT_GRACE, grace)
    await _until_quiet(pipeline, wait, shutdown.is_hurried)
    for attempt in list(running.values()):
        executor.stop_thread(attempt)
    # Also in a hurry: a handler that was just interrupted needs a turn of the loop to end.
    farewell = HURRIED_FAREWELL if shutdown.is_hurried() else THREADS_FAREWELL
    await _until_quiet(pipeline, farewell, lambda: False)
    for attempt in list(running.values()):
        executor.give_up(attempt, "shutdown")
    await _until_settled(pipeline, grace, settling)


def _log_stop(pipeline: Pipeline, grace: float) -> None:
    """Log that it stops, and what becomes of running jobs."""
    worker, running = pipeline.worker, len(pipeline.slots.running)
    text = f"worker {worker} stops"
    if running and pipeline.shutdown.is_retiring:
        text += f" when its running jobs have ended: {running}"
    elif running:
        text += (
            f": running jobs ({running}) may finish within {format_duration(grace)}, then they are "
            f"given back; a second Ctrl-C or SIGTERM gives them back at once"
        )
    fields = {"worker": worker, "running": running}
    write(names.WORKER_STOPPING, fields, level=logging.INFO, text=text)


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
    """Wait until the last settlements are recorded; what is not comes back by its lease.

    Grace is for a stop by a user: a process that retires waits for as long as leases may last.
    """
    settler, concluder = pipeline.settler, pipeline.executor.concluder
    shutdown, now = pipeline.shutdown, asyncio.get_running_loop().time
    grace = max(grace, 1.0)
    is_retiring, is_hurried = shutdown.is_retiring, False
    with suppress(TimeoutError):
        longest = max(grace, pipeline.lease_ttl) if is_retiring else grace
        async with asyncio.timeout(longest) as limit:
            while not (concluder.is_idle and settler.is_idle):
                if is_retiring and not shutdown.is_retiring:
                    is_retiring = False
                    limit.reschedule(now() + grace)
                if shutdown.is_hurried() and not is_hurried:
                    is_hurried = True
                    limit.reschedule(now() + FAREWELL)
                if settling.done():  # a loop that is being closed has cancelled all tasks
                    await settler.step()
                else:
                    await pipeline.store.clock.sleep_async(0.005)
