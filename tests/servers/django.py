"""Django's settings, which exist once in a process: every test that needs them has these.

A test points `connections["default"]` to its own database, see ``using_database``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import django
from django.conf import settings
from django.db import connections
from psycopg.conninfo import conninfo_to_dict

POSTGRES = "django.db.backends.postgresql"
SQLITE = "django.db.backends.sqlite3"


def configure() -> None:
    """Set Django up for this process, unless it is."""
    if settings.configured:
        return
    settings.configure(
        USE_TZ=True,
        SECRET_KEY="tests only",
        LOGGING_CONFIG=None,
        ROOT_URLCONF="tests.django.urls",
        ALLOWED_HOSTS=["testserver"],
        STATIC_URL="static/",
        # The second is for tests without a server; each test names its own file.
        DATABASES={"default": {"ENGINE": POSTGRES}, "lite": {"ENGINE": SQLITE, "NAME": ":memory:"}},
        TASKS={"default": {"BACKEND": "fencepost.django.Backend", "QUEUES": ["default", "mail"]}},
        INSTALLED_APPS=[
            "django.contrib.admin",
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "django.contrib.messages",
            "django.contrib.staticfiles",
            "fencepost.django",
            *(["django_tasks"] if django.VERSION < (6, 0) else []),
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                    ]
                },
            }
        ],
    )
    django.setup()


@contextmanager
def using_database(url: str) -> Iterator[Any]:
    """Point the default database of Django to a PostgreSQL; yield this thread's connection."""
    parts = conninfo_to_dict(url)
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host"}
    with _changed("default", {key: parts.get(name, "") for key, name in names.items()}) as wrapper:
        wrapper.settings_dict["PORT"] = parts.get("port", "")
        yield wrapper


@contextmanager
def using_file(path: object) -> Iterator[Any]:
    """Point the database `lite` to a SQLite file; yield this thread's connection."""
    with _changed("lite", {"NAME": str(path)}) as wrapper:
        yield wrapper


@contextmanager
def _changed(alias: str, change: dict[str, Any]) -> Iterator[Any]:
    wrapper = connections[alias]
    before = dict(wrapper.settings_dict)
    wrapper.close()
    # In place: the connections of other threads are made of the same dictionary.
    wrapper.settings_dict.update(change)
    try:
        yield wrapper
    finally:
        wrapper.close()
        wrapper.settings_dict.update(before)
