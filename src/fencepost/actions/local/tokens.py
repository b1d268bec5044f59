"""Tokens of an app's store: who may use the HTTP API, and for what."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.actions.audit import begin, end
from fencepost.actions.local.steps import StoreActions
from fencepost.actions.script import Script
from fencepost.core.access.tokens import (
    NewToken,
    Principal,
    TokenOptions,
    TokenRecord,
    make_token,
)
from fencepost.core.bounds import TOKEN_ID_BYTES, TOKEN_SECRET_BYTES
from fencepost.errors import TokenNotFoundError


class LocalTokens(StoreActions):
    """The bearer tokens of a store."""

    def create(self, options: TokenOptions) -> Script[NewToken]:
        """Make a token. If the store fails, it may be there, and nobody has its text: revoke it."""
        raw = self._session.clock.new_bytes(TOKEN_ID_BYTES + TOKEN_SECRET_BYTES)
        token = make_token(options, raw, self._session.clock.now())
        detail = {
            "name": options.name,
            "roles": options.roles,
            "queues": options.queues,
            "expires_at": token.record.expires_at,
        }
        action = begin(
            self._session, Principal.local(), "token.create", target=token.record.id, detail=detail
        )
        yield self._store.access.add(token.record)
        yield from end(self._session, action)
        return token

    def all(self) -> Script[list[TokenRecord]]:
        """Return every token."""
        records: list[TokenRecord] = yield self._store.access.tokens()
        return records

    def revoke(self, name: str) -> Script[str]:
        """Make a token good for nothing, or raise TokenNotFoundError; return its id."""
        records: list[TokenRecord] = yield self._store.access.tokens()
        record = _meant(records, name)
        detail = {"name": record.name}
        action = begin(
            self._session, Principal.local(), "token.revoke", target=record.id, detail=detail
        )
        if not (yield self._store.access.revoke(record.id)):
            raise TokenNotFoundError(name)
        yield from end(self._session, action)
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
