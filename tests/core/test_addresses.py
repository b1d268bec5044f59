"""Which addresses a webhook may go to."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.bounds import WEBHOOK_NETWORKS_MAX
from fencepost.core.webhooks.callback import is_public, may_reach, parse_address, parse_networks
from fencepost.errors import ConfigurationError

PRIVATE_V4 = (
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254"),
    *("169.254.169.254", "172.16.0.1", "172.31.255.255", "192.168.1.1", "192.0.0.8", "192.0.2.1"),
    *("198.18.0.1", "198.51.100.7", "203.0.113.9", "192.88.99.1", "224.0.0.1", "239.255.255.250"),
    *("240.0.0.1", "255.255.255.255"),
)
PRIVATE_V6 = (
    *("::", "::1", "::127.0.0.1", "::8.8.8.8", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1"),
    *("fd12:3456::1", "ff02::1", "2001:db8::1", "3fff::1", "5f00::1", "100::1", "4000::1"),
    *("2001::1", "64:ff9b:1::808:808", "2001:4860:0:0:0:5efe:a00:1", "2600::200:5efe:7f00:1"),
    *("::ffff:0:8.8.8.8", "2001:0:808:808::f7f7:f7f7", "2620:4f:8000::1", "100:0:0:1::1"),
    *("64:ff9b:0:0:1::808:808", "64:ff9a:ffff:ffff:ffff:ffff:808:808"),
)
PUBLIC = (
    *("1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001::200e"),
    *("::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"),
)

private_v4 = st.sampled_from(PRIVATE_V4).map(IPv4Address)


@pytest.mark.parametrize("text", PRIVATE_V4 + PRIVATE_V6)
def test_what_is_not_surely_public_is_refused(text: str) -> None:
    assert not is_public(parse_address(text))
    assert not may_reach(parse_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_is_reached(text: str) -> None:
    assert may_reach(parse_address(text))


@given(
    private_v4,
    st.sampled_from([0xFFFF << 32, 0x64FF9B << 96, 0x2002 << 112, 0x2600 << 112 | 0x5EFE << 32]),
)
def test_a_private_address_inside_another_is_refused(inner: IPv4Address, around: int) -> None:
    """IPv4-mapped, NAT64, 6to4 and ISATAP: a router would carry it to the inner one."""
    shift = 80 if around >> 112 == 0x2002 else 0
    assert not may_reach(IPv6Address(around | int(inner) << shift))


REGISTRY_V4 = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
    *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24"),
    *("192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15"),
    *("198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "255.255.255.255/32"),
    "224.0.0.0/4",
)
"""The IANA registry of special-purpose IPv4 addresses, then multicast, which has its own."""
REGISTRY_V6 = (
    *("::1/128", "::/128", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23"),
    *("2001::/32", "2001:1::1/128", "2001:2::/48", "2001:3::/32", "2001:4:112::/48"),
    *("2001:10::/28", "2001:20::/28", "2001:30::/28", "2001:db8::/32", "2620:4f:8000::/48"),
    *("3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "ff00::/8", "fec0::/10"),
)
"""The same for IPv6, less what is judged by the IPv4 address within: mapped, NAT64, 6to4."""


@pytest.mark.parametrize("text", REGISTRY_V4 + REGISTRY_V6)
def test_a_range_of_the_registries_is_refused_from_its_first_address_to_its_last(text: str) -> None:
    network = ip_network(text)
    assert not may_reach(network[0])
    assert not may_reach(network[-1])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        *(("9.255.255.255", "11.0.0.0"), ("100.63.255.255", "100.128.0.0")),
        *(("126.255.255.255", "128.0.0.0"), ("169.253.255.255", "169.255.0.0")),
        *(("172.15.255.255", "172.32.0.0"), ("191.255.255.255", "192.0.1.0")),
        *(("192.0.1.255", "192.0.3.0"), ("192.31.195.255", "192.31.197.0")),
        *(("192.52.192.255", "192.52.194.0"), ("192.88.98.255", "192.88.100.0")),
        *(("192.167.255.255", "192.169.0.0"), ("192.175.47.255", "192.175.49.0")),
        *(("198.17.255.255", "198.20.0.0"), ("198.51.99.255", "198.51.101.0")),
        *(("203.0.112.255", "203.0.114.0"), ("223.255.255.255", "1.0.0.0")),
        *(("2001:200::", "2001:db7:ffff::"), ("2001:db9::", "2620:4f:7fff::")),
        *(("2620:4f:8001::", "3ffe:ffff::"), ("2000::", "3fff:1000::")),
    ],
)
def test_what_lies_beside_a_special_range_is_public(before: str, after: str) -> None:
    assert may_reach(parse_address(before))
    assert may_reach(parse_address(after))


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_judged_as_itself(inner: IPv4Address) -> None:
    for around, shift in ((0xFFFF << 32, 0), (0x64FF9B << 96, 0), (0x2002 << 112, 80)):
        assert may_reach(IPv6Address(around | int(inner) << shift)) == may_reach(inner)


OPINIONS = (
    *("is_global", "is_private", "is_reserved", "is_multicast", "is_loopback", "is_link_local"),
    *("is_unspecified", "is_site_local", "ipv4_mapped", "sixtofour", "teredo"),
)


@given(st.ip_addresses())
def test_what_ipaddress_thinks_of_an_address_is_not_asked(address: Any) -> None:
    """It changed between 3.11.2, 3.11.9, 3.12.4 and 3.13.0; a guard is the same on each."""

    def refuse(_: object) -> bool:
        raise AssertionError("the guard asked ipaddress for an opinion")

    with pytest.MonkeyPatch.context() as patch:
        for kind in (ipaddress.IPv4Address, ipaddress.IPv6Address):
            for name in OPINIONS:
                if hasattr(kind, name):
                    patch.setattr(kind, name, property(refuse))
        assert may_reach(address) == is_public(address)


def test_a_network_that_was_allowed_is_reached_in_every_form_of_its_addresses() -> None:
    allowed = parse_networks(["10.0.0.0/8", "fd00::/8"])
    for text in ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203", "fd00::1"):
        assert may_reach(parse_address(text), allowed), text
    for text in ("127.0.0.1", "::ffff:127.0.0.1", "fc00::1", "169.254.169.254"):
        assert not may_reach(parse_address(text), allowed), text


def test_a_tunnel_to_an_allowed_network_is_not_the_network() -> None:
    """6to4 goes through a relay that nobody has allowed."""
    assert not may_reach(ip_address("2002:a01:203::1"), parse_networks(["10.0.0.0/8"]))


@pytest.mark.parametrize(
    "value", ["10.0.0.0/8", b"", None, 7, ["10.0.0.1/8"], ["nonsense"], [10], [""], [None], [b"x"]]
)
def test_what_is_no_list_of_networks_is_refused_with_an_example(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r'allow_networks.*"10\.0\.0\.0/8"'):
        parse_networks(value)


def test_networks_are_few_and_may_be_networks_already() -> None:
    network = IPv4Network("10.0.0.0/8")
    assert parse_networks([network]) == (network,)
    with pytest.raises(ConfigurationError, match="got 101"):
        parse_networks(["10.0.0.0/8"] * (WEBHOOK_NETWORKS_MAX + 1))
