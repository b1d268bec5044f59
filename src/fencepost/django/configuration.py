"""``FENCEPOST`` in Django's settings: where jobs are stored, and how the project's app is made.

All of it may be left out. What is wrong in it is an ImproperlyConfigured that says what to write.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from fencepost.core.display import did_you_mean, shown
from fencepost.store.url import URL_VARIABLE

SETTING = "FENCEPOST"
DATABASE = "default"

EnqueueMode = Literal["join", "on_commit"]
MODES = ("join", "on_commit")


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The setting, checked."""

    url: str | None = None
    """The store, if it is not the database DATABASE: the setting, else FENCEPOST_URL."""
    database: str = DATABASE
    """The alias in DATABASES whose database is the store, and whose transactions jobs join."""
    names_database: bool = False
    enqueue: EnqueueMode = "join"
    """Whether a job is part of an open transaction, or submitted once that is committed."""
    migrate: bool = True
    """Whether ``manage.py migrate`` also brings the schema of a PostgreSQL store up to date."""
    options: Mapping[str, Any] = {}
    """Passed to ``App(…)``: retry, timeouts, retention, keys …"""


def configured() -> Configuration:
    """Return the setting as it is now, or raise ImproperlyConfigured."""
    given = getattr(settings, SETTING, {})
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(f"{SETTING} must be a dictionary, got {shown(given)}")
    known = ("URL", "DATABASE", "ENQUEUE", "MIGRATE", "OPTIONS")
    for name in map(str, given):
        if name not in known:
            is_small = name.upper() in known
            hint = f"; did you mean {name.upper()!r}?" if is_small else did_you_mean(name, known)
            raise ImproperlyConfigured(
                f"{SETTING} has no {shown(name)}{hint}; there are: {', '.join(known)}"
            )
    options = given.get("OPTIONS", {})
    if not isinstance(options, Mapping) or "url" in options or "store" in options:
        raise ImproperlyConfigured(
            f"{SETTING}['OPTIONS'] is a dictionary of what App(…) takes, but for its store: "
            f"that is {SETTING}['URL'] or {SETTING}['DATABASE']"
        )
    return Configuration(
        url=_text(given, "URL") or os.environ.get(URL_VARIABLE) or None,
        database=_text(given, "DATABASE") or DATABASE,
        names_database=given.get("DATABASE") is not None,
        enqueue=_mode(given.get("ENQUEUE", "join")),
        migrate=bool(given.get("MIGRATE", True)),
        options=dict(options),
    )


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise ImproperlyConfigured(f"{SETTING}[{name!r}] must be text, got {shown(value)}")
    return value or None


def _mode(value: object) -> EnqueueMode:
    if value not in MODES:
        names = " or ".join(repr(name) for name in MODES)
        raise ImproperlyConfigured(f"{SETTING}['ENQUEUE'] is {names}, got {shown(value)}")
    return cast("EnqueueMode", value)
