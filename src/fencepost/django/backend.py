"""``fencepost.django.Backend``: Django's own tasks, stored and run by Fencepost.

Where a job goes depends on the moment. Inside of ``transaction.atomic()`` on the database that is
the store, it is part of that transaction. With another store, or FENCEPOST['ENQUEUE'] =
'on_commit', it is submitted once the transaction is committed. Otherwise, at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from django.apps import apps
from django.core import checks
from django.db import transaction
from django.utils import timezone
from msgspec.structs import replace

from fencepost.actions.options import Options, new_job
from fencepost.core.hooks import FailedAttempt
from fencepost.core.job.job import NewJob
from fencepost.core.job.timeouts import check_run_at
from fencepost.core.values.names import check_queue, id_bytes, id_text
from fencepost.core.values.payload import check_size
from fencepost.django.application import DjangoApp, project_app
from fencepost.django.configuration import configured
from fencepost.django.databases import connection_of, is_database_of_django, open_transaction
from fencepost.django.framework import (
    BaseTaskBackend,
    InvalidTask,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    normalize_json,
    signals,
)
from fencepost.django.handlers import announce_failure, handler_of
from fencepost.django.results import (
    PRIORITY_TAG,
    RUN_AFTER_TAG,
    as_django,
    parse_priority,
    result_of,
    task_of,
)
from fencepost.errors import FencepostError, InvalidJobError, JobNotFoundError
from fencepost.worker import Context


class TasksBackend(BaseTaskBackend):  # type: ignore[misc]  # Django declares no types
    """One entry of TASKS. Every such entry uses the project's app."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True
    """In five steps: see ``parse_priority``."""

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        self.app: DjangoApp = project_app()

    def validate_task(self, task: Any) -> None:
        """Raise InvalidTask for a task that cannot be run; register any other for workers.

        Django calls this for every task that is declared.
        """
        super().validate_task(task)
        try:
            check_queue(task.queue_name)
            self._register(task)
        except FencepostError as error:
            raise InvalidTask(str(error)) from error

    def _register(self, task: Any) -> None:
        if task.module_path in self.app.session.tasks:
            return
        handler = handler_of(task, self)
        handler.__qualname__ = f"handler_of.{task.module_path}"  # errors name it
        self.app.task(name=task.module_path)(handler)
        announce = partial(announce_failure, self)

        @self.app.on_dead_letter(types=[task.module_path])
        def ended(ctx: Context, failed: FailedAttempt) -> None:
            announce(ctx, failed)

    def enqueue(self, task: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
        """Store a job, and return its result, which is READY.

        When this returns the job cannot be lost if it was stored at once, and is as safe as the
        transaction if it is part of one. Submitted on commit, it is lost if the process dies
        between the commit and the submission.
        """
        self.validate_task(task)
        args, kwargs = list(args), dict(kwargs)
        check_arguments(task, args, kwargs)
        given = {"args": normalize_json(args), "kwargs": normalize_json(kwargs)}
        job = self._job(task, given)
        if self._waits_for_commit():
            (raw,) = self.app.store.new_ids([job])
            result = self._ready(task, id_text(raw), given)
            submit = partial(self._submit_committed, replace(job, id=raw), result)
            transaction.on_commit(submit, using=configured().database)
            return result
        result = self._ready(task, self._submit(job), given)
        self._announce(result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Return the state of a job, or raise TaskResultDoesNotExist.

        A job of a transaction that is still open does not exist yet.
        """
        jobs = self.app.jobs
        try:
            id_bytes(result_id)
            job = jobs.get(result_id).refresh()
            return result_of(job, jobs.attempts(result_id), task_of(job, self.alias), self.alias)
        except JobNotFoundError as error:
            raise TaskResultDoesNotExist(result_id) from error

    async def read_result(self, result_id: str) -> Any:
        """Do the same on the event loop of a worker, without a thread."""
        jobs = self.app.aio.jobs
        job = await (await jobs.get(result_id)).refresh()
        attempts = await jobs.attempts(result_id)
        return result_of(job, attempts, task_of(job, self.alias), self.alias)

    def check(self, **kwargs: Any) -> list[Any]:
        """Return what is wrong with this entry of TASKS."""
        found = [*super().check(**kwargs)]
        if not apps.is_installed("fencepost.django"):
            found.append(
                checks.Error(
                    f"TASKS[{self.alias!r}] uses Fencepost, and INSTALLED_APPS has no "
                    "'fencepost.django'.",
                    hint="Add it: it has manage.py fencepost, the admin pages and other checks.",
                    id="fencepost.E001",
                )
            )
        for queue in sorted(self.queues):
            try:
                check_queue(queue)
            except InvalidJobError as error:
                text = f"TASKS[{self.alias!r}]['QUEUES']: {error}"
                found.append(checks.Error(text, id="fencepost.E002"))
        return found

    def _job(self, task: Any, given: dict[str, Any]) -> NewJob:
        registered = self.app.session.tasks[task.module_path]
        payload = registered.signature.encode((), given)
        tags: dict[str, str] = {}
        run_at = None
        if task.priority:
            tags[PRIORITY_TAG] = str(task.priority)
        if task.run_after is not None:
            run_at = task.run_after
            if timezone.is_naive(run_at):
                run_at = timezone.make_aware(run_at)
            run_at = check_run_at(run_at)
            tags[RUN_AFTER_TAG] = run_at.isoformat()
        options = Options(
            queue=task.queue_name, priority=parse_priority(task.priority), run_at=run_at, tags=tags
        )
        return new_job(registered, check_size(payload, self.app.session.max_payload), options)

    def _waits_for_commit(self) -> bool:
        """Return whether the job is submitted by a transaction's commit rather than within it."""
        configuration = configured()
        is_atomic = connection_of(configuration.database).in_atomic_block
        if not (self.app.waits_for_commit and is_atomic):
            return False
        is_joined = self.app.is_on_postgres and is_database_of_django(configuration)
        return not is_joined or configuration.enqueue == "on_commit"

    def _submit(self, job: NewJob) -> str:
        """Submit *job*, in the open transaction if there is one that it can join."""
        configuration = configured()
        if self.app.open_transaction() is None:
            return self.app.session.submit(job).id
        connection = open_transaction(configuration)
        with connection.wrap_database_errors:  # the caller handles those of Django
            return self.app.session.submit(job, connection).id

    def _submit_committed(self, job: NewJob, result: Any) -> None:
        self.app.session.submit(job)
        self._announce(result)

    def _ready(self, task: Any, id: str, given: dict[str, Any]) -> Any:
        return TaskResult(
            task=task,
            id=id,
            status=TaskResultStatus.READY,
            enqueued_at=as_django(self.app.session.clock.now()),
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            backend=self.alias,
            errors=[],
            worker_ids=[],
            **given,
        )

    def _announce(self, result: Any) -> None:
        signals().task_enqueued.send_robust(sender=type(self), task_result=result)


def check_arguments(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise TypeError, as a call would, if the function of *task* does not take these."""
    context = [None] if task.takes_context else []
    try:
        inspect.signature(task.func).bind(*context, *args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{task.func.__name__}(): {error}") from None
