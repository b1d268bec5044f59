"""Which addresses a webhook may go to: those of the public internet, and those that were allowed.

A callback_url comes from whoever submits jobs; an address inside the network would let them reach
what they cannot reach themselves. So what is not known to be public is refused, whichever way it
is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from fencepost.core.limits import WEBHOOK_NETWORKS_MAX
from fencepost.core.shown import shown
from fencepost.errors import ConfigurationError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_GLOBAL_UNICAST = IPv6Network("2000::/3")
_TRANSLATED = IPv6Network("64:ff9b::/96")
# Not public either, and not to every version of `ipaddress`: for protocols, for relays, for books.
_SPECIAL = (IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24"), IPv6Network("3fff::/20"))
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
_LOW = 0xFFFF_FFFF


def parse_address(text: str) -> Address:
    """Return the address that *text* is, or raise ValueError. A zone is none of the address."""
    return ip_address(text.partition("%")[0])


def parse_networks(values: object) -> tuple[Network, ...]:
    """Return the networks that *values* names, or raise ConfigurationError."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ConfigurationError(
            f'allow_networks must be a list such as ["10.0.0.0/8"], got {shown(values)}'
        )
    given = list(values)
    if len(given) > WEBHOOK_NETWORKS_MAX:
        raise ConfigurationError(
            f"allow_networks may name {WEBHOOK_NETWORKS_MAX} networks, got {len(given)}"
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
    """Tell whether a webhook may go to *address*."""
    host = _host_of(address)
    return any(host in network for network in allowed) or is_public(host)


def is_public(address: Address) -> bool:
    """Tell whether *address* surely belongs to the public internet."""
    host = _host_of(address)
    if not host.is_global or any(host in network for network in _SPECIAL):
        return False
    if isinstance(host, IPv4Address):
        return not (host.is_multicast or host.is_reserved)
    # By what it is rather than by what it is not: the rest of IPv6 has no public hosts.
    return host in _GLOBAL_UNICAST and all(is_public(inner) for inner in _inner(host))


def _host_of(address: Address) -> Address:
    """Return the IPv4 host to which an IPv6 address is only another way."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & _LOW) if address in _TRANSLATED else address


def _inner(address: IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses to which a tunnel would carry what is sent to *address*."""
    inner = [] if address.sixtofour is None else [address.sixtofour]
    inner += [] if address.teredo is None else list(address.teredo)
    if (int(address) >> 32) & _LOW in _ISATAP:
        inner.append(IPv4Address(int(address) & _LOW))
    return inner
