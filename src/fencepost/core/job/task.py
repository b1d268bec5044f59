"""A task: the user's function and the settings under which its jobs are submitted and run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fencepost.core.job.policy import DEFAULT_POLICY, CustomBackoff, Policy, Priority
from fencepost.core.job.retryable import ExceptionRule
from fencepost.core.job.timeouts import Retention
from fencepost.core.limits.concurrency import KeyRule
from fencepost.core.limits.type_limits import NO_LIMITS, TypeLimits
from fencepost.core.values.names import DEFAULT_QUEUE, check_choice
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
    """How long its jobs are kept; None: as long as the app's others."""
    limits: TypeLimits = NO_LIMITS
    event: str | None = None
    """The pattern of the events that this task handles."""
    concurrency_key: KeyRule | None = None
    """Derives the concurrency key of a job from its arguments."""
    backoff: CustomBackoff | None = None
    """The custom function of its policy, if there is one."""
    rule: ExceptionRule | None = None
    """Which exceptions are retried, if not all are."""
    batch: int | None = None
    """How many jobs its handler takes at once, at most; None: it takes one, and no list."""
    batch_wait: float = 0.0
    """How long a job waits for others, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTask:
    """A type that this app does not register; only other workers run it."""

    type: str
    policy: Policy = DEFAULT_POLICY
    queue: str = DEFAULT_QUEUE
    priority: Priority = Priority.NORMAL


def check_function(function: Callable[..., Any]) -> None:
    """Raise ConfigurationError for a method: a worker has no object to call it on."""
    if isinstance(function, (staticmethod, classmethod)):
        kind = type(function).__name__
        raise ConfigurationError(
            f"@app.task cannot take a {kind}; "
            + ("put @staticmethod above @app.task" if kind == "staticmethod" else _PLAIN)
        )
    owner, _, name = getattr(function, "__qualname__", "").rpartition(".")
    first = next(iter(inspect.signature(function).parameters), None)
    is_method = owner and not owner.endswith("<locals>") and first in ("self", "cls")
    if is_method and not inspect.ismethod(function):
        raise ConfigurationError(f"{owner}.{name}() is a method, and cannot be a task; {_PLAIN}")


_PLAIN = (
    "a worker has no object to call it on. Write a function at module level whose arguments say "
    "what it needs (such as an id), and let it make the object and call the method"
)


def isolation_of(
    function: Callable[..., Any], requested: str | None, *, is_batch: bool = False
) -> Isolation:
    """Return where *function* runs, or raise ConfigurationError if it cannot run there."""
    is_async = inspect.iscoroutinefunction(function)
    if requested is None:
        return Isolation.LOOP if is_async else Isolation.THREAD
    isolation = check_choice(requested, "isolation", Isolation)
    if isolation is Isolation.LOOP and not is_async:
        raise ConfigurationError('isolation="loop" needs an `async def`; a `def` would block it')
    if isolation is Isolation.THREAD and is_async:
        raise ConfigurationError('an `async def` runs on the loop or with isolation="process"')
    if isolation is Isolation.PROCESS and is_batch:
        raise ConfigurationError(
            'batch= cannot be combined with isolation="process"; leave out one'
        )
    if isolation is Isolation.PROCESS:
        _check_importable(function)
    return isolation


def _check_importable(function: Callable[..., Any]) -> None:
    if "<locals>" in function.__qualname__ or "<lambda>" in function.__qualname__:
        raise ConfigurationError(
            f'isolation="process" needs a function at module level, which the child process can '
            f"import; {function.__qualname__} is not"
        )
