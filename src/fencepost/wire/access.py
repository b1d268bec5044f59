"""Who sends a request, and sessions of browsers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fencepost.core.access.bounds import TOKEN_NAME_LENGTH_MAX
from fencepost.core.access.tokens import Role
from fencepost.wire.terms import Duration, QueueName, RequestRate, Strict, name_rules


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


RoleName = Annotated[str, Meta(extra_json_schema={"enum": list(Role)})]


class NewTokenBody(Strict, frozen=True, kw_only=True):
    """A token to create."""

    name: Annotated[str, Meta(extra_json_schema=name_rules(TOKEN_NAME_LENGTH_MAX))]
    roles: Annotated[list[RoleName], Meta(extra_json_schema={"minItems": 1})]
    queues: Annotated[list[QueueName], Meta(extra_json_schema={"minItems": 1})] | None = None
    """The queues that it is limited to; left out, it is for all."""
    expires: Duration | None = None
    """From now."""
    rate: RequestRate | None = None
    """Requests a second to one server."""


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A token, without what would give access."""

    id: str
    name: str
    roles: tuple[Role, ...]
    queues: tuple[str, ...] | None
    """The queues that it is limited to; null means all."""
    rate: float | None
    """Requests a second to one server; null means no limit."""
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class WireTokens(msgspec.Struct, frozen=True):
    """Every token, the oldest first; a revoked or expired one for 90 days."""

    tokens: list[TokenView]


class CreatedToken(TokenView, frozen=True, kw_only=True):
    """A token, and its text, which is shown only now."""

    token: str

    def __repr__(self) -> str:
        return f"<CreatedToken {self.id}>"
