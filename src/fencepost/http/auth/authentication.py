"""Who asks: the bearer tokens of the store, read now and then, and one bucket of requests each."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from fencepost.actions.session import Session
from fencepost.clock import Clock
from fencepost.core.access.tokens import Principal, TokenRecord, id_in, verify
from fencepost.core.bounds import (
    TOKEN_CACHE_SECONDS,
    TOKEN_LOOK_SECONDS,
    TOKEN_RECHECK_SECONDS,
    TOKENS_MAX,
)
from fencepost.core.limits.bucket import Bucket
from fencepost.errors import ForbiddenError, TooManyRequestsError, UnauthenticatedError
from fencepost.http.auth.anonymous import MAKE, Headers, check_local, values
from fencepost.http.auth.token_cache import TokenCache
from fencepost.observe import names

MISSING = f"send a token: `Authorization: Bearer fp_…`; to make one: {MAKE}"


class Known(NamedTuple):
    """Whoever presented a token that was found to be good."""

    record: TokenRecord
    principal: Principal


class Authenticator:
    """Tells who a request comes from; one for each server process.

    With *is_local*, everybody is let in as long as the store has no token at all: only this machine
    can ask. One that was revoked counts too, so that to revoke the last one opens nothing.
    """

    def __init__(self, session: Session, *, is_local: bool = False) -> None:
        self._clock = session.clock
        self._counters = session.counters
        self._is_local = is_local
        self._tokens = TokenCache(session)
        self._buckets: dict[str, Bucket] = {}
        self._known: dict[bytes, Known] = {}
        self._known_of: dict[str, TokenRecord] = {}

    async def admit(self, headers: Headers, *, is_repeated: bool = False) -> Principal:
        """Return who sent a request with these headers, or raise.

        With *is_repeated*, a request that waits is looked at again: it is no other request to
        count, and goes by tokens that were read just now.

        Raises UnauthenticatedError, ForbiddenError, TooManyRequestsError, or StoreUnavailableError
        when nobody can be told from anybody.
        """
        given = values(headers, b"authorization")
        try:
            principal = await self.identify(
                given[0] if len(given) == 1 else None, is_repeated=is_repeated
            )
            if principal.token_id is None:
                check_local(headers)
        except (UnauthenticatedError, ForbiddenError, TooManyRequestsError) as error:
            self._counters.add(names.ACCESS_REFUSED, code=error.code)
            raise
        return principal

    async def identify(self, authorization: str | None, *, is_repeated: bool = False) -> Principal:
        """Return whose token an ``Authorization`` header holds, or raise.

        Whoever is told to be local has yet to be looked at: ``check_local``.
        """
        max_age = TOKEN_RECHECK_SECONDS if is_repeated else TOKEN_CACHE_SECONDS
        tokens = await self._tokens.read(max_age)
        if self._is_local and not tokens:
            return Principal.local()
        # What was verified is known again by its digest: how long a look into a table takes tells
        # something about digests, and nothing about tokens.
        digest = sha256((authorization or "").encode("utf-8", "surrogatepass")).digest()
        known = self._remembered(tokens).get(digest)
        if known is None or not _is_live(known.record, self._clock):
            known = await self._verified(authorization, tokens)
            self._known[digest] = known
        if not is_repeated:
            self._count(known.record)
        return known.principal

    def _remembered(self, tokens: dict[str, TokenRecord]) -> dict[bytes, Known]:
        """Return who was verified since *tokens* were read: one may have been revoked before."""
        if tokens is not self._known_of:
            self._known_of = tokens
            self._known.clear()
        return self._known

    async def _verified(self, authorization: str | None, tokens: dict[str, TokenRecord]) -> Known:
        """Return whose token a header holds that was not seen before, or raise."""
        presented = _bearer(authorization or "")
        if presented is None:
            raise UnauthenticatedError(MISSING)
        record = await self._find(presented, tokens)
        if not verify(presented, record, self._clock.now()):
            raise UnauthenticatedError
        assert record is not None
        return Known(record, Principal.of(record))

    async def _find(self, presented: str, tokens: dict[str, TokenRecord]) -> TokenRecord | None:
        """Return the token that is meant; one that was just made is looked for once more."""
        token_id = id_in(presented)
        if token_id is None:
            return None
        if token_id not in tokens:
            tokens = await self._tokens.read(TOKEN_LOOK_SECONDS)
        return tokens.get(token_id)

    def _count(self, record: TokenRecord) -> None:
        """Take one request from a token's bucket, or raise TooManyRequestsError."""
        if record.rate is None:
            return
        if len(self._buckets) > TOKENS_MAX:
            self._buckets.clear()  # of tokens long gone, too: the others get a second's worth
        now = self._clock.monotonic()
        bucket = self._buckets.get(record.id) or Bucket.full(record.rate, now)
        self._buckets[record.id], wait = bucket.take(record.rate, now)
        if wait:
            raise TooManyRequestsError(wait)


def _is_live(record: TokenRecord, clock: Clock) -> bool:
    """Tell whether a token that was good when tokens were read last still is."""
    return record.expires_at is None or record.is_live(clock.now())


def _bearer(authorization: str) -> str | None:
    """Return the token in a header, whatever it is; None if there is none."""
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
