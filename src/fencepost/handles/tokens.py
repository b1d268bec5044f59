"""``app.tokens``: who may use the HTTP API, and for what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fencepost.actions.audit import begin, end
from fencepost.actions.script import Script
from fencepost.actions.session import Session
from fencepost.core.access.tokens import (
    NewToken,
    Principal,
    Role,
    TokenOptions,
    TokenRecord,
    make_options,
    make_token,
)
from fencepost.core.bounds import TOKEN_ID_BYTES, TOKEN_SECRET_BYTES
from fencepost.core.values.duration import Duration
from fencepost.errors import TokenNotFoundError

Roles = Iterable[Role | str] | str


def create(session: Session, options: TokenOptions) -> Script[NewToken]:
    """Make a token. If the store fails, it may be there, and nobody has its text: revoke it."""
    raw = session.clock.new_bytes(TOKEN_ID_BYTES + TOKEN_SECRET_BYTES)
    token = make_token(options, raw, session.clock.now())
    detail = {
        "name": options.name,
        "roles": options.roles,
        "queues": options.queues,
        "expires_at": token.record.expires_at,
    }
    action = begin(
        session, Principal.local(), "token.create", target=token.record.id, detail=detail
    )
    yield session.store.access.add(token.record)
    yield from end(session, action)
    return token


def list_all(session: Session) -> Script[list[TokenRecord]]:
    """Return every token."""
    records: list[TokenRecord] = yield session.store.access.tokens()
    return records


def revoke(session: Session, name: str) -> Script[str]:
    """Make a token good for nothing, or raise TokenNotFoundError; return its id."""
    records: list[TokenRecord] = yield session.store.access.tokens()
    record = _meant(records, name)
    detail = {"name": record.name}
    action = begin(session, Principal.local(), "token.revoke", target=record.id, detail=detail)
    if not (yield session.store.access.revoke(record.id)):
        raise TokenNotFoundError(name)
    yield from end(session, action)
    return record.id


def _meant(records: Sequence[TokenRecord], name: str) -> TokenRecord:
    """Return the token of this id, or else of this name: the one that is not revoked."""
    for record in records:
        if record.id == name:
            return record
    named = [record for record in records if record.name == name]
    candidates = [record for record in named if record.revoked_at is None] or named[-1:]
    if len(candidates) != 1:
        raise TokenNotFoundError(name, [record.id for record in candidates])
    return candidates[0]


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
        return self._session.run(create(self._session, options))

    def list(self) -> list[TokenRecord]:
        """Return every token, the oldest first; also those that are good no longer."""
        return self._session.run(list_all(self._session))

    def revoke(self, id: str) -> str:
        """Make the token of this id, or of this name, good for nothing; return its id."""
        return self._session.run(revoke(self._session, id))


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
        return await self._session.run_async(create(self._session, options))

    async def list(self) -> list[TokenRecord]:
        """Return every token, the oldest first; also those that are good no longer."""
        return await self._session.run_async(list_all(self._session))

    async def revoke(self, id: str) -> str:
        """Make the token of this id, or of this name, good for nothing; return its id."""
        return await self._session.run_async(revoke(self._session, id))
