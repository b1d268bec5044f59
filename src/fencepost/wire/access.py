"""Who sends a request, and sessions of browsers."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from fencepost.core.tokens import Role
from fencepost.wire.terms import Strict


class SessionBody(Strict, frozen=True, kw_only=True):
    """A token to exchange for a cookie."""

    token: str

    def __repr__(self) -> str:
        return "<SessionBody>"  # a token must not reach a log


class StoreView(msgspec.Struct, frozen=True, kw_only=True):
    """Where jobs are kept."""

    engine: str
    """``sqlite``, ``postgresql``, ``redis`` or ``memory``."""
    durability: str | None
    """What survives what, in words; null if the store does not say."""


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """Who sends the request, what they may do, and what server and store this is."""

    name: str
    token_id: str | None
    """Null for a local caller, who needs no token."""
    by: Literal["token", "session", "local"]
    roles: list[Role]
    """``admin`` includes all others."""
    queues: list[str] | None
    """The queues that the token is limited to; null means all."""
    expires_at: datetime | None
    """When the token or the session ends."""
    app: str
    version: str
    """Of Fencepost, on the server."""
    store: StoreView
    at: datetime
    """The server's time."""
