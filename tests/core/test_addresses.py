"""Which addresses a webhook may go to."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.addresses import is_public, may_reach, parse_address, parse_networks
from fencepost.core.limits import WEBHOOK_NETWORKS_MAX
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


@given(st.ip_addresses())
def test_nothing_is_public_that_the_standard_library_calls_private(address: Any) -> None:
    assert not (is_public(address) and address.is_private)
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
