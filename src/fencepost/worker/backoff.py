"""Backoff functions of an app's tasks, which are asked at every failure (S1-55).

A job names the function of its policy. It is asked where it is the one of its task here. Where the
code is another, or none, the delays count that were worked out when the policy was made, as they do
in the store for a lease that ran out (decision 0032).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from fencepost.core.job.outcome import Standing
from fencepost.core.job.retry import backoff_name
from fencepost.core.job.task import Task
from fencepost.core.values.duration import parse_duration
from fencepost.observe import names
from fencepost.observe.log import log


class Failing(Standing, Protocol):
    """A job whose attempt has failed."""

    @property
    def id(self) -> str: ...
    @property
    def type(self) -> str: ...


class Backoffs:
    """Asks the function of a job's task how long it is to wait."""

    def __init__(self, tasks: Mapping[str, Task]) -> None:
        self._tasks = tasks

    def __call__(self, job: Failing) -> float | None:
        """Return the seconds to wait after the present attempt; None if nobody is to be asked.

        A function that raises, or answers nonsense, does not keep the failure from being recorded.
        """
        backoff, task = job.policy.backoff, self._tasks.get(job.type)
        function = None if task is None else task.backoff
        if function is None or backoff.function != backoff_name(function):
            return None
        try:
            answer = function(max(job.attempt, 1), backoff.initial_delay, backoff.max_delay)
            return parse_duration(answer, name="backoff")
        except Exception as error:  # noqa: BLE001 - the user's code
            log(
                names.BACKOFF_FAILED,
                level=logging.WARNING,
                id=job.id,
                type=job.type,
                error=repr(error),
            )
            return None
