"""One HTTP request to a receiver: within one deadline, and only to an address that was checked.

A name server may give another answer a moment later. So the addresses that are checked here are the
ones that are connected to, and one forbidden address refuses the whole host.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from fencepost.clock import Clock
from fencepost.core.bounds import CALLBACK_ADDRESSES_MAX, WEBHOOK_REPLY_MAX, WEBHOOK_REPLY_TIMEOUT
from fencepost.core.webhooks.callback import Callback, Network, Webhooks, may_reach, parse_address
from fencepost.core.webhooks.delivery import refusal
from fencepost.errors import PermanentError, TemporaryError

CHUNK = 16_384

Endpoint = tuple[int, Any]
"""The family of an address, and what ``connect`` takes."""
Resolve = Callable[[str, int], Sequence[Endpoint]]


class Deadline:
    """One deadline for every wait of a delivery, however many pieces its answer comes in."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._ends_at = clock.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds that are left, or raise TimeoutError."""
        seconds = self._ends_at - self._clock.monotonic()
        if seconds <= 0:
            raise TimeoutError("it took longer than Webhooks(timeout=…) allows")
        return seconds

    def shorten(self, seconds: float) -> None:
        """Move it to at most *seconds* from now."""
        self._ends_at = min(self._ends_at, self._clock.monotonic() + seconds)


class TimedSocket:
    """The part of a socket that ``http.client`` uses, with one deadline for all its waits."""

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._connection = connection
        self._deadline = deadline

    def sendall(self, data: Any) -> None:
        with memoryview(data) as view, view.cast("B") as rest:
            sent = 0
            while sent < len(rest):
                self._connection.settimeout(self._deadline.left())
                sent += self._connection.send(rest[sent : sent + CHUNK])

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self._receive), CHUNK)

    def close(self) -> None:
        """Do nothing: the client closes before the answer is read; ``Sender`` closes the socket."""

    def _receive(self, buffer: Any) -> int:
        self._connection.settimeout(self._deadline.left())
        return self._connection.recv_into(buffer)


class _TimedReader(io.RawIOBase):
    def __init__(self, receive: Callable[[Any], int]) -> None:
        self._receive = receive

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._receive(buffer)


def resolve(host: str, port: int) -> list[Endpoint]:
    """Return every address of *host*, or raise OSError; waits as long as the system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [(family, address) for family, _, _, _, address in found]


def reachable(
    callback: Callback, allowed: Sequence[Network], deadline: Deadline, resolve: Resolve = resolve
) -> list[Endpoint]:
    """Return the addresses to try, all of them allowed; raise OSError or PermanentError."""
    endpoints = list(dict.fromkeys(_within(deadline, callback, resolve)))
    if not endpoints:
        raise OSError(f"{callback.host} has no address")
    for _, address in endpoints:
        if not may_reach(parse_address(address[0]), allowed):
            raise PermanentError(
                f"{callback.host} resolves to {address[0]}, which is not a public address; if "
                f'that is intended, allow its network: Webhooks(allow_networks=["…/…"])',
                code="callback_refused",
            )
    return endpoints[:CALLBACK_ADDRESSES_MAX]


def _within(deadline: Deadline, callback: Callback, resolve: Resolve) -> Sequence[Endpoint]:
    """Resolve in a thread, which may outlive the call: the system's resolver has no deadline."""
    answer: list[Sequence[Endpoint] | Exception] = []

    def ask() -> None:
        try:
            answer.append(resolve(callback.host, callback.port))
        except Exception as error:  # noqa: BLE001 - raised again by the thread that waits
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


class ReceiverReply(msgspec.Struct, frozen=True):
    """The part of a receiver's answer that matters."""

    status: int
    retry_after: str | None = None


class Sender:
    """Sends webhooks; safe to share between threads."""

    def __init__(self, webhooks: Webhooks, clock: Clock, resolve: Resolve = resolve) -> None:
        self._webhooks = webhooks
        self._clock = clock
        self._resolve = resolve
        self._tls: ssl.SSLContext | None = None

    def send(self, callback: Callback, headers: Mapping[str, str], body: bytes) -> int:
        """Post *body* and return the successful status, or raise Temporary- or PermanentError."""
        deadline = Deadline(self._clock, self._webhooks.timeout)
        try:
            reply = self._exchange(callback, headers, body, deadline)
        except (OSError, http.client.HTTPException) as error:
            why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise TemporaryError(f"sending to {callback.origin} failed: {why}") from error
        now = self._clock.now()
        refused = refusal(callback.origin, reply.status, retry_after=reply.retry_after, now=now)
        if refused is not None:
            raise refused
        return reply.status

    def _exchange(
        self, callback: Callback, headers: Mapping[str, str], body: bytes, deadline: Deadline
    ) -> ReceiverReply:
        allowed = self._webhooks.allow_networks
        endpoints = reachable(callback, allowed, deadline, self._resolve)
        with (
            connect(endpoints, deadline) as plain,
            self._wrapped(plain, callback, deadline) as connection,
        ):
            return _post(TimedSocket(connection, deadline), callback, headers, body, deadline)

    def _wrapped(
        self, plain: socket.socket, callback: Callback, deadline: Deadline
    ) -> socket.socket:
        """Return the connection, for https with TLS and the receiver's name verified."""
        if not callback.is_encrypted:
            return plain
        if self._tls is None:
            self._tls = ssl.create_default_context()  # once: it reads all certificates
        plain.settimeout(deadline.left())
        return self._tls.wrap_socket(plain, server_hostname=callback.host)


def connect(endpoints: list[Endpoint], deadline: Deadline) -> socket.socket:
    """Return a connection to the first address that accepts; each has its share of the time."""
    for number, (family, address) in enumerate(endpoints):
        try:
            return _connected(family, address, deadline.left() / (len(endpoints) - number))
        except OSError:
            if number == len(endpoints) - 1:
                raise
    raise AssertionError("there is at least one")


def _connected(family: int, address: Any, timeout: float) -> socket.socket:
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


def _post(
    connection: TimedSocket,
    callback: Callback,
    headers: Mapping[str, str],
    body: bytes,
    deadline: Deadline,
) -> ReceiverReply:
    client = http.client.HTTPConnection(callback.host, callback.port)
    client.auto_open = 0  # it would resolve the name again
    client.sock = connection
    client.putrequest("POST", callback.target, skip_host=True, skip_accept_encoding=True)
    fixed = {"host": callback.authority, "content-length": str(len(body)), "connection": "close"}
    for name, value in {**fixed, **headers}.items():
        client.putheader(name, value)
    client.endheaders(body)
    response = client.getresponse()
    with response, suppress(OSError, http.client.HTTPException, ValueError):
        # Closed before its answer is read, the connection would look broken to the receiver. A
        # failure here does not matter: the status is known.
        deadline.shorten(WEBHOOK_REPLY_TIMEOUT)
        response.read(WEBHOOK_REPLY_MAX)
    return ReceiverReply(response.status, response.getheader("retry-after"))
