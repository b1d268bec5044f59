"""How long to wait before a failed job is retried, or an unavailable store is called again."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from random import Random
from typing import Protocol

from fencepost.core.bounds import STORE_RETRY_DELAY_MAX
from fencepost.core.job.outcome import Standing
from fencepost.core.job.policy import backoff_name
from fencepost.core.job.task import Task
from fencepost.core.values.times import parse_duration
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import LoggedJob, log_job, write

FIRST_DELAY = 0.05


class Failing(Standing, LoggedJob, Protocol):
    """A job whose attempt has failed."""


class Backoffs:
    """Calls the backoff functions of an app's tasks, at every failure (S1-55).

    A job names the function of its policy. It is called if the task here has the same. If the code
    has another, or none, the delays apply that were computed when the policy was made, as they do
    in the store for a lease that ran out (decision 0032).
    """

    def __init__(self, tasks: Mapping[str, Task]) -> None:
        self._tasks = tasks

    def __call__(self, job: Failing) -> float | None:
        """Return the seconds to wait after the present attempt; None if there is no function.

        A function that raises or returns nonsense does not keep the failure from being recorded.
        """
        backoff, task = job.policy.backoff, self._tasks.get(job.type)
        function = None if task is None else task.backoff
        if function is None or backoff.function != backoff_name(function):
            return None
        try:
            answer = function(max(job.attempt, 1), backoff.initial_delay, backoff.max_delay)
            return parse_duration(answer, name="backoff")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code
            log_job(names.BACKOFF_FAILED, job, level=logging.WARNING, error=repr(error))
            return None


class StoreBackoff:
    """Jittered delays that double up to a bound, and start again after a success."""

    def __init__(self, what: str, counters: Counters, rng: Random) -> None:
        self._what = what
        self._counters = counters
        self._rng = rng
        self.failures = 0
        """In a row."""

    def failed(self, error: BaseException) -> float:
        """Note a failure and return how long to wait before trying again."""
        self.failures += 1
        self._counters.add(names.STORE_UNAVAILABLE, during=self._what)
        level = logging.WARNING if self.failures in (1, 10, 100) else logging.DEBUG
        about = {"during": self._what, "failures": self.failures, "error": str(error)}
        text = f"the store is unavailable ({self._what}): {error}; it is tried again"
        write(names.STORE_UNAVAILABLE, about, level=level, text=text)
        longest = min(FIRST_DELAY * 2 ** min(self.failures, 10), STORE_RETRY_DELAY_MAX)
        return self._rng.uniform(longest / 2, longest)

    def succeeded(self) -> None:
        """Note that the store has answered, and log it if it had not before."""
        if self.failures:
            about = {"during": self._what, "failures": self.failures}
            text = f"the store answers again ({self._what}, after {self.failures} failures)"
            write(names.STORE_AVAILABLE, about, level=logging.INFO, text=text)
            self.failures = 0
