"""What was submitted, in the words of the caller."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from fencepost.core.bounds import PAGE_MAX
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Job
from fencepost.core.job.task import Task

if TYPE_CHECKING:
    from fencepost.app import TaskHandle


def submitted(task: TaskHandle[..., Any]) -> list[dict[str, Any]]:
    """Return the arguments, by name, of every job of *task* that is stored, oldest first."""
    session = task._session
    store = session.store
    jobs: list[Job] = []
    after: int | None = None
    while True:
        page = store.run(store.reader.find(JobFilter(type=task.type), PageRequest(PAGE_MAX, after)))
        jobs += page.jobs
        after = page.next
        if after is None:
            return [_arguments(session.tasks[task.type], job) for job in reversed(jobs)]


def _arguments(task: Task, job: Job) -> dict[str, Any]:
    args, kwargs = task.signature.decode(job.payload)
    bound = inspect.Signature(task.signature.parameters).bind(*args, **kwargs)
    return dict(bound.arguments)
