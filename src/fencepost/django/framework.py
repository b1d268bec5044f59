"""Django's task framework: ``django.tasks`` from Django 6.0 on, before that its backport.

The two have the same names but for one. Neither declares types that a strict checker accepts, so
what is taken from them is ``Any`` here, and nowhere else.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from django.core.exceptions import ImproperlyConfigured


def _framework() -> str:
    for name in ("django.tasks", "django_tasks"):
        if find_spec(name) is not None:
            return name
    raise ImproperlyConfigured(
        "this Django has no django.tasks, which came with Django 6.0; pip install django-tasks, or "
        "declare tasks with fencepost.django's own app: @app.task"
    )


FRAMEWORK = _framework()
IS_BACKPORT = FRAMEWORK == "django_tasks"

_base = import_module(f"{FRAMEWORK}.base")
_exceptions = import_module(f"{FRAMEWORK}.exceptions")
_json = import_module("django_tasks.utils" if IS_BACKPORT else "django.utils.json")

BaseTaskBackend: Any = import_module(f"{FRAMEWORK}.backends.base").BaseTaskBackend
Task: Any = _base.Task
TaskContext: Any = _base.TaskContext
TaskError: Any = _base.TaskError
TaskResult: Any = _base.TaskResult
TaskResultStatus: Any = _base.TaskResultStatus
InvalidTask: Any = _exceptions.InvalidTaskError if IS_BACKPORT else _exceptions.InvalidTask
TaskResultDoesNotExist: Any = _exceptions.TaskResultDoesNotExist
normalize_json: Any = _json.normalize_json


def register_checks() -> None:
    """Let ``manage.py check`` ask each backend of TASKS what is wrong with it.

    Django 6 adds that check when its tasks are first imported. Where only views import them, that
    is while checks are running, and too late.
    """
    import_module(f"{FRAMEWORK}.checks")


def signals() -> Any:
    """Return the module of the signals; Django itself imports it once its apps are loaded."""
    return import_module(f"{FRAMEWORK}.signals")


def task_backends() -> Any:
    """Return the backends of TASKS, by alias."""
    return import_module(FRAMEWORK).task_backends
