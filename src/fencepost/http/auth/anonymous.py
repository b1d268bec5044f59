"""Who may come in without a token: whoever is on this machine, and nobody by way of a browser.

While a store has no token, a server that only this machine can reach lets everybody in. A browser
on this machine would carry strangers along: a page of theirs can send requests here (a foreign
``Origin``, or ``Sec-Fetch-Site`` where it sends no origin), and a name of theirs can be made to
mean 127.0.0.1 (a foreign ``Host``). So would a proxy, which says so in headers of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from fencepost.core.display import shown
from fencepost.core.webhooks.addresses import parse_address
from fencepost.errors import ConfigurationError, ForbiddenError

Headers = Sequence[tuple[bytes, bytes]]
"""As ASGI gives them: names in lower case."""

LOCALHOST = "localhost"
MAKE = "fencepost tokens create NAME --role admin"
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(r"(https?)://(.+)", re.IGNORECASE)
_PORTS = {"http": "80", "https": "443"}
_OWN_SITES = frozenset([b"same-origin", b"none"])
"""A page of this server itself, and what a user typed."""
_RELAYED = frozenset(
    [
        *(b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip"),
        *(b"client-ip", b"true-client-ip", b"cf-connecting-ip", b"fastly-client-ip"),
        *(b"x-original-forwarded-for", b"x-original-host", b"x-original-url", b"x-rewrite-url"),
        *(b"x-envoy-external-address", b"x-appengine-user-ip", b"x-proxyuser-ip"),
    ]
)
_RELAYED_PREFIX = b"x-forwarded"
"""Of more headers than have a name: ``-for``, ``-host``, ``-proto``, ``-port``, ``-by`` …"""


def is_loopback(host: str) -> bool:
    """Tell whether *host* can mean this machine alone, whatever a name server says."""
    name = host.lower()
    if name == LOCALHOST or name.endswith(f".{LOCALHOST}"):
        return True
    try:
        return parse_address(name.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def check_exposure(host: str, has_tokens: bool) -> None:
    """Raise ConfigurationError if a server at *host* would let in the whole network."""
    if not has_tokens and not is_loopback(host):
        raise ConfigurationError(
            f"there is no token, so whoever reaches {shown(host)} could do everything; make one "
            f"first: {MAKE}, or listen on 127.0.0.1"
        )


def check_local(headers: Headers) -> None:
    """Raise ForbiddenError unless a request without a token is this machine's own."""
    hosts: list[bytes] = []
    origins: list[bytes] = []
    for name, value in headers:
        if name == b"host":
            hosts.append(value)
        elif name == b"origin":
            origins.append(value)
        elif name == b"sec-fetch-site" and value not in _OWN_SITES:
            raise ForbiddenError(
                f"without a token, no page of another site may ask; make one: {MAKE}"
            )
        elif name in _RELAYED or name.startswith(_RELAYED_PREFIX):
            raise ForbiddenError(
                f"without a token, only this machine may ask, and this comes by way of a proxy "
                f"({name.decode('latin-1')}); make one: {MAKE}"
            )
    _check_local(tuple(hosts), tuple(origins))


@lru_cache(maxsize=64)
def _check_local(hosts: tuple[bytes, ...], origins: tuple[bytes, ...]) -> None:
    """Do so by the headers that tell; callers say the same with every request."""
    host = _AUTHORITY.fullmatch(hosts[0].decode("latin-1")) if len(hosts) == 1 else None
    if host is None or not is_loopback(host[1]):
        raise ForbiddenError(
            f"without a token, only this machine may ask, and by a name of its own such as "
            f"localhost; make one: {MAKE}"
        )
    for each in origins:
        origin = each.decode("latin-1")
        if not _is_same(origin, host):
            raise ForbiddenError(
                f"without a token, no page of another site may ask (origin {shown(origin)}); make "
                f"one: {MAKE}"
            )


def values(headers: Headers, name: bytes) -> list[str]:
    """Return every value of a header."""
    return [value.decode("latin-1") for each, value in headers if each == name]


def _is_same(origin: str, host: re.Match[str]) -> bool:
    """Tell whether a page came from where it asks."""
    parts = _ORIGIN.fullmatch(origin)
    authority = None if parts is None else _AUTHORITY.fullmatch(parts[2])
    if parts is None or authority is None:
        return False
    usual = _PORTS[parts[1].lower()]
    return (authority[1].lower(), authority[2] or usual) == (host[1].lower(), host[2] or usual)
