"""Every bound of tokens, sessions and the audit log. Times are in seconds."""

from __future__ import annotations

from typing import Final

TOKEN_ID_BYTES: Final = 6
TOKEN_SECRET_BYTES: Final = 24
"""192 random bits, for which a fast hash is safe."""
TOKEN_EXPIRES_MIN: Final = 1.0
TOKEN_NAME_LENGTH_MAX: Final = 100
TOKEN_QUEUES_MAX: Final = 100
TOKEN_RATE_MIN: Final = 0.01
TOKEN_RATE_MAX: Final = 1_000_000.0
TOKENS_MAX: Final = 1_000
"""Servers read all of them every few seconds; those that ended long ago are removed."""
TOKEN_KEPT: Final = 90 * 86_400.0
TOKEN_REVOKED_SECONDS: Final = 5.0
"""Within this time a revoked token is refused everywhere, and its open requests are ended."""
TOKEN_CACHE_SECONDS: Final = 2.0
"""How long a server uses the tokens that it has read."""
TOKEN_RECHECK_SECONDS: Final = 1.0
"""How often it checks the token of a waiting request. With the age of the tokens at first, and a
poll until the request notices, this takes four of the five seconds."""
TOKEN_LOOK_SECONDS: Final = 1.0
"""How often a server reads the tokens again after a failure, and for unknown ones beyond this:"""
TOKEN_LOOKS_RATE: Final = 10.0
"""So many unknown tokens a second are looked up at once: they may have been made just now."""
TOKEN_STALE_SECONDS: Final = 60.0
"""How long it uses them while the store is unavailable."""
SESSION_SECONDS: Final = 7 * 86_400.0
"""How long a browser stays signed in, unless its token ends before."""
SESSIONS_MAX: Final = 1_000
"""In all: servers read all of them. The oldest make room."""
SESSIONS_OF_TOKEN_MAX: Final = 50
"""So that one token cannot end the sessions of all others."""
AUDIT_KEPT: Final = 90 * 86_400.0
AUDIT_KEPT_MIN: Final = 7 * 86_400.0
"""PostgreSQL refuses to delete younger entries: a worker's role cannot hide its tracks."""
AUDIT_NAME_LENGTH_MAX: Final = 100
AUDIT_TARGET_LENGTH_MAX: Final = 300
AUDIT_DETAIL_BYTES_MAX: Final = 8_000
AUDIT_CONDITION_LENGTH_MAX: Final = 20
"""Characters of each word in a bulk action's conditions, if all together are too long."""
AUDIT_REFUSED_MAX: Final = 20
"""Refused requests of one token that are recorded in a window; the rest are counted, ..."""
AUDIT_REFUSED_WINDOW: Final = 60.0
"""... and one record gives their number when the window is over."""
REQUEST_ID_LENGTH_MAX: Final = 128
