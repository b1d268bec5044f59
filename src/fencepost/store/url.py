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
POSTGRES = ("postgresql", "postgres")
POSTGRES_DRIVERS = ("", "psycopg", "asyncpg")
"""What may stand behind a + in the scheme. It names a driver of the application's: the store is
the same with each, and its own connections are psycopg's."""


def url_from_environment() -> str:
    """Return the store URL that the environment names, or the default."""
    return os.environ.get(URL_VARIABLE) or shared_url() or DEFAULT_URL


def shared_url() -> str | None:
    """Return DATABASE_URL if it names a PostgreSQL server.

    Also with a driver that is refused, such as psycopg2: opening it says so, while ignoring it
    would silently store jobs in a file.
    """
    url = os.environ.get(SHARED_VARIABLE, "")
    return url if names_postgres(url) else None


def names_postgres(url: str) -> bool:
    """Return whether *url* has the scheme of a PostgreSQL server, with whatever driver."""
    return url.partition(":")[0].partition("+")[0].lower() in POSTGRES


def plain_url(url: str) -> str:
    """Return *url* in the one way to write the scheme of a PostgreSQL server."""
    return f"postgresql:{url.partition(':')[2]}" if names_postgres(url) else url


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
