"""Tokens as tables keep them, and the rules of keeping them that every store follows."""

from __future__ import annotations

import hmac

import msgspec

from fencepost.core.access.tokens import Role, TokenRecord
from fencepost.core.bounds import TOKENS_MAX
from fencepost.errors import ConfigurationError, StateConflictError
from fencepost.store.sql.texts import encode_json

_words = msgspec.json.Decoder(tuple[str, ...])


def encode_words(words: tuple[str, ...] | None) -> str | None:
    """Return the column of roles or queues."""
    return None if words is None else encode_json(words)


def decode_roles(text: str) -> tuple[Role, ...]:
    """Return roles; one that this version does not know allows nothing."""
    known = _decode_words(text)
    return tuple(role for role in Role if role in known)


def decode_queues(text: str | None) -> tuple[str, ...] | None:
    """Return the queues of a token; what cannot be read is good for none, not for all."""
    return None if text is None else _decode_words(text)


def _decode_words(text: str) -> tuple[str, ...]:
    try:
        return _words.decode(text)
    except (msgspec.DecodeError, TypeError, ValueError):
        return ()


def check_same(record: TokenRecord, digest: bytes) -> None:
    """Raise StateConflictError if the token that has this id is another one."""
    if not hmac.compare_digest(record.digest, digest):
        raise StateConflictError(f"another token has the id {record.id}; make it again")


def check_room(count: int) -> None:
    """Raise ConfigurationError if one more token is too many."""
    if count >= TOKENS_MAX:
        raise ConfigurationError(
            f"a store keeps {TOKENS_MAX:,} tokens, and this has them; those that were revoked or "
            f"have expired make room after 90 days"
        )
