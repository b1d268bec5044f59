"""The project's app: one for each process, on the store that Django's settings name.

It exists as soon as it is asked for, and opens its store on first use. Where that is, is read from
the settings then: a test runner puts another database in their place after tasks were imported.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.signals import connection_created

from fencepost.app import App
from fencepost.core.display import did_you_mean
from fencepost.django.attempts import with_connections
from fencepost.django.configuration import SETTING, configured
from fencepost.django.databases import MEMORY, is_database_of_django, open_transaction, store_url
from fencepost.errors import FencepostError
from fencepost.handles.decorators import TaskDeclarer
from fencepost.store.url import names_postgres

PROJECT = "fencepost.django.project"
"""The module that sets Django up and finds the tasks of every installed app."""

_mutex = threading.RLock()
_made: list[DjangoApp] = []


class DjangoApp(App):
    """An app on the store of a Django project, whose submissions join ``transaction.atomic()``.

    They do so where the store is PostgreSQL and its database that of the transaction. Its handlers
    run with usable database connections.
    """

    def __init__(self) -> None:
        self._given_url: str | None = None
        self.problem: str | None = None
        """What is wrong in the settings. It keeps the store closed, and does not keep modules of
        tasks from being imported: ``manage.py check`` could not say it otherwise."""
        self.waits_for_commit = True
        """False in ``jobs_in_memory``: a TestCase never commits."""
        problem = None
        try:
            options = configured().options
            check_options(options)
            super().__init__(MEMORY, **options)
        except (ImproperlyConfigured, FencepostError, TypeError) as error:
            problem = str(error)
            super().__init__(MEMORY)
        self.problem = problem
        self._given_url = None  # the constructor of App has set it; the settings decide
        session = self.session
        session.locate = lambda: self.url
        session.transaction = self.open_transaction
        session.preload = (PROJECT,)
        self.task = DjangoTaskDeclarer(session, self.task.retry)

    @property
    def url(self) -> str:
        """Where the store is: as the command line says, or the settings."""
        if self.problem is not None:
            raise ImproperlyConfigured(self.problem)
        return self._given_url or store_url()

    @url.setter
    def url(self, url: str) -> None:
        self._given_url = url

    @property
    def is_on_postgres(self) -> bool:
        return names_postgres(self.store.url)

    def open_transaction(self) -> Any:
        """Return the connection whose open transaction a submission joins now; None without one."""
        configuration = configured()
        if not self.is_on_postgres or not is_database_of_django(configuration):
            return None
        return open_transaction(configuration)

    def follow_settings(self) -> None:
        """Use the store that the settings name, from the next time it is needed."""
        if not self.session.url.startswith(MEMORY):  # that of a test, which is still in use
            self._given_url = None
        self.close()

    def close(self) -> None:
        """Close the store, which opens again when it is used: the app is that of the process."""
        self.session.disconnect()


def check_options(options: Mapping[str, Any]) -> None:
    """Raise ImproperlyConfigured if an app takes no argument of this name."""
    known = [name for name in inspect.signature(App.__init__).parameters if name != "self"]
    for name in options:
        if name not in known:
            raise ImproperlyConfigured(
                f"{SETTING}['OPTIONS'] has {name!r}, which App(…) does not take"
                f"{did_you_mean(str(name), known)}"
            )


class DjangoTaskDeclarer(TaskDeclarer):
    """Makes functions tasks whose handlers run with usable database connections."""

    def for_event(self, pattern: str) -> DjangoTaskDeclarer:
        return DjangoTaskDeclarer(self.session, self.retry, pattern)

    def handler(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return with_connections(function)


def project_app() -> DjangoApp:
    """Return the app of this process's Django project."""
    with _mutex:
        if not _made:
            _made.append(DjangoApp())
        return _made[0]


def _on_setting_changed(*, setting: str, **_: Any) -> None:
    if setting in (SETTING, "DATABASES") and _made:
        _made[0].follow_settings()


def _on_connection_created(*, connection: Any, **_: Any) -> None:
    """Close the store while Django makes, clones or removes a database, as a test runner does.

    It does so beside all databases, and PostgreSQL refuses as long as anybody is connected.
    """
    if connection.alias == NO_DB_ALIAS and _made:
        _made[0].close()


connection_created.connect(_on_connection_created, dispatch_uid="fencepost.django.application")
setting_changed.connect(_on_setting_changed, dispatch_uid="fencepost.django.application")
