"""The project's app with all its tasks, for workers: importing this sets Django up.

``manage.py fencepost`` uses it, child processes of ``isolation="process"`` import it first, and
``fencepost worker fencepost.django.project:app`` works without ``manage.py``: it needs only
DJANGO_SETTINGS_MODULE. Every installed app's ``tasks.py`` is imported.
"""

from __future__ import annotations

import django
from django.apps import apps
from django.utils.module_loading import autodiscover_modules

from fencepost.django.application import DjangoApp, project_app

TASKS_MODULE = "tasks"


def find_tasks() -> DjangoApp:
    """Set Django up unless it is, import the tasks of every installed app, and return the app."""
    if not apps.ready:
        django.setup()
    autodiscover_modules(TASKS_MODULE)
    return project_app()


app = find_tasks()
