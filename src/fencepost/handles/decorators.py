"""What editors are told of a decorator that makes tasks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from fencepost.handles.task import TaskHandle
from fencepost.worker import Context

P = ParamSpec("P")
R = TypeVar("R")


class Unannotated:
    """A type that no handler names: only a first parameter without a type accepts it.

    Else type checkers would take such a parameter for a Context, and hide it from callers.
    """


class TaskDecorator(Protocol):
    """Makes a function a task. A first parameter of type Context is not the caller's to give."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Unannotated, ...], Coroutine[Any, Any, R]]
    ) -> TaskHandle[..., R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Unannotated, ...], R]
    ) -> TaskHandle[..., R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]
    ) -> TaskHandle[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> TaskHandle[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]]) -> TaskHandle[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> TaskHandle[P, R]: ...


class CronDecorator(Protocol):
    """Submits a task by the clock, and makes a function a task first."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a task can be called, but is one already
        self, function: TaskHandle[P, R]
    ) -> TaskHandle[P, R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Unannotated, ...], Coroutine[Any, Any, R]]
    ) -> TaskHandle[..., R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Unannotated, ...], R]
    ) -> TaskHandle[..., R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]
    ) -> TaskHandle[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> TaskHandle[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]]) -> TaskHandle[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> TaskHandle[P, R]: ...
