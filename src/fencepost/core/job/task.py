"""A task: the user's function and the settings under which its jobs are submitted and run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fencepost.core.job.policy import DEFAULT_POLICY, Policy
from fencepost.core.job.priority import Priority
from fencepost.core.job.retry import CustomBackoff
from fencepost.core.limits.concurrency import KeyRule
from fencepost.core.limits.rates import Rate
from fencepost.core.retention import Retention
from fencepost.core.values.names import DEFAULT_QUEUE
from fencepost.core.values.signature import Signature
from fencepost.errors import ConfigurationError


class Isolation(StrEnum):
    """Where a handler runs."""

    LOOP = "loop"
    """On the worker's event loop: ``async def``."""
    THREAD = "thread"
    """In a thread: ``def``. It cannot be killed."""
    PROCESS = "process"
    """In a child process, which is killed at its timeout, on cancel and on a lost lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What an app registers under a type, and what a worker runs."""

    type: str
    function: Callable[..., Any]
    signature: Signature
    isolation: Isolation
    queue: str = DEFAULT_QUEUE
    priority: Priority = Priority.NORMAL
    policy: Policy = DEFAULT_POLICY
    retention: Retention | None = None
    """How long its jobs are kept, if not as long as the app's others."""
    rate: Rate | None = None
    """How often its jobs may start, over all workers; None: as often as there are slots."""
    event: str | None = None
    """The pattern of the events for which jobs of this task are made."""
    concurrency_key: KeyRule | None = None
    """Finds the concurrency key of a job in its arguments."""
    backoff: CustomBackoff | None = None
    """The function of its policy that is asked at every failure; None: there is none."""

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTask:
    """A type that this app does not register: only its workers know what it does."""

    type: str
    policy: Policy = DEFAULT_POLICY
    queue: str = DEFAULT_QUEUE
    priority: Priority = Priority.NORMAL


def isolation_of(function: Callable[..., Any], requested: str | None) -> Isolation:
    """Return where *function* runs, or raise ConfigurationError if it cannot run there."""
    is_async = inspect.iscoroutinefunction(function)
    if requested is None:
        return Isolation.LOOP if is_async else Isolation.THREAD
    try:
        isolation = Isolation(requested)
    except ValueError:
        raise ConfigurationError(
            f'isolation must be "thread", "loop" or "process", got {requested!r}'
        ) from None
    if isolation is Isolation.LOOP and not is_async:
        raise ConfigurationError('isolation="loop" needs an `async def`; a `def` would block it')
    if isolation is Isolation.THREAD and is_async:
        raise ConfigurationError('an `async def` runs on the loop or with isolation="process"')
    if isolation is Isolation.PROCESS:
        _check_importable(function)
    return isolation


def _check_importable(function: Callable[..., Any]) -> None:
    if "<locals>" in function.__qualname__ or "<lambda>" in function.__qualname__:
        raise ConfigurationError(
            f'isolation="process" needs a function at module level, which the child process can '
            f"import; {function.__qualname__} is not"
        )
