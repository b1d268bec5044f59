"""A connection whose requests h11 parses, in Python; it bounds what is incomplete."""

from __future__ import annotations

import re
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from fencepost.http.request.problems import HttpError
from fencepost.http.server.connection import Connection
from fencepost.http.server.framing import check_head, check_lines

_BLANK_LINE = re.compile(rb"\n\r?\n")


class PlainConnection(Connection, H11Protocol):
    """Takes over what h11 counts: see ``h11_max_incomplete_event_size`` in server.py."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn = StrictH11(h11.SERVER, self.patience.head_max)


class StrictH11(h11.Connection):
    """Refuses heads that h11 is lenient with."""

    def next_event(self) -> Any:
        try:
            if self.their_state is h11.IDLE:
                self._check_lines()
            event = super().next_event()
            if isinstance(event, h11.Request):
                headers = [(name, value) for name, value in event.headers]
                check_head(event.method, event.target, event.http_version, headers)
        except HttpError as error:
            raise h11.RemoteProtocolError(str(error)) from error
        return event

    def _check_lines(self) -> None:
        waiting, _ = self.trailing_data
        end = _BLANK_LINE.search(waiting)
        if end is not None:
            check_lines(waiting[: end.end()])
