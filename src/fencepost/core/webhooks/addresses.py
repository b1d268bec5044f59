"""Which addresses a webhook may go to: those of the public internet, and those that were allowed.

A callback_url comes from whoever submits jobs; an address inside the network would let them reach
what they cannot reach themselves. So what is not known to be public is refused, whichever way it
is written.

What is public is decided by the tables below, never by ``ipaddress``: its ``is_global`` and
``is_private`` changed within patch releases (decision 0040), and a guard must not.
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

from fencepost.core.bounds import WEBHOOK_NETWORKS_MAX
from fencepost.core.display import shown
from fencepost.errors import ConfigurationError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# From the IANA registries of special-purpose addresses (RFC 6890 and its updates), and multicast.
# Ranges that are refused as a whole include the few anycast addresses in them that are public:
# no receiver of webhooks has one.
_SPECIAL_V4 = tuple(
    map(
        IPv4Network,
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
        ),
    )
)
# Public IPv6 is global unicast less these. What lies outside of it (loopback, link-local, unique
# local, multicast, discard-only, segment routing, local NAT64, what is not yet given out, ...)
# needs no line of its own.
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_SPECIAL_V6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarks, ...
            "2001:db8::/32",  # documentation
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
        ),
    )
)
_MAPPED = IPv6Network("::ffff:0:0/96")
_TRANSLATED = IPv6Network("64:ff9b::/96")
_6TO4 = IPv6Network("2002::/16")
_6TO4_SHIFT = 80
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
    if isinstance(host, IPv4Address):
        return not any(host in network for network in _SPECIAL_V4)
    # By what it is rather than by what it is not: the rest of IPv6 has no public hosts.
    if host not in _GLOBAL_UNICAST or any(host in network for network in _SPECIAL_V6):
        return False
    return all(is_public(inner) for inner in _inner(host))


def _host_of(address: Address) -> Address:
    """Return the IPv4 host to which an IPv6 address is only another way."""
    if isinstance(address, IPv6Address) and (address in _MAPPED or address in _TRANSLATED):
        return IPv4Address(int(address) & _LOW)
    return address


def _inner(address: IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses to which a tunnel would carry what is sent to *address*."""
    inner = []
    if address in _6TO4:
        inner.append(IPv4Address((int(address) >> _6TO4_SHIFT) & _LOW))
    if (int(address) >> 32) & _LOW in _ISATAP:
        inner.append(IPv4Address(int(address) & _LOW))
    return inner
