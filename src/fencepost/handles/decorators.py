"""Declaring tasks: ``@app.task``, ``@event.on`` and ``@app.cron``, and their types for editors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    Unpack,
    overload,
)

from fencepost.actions.options import Options, retry_fields
from fencepost.core.display import did_you_mean
from fencepost.core.job.policy import Policy, Priority, PriorityLike, Retry, parse_priority
from fencepost.core.job.retryable import check_importable
from fencepost.core.job.task import Isolation, Task, check_function, isolation_of
from fencepost.core.job.timeouts import Retention, check_retention, parse_lease_ttl, parse_lifetime
from fencepost.core.limits.concurrency import KeyRule, check_rule, parse_max_running_per_key
from fencepost.core.limits.type_limits import LimitOptions, parse_limits
from fencepost.core.values.batch import BatchSignature, check_batch
from fencepost.core.values.names import DEFAULT_QUEUE, check_own_type, check_queue
from fencepost.core.values.signature import Signature
from fencepost.core.values.times import Duration
from fencepost.errors import ConfigurationError
from fencepost.handles.task import TaskHandle
from fencepost.worker import BatchJob, Context

if TYPE_CHECKING:
    from fencepost.actions.session import Session

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
H = TypeVar("H", bound=TaskHandle[..., Any])
Called = ParamSpec("Called")
Returned = TypeVar("Returned")

KEPT = ("__name__", "__qualname__", "__doc__", "__module__")
"""What tools show of a function; they find its signature through ``__wrapped__``."""


class Unannotated:
    """A type that no handler names, so that only an unannotated first parameter accepts it.

    Otherwise type checkers would take such a parameter for a Context, and hide it from callers.
    """


if TYPE_CHECKING:

    class DeclaredTask(TaskHandle[P, R], Generic[P, R, Called, Returned]):
        """What type checkers know of a task beyond its handle: a direct call is the function's.

        Submissions take P and give R; a direct call also takes the Context, and returns the
        coroutine of an ``async def``.
        """

        __name__: str
        __qualname__: str

        def __call__(self, *args: Called.args, **kwargs: Called.kwargs) -> Returned: ...

    UntypedTask: TypeAlias = DeclaredTask[..., R, ..., Any]
    PlainTask: TypeAlias = DeclaredTask[P, R, P, R]
    AsyncTask: TypeAlias = DeclaredTask[P, R, P, Coroutine[Any, Any, R]]
    ContextTask: TypeAlias = DeclaredTask[P, R, Concatenate[Context, P], R]
    AsyncContextTask: TypeAlias = DeclaredTask[
        P, R, Concatenate[Context, P], Coroutine[Any, Any, R]
    ]


class TaskDecorator(Protocol):
    """Makes a function a task; ``app.cron`` also takes one. Callers do not pass a Context."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a task can be called, but is one already
        self, function: H
    ) -> H: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Unannotated, ...], Coroutine[Any, Any, R]]
    ) -> UntypedTask[R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Unannotated, ...], R]) -> UntypedTask[R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]
    ) -> AsyncContextTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> ContextTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]]) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> PlainTask[P, R]: ...


class BatchDecorator(Protocol):
    """Makes a function that takes a list of jobs a task; a caller submits one payload."""

    @overload
    def __call__(
        self, function: Callable[[list[BatchJob[T]]], Coroutine[Any, Any, Any]]
    ) -> DeclaredTask[[T], Any, [list[BatchJob[T]]], Coroutine[Any, Any, Any]]: ...
    @overload
    def __call__(
        self, function: Callable[[list[BatchJob[T]]], Any]
    ) -> DeclaredTask[[T], Any, [list[BatchJob[T]]], Any]: ...


class DeclareOptions(LimitOptions, total=False):
    """What tasks of every kind can be declared with; ``TaskDeclarer.__call__`` explains it."""

    name: str | None
    queue: str
    priority: PriorityLike
    retry: Retry | None
    timeout: Duration | None
    lease_ttl: Duration | None
    lifetime: Duration | None
    retention: Retention | None
    concurrency_key: KeyRule | None
    max_running_per_key: int | None


class TaskDeclarer:
    """``app.task`` and ``event.on``: makes functions tasks of an app."""

    def __init__(self, session: Session, retry: Retry, event: str | None = None) -> None:
        self.session = session
        self.retry = retry
        self._event = event

    def for_event(self, pattern: str) -> TaskDeclarer:
        """Return the declarer of an event's handlers."""
        return TaskDeclarer(self.session, self.retry, pattern)

    @overload
    def __call__(
        self, function: Callable[Concatenate[Unannotated, ...], Coroutine[Any, Any, R]], /
    ) -> UntypedTask[R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Unannotated, ...], R], /
    ) -> UntypedTask[R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncContextTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> ContextTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> PlainTask[P, R]: ...
    @overload
    def __call__(
        self,
        *,
        isolation: Literal["process", "thread", "loop"] | None = None,
        **options: Unpack[DeclareOptions],
    ) -> TaskDecorator: ...
    @overload
    def __call__(
        self,
        *,
        batch: int,
        batch_wait: Duration | None = None,
        isolation: Literal["thread", "loop"] | None = None,
        **options: Unpack[DeclareOptions],
    ) -> BatchDecorator: ...

    def __call__(  # type: ignore[misc]  # mypy wrongly wants overload 7 to take a function
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: PriorityLike = Priority.NORMAL,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        lease_ttl: Duration | None = None,
        lifetime: Duration | None = None,
        isolation: Literal["process", "thread", "loop"] | None = None,
        retention: Retention | None = None,
        concurrency_key: KeyRule | None = None,
        max_running_per_key: int | None = None,
        batch: int | None = None,
        batch_wait: Duration | None = None,
        **limits: Unpack[LimitOptions],
    ) -> Any:
        """Make a function a task: ``@app.task``, or with options ``@app.task(queue="mail")``.

        - ``name``: the type under which the store knows it; by default the function's name
        - ``queue``: the queue of its jobs; by default ``"default"``
        - ``priority``: ``"critical"``, ``"high"``, ``"normal"``, ``"low"`` or ``"bulk"``
        - ``retry``: ``Retry(…)``: how often it is tried again, and when; by default the app's
        - ``timeout``: the longest that one attempt may run; by default the app's, 30 minutes
        - ``lease_ttl``: how long a silent worker keeps a job; by default as the worker says
        - ``lifetime``: from the submission to the end at the latest; by default the app's, 7 days
        - ``isolation``: ``"process"`` runs it in a child process, which can be killed
        - ``retention``: ``Retention(…)``: how long its jobs are kept; by default the app's
        - ``rate``: how often its jobs may start, over all workers: ``"100/m"``
        - ``concurrency_key``: a parameter, or a function of them; jobs with one key share a limit
        - ``max_running_per_key``: that limit; by default 1
        - ``batch``: the handler takes a list of so many jobs at most, ``list[BatchJob[…]]``
        - ``batch_wait``: how long a job waits for others; by default not at all

        Durations are seconds, a timedelta, or text such as ``"90s"`` or ``"10m"``.
        """
        _refuse_unknown(limits)
        retry = self.retry if retry is None else retry
        size, wait = check_batch(batch, batch_wait)
        make = partial(
            Task,
            batch=size,
            batch_wait=wait,
            queue=check_queue(queue),
            priority=parse_priority(priority),
            policy=self._policy(retry, timeout, lifetime, lease_ttl, max_running_per_key),
            retention=None if retention is None else check_retention(retention),
            limits=parse_limits(**limits),
            event=self._event,
            backoff=retry.function,
            rule=retry.rule,
        )
        decorate = partial(self._declare, make, name, isolation, concurrency_key)
        return decorate if function is None else decorate(function)

    def handler(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is called for *function*; an integration with a framework may wrap it."""
        return function

    def _policy(
        self,
        retry: Retry,
        timeout: Duration | None,
        lifetime: Duration | None,
        lease_ttl: Duration | None,
        max_running_per_key: int | None,
    ) -> Policy:
        """Return the policy of a task; None: as the app says."""
        timeouts = self.session.timeouts
        return Policy(
            **retry_fields(retry),
            timeout=timeouts.execution_for(timeout),
            lifetime=timeouts.lifetime if lifetime is None else parse_lifetime(lifetime),
            lease_ttl=parse_lease_ttl(timeouts.lease_ttl if lease_ttl is None else lease_ttl),
            max_running_per_key=None
            if max_running_per_key is None
            else parse_max_running_per_key(max_running_per_key),
        )

    def _declare(
        self,
        make: partial[Task],
        name: str | None,
        isolation: str | None,
        concurrency_key: KeyRule | None,
        function: Callable[..., Any],
    ) -> TaskHandle[..., Any]:
        """Make *function* a task, register it, and return its handle."""
        check_function(function)
        function = self.handler(function)
        is_batch = make.keywords["batch"] is not None
        if is_batch:
            signature: Signature = BatchSignature(function, Context, BatchJob)
        else:
            signature = Signature(function, Context)
        signature.check_types()
        key = None if concurrency_key is None else check_rule(concurrency_key, signature)
        task = make(
            type=check_own_type(function.__name__ if name is None else name),
            function=function,
            signature=signature,
            isolation=isolation_of(function, isolation, is_batch=is_batch),
            concurrency_key=key,
        )
        if task.rule is not None and task.isolation is Isolation.PROCESS:
            check_importable(task.rule)
        self.add(task)
        handle: TaskHandle[..., Any] = TaskHandle(self.session, task, Options())
        _keep_names(handle, function)
        return handle

    def add(self, task: Task) -> None:
        """Register a task, or raise ConfigurationError if another has its name."""
        known = self.session.tasks.get(task.type)
        if known is not None and _origin(known.function) != _origin(task.function):
            raise ConfigurationError(
                f"two tasks are called {task.type!r}: {_origin(known.function)} and "
                f"{_origin(task.function)}; give one of them a name: @app.task(name=…)"
            )
        if known is not None and known.event != task.event:
            # The second would replace the first, whose events would then have no handler.
            raise ConfigurationError(
                f"{task.type!r} already handles {known.event or 'no event'} and cannot also handle "
                f"{task.event or 'none'}; give one of the two a name: @event.on(name=…)"
            )
        self.session.tasks[task.type] = task


def _refuse_unknown(given: Mapping[str, object]) -> None:
    """Raise TypeError unless each option that the signature does not name is a limit."""
    unknown = [name for name in given if name not in LimitOptions.__annotations__]
    if unknown:
        named = inspect.signature(TaskDeclarer.__call__).parameters
        options = [*named, *LimitOptions.__annotations__]
        hint = did_you_mean(unknown[0], options)
        raise TypeError(f"a task has no option {unknown[0]!r}{hint}")


def _keep_names(handle: TaskHandle[..., Any], function: Callable[..., Any]) -> None:
    """Give *handle* the name and the documentation of its function."""
    for name in KEPT:
        if hasattr(function, name):
            setattr(handle, name, getattr(function, name))


def _origin(function: Callable[..., Any]) -> str:
    """Return a function's full name; equal for a module that was loaded twice."""
    return f"{function.__module__.replace('__mp_main__', '__main__')}.{function.__qualname__}"
