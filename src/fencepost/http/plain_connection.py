"""A connection whose requests h11 parses, in Python; it bounds what is incomplete."""

from __future__ import annotations

from uvicorn.protocols.http.h11_impl import H11Protocol

from fencepost.http.connection import Connection


class PlainConnection(Connection, H11Protocol):
    """Takes over what h11 counts: see ``h11_max_incomplete_event_size`` in server.py."""
