"""Sessions of browsers: made from a token, kept in a cookie, and ended with the token.

A session has a secret of its own, of which the store keeps a hash, as of a token. So neither the
cookie nor the store holds the token, and who reads the store cannot make a session.
"""

from __future__ import annotations

import hmac
import re
from datetime import datetime, timedelta

import msgspec

from fencepost.core.access.bounds import SESSION_SECONDS, TOKEN_ID_BYTES, TOKEN_SECRET_BYTES
from fencepost.core.access.tokens import TokenRecord, digest_of

PREFIX = "fps"
LENGTH = len(PREFIX) + 2 * TOKEN_ID_BYTES + 2 * TOKEN_SECRET_BYTES + 2

_FORM = re.compile(
    rf"{PREFIX}_([0-9a-f]{{{2 * TOKEN_ID_BYTES}}})_[0-9a-f]{{{2 * TOKEN_SECRET_BYTES}}}"
)
_NO_DIGEST = bytes(32)


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a store keeps of a session. It does not give access."""

    id: str
    token_id: str
    """The token that it was made from, and whose rights it has."""
    digest: bytes
    created_at: datetime
    expires_at: datetime

    def __repr__(self) -> str:
        return f"<SessionRecord {self.id} of {self.token_id}>"


class NewSession(msgspec.Struct, frozen=True):
    """A new session: its text is sent once, in a cookie."""

    text: str
    record: SessionRecord

    def __repr__(self) -> str:
        return f"<NewSession {self.record.id}>"


def make_session(token: TokenRecord, raw: bytes, now: datetime) -> NewSession:
    """Return a session of *token* made of *raw*: TOKEN_ID_BYTES + TOKEN_SECRET_BYTES random bytes.

    It ends with the token at the latest.
    """
    assert len(raw) == TOKEN_ID_BYTES + TOKEN_SECRET_BYTES
    id_, secret = raw[:TOKEN_ID_BYTES].hex(), raw[TOKEN_ID_BYTES:].hex()
    text = f"{PREFIX}_{id_}_{secret}"
    ends = now + timedelta(seconds=SESSION_SECONDS)
    record = SessionRecord(
        id=id_,
        token_id=token.id,
        digest=digest_of(text),
        created_at=now,
        expires_at=ends if token.expires_at is None else min(ends, token.expires_at),
    )
    return NewSession(text, record)


def session_id_in(presented: str) -> str | None:
    """Return the id in a presented session; None if it does not have our form."""
    match = _FORM.fullmatch(presented)
    return None if match is None else match[1]


def verify_session(presented: str, record: SessionRecord | None, now: datetime) -> bool:
    """Return whether *presented* is the session of *record*, and valid; in constant time."""
    expected = _NO_DIGEST if record is None else record.digest
    text = presented if len(presented) == LENGTH else ""
    is_same = hmac.compare_digest(digest_of(text), expected)
    return record is not None and is_same and now < record.expires_at
