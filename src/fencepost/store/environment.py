"""Which store the environment names. Imports next to nothing: every command asks."""

from __future__ import annotations

import os

DEFAULT_URL = "sqlite:///fencepost.db"
URL_VARIABLE = "FENCEPOST_URL"
SHARED_VARIABLE = "DATABASE_URL"
"""The variable that an application sets for its own data. In PostgreSQL we live beside them in a
schema of our own; a SQLite file that it names is the application's."""


def url_from_environment() -> str:
    """Return the store URL that the environment names, or the default."""
    return os.environ.get(URL_VARIABLE) or shared_url() or DEFAULT_URL


def shared_url() -> str | None:
    """Return DATABASE_URL if it names a PostgreSQL server.

    So does one with a driver in its scheme, as in ``postgresql+psycopg``: opening it says how to
    write it, where to pass it over would quietly store jobs in a file.
    """
    url = os.environ.get(SHARED_VARIABLE, "")
    scheme = url.partition(":")[0].partition("+")[0].lower()
    return url if scheme in ("postgresql", "postgres") else None
