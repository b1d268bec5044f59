"""A task as its decorator returns it: a handle that can be called and shown like the function."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar

from fencepost.handles.task import TaskHandle
from fencepost.worker import Context

P = ParamSpec("P")
R = TypeVar("R")
Called = ParamSpec("Called")
Returned = TypeVar("Returned")

KEPT = ("__name__", "__qualname__", "__doc__", "__module__")
"""What tools show of a function; they find its signature through ``__wrapped__``."""


def keep_names(handle: TaskHandle[..., Any], function: Callable[..., Any]) -> None:
    """Give *handle* the name and the documentation of its function."""
    for name in KEPT:
        if hasattr(function, name):
            setattr(handle, name, getattr(function, name))


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
