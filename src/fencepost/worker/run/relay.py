"""The fast path for coroutines: attempts run one after the other in one task, until one waits.

A task for each job is expensive. A drain of no-op jobs by 100 slots on SQLite takes 44 µs of
processor time a job like this, and 64 µs with a task for each (medians of five); in the first
measurement, of decision 0010, a task took 14,000 to 18,000 of a job's 93,000 instructions. So one
task runs the first step of one attempt after the other. Most short handlers need no other step. If
a handler waits, the task stays with it, and another task runs the rest of the line.

Nothing outside this file depends on it: ``RunningAttempt.run`` is a plain coroutine, which could
also run in a task for itself.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from fencepost.clock import Clock
from fencepost.generators import rest_of
from fencepost.observe.log import current_job

if TYPE_CHECKING:
    from fencepost.worker.run.attempt import RunningAttempt
    from fencepost.worker.run.inflight import InFlightJob
    from fencepost.worker.run.slots import Reach

TURN = 0.005
"""Seconds for which short handlers run one after the other before the loop turns."""


class Relay:
    """The line of attempts whose coroutines have not begun, and the task that takes from it."""

    def __init__(self, clock: Clock, reach: Reach) -> None:
        self._clock = clock
        self._reach = reach
        self._loop = asyncio.get_running_loop()
        # Each attempt gets a copy: none inherits context variables of the one before.
        self._context = contextvars.copy_context()
        self._context.run(current_job.set, None)  # as each attempt leaves it
        self._line: deque[RunningAttempt] = deque()
        self._since = 0.0
        self._begun = 0
        """How many attempts of the line have begun since then."""
        self._has_task = False
        """Whether a task is about to take from the line, or is taking from it."""

    def run(self, attempts: Sequence[RunningAttempt]) -> None:
        """Run *attempts* soon, in their order."""
        if not self._line:
            self._since, self._begun = self._clock.monotonic(), 0
        self._line.extend(attempts)
        self._start_task()

    def urgency(self, more: Sequence[RunningAttempt] = ()) -> int | None:
        """Return the priority of the most urgent that has not begun, *more* included, if any."""
        return min((each.job.priority for each in chain(self._line, more)), default=None)

    def take_back(self) -> list[InFlightJob]:
        """Begin no more; return the jobs whose handlers have not begun."""
        left = [attempt.held for attempt in self._line]
        self._line.clear()
        return left

    def _start_task(self) -> None:
        """Start a task for the line, if it needs one."""
        if self._line and not self._has_task:
            self._has_task = True
            self._loop.create_task(self._run_line(), context=self._context.copy())

    async def _run_line(self) -> None:
        """Run attempts of the line one after the other; once one waits, another task goes on.

        The task runs another attempt only if that cannot notice: the last handler never waited,
        set no context variable, and did not cancel the task.
        """
        task = asyncio.current_task()
        assert task is not None
        context = contextvars.copy_context()
        turn_ends_at = self._clock.monotonic() + TURN
        has_waited = False
        try:
            while self._line:
                attempt = self._line.popleft()
                attempt.future = task
                running = attempt.run()
                try:
                    waits_for = running.send(None)
                except StopIteration:
                    if not attempt.has_begun:
                        continue  # it came too late to begin
                    self._begun += 1
                else:
                    self._begun += 1
                    has_waited = True
                    self._pass_on()
                    await rest_of(running, waits_for)
                    return
                is_changed = task.cancelling() or contextvars.copy_context() != context
                if is_changed or attempt.state.started_at >= turn_ends_at:
                    return
        finally:
            if not has_waited:
                self._pass_on()

    def _pass_on(self) -> None:
        """Leave the rest of the line to another task, in the loop's next turn."""
        if self._begun:
            self._reach.began(self._begun, self._clock.monotonic() - self._since)
        self._has_task = False
        self._start_task()
