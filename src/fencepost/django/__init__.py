"""Fencepost in a Django project: ``fencepost.django`` in INSTALLED_APPS, and jobs like any others.

    TASKS = {"default": {"BACKEND": "fencepost.django.Backend"}}

makes it the backend of Django's own tasks. ``from fencepost.django import app`` is the project's
app, for tasks with everything else that Fencepost has. Both are stored in the project's database,
and run by ``manage.py fencepost worker``. Nothing of it is imported before it is asked for, and
``import fencepost`` alone never imports Django.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencepost.django.application import DjangoApp
    from fencepost.django.backend import TasksBackend as Backend

    app: DjangoApp

__all__ = ["Backend", "app"]


def __getattr__(name: str) -> Any:
    # By name, and not once for all: Django imports this package before its settings can be read.
    try:
        if name == "Backend":
            from fencepost.django.backend import TasksBackend

            return TasksBackend
        if name == "app":
            from fencepost.django.application import project_app

            return project_app()
    except ModuleNotFoundError as error:
        if error.name != "django":
            raise
        raise ModuleNotFoundError(
            "fencepost.django needs Django: pip install 'fencepost[django]'", name="django"
        ) from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
