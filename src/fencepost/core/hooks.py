"""Hooks: functions of an app that workers and submissions call around its jobs."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple, Protocol, TypeVar, overload

from msgspec.structs import replace

from fencepost.core.display import shown
from fencepost.core.job.idempotency import Key, check_key
from fencepost.core.job.job import Body, Failure, NewJob
from fencepost.core.job.policy import Policy, parse_priority
from fencepost.core.job.timeouts import check_run_at
from fencepost.core.limits.concurrency import limit_of
from fencepost.core.values.names import (
    check_concurrency_key,
    check_correlation_id,
    check_own_type,
    check_queue,
    check_tags,
    reserved_tags,
)
from fencepost.core.values.times import parse_duration
from fencepost.core.webhooks.callback import parse_callback_url
from fencepost.errors import ConfigurationError, FencepostError, InvalidJobError

F = TypeVar("F", bound=Callable[..., Any])
Lifespan = Callable[[], AbstractAsyncContextManager[Any]]


class FailedAttempt(NamedTuple):
    """How an attempt failed, for ``on_failure`` and ``on_dead_letter``."""

    failure: Failure
    will_retry: bool
    retry_in: float | None
    """Seconds until the next attempt, if there is one."""
    error: BaseException | None
    """What the handler raised; None after a timeout, or if its process died."""


class Hook(NamedTuple):
    """A function, and the jobs that it is for."""

    function: Callable[..., Any]
    types: frozenset[str] | None = None
    queues: frozenset[str] | None = None

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__qualname__", self.function))

    def concerns(self, type: str, queue: str) -> bool:
        """Return whether it is called for jobs of this type on this queue."""
        is_type = self.types is None or type in self.types
        return is_type and (self.queues is None or queue in self.queues)


class Hooks:
    """All hooks of an app, in the order in which they were declared."""

    def __init__(self) -> None:
        self.around: list[Hook] = []
        self.on_failure: list[Hook] = []
        self.on_dead_letter: list[Hook] = []
        self.on_submit: list[Hook] = []
        self.lifespan: Lifespan | None = None

    @asynccontextmanager
    async def entered(self) -> AsyncIterator[Any]:
        """Enter the lifespan, if there is one; its value is that of the block."""
        if self.lifespan is None:
            yield None
            return
        async with self.lifespan() as value:
            yield value

    def chain(self, type: str, queue: str) -> list[Hook]:
        """Return what is called around an attempt, the outermost first."""
        return [hook for hook in self.around if hook.concerns(type, queue)]

    def after_failure(self, type: str, queue: str, *, is_dead: bool) -> list[Hook]:
        """Return what is called once an attempt has failed; if *is_dead*, for the last time."""
        hooks = [*self.on_failure, *self.on_dead_letter] if is_dead else self.on_failure
        return [hook for hook in hooks if hook.concerns(type, queue)]

    def submitting(self, jobs: list[NewJob]) -> list[NewJob]:
        """Return *jobs* as the hooks change them; what a hook raises refuses them all."""
        for hook in self.on_submit:
            jobs = [_submitted(hook, job) for job in jobs]
        return jobs


def _submitted(hook: Hook, job: NewJob) -> NewJob:
    if not hook.concerns(job.type, job.queue):
        return job
    # Tags can be changed in place, and may be those of a task's options: it gets a copy.
    changed = hook.function(replace(job, tags={**job.tags}))
    if changed is None:
        return job
    if not isinstance(changed, NewJob):
        raise ConfigurationError(
            f"the hook {hook.name} returned {shown(changed)}; return the job, changed with "
            f"dataclasses' or msgspec's replace, or None to leave it as it is"
        )
    try:
        return checked_change(job, changed)
    except FencepostError as error:
        error.add_note(f"the hook {hook.name} has changed the job")
        raise


class HasType(Protocol):
    """A task."""

    @property
    def type(self) -> str: ...


class HookDeclarer:
    """Adds functions to the hooks of one kind: as ``@app.around`` or ``@app.around(types=…)``."""

    def __init__(self, hooks: list[Hook], takes: str) -> None:
        self._hooks = hooks
        self._takes = takes

    @overload
    def __call__(self, function: F, /) -> F: ...
    @overload
    def __call__(
        self,
        function: None = None,
        /,
        *,
        types: Iterable[str | HasType] | None = None,
        queues: Iterable[str] | None = None,
    ) -> Callable[[F], F]: ...
    def __call__(self, function: Any = None, /, *, types: Any = None, queues: Any = None) -> Any:
        """Add a hook for all jobs, or for those of some types or queues.

        Raises ConfigurationError for names that are not text, and for a function that takes other
        arguments.
        """
        of_types = None if types is None else frozenset(_names(types, "types"))
        of_queues = None if queues is None else frozenset(_names(queues, "queues"))

        def declare(declared: F) -> F:
            _check_arguments(declared, self._takes)
            self._hooks.append(Hook(declared, of_types, of_queues))
            return declared

        return declare if function is None else declare(function)


def _check_arguments(function: Any, takes: str) -> None:
    try:
        inspect.signature(function).bind(*takes.split(","))
    except TypeError:
        name = getattr(function, "__qualname__", shown(function))
        raise ConfigurationError(f"{name} must take these arguments: {takes}") from None


def _names(given: Iterable[Any], name: str) -> list[str]:
    names = [given] if isinstance(given, str) else [getattr(each, "type", each) for each in given]
    wrong = [each for each in names if not isinstance(each, str)]
    if wrong:
        raise ConfigurationError(f"{name} takes names or tasks, got {shown(wrong[0])}")
    return names


def make_lifespan(function: Any, app: Any) -> Lifespan:
    """Return the lifespan that *function* describes, as an async generator or context manager."""
    manager = asynccontextmanager(function) if inspect.isasyncgenfunction(function) else function
    if not callable(manager) or inspect.iscoroutinefunction(manager):
        raise ConfigurationError(
            "a lifespan is an `async def` with one `yield`: what comes before it is run when a "
            "worker starts, what comes after it when the worker ends, and it yields ctx.state"
        )
    return lambda: manager(app)


def checked_change(job: NewJob, changed: NewJob) -> NewJob:
    """Return *changed*, which a hook made of *job*, or raise if that cannot be stored.

    A store trusts what it is given. A tag that is not text, or a priority that does not exist,
    would be noticed only by the claim that reads it, which would fail for the other jobs as well.
    """
    values: dict[str, Any] = {}
    for name in NewJob.__struct_fields__:
        value = getattr(changed, name)
        if value is not getattr(job, name) and value != getattr(job, name):
            if name not in _CHECKS:
                raise InvalidJobError(f"a hook cannot change {name} of a job, got {shown(value)}")
            is_cleared = value is None and name in _OPTIONAL
            values[name] = None if is_cleared else _CHECKS[name](value)
    if "tags" in values and reserved_tags(values["tags"]) != reserved_tags(job.tags):
        raise InvalidJobError("a hook cannot change tags that only Fencepost sets")
    made = replace(changed, **values) if values else changed
    if made.concurrency_key is not None and made.policy.max_running_per_key is None:
        made = replace(made, policy=replace(made.policy, max_running_per_key=limit_of(made.policy)))
    return made


def _instance(kind: type) -> Callable[[object], Any]:
    def check(value: object) -> object:
        if not isinstance(value, kind):
            raise InvalidJobError(f"expected a {kind.__name__}, got {shown(value)}")
        return value

    return check


def _key(value: object) -> Key:
    key: Key = _instance(Key)(value)
    check_key(key.value)
    return key


def _callback_url(value: object) -> object:
    parse_callback_url(value)
    return value


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "type": check_own_type,
    "payload": _instance(Body),
    "queue": check_queue,
    "priority": parse_priority,
    "policy": _instance(Policy),
    "delay": lambda value: parse_duration(value, name="delay"),
    "run_at": check_run_at,
    "key": _key,
    "tags": lambda value: check_tags(value, may_be_reserved=True),
    "correlation_id": check_correlation_id,
    "callback_url": _callback_url,
    "concurrency_key": check_concurrency_key,
}
_OPTIONAL = frozenset(("run_at", "key", "correlation_id", "callback_url", "concurrency_key"))
