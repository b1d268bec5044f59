"""The only file that uses what uvicorn does not document: its protocol classes and their parsers.

Connection limits stand in ``connection.py``, on public interfaces. What is left here needs the
parser: heads that two readers could read differently are refused before the application sees them,
a trailer is never a header, and what is not HTTP is answered with a problem document. The members
of uvicorn that are used are declared below, ``tests/http/test_uvicorn.py`` holds them against the
installed version, and pyproject.toml requires versions that were tested. Decision 0059.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import h11
import uvicorn

from fencepost.clock import Clock
from fencepost.http.request.problems import HttpError
from fencepost.http.server.connection import Connection, ConnectionLimits, head_too_large
from fencepost.http.server.framing import ChunkLines, check_head, check_lines

if TYPE_CHECKING:

    class H11Members(asyncio.Protocol):
        """Members of ``H11Protocol`` that are used here."""

        conn: h11.Connection

    class HttptoolsMembers(asyncio.Protocol):
        """Members of ``HttpToolsProtocol`` that are used here; httptools calls those with on_."""

        parser: Any
        url: bytes
        headers: list[tuple[bytes, bytes]]

        def on_message_begin(self) -> None: ...
        def on_header(self, name: bytes, value: bytes) -> None: ...
        def on_headers_complete(self) -> None: ...
        def on_body(self, body: bytes) -> None: ...
        def on_message_complete(self) -> None: ...

else:
    H11Members = HttptoolsMembers = object


class _Refusing(Connection):
    """Answers what is not HTTP."""

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP; uvicorn calls this while it handles the parser's error."""
        raised = sys.exception()
        # What we raise ourselves while the parser reads comes out as an error of the parser.
        why = None if raised is None else raised.__cause__ or raised.__context__
        if getattr(raised, "error_status_hint", 400) == 431:
            self.refuse(head_too_large(self.limits.head_max))
        elif isinstance(why, HttpError):
            self.refuse(why)
        else:
            self.refuse(HttpError("this is not HTTP/1.1", code="invalid_http"))


class H11Connection(_Refusing, H11Members):
    """A connection whose requests h11 parses, in Python. h11 itself limits incomplete events."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn = StrictH11(self)


class StrictH11(h11.Connection):
    """Refuses heads that h11 is lenient with, and reports requests to the connection."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(h11.SERVER, connection.limits.head_max)
        self._connection = connection
        self._chunks: ChunkLines | None = None
        """Of the body that is being received, if it is chunked."""

    def next_event(self) -> Any:
        try:
            if self.their_state is h11.IDLE:
                check_lines(self.trailing_data[0])
            elif self._chunks is not None:
                self._chunks.check(self.trailing_data[0])
            event = super().next_event()
            if isinstance(event, h11.Request):
                headers = [(name, value) for name, value in event.headers]
                check_head(event.method, event.target, event.http_version, headers)
                is_chunked = any(name == b"transfer-encoding" for name, _ in headers)
                self._chunks = ChunkLines() if is_chunked else None
                self._connection.head_came()
            elif isinstance(event, h11.Data) and event.chunk_end and self._chunks is not None:
                self._chunks.chunk_ended()
            elif isinstance(event, h11.EndOfMessage):
                self._chunks = None
                self._connection.message_ended()
        except HttpError as error:
            raise h11.RemoteProtocolError(str(error)) from error
        return event


class HttptoolsConnection(_Refusing, HttptoolsMembers):
    """A connection whose requests httptools parses, in C.

    httptools limits nothing, so whatever is neither a whole head nor a body is counted: endless
    headers, trailers and chunk extensions.
    """

    _has_head = False

    def on_message_begin(self) -> None:
        self._has_head = False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # The parser reports a trailer as a header, when the request is being answered already.
        if not self._has_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._has_head = True
        parser = self.parser
        version = parser.get_http_version().encode()
        check_head(parser.get_method(), self.url, version, self.headers)
        super().on_headers_complete()
        # After a request to upgrade, the parser reads nothing more.
        self.head_came(is_last=parser.should_upgrade())

    def on_body(self, body: bytes) -> None:
        self._loose = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.message_ended()

    def body_came(self) -> None:
        """Leave the count alone: ``on_body`` sets it back."""


def connection_class(
    clock: Clock, limits: ConnectionLimits, peers: set[Connection]
) -> type[asyncio.Protocol]:
    """Return the class that uvicorn makes connections of, with the faster parser if installed."""
    bounds = {"clock": clock, "limits": limits, "peers": peers}
    bases: tuple[type, ...]
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol

        bases = (H11Connection, H11Protocol)
    else:
        bases = (HttptoolsConnection, HttpToolsProtocol)
    return type("LimitedConnection", bases, bounds)


class UvicornServer(uvicorn.Server):
    """uvicorn without its signal handlers, which end the process by the signal that stopped it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
