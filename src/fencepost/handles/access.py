"""``tokens`` and ``audit`` of an app: who may use the HTTP API, and what operators did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypedDict, Unpack

from fencepost.actions.replies import AuditLog
from fencepost.core.access.tokens import NewToken, Role, TokenRecord, make_options
from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.core.values.times import Duration

if TYPE_CHECKING:
    from fencepost.actions.session import Session

Roles = Iterable[Role | str] | str


class TokenLimits(TypedDict, total=False):
    """What a token may be limited to; None, or leaving one out, is no limit."""

    queues: Iterable[str] | None
    expires: Duration | None
    """From now."""
    rate: float | None
    """Requests a second."""


class _SessionPart:
    """What both faces hold: only an app has these, so they need its session."""

    def __init__(self, session: Session) -> None:
        self._session = session


class Tokens(_SessionPart):
    """The bearer tokens of a store; ``app.aio.tokens`` has the same methods, awaited."""

    def create(self, name: str, *, roles: Roles, **limits: Unpack[TokenLimits]) -> NewToken:
        """Make a token, for some queues and a time if given; its ``text`` can only be read now."""
        options = make_options(name, roles, **limits)
        return self._session.run(self._session.actions.tokens.create(options))

    def list(self) -> list[TokenRecord]:
        """Return every token, oldest first, including revoked and expired ones."""
        return self._session.run(self._session.actions.tokens.all())

    def revoke(self, id: str) -> str:
        """Revoke the token with this id or name; return its id."""
        return self._session.run(self._session.actions.tokens.revoke(id))


class AsyncTokens(_SessionPart):
    """The awaited face of Tokens."""

    async def create(self, name: str, *, roles: Roles, **limits: Unpack[TokenLimits]) -> NewToken:
        """Make a token; its ``text`` can only be read now."""
        options = make_options(name, roles, **limits)
        return await self._session.run_async(self._session.actions.tokens.create(options))

    async def list(self) -> list[TokenRecord]:
        """Return every token, oldest first, including revoked and expired ones."""
        return await self._session.run_async(self._session.actions.tokens.all())

    async def revoke(self, id: str) -> str:
        """Revoke the token with this id or name; return its id."""
        return await self._session.run_async(self._session.actions.tokens.revoke(id))


class Audit(_SessionPart):
    """The audit log of a store; ``app.aio.audit`` has the same methods, awaited."""

    def list(self, *, after: str | None = None, limit: int = PAGE_DEFAULT) -> AuditLog:
        """Return a page of actions, newest first: who did what, and its result."""
        return self._session.run(self._session.actions.audit.find(after, limit))


class AsyncAudit(_SessionPart):
    """The awaited face of Audit."""

    async def list(self, *, after: str | None = None, limit: int = PAGE_DEFAULT) -> AuditLog:
        """Return a page of actions, newest first: who did what, and its result."""
        return await self._session.run_async(self._session.actions.audit.find(after, limit))
