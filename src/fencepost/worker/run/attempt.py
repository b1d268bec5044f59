"""One attempt: a handler called under a lease, until it ends, in whatever way it ends first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fencepost.core.job.failure import timed_out
from fencepost.core.job.job import ClaimedJob
from fencepost.core.job.outcome import Outcome, Released
from fencepost.core.job.task import Task
from fencepost.store.interruption import Interruptible
from fencepost.worker.run.context import CancelReason, Context

OnEnd = Callable[["RunningAttempt", "Outcome | None"], None]
Stop = Callable[["RunningAttempt", CancelReason], bool]
"""Stops an attempt's handler; returns True if that has surely ended it."""


class RunningAttempt:
    """A started attempt. It ends once: by its handler, or by an interruption that outruns it."""

    __slots__ = (
        "_on_end",
        "_stop",
        "context",
        "future",
        "has_ended",
        "has_returned",
        "job",
        "started_at",
        "task",
        "thread",
        "timer",
    )

    def __init__(
        self,
        task: Task,
        job: ClaimedJob,
        context: Context,
        started_at: float,
        on_end: OnEnd,
        stop: Stop,
    ) -> None:
        self.task = task
        self.job = job
        self.context = context
        self.started_at = started_at
        self.has_ended = False
        self.has_returned = False
        """False while the handler still occupies its slot, be the attempt over or not."""
        self.timer: asyncio.TimerHandle | None = None
        self.future: asyncio.Future[Any] | None = None
        self.thread: Interruptible | None = None
        """What stops its thread, if it runs in one."""
        self._on_end = on_end
        self._stop = stop

    def end(self, outcome: Outcome | None) -> None:
        """Deliver the outcome, unless one has been delivered; None means nothing may be written."""
        if self.has_ended:
            return
        self.has_ended = True
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self._on_end(self, outcome)

    def outcome_of_interruption(self) -> Outcome | None:
        """Return what an interruption means; a lost or cancelled job is not ours to settle."""
        match self.context.cancel_reason:
            case "timeout":
                return timed_out(self.job.policy.timeout)
            case "shutdown":
                return Released()
            case _:
                return None

    def interrupt(self, reason: CancelReason) -> None:
        """Ask the handler to stop, and end the attempt at once if it surely has."""
        if self.has_ended:
            return
        self.context.interrupt(reason)
        if self._stop(self, reason):
            self.end(self.outcome_of_interruption())

    def give_up(self) -> None:
        """End the attempt although its handler goes on: it did not heed the interruption."""
        self.end(self.outcome_of_interruption())
