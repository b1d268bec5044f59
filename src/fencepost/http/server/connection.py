"""A connection that a client cannot hold open for nothing, nor fill without end.

uvicorn parses requests and answers them. It sets no time limit on headers, nor on a client that
does not read its response, and it refuses what is not HTTP in plain text. ``Connection`` adds these
limits on public interfaces alone: what an ``asyncio.Protocol`` is given, what the parser reports
(``head_came``, ``message_ended``; see ``uvicorn_protocols.py``) and what the ASGI application
reports (``request_started``, ``answer_started``, ``request_ended``; see ``gate.py``). Bytes are
counted as they arrive. Time is checked for all connections together, once an interval, so that a
request pays nothing for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import ContextVar
from email.utils import format_datetime
from typing import Any, ClassVar

import msgspec

from fencepost.clock import Clock
from fencepost.core.values.names import id_text
from fencepost.http.request.endpoint import refusal
from fencepost.http.request.problems import HttpError
from fencepost.observe import names
from fencepost.observe.log import log
from fencepost.wire.bounds import (
    HTTP_BODIES_MAX,
    HTTP_CONNECTIONS_MAX,
    HTTP_FAREWELL,
    HTTP_HEAD_MAX,
    HTTP_HEAD_TIMEOUT,
    HTTP_IDLE_TIMEOUT,
    HTTP_LINGER,
    HTTP_SWEEP_INTERVAL,
    HTTP_WRITE_STEP,
    HTTP_WRITE_TIMEOUT,
)

PHRASES = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one connection, of their number, and of all bodies; see wire/bounds.py."""

    head_max: int = HTTP_HEAD_MAX
    head_timeout: float = HTTP_HEAD_TIMEOUT
    idle_timeout: int = HTTP_IDLE_TIMEOUT
    linger: float = HTTP_LINGER
    write_timeout: float = HTTP_WRITE_TIMEOUT
    write_step: int = HTTP_WRITE_STEP
    farewell: float = HTTP_FAREWELL
    connections_max: int = HTTP_CONNECTIONS_MAX
    bodies_max: int = HTTP_BODIES_MAX
    sweep_interval: float = HTTP_SWEEP_INTERVAL


class Connection(asyncio.Protocol):
    """Stands before a protocol class of uvicorn in the bases of a class."""

    clock: ClassVar[Clock]
    limits: ClassVar[ConnectionLimits]
    peers: ClassVar[set[Connection]]
    """Every open connection of the server."""

    transport: asyncio.Transport

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        super().connection_made(transport)
        self._owed_at: float | None = self.clock.monotonic()
        """Since when the client owes us bytes: a whole head, or the rest of a request that was
        answered early."""
        self._loose = 0
        """Bytes received since the last that were part of a whole head or of a body."""
        self._open = 0
        """Requests whose head has come and whose answer has not ended. Only the first of them is
        being answered; the others were sent without waiting for it."""
        self._in_body = False
        """True from a request's head to its end, answered or not."""
        self._is_answering = False
        self._has_served = False
        self._refusal: HttpError | None = None
        """Once there is one, nothing more is read. The answer that is due, if any, goes first."""
        self._is_hung_up = False
        self._is_last = False
        """True when no request may follow: the server stops, or the parser reads no further."""
        self._lost = asyncio.Event()
        self._untaken = 0
        self._untaken_at: float | None = None
        self.peers.add(self)
        if len(self.peers) > self.limits.connections_max and not self._make_room():
            self.refuse(too_many())
            self.transport.close()  # without lingering, or there would be even more

    def connection_lost(self, exc: Exception | None) -> None:
        self.peers.discard(self)
        self._lost.set()
        super().connection_lost(exc)

    # Incoming bytes.

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        CURRENT.set(self)
        self._loose += len(data)
        super().data_received(data)
        if self._is_between:
            if self._owed_at is None:
                self._owed_at = self.clock.monotonic()
        else:
            self.body_came()
        if self._loose > self.limits.head_max:
            self.refuse(head_too_large(self.limits.head_max))

    @property
    def _is_between(self) -> bool:
        """True when no request is being received or answered."""
        return not self._open and not self._in_body

    def head_came(self, *, is_last: bool = False) -> None:
        """Note that a request begins; with *is_last*, that none can follow it."""
        self._open += 1
        self._in_body = True
        self._has_served = True
        self._is_last = self._is_last or is_last
        self._owed_at = None
        self._loose = 0

    def body_came(self) -> None:
        """Note bytes of a body. A parser that limits everything else by itself counts nothing."""
        self._loose = 0

    def message_ended(self) -> None:
        """Note that all of a request has come."""
        self._in_body = False
        self._loose = 0

    # The ASGI application.

    def request_started(self) -> None:
        """Note that the application was called with the next request."""
        self._send_refusal()

    def answer_started(self) -> bool:
        """Note that a response begins; return whether it must close the connection."""
        self._is_answering = True
        if self._refusal is not None and self._open == 1:
            self._is_last = True  # a refusal behind it could be taken for another's answer
        return self._is_last and self._open == 1

    def request_ended(self) -> None:
        """Note that the application is done with a request."""
        self._is_answering = False
        self._open -= 1
        if self._is_last and not self._open:
            self.transport.close()
        else:
            self._send_refusal()

    @property
    def is_hung_up(self) -> bool:
        """True when nothing more may be written."""
        return self._is_hung_up

    def is_lost(self) -> bool:
        """Return whether the client is gone."""
        return self._lost.is_set()

    async def wait_lost(self) -> None:
        """Wait until the connection is closed."""
        await self._lost.wait()

    # Outgoing bytes.

    def resume_writing(self) -> None:
        self._untaken_at = None
        super().resume_writing()

    def refuse(self, error: HttpError) -> None:
        """Read nothing more; answer with a problem and hang up, once due answers were sent."""
        if self._refusal is not None or self.transport.is_closing():
            return
        self._refusal = error
        self._owed_at = self.clock.monotonic()
        if self._open:
            # h11 can report an error from within the last write of an answer: let that end first.
            asyncio.get_running_loop().call_soon(self._send_refusal)
        else:
            self._send_refusal()

    def _send_refusal(self) -> None:
        if self._refusal is None or self._is_hung_up or self.transport.is_closing():
            return
        # A request whose body is broken gets the refusal for an answer.
        is_broken = self._open == 1 and self._in_body and not self._is_answering
        if not self._open or is_broken:
            self.transport.write(self._encoded(self._refusal))
            self._hang_up()

    def _encoded(self, error: HttpError) -> bytes:
        request_id = id_text(self.clock.new_id())
        reply = refusal(error, request_id)
        data = msgspec.json.encode(reply.body)
        headers = {
            "date": format_datetime(self.clock.now(), usegmt=True),
            "content-type": reply.media_type,
            "content-length": str(len(data)),
            "x-request-id": request_id,
            **reply.headers,
            "connection": "close",
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
        start = b"HTTP/1.1 %d %b\r\n" % (reply.status, PHRASES[reply.status])
        return start + lines + b"\r\n" + data

    def _hang_up(self) -> None:
        """Close our side only: a reset could overtake the answer."""
        self._is_hung_up = True
        if self.transport.can_write_eof():
            self.transport.write_eof()  # the sweeper closes what the client does not
        else:
            self.transport.close()

    # Time limits.

    def check_time(self, now: float, *, is_stopping: bool) -> None:
        """Close this connection if the client has used up its time."""
        limits = self.limits
        if self._is_stuck(now, limits.farewell if is_stopping else limits.write_timeout):
            self.transport.abort()
        elif not self.transport.is_closing():
            self._check_owed(now, is_stopping)

    def _check_owed(self, now: float, is_stopping: bool) -> None:
        if self._open and not self._is_hung_up:
            return  # it is we who owe an answer
        if self._owed_at is None and self._in_body:
            self._owed_at = now  # answered before all of it came: the rest is dropped
        if self._owed_at is None:
            return
        waited = now - self._owed_at
        if self._is_hung_up or self._in_body:
            if waited > self.limits.linger:
                self.transport.close()
        elif waited > self.limits.head_timeout:
            if self._loose:
                self.refuse(head_too_slow(self.limits.head_timeout))
            else:
                self.transport.close()  # a client that sent nothing gets no answer
        elif is_stopping and waited > self.limits.farewell:
            self.transport.close()

    def _is_stuck(self, now: float, timeout: float) -> bool:
        """Return whether the client has taken too little of an answer for too long."""
        size = self.transport.get_write_buffer_size()
        if not size:
            self._untaken_at = None
            return False
        if self._untaken_at is None or size <= self._untaken - self.limits.write_step:
            self._untaken, self._untaken_at = size, now
        return now - self._untaken_at > timeout

    # The end of a connection.

    @property
    def is_idle(self) -> bool:
        """True when nothing is lost if this connection is closed."""
        return self._is_between and self._has_served and self._owed_at is None

    def _make_room(self) -> bool:
        """Close an idle connection in favour of this one; False if none is idle."""
        idle = next((each for each in self.peers if each.is_idle), None)
        if idle is not None:
            idle.transport.close()
            self.peers.discard(idle)
        return idle is not None

    def shutdown(self) -> None:
        """Close once all requests are answered; uvicorn calls this when the server stops."""
        self._is_last = True
        # A client that has just connected is about to send a request: it gets a moment for that.
        if not self._open and self._has_served and self._refusal is None:
            self.transport.close()


CURRENT: ContextVar[Connection | None] = ContextVar("fencepost_connection", default=None)
"""The connection that a request came by: the task that answers it inherits the context."""


class Sweeper:
    """Closes connections that are held open for nothing: checks all of them, once an interval."""

    def __init__(
        self,
        connections: set[Connection],
        clock: Clock,
        *,
        interval: float,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._connections = connections
        self._clock = clock
        self._interval = interval
        self._is_stopping = is_stopping

    async def start(self) -> None:
        """Check forever."""
        while True:
            self.step()
            await self._clock.sleep_async(self._interval)

    def step(self) -> None:
        """Check each connection once."""
        now, is_stopping = self._clock.monotonic(), self._is_stopping()
        for connection in list(self._connections):
            try:
                connection.check_time(now, is_stopping=is_stopping)
            except Exception as error:  # noqa: BLE001 - one must not keep us from all the others
                kind = type(error).__qualname__
                log(names.HTTP_ERROR, level=logging.ERROR, route="", request_id=None, error=kind)


def head_too_large(limit: int) -> HttpError:
    """Return the error of a request line and headers that are too long."""
    return HttpError(
        f"the request line and headers are over the limit of {limit:,} bytes",
        code="headers_too_large",
    )


def head_too_slow(seconds: float) -> HttpError:
    return HttpError(f"the headers did not arrive within {seconds:g} s", code="request_timeout")


def too_many() -> HttpError:
    return HttpError(
        "this server has as many connections as it can hold",
        code="too_many_connections",
        headers={"retry-after": "1"},
    )
