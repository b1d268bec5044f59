"""For tests of a Django project: run what was enqueued, in the test's own thread.

``jobs_in_memory()`` suits a ``TestCase``: it needs no store. ``stored_jobs()`` suits a
``TransactionTestCase``, whose commits are real: jobs are in the store of the test database.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from asgiref.sync import async_to_sync
from django.core import mail
from django.core.exceptions import ImproperlyConfigured

from fencepost.core.job.job import Job
from fencepost.django.application import DjangoApp
from fencepost.django.configuration import SETTING, configured
from fencepost.testing.clock import FakeClock
from fencepost.testing.runner import LIMIT, Advance, Ran, drive, turns_of
from fencepost.testing.store import memory_store


class EnqueuedJobs:
    """The jobs of a project's app in a test: what was enqueued, and how to run it."""

    def __init__(self, app: DjangoApp, clock: FakeClock | None = None) -> None:
        self.app = app
        self.clock = clock
        """The clock of a store in memory, which stands still until it is moved."""

    def run(self, *, advance: Advance = None, raises: bool = True) -> list[Ran]:
        """Run the jobs that are due, in this thread, and return what ran, see ``drain``.

        The first exception of a handler is raised here unless *raises* is false. With *advance*, a
        duration or "all", time moves on: only for jobs in memory.
        """
        turns = turns_of(self.app, advance, raises, LIMIT)
        # While Django waits for an `async def`, its queries run in this thread: in the transaction
        # of the test.
        return drive(turns, async_to_sync(_awaited))

    def list(self, type: Any = None) -> list[Job]:
        """Return the jobs, oldest first; *type* is a task of either kind, or its name."""
        name = getattr(type, "module_path", getattr(type, "type", type))
        return list(self.app.jobs.find(type=name, order="oldest", limit=1_000))


@contextmanager
def jobs_in_memory() -> Iterator[EnqueuedJobs]:
    """Store the project's jobs in memory until the block ends; its real store is not touched.

    A job is stored at once, and a rollback does not undo that.
    """
    app = _project_with_tasks()
    with memory_store(app) as clock:
        app.waits_for_commit = False
        try:
            yield EnqueuedJobs(app, clock)
        finally:
            app.waits_for_commit = True


@contextmanager
def stored_jobs() -> Iterator[EnqueuedJobs]:
    """Use the store of the test database, without jobs of tests before: those are cancelled.

    Raises ImproperlyConfigured where that might be a store with real jobs: outside of Django's
    test runner, and if a URL names the store.
    """
    _refuse_a_real_store()
    app = _project_with_tasks()
    app.follow_settings()
    app.migrate()
    app.jobs.cancel(state=["pending", "scheduled", "delayed", "running", "retrying"])
    yield EnqueuedJobs(app)


def _refuse_a_real_store() -> None:
    if not hasattr(mail, "outbox"):  # the test runner makes it, for mails that are not sent
        raise ImproperlyConfigured(
            "stored_jobs() cancels the jobs in the store, so it works only under Django's test "
            "runner, which gives it the store of a test database"
        )
    if configured().url is not None:
        raise ImproperlyConfigured(
            f"stored_jobs() cancels the jobs in the store, which is not that of a test database: "
            f"{SETTING}['URL'] or FENCEPOST_URL names it. Leave the URL out of the settings of "
            f"tests, or use jobs_in_memory()"
        )


async def _awaited(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return await coroutine


def _project_with_tasks() -> DjangoApp:
    from fencepost.django.project import find_tasks

    return find_tasks()
