"""Which store the environment names. Every command imports it, so it imports almost nothing."""

from __future__ import annotations

import os

DEFAULT_URL = "sqlite:///fencepost.db"
URL_VARIABLE = "FENCEPOST_URL"
SHARED_VARIABLE = "DATABASE_URL"
"""The variable that an application sets for its own data. In PostgreSQL our tables stand beside
them in a separate schema; a SQLite file that it names belongs to the application."""


def url_from_environment() -> str:
    """Return the store URL that the environment names, or the default."""
    return os.environ.get(URL_VARIABLE) or shared_url() or DEFAULT_URL


def shared_url() -> str | None:
    """Return DATABASE_URL if it names a PostgreSQL server.

    Also one with a driver in its scheme, as in ``postgresql+psycopg``: opening it explains how to
    write it, while ignoring it would silently store jobs in a file.
    """
    url = os.environ.get(SHARED_VARIABLE, "")
    scheme = url.partition(":")[0].partition("+")[0].lower()
    return url if scheme in ("postgresql", "postgres") else None
