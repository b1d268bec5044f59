"""Where a request comes from: this machine, a page of this server, or elsewhere.

Requests without a token are accepted from this machine only, and not from web pages or proxies.
While a store has no token, a server that only this machine can reach accepts every request. A
browser on this machine would let strangers in: their page can send requests here (a foreign
``Origin``, or ``Sec-Fetch-Site`` where there is no origin), and their host name can be made to
resolve to 127.0.0.1 (a foreign ``Host``). So would a proxy, which adds headers that say so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from fencepost.core.display import shown
from fencepost.core.webhooks.callback import parse_address
from fencepost.errors import ConfigurationError, ForbiddenError

Headers = Sequence[tuple[bytes, bytes]]
"""As ASGI gives them: names in lower case."""

LOCALHOST = "localhost"
MAKE = "fencepost tokens create NAME --role admin"
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(r"(https?)://(.+)", re.IGNORECASE)
_PORTS = {"http": "80", "https": "443"}
_OWN_SITES = frozenset([b"same-origin", b"none"])
"""A page of this server itself, and an address that a user typed."""
_RELAYED = frozenset(
    [
        *(b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip"),
        *(b"client-ip", b"true-client-ip", b"cf-connecting-ip", b"fastly-client-ip"),
        *(b"x-original-forwarded-for", b"x-original-host", b"x-original-url", b"x-rewrite-url"),
        *(b"x-envoy-external-address", b"x-appengine-user-ip", b"x-proxyuser-ip"),
    ]
)
_RELAYED_PREFIX = b"x-forwarded"
"""Of ``-for``, ``-host``, ``-proto``, ``-port``, ``-by`` and others."""


def is_loopback(host: str) -> bool:
    """Return whether *host* always means this machine, whatever a name server says."""
    name = host.lower()
    if name == LOCALHOST or name.endswith(f".{LOCALHOST}"):
        return True
    try:
        return parse_address(name.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def check_exposure(host: str, has_tokens: bool) -> None:
    """Raise ConfigurationError if a server at *host* would be open to the whole network."""
    if not has_tokens and not is_loopback(host):
        raise ConfigurationError(
            f"there is no token, so everyone who can reach {shown(host)} could do everything; "
            f"create one first: {MAKE}, or listen on 127.0.0.1"
        )


def check_local(headers: Headers) -> None:
    """Raise ForbiddenError unless a request without a token comes from this machine."""
    hosts: list[bytes] = []
    origins: list[bytes] = []
    for name, value in headers:
        if name == b"host":
            hosts.append(value)
        elif name == b"origin":
            origins.append(value)
        elif name == b"sec-fetch-site" and value not in _OWN_SITES:
            raise ForbiddenError(
                f"without a token, requests from pages of other sites are refused; create one: "
                f"{MAKE}"
            )
        elif name in _RELAYED or name.startswith(_RELAYED_PREFIX):
            raise ForbiddenError(
                f"without a token, requests that came through a proxy are refused "
                f"({name.decode('latin-1')}); create one: {MAKE}"
            )
    _check_local(tuple(hosts), tuple(origins))


def check_same_origin(headers: Headers, *, is_safe: bool) -> None:
    """Raise ForbiddenError unless a request with a cookie comes from a page of this server.

    A browser sends the cookie also for pages of another port of this host, which for it are the
    same site. A request that changes something needs a proof, which no page can forge: browsers
    set ``Sec-Fetch-Site`` and ``Origin`` themselves. Where the address is not secure, they only
    set the second.
    """
    given: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        given.setdefault(name, []).append(value)
    sites = given.get(b"sec-fetch-site", [])
    if sites:
        is_own = len(sites) == 1 and (
            sites[0] == b"same-origin" or (is_safe and sites[0] == b"none")
        )
    else:
        origins, hosts = given.get(b"origin", []), given.get(b"host", [])
        is_own = (is_safe and not origins) or _is_from(origins, hosts)
    if not is_own:
        raise ForbiddenError(
            "with a session, only pages of this server may send this (Sec-Fetch-Site: same-origin, "
            "or an Origin equal to Host); programs send a token: `Authorization: Bearer fp_…`"
        )


def _is_from(origins: Sequence[bytes], hosts: Sequence[bytes]) -> bool:
    """Return whether there is one origin, and it is the host that was asked."""
    host = _AUTHORITY.fullmatch(hosts[0].decode("latin-1")) if len(hosts) == 1 else None
    return host is not None and len(origins) == 1 and _is_same(origins[0].decode("latin-1"), host)


@lru_cache(maxsize=64)
def _check_local(hosts: tuple[bytes, ...], origins: tuple[bytes, ...]) -> None:
    """Check these headers; cached, since clients send the same ones with every request."""
    host = _AUTHORITY.fullmatch(hosts[0].decode("latin-1")) if len(hosts) == 1 else None
    if host is None or not is_loopback(host[1]):
        raise ForbiddenError(
            f"without a token, only requests from localhost are accepted, under a name such as "
            f"localhost; create one: {MAKE}"
        )
    for each in origins:
        origin = each.decode("latin-1")
        if not _is_same(origin, host):
            raise ForbiddenError(
                f"without a token, requests from pages of other sites are refused (origin "
                f"{shown(origin)}); create one: {MAKE}"
            )


def _is_same(origin: str, host: re.Match[str]) -> bool:
    """Return whether a page came from the host that it sends requests to."""
    parts = _ORIGIN.fullmatch(origin)
    authority = None if parts is None else _AUTHORITY.fullmatch(parts[2])
    if parts is None or authority is None:
        return False
    usual = _PORTS[parts[1].lower()]
    return (authority[1].lower(), authority[2] or usual) == (host[1].lower(), host[2] or usual)
