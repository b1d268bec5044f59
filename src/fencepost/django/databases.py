"""From a database of DATABASES to the URL of a store, and to the transaction that is open on it.

In PostgreSQL the store is that database: our tables are beside Django's, in a schema of their own.
A SQLite file of Django's own is never shared: two libraries that lock one file in different ways
would wait for each other. The store is a file beside it.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from fencepost.core.display import did_you_mean
from fencepost.django.configuration import SETTING, Configuration, configured
from fencepost.store.url import names_postgres

MEMORY = "memory://"
DEFAULT_PORT = "5432"
_NOT_LIBPQ = ("context", "cursor_factory", "prepare_threshold", "client_encoding", "autocommit")
"""Parameters of psycopg and of Django, which libpq does not know; we set the encoding ourselves."""


def store_url() -> str:
    """Return the URL of the project's store as the settings are now.

    That of FENCEPOST['URL'], else FENCEPOST_URL, else that of a database. Raises
    ImproperlyConfigured if there is none.
    """
    configuration = configured()
    return configuration.url or url_of(configuration.database)


def is_database_of_django(configuration: Configuration) -> bool:
    """Return whether the store is the database DATABASE, whose transactions jobs can join.

    It is without a URL, and where the settings name both. Else the URL has to lead to the same
    host, port and database: two names of one host are taken for two servers.
    """
    if configuration.url is None or configuration.names_database:
        return True
    connection = connection_of(configuration.database)
    if connection.vendor != "postgresql" or not names_postgres(configuration.url):
        return False
    return _place(configuration.url) == _place(_postgres_url(connection.get_connection_params()))


@lru_cache(8)
def _place(url: str) -> tuple[str | None, ...]:
    from fencepost.store.postgres.engine.url import parse

    options = parse(url).options
    return options.get("host"), options.get("port") or DEFAULT_PORT, options.get("dbname")


def url_of(alias: str) -> str:
    """Return the URL of the store that belongs to a database, or raise ImproperlyConfigured."""
    connection = connection_of(alias)
    if connection.vendor == "postgresql":
        return _postgres_url(connection.get_connection_params())
    if connection.vendor == "sqlite":
        return _url_beside(connection)
    raise ImproperlyConfigured(
        f"Fencepost cannot store jobs in {connection.display_name}, which DATABASES[{alias!r}] is; "
        f"name a store in {SETTING}['URL']: a PostgreSQL, a Redis, or a SQLite file of its own"
    )


def connection_of(alias: str) -> Any:
    """Return this thread's connection to a database, or raise ImproperlyConfigured."""
    if alias not in connections:
        hint = did_you_mean(alias, connections)
        raise ImproperlyConfigured(
            f"{SETTING}['DATABASE'] is {alias!r}, which DATABASES does not have{hint}"
        )
    return connections[alias]


def open_transaction(configuration: Configuration) -> Any:
    """Return the connection if the calling code is inside of a transaction on it, else None.

    Raises TransactionManagementError if that transaction can only be rolled back. On an event loop
    there is none: Django has no transactions there.
    """
    if _is_on_loop():
        return None
    connection = connection_of(configuration.database)
    if not connection.in_atomic_block and _commits_each(connection):
        return None
    connection.validate_no_broken_transaction()
    return connection


def _commits_each(connection: Any) -> bool:
    """Return whether every statement commits by itself, or would if this were the first one."""
    if connection.connection is None:
        return bool(connection.settings_dict["AUTOCOMMIT"])
    return bool(connection.autocommit)


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _postgres_url(parameters: dict[str, Any]) -> str:
    """Return what Django connects with, as a URL; libpq reads every option from its query."""
    options = {
        name: str(value)
        for name, value in parameters.items()
        if name not in _NOT_LIBPQ and value is not None
    }
    name = quote(options.pop("dbname", ""), safe="")
    query = urlencode(options, quote_via=quote)
    return f"postgresql:///{name}" + (f"?{query}" if query else "")


def sqlite_file(connection: Any) -> Path | None:
    """Return the file of a SQLite database of Django's; None for one in memory."""
    name = str(connection.settings_dict["NAME"])
    if name == ":memory:" or "mode=memory" in name:
        return None
    return Path(name.removeprefix("file:").partition("?")[0]).absolute()


def _url_beside(connection: Any) -> str:
    file = sqlite_file(connection)
    if file is None:
        return MEMORY
    beside = file.with_name(f"{file.stem}-jobs{file.suffix}")
    return f"sqlite:///{quote(str(beside))}"
