"""Where the servers are, how to log in, and what was promised: all that the URL says."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
from redis.crc import key_slot

from fencepost.core.display import shown, shown_url
from fencepost.errors import ConfigurationError
from fencepost.store.redis.engine.durability import DEFAULT, Durability
from fencepost.store.url import split_url

PREFIX = "{fencepost}:"
PORT = 6379
SENTINEL_PORT = 26379
REPLICAS_MAX = 16

_OPTIONS = ("prefix", "durability", "replicas", "partition")
PARTITION = "queue"
"""By what an app can be spread over several slots."""
_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_SENTINEL = ("sentinel_username", "sentinel_password")


class Deployment(Enum):
    """What stands at the address."""

    SERVER = "redis"
    SENTINEL = "redis+sentinel"
    CLUSTER = "redis+cluster"


class ServerPlace(NamedTuple):
    """Where one server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """What a URL says."""

    url: str
    kind: Deployment
    places: tuple[ServerPlace, ...]
    service: str = ""
    """The name by which the Sentinels know the master."""
    username: str | None = None
    password: str | None = None
    db: int = 0
    has_tls: bool = False
    tls: Mapping[str, str]
    sentinel_login: Mapping[str, str]
    prefix: str = PREFIX
    durability: Durability = DEFAULT
    replicas: int = 1
    is_partitioned: bool = False
    """Whether queues are spread over several slots; see ``store/redis/partitions``."""

    @property
    def shown(self) -> str:
        """The URL without passwords."""
        return shown_url(self.url)

    @property
    def slot(self) -> int:
        """The slot of a cluster that has all keys."""
        return int(key_slot(self.prefix.encode()))

    @property
    def waits_for(self) -> int:
        """How many replicas have to confirm a write; 0 if none need to."""
        return self.replicas if self.durability is Durability.REPLICA else 0

    def login(self) -> dict[str, Any]:
        """Return the driver's options for a connection to a server."""
        return {
            "username": self.username,
            "password": self.password,
            "db": self.db,
            **self.secure(),
        }

    def secure(self) -> dict[str, Any]:
        """Return the driver's options for TLS."""
        return {"ssl_check_hostname": True, **self.tls} if self.has_tls else {}


def read_address(url: str, **given: str | None) -> Address:
    """Return what *url* says; what is *given* replaces its options. Raise ConfigurationError."""
    parts = split_url(url)
    scheme = parts.scheme.replace("rediss", "redis", 1)
    kind, has_tls = Deployment(scheme), parts.scheme.startswith("rediss")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    options |= {name: value for name, value in given.items() if value is not None}
    _refuse_unknown(url, options, kind, has_tls=has_tls)
    login, _, hosts = parts.netloc.rpartition("@")
    name, _, password = login.partition(":")
    service, db = _path(url, kind, unquote(parts.path).strip("/"))
    address = Address(
        url=url,
        kind=kind,
        places=_places(url, hosts, SENTINEL_PORT if kind is Deployment.SENTINEL else PORT),
        service=service,
        username=unquote(name) or None,
        password=unquote(password) or None,
        db=db,
        has_tls=has_tls,
        tls={name: options[name] for name in _TLS if name in options},
        sentinel_login={
            name.removeprefix("sentinel_"): options[name] for name in _SENTINEL if name in options
        },
        prefix=options.get("prefix", PREFIX),
        durability=_durability(url, options.get("durability", DEFAULT.value)),
        replicas=_count(url, "replicas", options.get("replicas", "1"), REPLICAS_MAX, least=1),
        is_partitioned=_is_partitioned(url, options.get("partition")),
    )
    _check(address, options)
    return address


def without_partition(url: str) -> str:
    """Return the URL of the store of one partition."""
    head, _, query = url.partition("?")
    words = [word for word in query.split("&") if word.partition("=")[0] != "partition"]
    return f"{head}?{'&'.join(words)}" if words and words != [""] else head


def _is_partitioned(url: str, text: str | None) -> bool:
    if text not in (None, PARTITION):
        raise _wrong(url, f"unknown partition {shown(text)}; there is: {PARTITION}")
    return text is not None


def _check(address: Address, options: Mapping[str, str]) -> None:
    if not address.prefix:
        raise _wrong(address.url, "the prefix is empty; leave it out, or name one")
    opened, _, rest = address.prefix.partition("{")
    if address.kind is Deployment.CLUSTER and (opened == address.prefix or rest.find("}") < 1):
        raise _wrong(
            address.url,
            f"on a cluster, all keys must have one slot: write the prefix with braces, such as "
            f"prefix={{{address.prefix.strip(':{}') or 'app'}}}:",
        )
    if "replicas" in options and not address.waits_for:
        raise _wrong(address.url, "replicas= is for durability=replica only; add it")


def _places(url: str, hosts: str, port: int) -> tuple[ServerPlace, ...]:
    places = []
    for each in hosts.split(",") if hosts else ["localhost"]:
        try:
            parts = urlsplit(f"//{each}")
            places.append(ServerPlace(parts.hostname or "localhost", parts.port or port))
        except ValueError as error:
            raise _wrong(url, f"{shown(each)} is not host:port ({error})") from None
    return tuple(places)


def _path(url: str, kind: Deployment, path: str) -> tuple[str, int]:
    """Return the name of the master, and the number of the database."""
    service = ""
    if kind is Deployment.SENTINEL:
        service, _, path = path.partition("/")
        if not service:
            raise _wrong(url, "the name of the master is missing; write host:port/mymaster")
    number = _count(url, "the database", path or "0", 1 << 16)
    if kind is Deployment.CLUSTER and number:
        raise _wrong(url, "a cluster has database 0 only; leave the number out")
    return service, number


def _count(url: str, what: str, text: str, most: int, *, least: int = 0) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9 and least <= int(text) <= most):
        raise _wrong(url, f"{what} must be a number from {least} to {most:,}, got {shown(text)}")
    return int(text)


def _durability(url: str, text: str) -> Durability:
    try:
        return Durability(text)
    except ValueError:
        names = ", ".join(each.value for each in Durability)
        raise _wrong(url, f"unknown durability {shown(text)}; there are: {names}") from None


def _refuse_unknown(
    url: str, options: Mapping[str, str], kind: Deployment, *, has_tls: bool
) -> None:
    known = [
        *_OPTIONS,
        *(_TLS if has_tls else ()),
        *(_SENTINEL if kind is Deployment.SENTINEL else ()),
    ]
    unknown = sorted(options.keys() - set(known))
    if unknown:
        raise _wrong(url, f"unknown option {shown(unknown[0])}; there are: {', '.join(known)}")


def _wrong(url: str, text: str) -> ConfigurationError:
    return ConfigurationError(f"{shown(shown_url(url))}: {text}")
