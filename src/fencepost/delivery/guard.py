"""From a host to the addresses that a delivery may connect to, asked for once.

Whoever answers for a name may give another answer a moment later. So the addresses that are
checked here are those that are connected to, and one that is refused refuses them all.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

from fencepost.core.bounds import CALLBACK_ADDRESSES_MAX
from fencepost.core.webhooks.addresses import Network, may_reach, parse_address
from fencepost.core.webhooks.callback import Callback
from fencepost.delivery.deadline import Deadline
from fencepost.errors import PermanentError

Endpoint = tuple[int, Any]
"""The family of an address, and what ``connect`` takes."""
Resolve = Callable[[str, int], Sequence[Endpoint]]


def resolve(host: str, port: int) -> list[Endpoint]:
    """Return every address of *host*, or raise OSError; waits for as long as the system does."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [(family, address) for family, _, _, _, address in found]


def reachable(
    callback: Callback, allowed: Sequence[Network], deadline: Deadline, resolve: Resolve = resolve
) -> list[Endpoint]:
    """Return the addresses to try, all of them checked; raise OSError or PermanentError."""
    endpoints = list(dict.fromkeys(_within(deadline, callback, resolve)))
    if not endpoints:
        raise OSError(f"{callback.host} has no address")
    for _, address in endpoints:
        if not may_reach(parse_address(address[0]), allowed):
            raise PermanentError(
                f"{callback.host} leads to {address[0]}, which is no public address; if it is "
                f'meant, allow its network: Webhooks(allow_networks=["…/…"])',
                code="callback_refused",
            )
    return endpoints[:CALLBACK_ADDRESSES_MAX]


def _within(deadline: Deadline, callback: Callback, resolve: Resolve) -> Sequence[Endpoint]:
    """Resolve in a thread that may be left behind: the system's resolver knows no deadline."""
    answer: list[Sequence[Endpoint] | Exception] = []

    def ask() -> None:
        try:
            answer.append(resolve(callback.host, callback.port))
        except Exception as error:  # noqa: BLE001 - raised by whoever waits
            answer.append(error)

    asking = threading.Thread(target=ask, name="fencepost-resolver", daemon=True)
    asking.start()
    asking.join(deadline.left())
    if not answer:
        raise TimeoutError(f"the address of {callback.host} was not found in time")
    (answered,) = answer
    if isinstance(answered, UnicodeError):  # a name that the system cannot encode
        raise OSError(f"{callback.host} cannot be looked up") from answered
    if isinstance(answered, Exception):
        raise answered
    return answered
