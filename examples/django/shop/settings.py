"""Settings of the example: PostgreSQL if DATABASE_URL names one, else SQLite."""

import os
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import django

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = os.environ.get("SECRET_KEY", "only for this example")
DEBUG = True
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "testserver"]
ROOT_URLCONF = "shop.urls"
USE_TZ = True
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "fencepost.django",
    *(["django_tasks"] if django.VERSION < (6, 0) else []),
    "orders",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
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
]


def database(url: str) -> dict[str, object]:
    """Return the entry of DATABASES for a PostgreSQL URL, or for a SQLite file."""
    if not url:
        path = os.environ.get("SHOP_SQLITE", BASE_DIR / "shop.sqlite3")
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": path}
    parts = urlsplit(url)
    more = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.removeprefix("/")),
        "USER": unquote(parts.username or more.pop("user", "")),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or more.pop("host", "")),
        "PORT": str(parts.port or more.pop("port", "")),
        "OPTIONS": more,
        "CONN_MAX_AGE": 600,
    }


DATABASES = {"default": database(os.environ.get("DATABASE_URL", ""))}

# Django's own tasks are stored and run by Fencepost, in the database above, or in a file beside it.
TASKS = {"default": {"BACKEND": "fencepost.django.Backend", "QUEUES": ["default", "mail"]}}
