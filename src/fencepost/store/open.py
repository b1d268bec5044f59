"""From a URL to a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote

from fencepost.clock import Clock, SystemClock
from fencepost.core.display import shown, shown_url
from fencepost.core.encryption import REFUSE, KeyRing, Plain
from fencepost.errors import ConfigurationError
from fencepost.store.interface.store import Store
from fencepost.store.url import POSTGRES, split_url

KNOWN = (
    "memory://, sqlite:///relative/path.db, sqlite:////absolute/path.db, "
    "postgresql://user:password@host/database, redis://user:password@host/0, "
    "redis+sentinel://host:26379,host:26379/name/0 or redis+cluster://host:6379"
)
REDIS = tuple(f"redis{tls}{kind}" for tls in ("", "s") for kind in ("", "+sentinel", "+cluster"))
PATIENCE = 10.0


def open_store(
    url: str,
    *,
    clock: Clock | None = None,
    patience: float = PATIENCE,
    keys: KeyRing | None = None,
    plain: Plain = REFUSE,
) -> Store:
    """Return the store that *url* names, or raise ConfigurationError if it names none.

    *patience* is how long an operation may wait for the store before it is called unavailable.
    With *keys*, what users put into jobs is encrypted there, and what is not is refused unless
    *plain* accepts it.
    """
    store = _open(url, clock or SystemClock(), patience)
    return store if keys is None else with_keys(store, keys, plain)


class LazyStore:
    """Opens a store when it is first used: most children never write to it."""

    def __init__(self, url: str, keys: KeyRing | None) -> None:
        self._url = url
        self._keys = keys
        self._store: Store | None = None

    def __getattr__(self, name: str) -> Any:
        if self._store is None:
            self._store = open_store(self._url, keys=self._keys)
        return getattr(self._store, name)


def with_keys(store: Store, keys: KeyRing, plain: Plain = REFUSE) -> Store:
    """Return *store* with encryption around it."""
    from fencepost.store.wrappers.encrypted import encrypted

    return encrypted(store, keys, plain)


def _open(url: str, clock: Clock, patience: float) -> Store:
    parts = _split(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    match parts.scheme:
        case "memory":
            from fencepost.store.memory.store import MemoryStore

            _refuse_unknown(options, (), url)
            return MemoryStore(url=url, clock=clock)
        case "sqlite":
            from fencepost.store.sqlite.store import SqliteStore

            _refuse_unknown(options, ("durability", "group"), url)
            return SqliteStore(
                _sqlite_path(parts.netloc, parts.path, url),
                url=url,
                clock=clock,
                durability=options.get("durability", "power"),
                patience=patience,
                group=options.get("group"),
            )
        case scheme if scheme.partition("+")[0] in POSTGRES:
            with _driver_of("PostgreSQL", "postgres"):
                from fencepost.store.postgres.store import PostgresStore
            return PostgresStore(url, clock=clock, patience=patience)
        case scheme if scheme in REDIS:
            with _driver_of("Redis", "redis"):
                from fencepost.store.redis.partitions.store import PartitionedStore
                from fencepost.store.redis.store import RedisStore
            kind = PartitionedStore if "partition" in options else RedisStore
            return kind(url, clock=clock, patience=patience)
        case _:
            raise ConfigurationError(f"{shown(shown_url(url))} is not a store URL; use {KNOWN}")


@contextmanager
def _driver_of(server: str, extra: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            f'{server} needs a driver: pip install "fencepost[{extra}]" ({error})'
        ) from None


def _split(url: str) -> SplitResult:
    if not isinstance(url, str):
        raise ConfigurationError(f"a store URL is text, got {shown(url)}; use {KNOWN}")
    try:
        return split_url(url)
    except ValueError as error:
        raise ConfigurationError(f"{shown(shown_url(url))} is not a URL: {error}") from None


def _sqlite_path(netloc: str, path: str, url: str) -> str:
    """Follow SQLAlchemy: three slashes for a relative path, four for an absolute one."""
    if netloc:
        raise ConfigurationError(
            f"{shown(shown_url(url))} names a host; a SQLite URL has three slashes "
            f"(relative) or four (absolute)"
        )
    name = unquote(path).removeprefix("/")
    if not name or name.endswith("/") or "\0" in name:
        raise ConfigurationError(f"{shown(shown_url(url))} names no file; write sqlite:///jobs.db")
    if name == ":memory:":
        raise ConfigurationError("an in-memory SQLite cannot be shared; use memory:// for tests")
    return name


def _refuse_unknown(options: dict[str, str], known: tuple[str, ...], url: str) -> None:
    unknown = sorted(options.keys() - set(known))
    if unknown:
        allowed = ", ".join(known) or "none"
        raise ConfigurationError(
            f"{shown(shown_url(url))}: unknown option {shown(unknown[0])}; there are: {allowed}"
        )
