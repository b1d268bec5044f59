"""One HTTP request to a receiver, over a connection to an address that was checked."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from fencepost.clock import Clock
from fencepost.core.bounds import WEBHOOK_REPLY_MAX, WEBHOOK_REPLY_TIMEOUT
from fencepost.core.webhooks.callback import Callback
from fencepost.core.webhooks.reply import refusal
from fencepost.core.webhooks.settings import Webhooks
from fencepost.delivery.deadline import Deadline, TimedSocket
from fencepost.delivery.guard import Endpoint, Resolve, reachable, resolve
from fencepost.errors import TemporaryError


class ReceiverReply(msgspec.Struct, frozen=True):
    """As much of a receiver's answer as matters."""

    status: int
    retry_after: str | None = None


class Sender:
    """Sends webhooks. Its threads may share it."""

    def __init__(self, webhooks: Webhooks, clock: Clock, resolve: Resolve = resolve) -> None:
        self._webhooks = webhooks
        self._clock = clock
        self._resolve = resolve
        self._tls: ssl.SSLContext | None = None

    def send(self, callback: Callback, headers: Mapping[str, str], body: bytes) -> int:
        """Post *body* and return the status, one of success; else raise what a handler raises."""
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
        """Return the connection, encrypted if it is to be, with the receiver's name proven."""
        if not callback.is_encrypted:
            return plain
        if self._tls is None:
            self._tls = ssl.create_default_context()  # reads all certificates: not for each
        plain.settimeout(deadline.left())
        return self._tls.wrap_socket(plain, server_hostname=callback.host)


def connect(endpoints: list[Endpoint], deadline: Deadline) -> socket.socket:
    """Return a connection to the first address that takes one; each has its share of the time."""
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
        # Closed with an answer unread, the connection would look broken to the receiver; but its
        # status is all that matters.
        deadline.shorten(WEBHOOK_REPLY_TIMEOUT)
        response.read(WEBHOOK_REPLY_MAX)
    return ReceiverReply(response.status, response.getheader("retry-after"))
