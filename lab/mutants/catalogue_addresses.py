"""Mutants of the guard of webhooks: addresses that only look public."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

TESTS = ("tests/core/test_addresses.py",)


def _mutant(name: str, about: str, old: str, new: str) -> Mutant:
    patch = Patch("fencepost.core.webhooks.callback", old, new)
    return Mutant(f"server-address-{name}", about, Place.SERVER, (patch,), TESTS)


MUTANTS = (
    _mutant(
        "is-judged-by-python",
        "which addresses are public depends on the patch release of the interpreter",
        "    if any(host in network for network in _SPECIAL):\n",
        "    if not host.is_global or host.is_multicast:\n",
    ),
    _mutant(
        "inside-6to4-is-not-judged",
        "a private IPv4 address is reached through a 6to4 address",
        "    if address in _6TO4:\n",
        "    if False:\n",
    ),
    _mutant(
        "inside-nat64-is-not-judged",
        "a NAT64 address is taken for one of global unicast",
        "and (address in _MAPPED or address in _TRANSLATED):",
        "and address in _MAPPED:",
    ),
    _mutant(
        "beyond-global-unicast-is-public",
        "IPv6 addresses that were never given out are reached",
        "return host in _GLOBAL_UNICAST and all(",
        "return all(",
    ),
)
