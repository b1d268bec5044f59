"""The Django app: its checks, and the schema that ``manage.py migrate`` brings up to date."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from fencepost.django.configuration import configured
from fencepost.store.url import names_postgres


class FencepostConfig(AppConfig):  # type: ignore[misc]  # Django declares no types
    """``fencepost.django`` in INSTALLED_APPS."""

    name = "fencepost.django"
    label = "fencepost"
    verbose_name = "Fencepost"

    def ready(self) -> None:
        from fencepost.django import checks

        checks.register()
        post_migrate.connect(migrate_store, sender=self, dispatch_uid="fencepost.django.migrate")


def migrate_store(*, using: str, verbosity: int = 1, **_: Any) -> None:
    """Bring the schema of a store in PostgreSQL up to date after Django's migrations of it.

    Also in the database that a test runner has just made: the app turns to it, if it was open.
    """
    from fencepost.django.application import project_app
    from fencepost.django.databases import is_database_of_django

    configuration = configured()
    if using != configuration.database:
        return
    app = project_app()
    app.follow_settings()
    is_here = is_database_of_django(configuration) and names_postgres(app.url)
    if not configuration.migrate or not is_here:
        return
    applied = app.migrate()
    if applied and verbosity:
        print(f"Fencepost: {len(applied)} migrations of the store applied")  # noqa: T201 - as Django does
