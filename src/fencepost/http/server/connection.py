"""A connection that cannot be held open for nothing, nor filled without end.

uvicorn parses requests and answers them. It does not mind a client that sends its headers forever,
or that never takes an answer; and what it refuses itself, it refuses in plain text. This adds the
bounds: bytes are counted as they come, and time is looked at by the sweeper (sweeper.py), once a
second for all connections, which costs a request nothing.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from fencepost.clock import Clock
from fencepost.core.values.ids import id_text
from fencepost.http.request.endpoint import refusal
from fencepost.http.request.problems import HttpError
from fencepost.http.server.connection_limits import ConnectionLimits

if TYPE_CHECKING:

    class _Protocol(asyncio.Protocol):
        """What the connections of uvicorn have that is used here, whichever parser they have."""

        transport: asyncio.Transport
        connections: set[Any]
        cycle: Any
        server_state: Any

        def shutdown(self) -> None: ...

else:
    _Protocol = object

PHRASES = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


class Connection(_Protocol):
    """Goes before a protocol class of uvicorn; ``connection_class`` puts the two together."""

    clock: ClassVar[Clock]
    patience: ClassVar[ConnectionLimits]

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._owed_at: float | None = self.clock.monotonic()
        """Since when the client owes us something: a whole head, or the rest of a request that
        was answered early."""
        self._loose = 0
        """Bytes since the last one that was part of a whole head, or of a body."""
        self._is_deaf = False
        """True when nothing more is read: the answer that is owed, or was sent, is the last."""
        self._is_hung_up = False
        self._is_leaving = False
        self._untaken = 0
        self._untaken_at: float | None = None
        self._earlier: deque[Any] = deque()
        """Requests that are answered before the last that came, if the client did not wait."""
        if len(self.connections) > self.patience.connections_max and not self._make_room():
            self.refuse(too_many())
            self.transport.close()  # without a moment's grace, or there would be more still

    def connection_lost(self, exc: Exception | None) -> None:
        # uvicorn tells the last of several requests that the client is gone; a claim that is
        # answered before it would not hear of it.
        for cycle in self._earlier:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self._earlier.clear()
        super().connection_lost(exc)

    # What comes in.

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        before = self.cycle
        self._loose += len(data)
        super().data_received(data)
        if self.cycle is not before:
            self._head_came()
        elif self._is_between:
            if self._owed_at is None:
                self._owed_at = self.clock.monotonic()
        else:
            self._body_came()
        if self._loose > self.patience.head_max:
            self.refuse(head_too_large(self.patience.head_max))

    @property
    def _is_between(self) -> bool:
        """True when the last request has come and was answered, or there was none."""
        cycle = self.cycle
        return cycle is None or (cycle.response_complete and not cycle.more_body)

    def _head_came(self) -> None:
        self._owed_at = None
        self._loose = 0
        if self._is_leaving:
            self.cycle.keep_alive = False

    def _body_came(self) -> None:
        """A parser that bounds by itself what is neither head nor body has nothing to count."""
        self._loose = 0

    # What goes out.

    def resume_writing(self) -> None:
        self._untaken_at = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP. uvicorn calls this, while it handles the parser's error."""
        raised = sys.exception()
        # What we raise ourselves while the parser reads comes out as an error of the parser.
        why = None if raised is None else raised.__cause__ or raised.__context__
        if getattr(raised, "error_status_hint", 400) == 431:
            self.refuse(head_too_large(self.patience.head_max))
        elif isinstance(why, HttpError):
            self.refuse(why)
        else:
            self.refuse(HttpError("this is not HTTP/1.1", code="invalid_http"))

    def refuse(self, error: HttpError) -> None:
        """Answer with a problem and hang up, without a reset that would overtake the answer."""
        if self._is_deaf or self.transport.is_closing():
            return
        self._is_deaf = True
        self._owed_at = self.clock.monotonic()
        running = self._running()
        if running is not None and (not running.more_body or running.response_started):
            running.keep_alive = False  # its own answer is what is owed, and the last one
            return
        if running is not None:
            running.disconnected = True
            running.message_event.set()
        self.transport.write(self._answer(error))
        self._hang_up()

    def _running(self) -> Any:
        """Return the request that is being answered, if one is: the first of those that came."""
        cycles = [*self._earlier, *([] if self.cycle is None else [self.cycle])]
        return next((cycle for cycle in cycles if not cycle.response_complete), None)

    def _answer(self, error: HttpError) -> bytes:
        request_id = id_text(self.clock.new_id())
        reply = refusal(error, request_id)
        data = msgspec.json.encode(reply.body)
        headers = [
            *self.server_state.default_headers,
            (b"content-type", reply.media_type.encode()),
            (b"content-length", str(len(data)).encode()),
            (b"x-request-id", request_id.encode()),
            *((name.encode(), value.encode()) for name, value in reply.headers.items()),
            (b"connection", b"close"),
        ]
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        start = b"HTTP/1.1 %d %b\r\n" % (reply.status, PHRASES[reply.status])
        return start + lines + b"\r\n" + data

    def _hang_up(self) -> None:
        self._is_hung_up = True
        if self.transport.can_write_eof():
            self.transport.write_eof()  # the sweeper closes what the client does not
        else:
            self.transport.close()

    # What the sweeper asks.

    def look(self, now: float, *, is_stopping: bool) -> None:
        """End this connection if the client has had its time."""
        patience = self.patience
        if self._is_stuck(now, patience.farewell if is_stopping else patience.write_timeout):
            self.transport.abort()
        elif not self.transport.is_closing():
            self._look_at_debts(now, is_stopping)

    def _look_at_debts(self, now: float, is_stopping: bool) -> None:
        cycle = self.cycle
        if not self._is_hung_up and cycle is not None and not cycle.response_complete:
            return  # then it is we who owe an answer
        has_rest = cycle is not None and cycle.more_body
        if self._owed_at is None and has_rest:
            self._owed_at = now  # answered before all of it came: the rest is dropped
        if self._owed_at is None:
            return
        waited = now - self._owed_at
        if self._is_hung_up or has_rest:
            if waited > self.patience.linger:
                self.transport.close()
        elif waited > self.patience.head_timeout:
            self._head_never_came()
        elif is_stopping and waited > self.patience.farewell:
            self.transport.close()

    def _head_never_came(self) -> None:
        if self._loose:
            self.refuse(head_too_slow(self.patience.head_timeout))
        else:
            self.transport.close()  # one that said nothing is told nothing

    def _is_stuck(self, now: float, patience: float) -> bool:
        """Tell whether the client has not taken enough of an answer for too long."""
        size = self.transport.get_write_buffer_size()
        if not size:
            self._untaken_at = None
            return False
        if self._untaken_at is None or size <= self._untaken - self.patience.write_step:
            self._untaken, self._untaken_at = size, now
        return now - self._untaken_at > patience

    # Room, and leaving.

    @property
    def is_idle(self) -> bool:
        """True when nothing is lost if this connection is closed."""
        return self._is_between and self.cycle is not None and self._owed_at is None

    def _make_room(self) -> bool:
        """Close an idle connection in favour of this one; False if none is idle."""
        idle = next((each for each in self.connections if each.is_idle), None)
        if idle is not None:
            idle.transport.close()
            self.connections.discard(idle)
        return idle is not None

    def shutdown(self) -> None:
        """Close once what was asked is answered; uvicorn calls this when the server stops."""
        self._is_leaving = True
        if self._is_deaf or (self.cycle is None and not self.transport.is_closing()):
            return  # who has just connected is about to ask: the sweeper gives it a moment
        super().shutdown()


def head_too_large(limit: int) -> HttpError:
    """Return the error of a request whose head has no end in sight."""
    return HttpError(
        f"the request line and headers are over the limit of {limit:,} bytes",
        status=431,
        code="headers_too_large",
    )


def head_too_slow(seconds: float) -> HttpError:
    return HttpError(
        f"the headers did not arrive within {seconds:g} s", status=408, code="request_timeout"
    )


def too_many() -> HttpError:
    return HttpError(
        "this server has as many connections as it can hold",
        status=503,
        code="too_many_connections",
        headers={"retry-after": "1"},
    )


def connection_class(clock: Clock, patience: ConnectionLimits) -> type[asyncio.Protocol]:
    """Return the class that uvicorn makes connections of; with the quicker parser if there is."""
    bounds = {"clock": clock, "patience": patience}
    try:
        from fencepost.http.server.httptools_connection import QuickConnection
    except ImportError:
        from fencepost.http.server.h11_connection import PlainConnection

        return type("BoundedConnection", (PlainConnection,), bounds)
    return type("BoundedConnection", (QuickConnection,), bounds)
