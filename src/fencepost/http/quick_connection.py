"""A connection whose requests httptools parses, which bounds nothing by itself."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fencepost.http.connection import Connection


class QuickConnection(Connection, HttpToolsProtocol):
    """Counts what is neither a whole head nor body: endless headers, trailers and extensions."""

    def on_headers_complete(self) -> None:
        before = self.cycle
        super().on_headers_complete()
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
