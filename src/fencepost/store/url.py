"""The URL of a store: which one the environment names, and its parts.

Every command imports this, so it imports almost nothing.
"""

from __future__ import annotations

import os
import re
from urllib.parse import SplitResult, urlsplit

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


_HOSTS = re.compile(r"[^/?#]*")


def split_url(url: str) -> SplitResult:
    """Return the parts of *url*; raise ValueError if it is none.

    As ``urlsplit``, which takes ``a,[::1]:7`` for a malformed host in some releases of Python.
    """
    scheme, mark, rest = url.partition("://")
    found = _HOSTS.match(rest)
    hosts = found[0] if found is not None else ""
    if "," not in hosts:
        return urlsplit(url)
    return urlsplit(f"{scheme}{mark}{rest[len(hosts) :]}")._replace(netloc=hosts)
