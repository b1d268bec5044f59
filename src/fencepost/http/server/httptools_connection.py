"""A connection whose requests httptools parses, which bounds nothing by itself."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fencepost.http.server.connection import Connection
from fencepost.http.server.framing import check_head


class QuickConnection(Connection, HttpToolsProtocol):
    """Counts what is neither a whole head nor body: endless headers, trailers and extensions."""

    _has_head = False

    def on_message_begin(self) -> None:
        self._has_head = False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # The parser tells of a trailer as of a header, when the request is being answered already.
        if not self._has_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._has_head = True
        parser = self.parser
        version = parser.get_http_version().encode()
        check_head(parser.get_method(), self.url, version, self.headers)
        before = self.cycle
        super().on_headers_complete()
        if parser.should_upgrade():
            # It reads nothing more: what follows is of the protocol that was asked for.
            self.cycle.keep_alive = False
        if before is not None and not before.response_complete and self.cycle is not before:
            while self._earlier and self._earlier[0].response_complete:
                self._earlier.popleft()  # they are answered in turn
            self._earlier.append(before)

    def on_body(self, body: bytes) -> None:
        self._loose = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        # Also when the answer went out before the end of the body: the next bytes are a head's.
        self.cycle.more_body = False

    def _body_came(self) -> None:
        """What was body has been counted out by then."""
