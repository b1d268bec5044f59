"""Declaring hooks: ``@app.around`` and its like."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from fencepost.core.job.hooks import Hook, hook_declarer
from fencepost.handles.task import TaskHandle

F = TypeVar("F", bound=Callable[..., Any])


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
        types: Iterable[str | TaskHandle[..., Any]] | None = None,
        queues: Iterable[str] | None = None,
    ) -> Callable[[F], F]: ...
    def __call__(self, function: Any = None, /, *, types: Any = None, queues: Any = None) -> Any:
        """Add a hook for all jobs, or for those of some types or queues."""
        made = hook_declarer(types=types, queues=queues, takes=self._takes)

        def declare(function: F) -> F:
            self._hooks.append(made(function))
            return function

        return declare if function is None else declare(function)
