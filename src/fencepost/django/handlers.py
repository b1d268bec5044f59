"""What a worker runs for a job of one of Django's tasks.

Its payload has the arguments as Django knows them, by position and by name. Signals are sent in the
worker as Django describes: ``task_started`` before each attempt, ``task_finished`` once the job has
ended, one way or the other. A receiver that raises is logged by Django, and changes nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fencepost.core.hooks import FailedAttempt
from fencepost.django.attempts import fresh_connections
from fencepost.django.framework import TaskContext, TaskResultStatus, normalize_json, signals
from fencepost.django.results import as_django, change, error_of
from fencepost.worker import Context

if TYPE_CHECKING:
    from fencepost.django.backend import TasksBackend


def handler_of(task: Any, backend: TasksBackend) -> Callable[..., Any]:
    """Return the handler of a Django task: ``def`` or ``async def``, as the task is."""
    clock = backend.app.session.clock

    def before(result: Any) -> list[Any]:
        """Announce an attempt; return what its function is called with before its arguments."""
        signals().task_started.send_robust(sender=type(backend), task_result=result)
        return [TaskContext(task_result=result)] if task.takes_context else []

    def after(result: Any, returned: Any) -> Any:
        """Announce a success; return its result as JSON, or raise as Django's backends do."""
        value = normalize_json(returned)
        ended = {"status": TaskResultStatus.SUCCESSFUL, "finished_at": as_django(clock.now())}
        change(result, _return_value=value, **ended)
        signals().task_finished.send_robust(sender=type(backend), task_result=result)
        return value

    def run(
        ctx: Context, args: list[Any] | None = None, kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = backend.get_result(ctx.job_id)
        context = before(result)
        return after(result, task.func(*context, *(args or ()), **(kwargs or {})))

    async def run_async(
        ctx: Context, args: list[Any] | None = None, kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = await backend.read_result(ctx.job_id)
        context = before(result)
        return after(result, await task.func(*context, *(args or ()), **(kwargs or {})))

    return run_async if inspect.iscoroutinefunction(task.func) else run


def announce_failure(backend: TasksBackend, ctx: Context, failed: FailedAttempt) -> None:
    """Send ``task_finished`` for a job whose last attempt has failed."""
    with fresh_connections():
        result = backend.get_result(ctx.job_id)
        if result.status != TaskResultStatus.FAILED:  # the store learns of it at this moment
            now = as_django(backend.app.session.clock.now())
            change(result, status=TaskResultStatus.FAILED, finished_at=now)
        if len(result.errors) < ctx.attempt:
            result.errors.append(error_of(failed.failure))
        error = failed.error
        if error is None:
            _announce(backend, result)
            return
        try:
            raise error
        except type(error):  # receivers ask sys.exc_info() for it, as Django's own does
            _announce(backend, result)


def _announce(backend: TasksBackend, result: Any) -> None:
    signals().task_finished.send_robust(sender=type(backend), task_result=result)
