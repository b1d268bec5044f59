"""A callback_url, read strictly: what two readers could understand differently is refused.

The same reading is used when a job is submitted and when its webhook is delivered, so that what
was checked is what is called. Names are resolved at delivery only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from fencepost.core.bounds import CALLBACK_PORT_FREE, CALLBACK_URL_LENGTH_MAX
from fencepost.core.display import shortened
from fencepost.core.webhooks.addresses import Address, Network, may_reach, parse_address
from fencepost.errors import InvalidCallbackError

PORTS = {"http": 80, "https": 443}
PORT_MAX = 65_535
HOST_LENGTH_MAX = 253

_SHAPE = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<target>[^#]*)(?P<fragment>#.*)?",
    re.ASCII | re.IGNORECASE | re.DOTALL,
)
_HOST_AND_PORT = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?P<port>:.*)?", re.DOTALL)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
# A name whose last part is a number is read as an address by some, in octal or in hexadecimal.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_TARGET = re.compile(r"(?:[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*", re.ASCII)


class Callback(msgspec.Struct, frozen=True):
    """Where a webhook goes."""

    scheme: str
    host: str
    """In lower case; an IPv6 address without its brackets."""
    port: int
    target: str
    """Path and query, as they are sent."""

    @property
    def is_encrypted(self) -> bool:
        return self.scheme == "https"

    @property
    def address(self) -> Address | None:
        """The address that the host is, if it is no name."""
        try:
            return parse_address(self.host)
        except ValueError:
            return None

    @property
    def authority(self) -> str:
        """Host and port as a request's Host header names them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """The receiver for people to read; without path and query, which may hold a secret."""
        return f"{self.scheme}://{self.authority}"


def check_callback_url(
    url: object, *, allow_http: bool = False, allowed: Iterable[Network] = ()
) -> Callback:
    """Return where *url* leads if webhooks may go there, or raise InvalidCallbackError."""
    callback = parse_callback_url(url)
    if not (callback.is_encrypted or allow_http):
        raise InvalidCallbackError(
            "callback_url must begin with https://; Webhooks(allow_http=True) allows http:// too"
        )
    address = callback.address
    if address is not None and not may_reach(address, allowed):
        raise InvalidCallbackError(
            f"callback_url leads to {address}, which is no public address; if it is meant, allow "
            f'its network: Webhooks(allow_networks=["…/…"])'
        )
    return callback


def parse_callback_url(url: object) -> Callback:
    """Return the parts of *url*, or raise InvalidCallbackError, which never repeats its secrets."""
    shape = _SHAPE.fullmatch(_text(url))
    if shape is None or shape["scheme"].lower() not in PORTS:
        raise InvalidCallbackError("callback_url must begin with https:// (or http://)")
    if "@" in shape["authority"]:
        raise InvalidCallbackError(
            "callback_url must not hold a user or a password: it is stored and shown; receivers "
            "know a webhook by its signature"
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
    # Before anything else: some letters become ASCII ones in lower case.
    if not written.isascii():
        raise InvalidCallbackError(
            f"callback_url: write the host {shortened(ascii(written))} in its ASCII form (xn--…), "
            f"of which there is only one"
        )
    host = written.lower()
    if host.startswith("["):
        return _ipv6(host[1:-1])
    # A dot at the end makes a name absolute, but no certificate has it.
    host = host.removesuffix(".")
    labels = host.split(".")
    if len(host) > HOST_LENGTH_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        raise InvalidCallbackError(f"callback_url: {shortened(ascii(host))} is no host")
    return _ipv4(host) if _NUMBER.fullmatch(labels[-1]) else host


def _ipv6(text: str) -> str:
    try:
        if "%" in text or ":" not in text:
            raise ValueError(text)
        return str(parse_address(text))
    except ValueError:
        raise InvalidCallbackError(
            f"callback_url: [{shortened(ascii(text))}] is no IPv6 address; one with a zone is not "
            f"taken"
        ) from None


def _ipv4(text: str) -> str:
    try:
        return str(parse_address(text))
    except ValueError:
        raise InvalidCallbackError(
            f"callback_url: {shortened(ascii(text))} is no IPv4 address; write four decimal "
            f"numbers without leading zeros"
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
