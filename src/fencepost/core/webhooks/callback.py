"""Where a webhook may go: callback URLs, read strictly, and what the settings of an app allow.

A URL that two readers could understand differently is refused; submission and delivery read it in
the same way. Names are resolved at delivery only. Users choose the URL, and an address inside our
network would give them access to it: so only addresses known to be public are allowed. The tables
below decide that, not ``ipaddress``: its ``is_global`` changed within patch releases (decision
0040).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import msgspec

from fencepost.core.bounds import (
    CALLBACK_PORT_FREE,
    CALLBACK_URL_LENGTH_MAX,
    WEBHOOK_NETWORKS_MAX,
    WEBHOOK_TIMEOUT_DEFAULT,
    WEBHOOK_TIMEOUT_MAX,
    WEBHOOK_TIMEOUT_MIN,
)
from fencepost.core.display import shortened, shown
from fencepost.core.values.names import check_list
from fencepost.core.values.times import Duration, parse_duration
from fencepost.core.webhooks.signature import parse_secrets
from fencepost.errors import ConfigurationError, InvalidCallbackError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# From the IANA registries of special-purpose addresses (RFC 6890 and its updates), and multicast.
# A few public anycast addresses inside are refused with their ranges: no receiver has one.
_SPECIAL = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared by a carrier's customers
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link-local, and the metadata of clouds
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112: sinks of name servers
            "192.52.193.0/24",  # relays of multicast
            "192.88.99.0/24",  # relays of 6to4, deprecated
            "192.168.0.0/16",  # private
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
            "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarks, ...
            "2001:db8::/32",  # documentation
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
        ),
    )
)
# Public IPv6 is global unicast without those; everything outside of it is refused anyway.
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_MAPPED = IPv6Network("::ffff:0:0/96")
_TRANSLATED = IPv6Network("64:ff9b::/96")
_6TO4 = IPv6Network("2002::/16")
_6TO4_SHIFT = 80
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
_LOW = 0xFFFF_FFFF


def parse_address(text: str) -> Address:
    """Return the address in *text* without its zone, or raise ValueError."""
    return ip_address(text.partition("%")[0])


def parse_networks(values: object) -> tuple[Network, ...]:
    """Return networks, or raise ConfigurationError."""
    given = check_list(
        values, "allow_networks", example='["10.0.0.0/8"]', most=WEBHOOK_NETWORKS_MAX
    )
    return tuple(_parse_network(value) for value in given)


def _parse_network(value: object) -> Network:
    # A number would be read as an address too.
    text = str(value) if isinstance(value, (str, IPv4Network, IPv6Network)) else ""
    try:
        return ip_network(text)
    except ValueError:
        raise ConfigurationError(
            f'allow_networks: {shown(value)} is no network; write "10.0.0.0/8" or "fd00::/8", '
            f"the address being the network's first"
        ) from None


def may_reach(address: Address, allowed: Iterable[Network] = ()) -> bool:
    """Return whether a webhook may go to *address*."""
    host = _host_of(address)
    return any(host in network for network in allowed) or is_public(host)


def is_public(address: Address) -> bool:
    """Return whether *address* is known to be public."""
    host = _host_of(address)
    if any(host in network for network in _SPECIAL):
        return False
    if isinstance(host, IPv4Address):
        return True
    return host in _GLOBAL_UNICAST and all(is_public(inner) for inner in _inner(host))


def _host_of(address: Address) -> Address:
    """Return the IPv4 host that an IPv6 address stands for, if it does."""
    if isinstance(address, IPv6Address) and (address in _MAPPED or address in _TRANSLATED):
        return IPv4Address(int(address) & _LOW)
    return address


def _inner(address: IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses to which a tunnel would forward."""
    inner = []
    if address in _6TO4:
        inner.append(IPv4Address((int(address) >> _6TO4_SHIFT) & _LOW))
    if (int(address) >> 32) & _LOW in _ISATAP:
        inner.append(IPv4Address(int(address) & _LOW))
    return inner


PORTS = {"http": 80, "https": 443}
PORT_MAX = 65_535
HOST_LENGTH_MAX = 253

_SHAPE = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<target>[^#]*)(?P<fragment>#.*)?",
    re.ASCII | re.IGNORECASE | re.DOTALL,
)
_HOST_AND_PORT = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?P<port>:.*)?", re.DOTALL)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
# Some readers take a name that ends in a number for an address, octal or hexadecimal.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_TARGET = re.compile(r"(?:[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*", re.ASCII)


class Callback(msgspec.Struct, frozen=True):
    """Where a webhook goes."""

    scheme: str
    host: str
    """In lower case; an IPv6 address without brackets."""
    port: int
    target: str
    """Path and query, as they are sent."""

    @property
    def is_encrypted(self) -> bool:
        return self.scheme == "https"

    @property
    def address(self) -> Address | None:
        """The address, if the host is not a name."""
        try:
            return parse_address(self.host)
        except ValueError:
            return None

    @property
    def authority(self) -> str:
        """Host and port as in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """The receiver without path and query, which may contain a secret."""
        return f"{self.scheme}://{self.authority}"


def check_callback_url(
    url: object, *, allow_http: bool = False, allowed: Iterable[Network] = ()
) -> Callback:
    """Return the parts of *url* if webhooks may go there, or raise InvalidCallbackError."""
    callback = parse_callback_url(url)
    if not (callback.is_encrypted or allow_http):
        raise InvalidCallbackError(
            "callback_url must begin with https://; Webhooks(allow_http=True) allows http:// too"
        )
    address = callback.address
    if address is not None and not may_reach(address, allowed):
        raise InvalidCallbackError(
            f"callback_url leads to {address}, a private address; if that is intended, allow its "
            f'network: Webhooks(allow_networks=["…/…"])'
        )
    return callback


def parse_callback_url(url: object) -> Callback:
    """Return the parts of *url*, or raise InvalidCallbackError, which never shows its secrets."""
    shape = _SHAPE.fullmatch(_text(url))
    if shape is None or shape["scheme"].lower() not in PORTS:
        raise InvalidCallbackError("callback_url must begin with https:// (or http://)")
    if "@" in shape["authority"]:
        raise InvalidCallbackError(
            "callback_url must not contain a user or a password: it is stored and shown; receivers "
            "verify the signature"
        )
    if shape["fragment"] is not None:
        raise InvalidCallbackError("callback_url must not have a #fragment: it is never sent")
    scheme = shape["scheme"].lower()
    host, port = _split(shape["authority"])
    return Callback(scheme, _host(host), _port(port, scheme), _target(shape["target"]))


def _text(url: object) -> str:
    if not isinstance(url, str):
        raise InvalidCallbackError(
            f"callback_url must be text such as https://example.com/hook, not {type(url).__name__}"
        )
    if len(url) > CALLBACK_URL_LENGTH_MAX:
        raise InvalidCallbackError(
            f"callback_url may have {CALLBACK_URL_LENGTH_MAX:,} characters, got {len(url):,}"
        )
    return url


def _split(authority: str) -> tuple[str, str | None]:
    parts = _HOST_AND_PORT.fullmatch(authority)
    if parts is None or not parts["host"]:
        raise InvalidCallbackError("callback_url names no host; write https://example.com/hook")
    return parts["host"], parts["port"]


def _host(written: str) -> str:
    # First of all: some letters become ASCII in lower case.
    if not written.isascii():
        raise InvalidCallbackError(
            f"callback_url: write the host {shortened(ascii(written))} in its ASCII form (xn--…)"
        )
    host = written.lower()
    if host.startswith("["):
        if "%" in host:
            raise InvalidCallbackError("callback_url: no IPv6 address may have a zone")
        return _address(IPv6Address, host[1:-1], "IPv6")
    # No certificate has the dot at the end of an absolute name.
    host = host.removesuffix(".")
    labels = host.split(".")
    if len(host) > HOST_LENGTH_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        raise InvalidCallbackError(f"callback_url: {shortened(ascii(host))} is no host")
    return _address(IPv4Address, host, "IPv4") if _NUMBER.fullmatch(labels[-1]) else host


def _address(kind: type[Address], text: str, name: str) -> str:
    try:
        return str(kind(text))
    except ValueError:
        raise InvalidCallbackError(
            f"callback_url: {shortened(ascii(text))} is no {name} address; write each number "
            f"without leading zeros"
        ) from None


def _port(text: str | None, scheme: str) -> int:
    if text is None:
        return PORTS[scheme]
    digits = text[1:]
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= len(str(PORT_MAX))
    port = int(digits) if is_number and not digits.startswith("0") else 0
    if port not in PORTS.values() and not CALLBACK_PORT_FREE <= port <= PORT_MAX:
        raise InvalidCallbackError(
            f"callback_url: the port must be 80, 443, or lie between {CALLBACK_PORT_FREE} and "
            f"{PORT_MAX}"
        )
    return port


def _target(target: str) -> str:
    if not _TARGET.fullmatch(target):
        raise InvalidCallbackError(
            "callback_url: percent-encode what is not plain ASCII in its path and query (%20 for "
            "a space)"
        )
    return target if target.startswith("/") else f"/{target}"


VARIABLE = "FENCEPOST_WEBHOOK_SECRETS"
UNSIGNED = (
    "callback_url needs a secret to sign webhooks with: give App(webhooks=Webhooks(secrets=[…])) "
    f"or set {VARIABLE}; `fencepost webhooks secret` prints a fresh one"
)


@dataclass(frozen=True, slots=True, init=False)
class Webhooks:
    """How an app sends webhooks. Every secret signs; receivers need to know one of them."""

    keys: tuple[bytes, ...] = field(repr=False)
    allow_http: bool
    """Allow http:// too, which is not encrypted."""
    allow_networks: tuple[Network, ...]
    """Private networks that may be reached."""
    timeout: float
    """The longest time of one delivery, in seconds."""

    def __init__(
        self,
        secrets: str | Iterable[str],
        *,
        allow_http: bool = False,
        allow_networks: Iterable[str | Network] = (),
        timeout: Duration = WEBHOOK_TIMEOUT_DEFAULT,
    ) -> None:
        set_ = object.__setattr__
        set_(self, "keys", parse_secrets(secrets))
        set_(self, "allow_http", bool(allow_http))
        set_(self, "allow_networks", parse_networks(allow_networks))
        set_(
            self,
            "timeout",
            parse_duration(
                timeout,
                name="Webhooks(timeout=…)",
                minimum=WEBHOOK_TIMEOUT_MIN,
                maximum=WEBHOOK_TIMEOUT_MAX,
            ),
        )

    def check(self, url: object) -> Callback:
        """Return the parts of *url* if webhooks may go there, or raise InvalidCallbackError."""
        return check_callback_url(url, allow_http=self.allow_http, allowed=self.allow_networks)


def parse_variable(text: str | None) -> Webhooks | None:
    """Return the settings for comma-separated secrets, if there are any."""
    secrets = [part.strip() for part in (text or "").split(",") if part.strip()]
    if not secrets:
        return None
    try:
        return Webhooks(secrets)
    except ConfigurationError as error:
        raise ConfigurationError(f"{VARIABLE}: {error}") from None


def check_callback(url: object, webhooks: Webhooks | None) -> str:
    """Return *url* if a job may have it, or raise; without a secret no webhook is sent."""
    if webhooks is None:
        raise ConfigurationError(UNSIGNED)
    webhooks.check(url)
    assert isinstance(url, str)
    return url
