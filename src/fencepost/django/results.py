"""A job as Django's tasks see it: a TaskResult.

Django knows four states, and no retries: a job that waits for its next attempt is READY again, and
whatever ended without success has FAILED.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string

from fencepost.core.job.job import Attempt, AttemptOutcome, Category, Failure, Job
from fencepost.core.job.lifecycle import DEAD, State
from fencepost.core.job.policy import Priority
from fencepost.django.framework import (
    InvalidTask,
    Task,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
)

PRIORITY_TAG = "django.priority"
RUN_AFTER_TAG = "django.run_after"
"""What our own fields cannot hold of a Django task, for those who read its result."""

UNCOUNTED = frozenset({AttemptOutcome.RELEASED, AttemptOutcome.SNOOZED, AttemptOutcome.UNREADABLE})
"""Attempts that are not counted, here as there."""

_EXCEPTIONS = {
    Category.TIMEOUT: "builtins.TimeoutError",
    Category.CANCELLED: "fencepost.errors.JobCancelledError",
}
"""The class of a failure that no exception caused."""
NO_EXCEPTION = "fencepost.errors.JobFailedError"


def parse_priority(django_priority: int) -> Priority:
    """Return ours for one of Django's, from -100 to 100; 0 is NORMAL, and any higher is HIGH."""
    if django_priority > 50:
        return Priority.CRITICAL
    if django_priority > 0:
        return Priority.HIGH
    if django_priority == 0:
        return Priority.NORMAL
    return Priority.LOW if django_priority >= -50 else Priority.BULK


def status_of(state: State) -> Any:
    """Return Django's status for one of our states."""
    if state is State.COMPLETED:
        return TaskResultStatus.SUCCESSFUL
    if state in DEAD or state is State.CANCELLED:
        return TaskResultStatus.FAILED
    return TaskResultStatus.RUNNING if state is State.RUNNING else TaskResultStatus.READY


def task_of(job: Job, alias: str) -> Any:
    """Return the Django task that *job* was made of, or raise TaskResultDoesNotExist."""
    try:
        found = import_string(job.type)
    except ImportError as error:
        raise TaskResultDoesNotExist(job.id) from error
    if not isinstance(found, Task):
        raise TaskResultDoesNotExist(job.id)
    changes: dict[str, Any] = {"queue_name": job.queue, "backend": alias}
    if PRIORITY_TAG in job.tags:
        changes["priority"] = int(job.tags[PRIORITY_TAG])
    if RUN_AFTER_TAG in job.tags:
        changes["run_after"] = as_django(datetime.fromisoformat(job.tags[RUN_AFTER_TAG]))
    try:
        return found.using(**changes)
    except InvalidTask:  # it was submitted under other settings, such as QUEUES
        return found


def result_of(job: Job, attempts: Sequence[Attempt], task: Any, alias: str) -> Any:
    """Return the TaskResult of *job*, whose attempts are given, oldest first."""
    counted = [each for each in attempts if each.outcome not in UNCOUNTED]
    payload = job.payload if isinstance(job.payload, dict) else {}
    result = TaskResult(
        task=task,
        id=job.id,
        status=status_of(job.state),
        enqueued_at=as_django(job.created_at),
        started_at=as_django(counted[0].started_at) if counted else None,
        last_attempted_at=as_django(counted[-1].started_at) if counted else None,
        finished_at=None if job.completed_at is None else as_django(job.completed_at),
        args=payload.get("args") or [],
        kwargs=payload.get("kwargs") or {},
        backend=alias,
        errors=_errors(job, counted),
        worker_ids=[each.worker for each in counted],
    )
    if job.state is State.COMPLETED:
        change(result, _return_value=job.result)
    return result


def _errors(job: Job, counted: Sequence[Attempt]) -> list[Any]:
    errors = [error_of(each.failure) for each in counted if each.failure is not None]
    is_told = bool(counted) and counted[-1].failure == job.failure
    if job.failure is not None and not is_told and status_of(job.state) == TaskResultStatus.FAILED:
        errors.append(error_of(job.failure))  # of no attempt: cancelled, or its lifetime over
    return errors


def error_of(failure: Failure) -> Any:
    """Return one of ours as Django's; without an exception, its message stands for a traceback."""
    path = failure.exception or _EXCEPTIONS.get(failure.category, NO_EXCEPTION)
    return TaskError(exception_class_path=path, traceback=failure.traceback or failure.message)


def change(result: Any, **fields: Any) -> None:
    """Change fields of a TaskResult, which is frozen for everyone but a backend."""
    for name, value in fields.items():
        object.__setattr__(result, name, value)


def as_django(at: datetime) -> datetime:
    """Return an aware time as the project has times: naive and local without USE_TZ."""
    naive: datetime = at if settings.USE_TZ else timezone.make_naive(at)
    return naive
