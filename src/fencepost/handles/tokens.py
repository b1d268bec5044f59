"""``app.tokens``: who may use the HTTP API, and for what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fencepost.core.access.tokens import NewToken, Role, TokenRecord, make_options
from fencepost.core.values.duration import Duration

if TYPE_CHECKING:
    from fencepost.actions.session import Session

Roles = Iterable[Role | str] | str


class Tokens:
    """The bearer tokens of a store; ``app.aio.tokens`` has the same methods, awaited."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(
        self,
        name: str,
        *,
        roles: Roles,
        queues: Iterable[str] | None = None,
        expires: Duration | None = None,
        rate: float | None = None,
    ) -> NewToken:
        """Make a token; its ``text`` is to be read now, and never again.

        Good for *queues* alone if they are given, until *expires* from now, and for *rate* requests
        a second.
        """
        options = make_options(name, roles, queues=queues, expires=expires, rate=rate)
        return self._session.run(self._session.actions.tokens.create(options))

    def list(self) -> list[TokenRecord]:
        """Return every token, the oldest first; also those that are good no longer."""
        return self._session.run(self._session.actions.tokens.all())

    def revoke(self, id: str) -> str:
        """Make the token of this id, or of this name, good for nothing; return its id."""
        return self._session.run(self._session.actions.tokens.revoke(id))


class AsyncTokens:
    """The awaited face of Tokens."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def create(
        self,
        name: str,
        *,
        roles: Roles,
        queues: Iterable[str] | None = None,
        expires: Duration | None = None,
        rate: float | None = None,
    ) -> NewToken:
        """Make a token; its ``text`` is to be read now, and never again.

        Good for *queues* alone if they are given, until *expires* from now, and for *rate* requests
        a second.
        """
        options = make_options(name, roles, queues=queues, expires=expires, rate=rate)
        return await self._session.run_async(self._session.actions.tokens.create(options))

    async def list(self) -> list[TokenRecord]:
        """Return every token, the oldest first; also those that are good no longer."""
        return await self._session.run_async(self._session.actions.tokens.all())

    async def revoke(self, id: str) -> str:
        """Make the token of this id, or of this name, good for nothing; return its id."""
        return await self._session.run_async(self._session.actions.tokens.revoke(id))
