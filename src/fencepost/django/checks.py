"""``manage.py check``: the mistakes that are easily made with jobs in a Django project.

Those that ask the store itself run with ``manage.py check --database default``, and before
``manage.py migrate``, like every check of Django that needs a database.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from fencepost.cli.options import sqlite_path
from fencepost.core.display import did_you_mean, shown_url
from fencepost.core.stats.overview import WorkerInfo
from fencepost.django.application import check_options, project_app
from fencepost.django.configuration import SETTING, Configuration, configured
from fencepost.django.databases import (
    connection_of,
    is_database_of_django,
    sqlite_file,
    store_url,
)
from fencepost.errors import FencepostError
from fencepost.store.open import open_store
from fencepost.store.url import names_postgres

Found = Iterator[Any]
"""Messages of Django's checks."""


def register() -> None:
    """Add the checks to those of Django."""
    checks.register(check_settings)
    with suppress(ImproperlyConfigured):  # this Django has no tasks
        from fencepost.django.framework import register_checks

        register_checks()
    checks.register(check_store, checks.Tags.database)
    checks.register(check_deployment, deploy=True)


def check_settings(**_: Any) -> list[Any]:
    """Check FENCEPOST and the database that it names, without connecting to anything."""
    problem = find_problem()
    if problem is not None:
        return [checks.Error(problem, id="fencepost.E003")]
    configuration, url = configured(), store_url()
    return [
        *_shared_file(url),
        *_old_driver(configuration, url),
        *_transactions(configuration, url),
    ]


def find_problem() -> str | None:
    """Return why the store cannot be opened with these settings; None if it may be."""
    try:
        configuration = configured()
        connection_of(configuration.database)
        check_options(configuration.options)
        url = store_url()
        if sqlite_path(url) is None:  # opening a file would create it
            open_store(url).close()
    except (ImproperlyConfigured, FencepostError) as error:
        return str(error)
    return project_app().problem


def check_store(databases: Sequence[str] | None = None, **_: Any) -> list[Any]:
    """Check the store: its schema, and that each queue is served."""
    if find_problem() is not None:
        return []  # `check_settings` names it
    configuration = configured()
    if configuration.database not in (databases or ()):
        return []
    app = project_app()
    try:
        pending = app.store.pending_migrations()
        if pending and is_applied_by_django(configuration) and sys.argv[1:2] == ["migrate"]:
            return []  # Django checks the database first, and applies them at the end
        if pending:
            return [_not_migrated(len(pending), configuration)]
        return list(_unserved(app.workers.list()))
    except FencepostError as error:
        text = f"The store of Fencepost ({shown_url(app.url)}) cannot be used: {error}"
        hint = "manage.py fencepost doctor says more."
        return [checks.Warning(text, hint=hint, id="fencepost.W005")]


def check_deployment(**_: Any) -> list[Any]:
    """Check what is worth a thought before a deployment."""
    if find_problem() is not None:
        return []  # `check_settings` names it
    configuration = configured()
    found: list[Any] = []
    connection = connection_of(configuration.database)
    is_pooled = bool(connection.settings_dict["OPTIONS"].get("pool"))
    is_brief = connection.settings_dict["CONN_MAX_AGE"] == 0
    if connection.vendor == "postgresql" and is_brief and not is_pooled:
        found.append(
            checks.Info(
                f"CONN_MAX_AGE of DATABASES[{configuration.database!r}] is 0: every attempt of a "
                "job opens a connection to PostgreSQL, and closes it.",
                hint="Set CONN_MAX_AGE, or OPTIONS['pool'].",
                id="fencepost.I001",
            )
        )
    if sqlite_path(store_url()) is not None:
        found.append(
            checks.Warning(
                "Jobs are stored in a SQLite file, which only processes on this machine share.",
                hint="With several machines, use PostgreSQL or Redis.",
                id="fencepost.W004",
            )
        )
    return found


def _shared_file(url: str) -> Found:
    """Yield an error if the store is a file that Django writes to itself."""
    file = sqlite_path(url)
    for alias in connections if file is not None else ():
        connection = connections[alias]
        if connection.vendor != "sqlite":
            continue
        other = sqlite_file(connection)
        if other is not None and file is not None and _is_same(file, other):
            yield checks.Error(
                f"Fencepost and DATABASES[{alias!r}] share the SQLite file {other}.",
                hint=f"Leave {SETTING}['URL'] out: jobs are then in a file beside it.",
                id="fencepost.E004",
            )


def _is_same(file: Path, other: Path) -> bool:
    with suppress(OSError):
        return file.resolve() == other.resolve()
    return file.absolute() == other


def _old_driver(configuration: Configuration, url: str) -> Found:
    """Yield an error if jobs are to join transactions of psycopg2."""
    connection = connection_of(configuration.database)
    if connection.vendor != "postgresql" or not is_database_of_django(configuration):
        return
    if names_postgres(url) and connection.Database.__name__ != "psycopg":
        yield checks.Error(
            f"Django uses psycopg2 for DATABASES[{configuration.database!r}], whose transactions "
            "jobs cannot join.",
            hint="Install psycopg 3: pip install 'fencepost[postgres]'. Django prefers it.",
            id="fencepost.E005",
        )


def _transactions(configuration: Configuration, url: str) -> Found:
    """Yield a warning if a setting about transactions can have no effect."""
    if configuration.names_database and configuration.url and not names_postgres(url):
        yield checks.Warning(
            f"{SETTING} names a database and a store that is not in PostgreSQL: jobs are submitted "
            "after the commit, and do not join the transaction.",
            hint=f"That is how it works with {shown_url(url)}; leave out {SETTING}['DATABASE'].",
            id="fencepost.W001",
        )


def is_applied_by_django(configuration: Configuration) -> bool:
    """Return whether ``manage.py migrate`` also migrates the store."""
    return configuration.migrate and is_database_of_django(configuration)


def _not_migrated(count: int, configuration: Configuration) -> Any:
    by_django = is_applied_by_django(configuration)
    return checks.Warning(  # an error would keep `manage.py migrate` from applying them
        f"The store of Fencepost lacks {count} migrations.",
        hint=f"Run manage.py {'migrate' if by_django else 'fencepost migrate'}.",
        id="fencepost.W003",
    )


def _unserved(workers: Sequence[WorkerInfo]) -> Found:
    """Yield a warning for each queue of TASKS that no worker serves, if there are workers."""
    if not workers:
        return
    served = {queue for worker in workers for queue in worker.queues or ()}
    for alias, queue in _declared_queues():
        if not any(worker.serves_queue(queue) for worker in workers):
            yield checks.Warning(
                f"No worker serves the queue {queue!r} of TASKS[{alias!r}]"
                f"{did_you_mean(queue, served)}.",
                hint=f"Start one: manage.py fencepost worker --queue {queue}",
                id="fencepost.W002",
            )


def _declared_queues() -> Iterator[tuple[str, str]]:
    """Yield the queues of each entry of TASKS that is ours; none without Django's tasks."""
    try:
        from fencepost.django.backend import TasksBackend
        from fencepost.django.framework import task_backends
    except ImproperlyConfigured:
        return
    for backend in task_backends().all():
        if isinstance(backend, TasksBackend):
            yield from ((backend.alias, queue) for queue in sorted(backend.queues))
