"""Who sends a request: the bearer tokens of the store, cached, with a rate limit each.

What a token may do is checked in ``request/endpoint.py`` (roles) and ``scope.py`` (queues);
where a request without a token may come from, in ``origin.py``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from hashlib import sha256
from typing import Generic, NamedTuple, TypeVar

from fencepost.actions.session import Session
from fencepost.clock import Clock
from fencepost.core.access.bounds import (
    TOKEN_CACHE_SECONDS,
    TOKEN_LOOK_SECONDS,
    TOKEN_LOOKS_RATE,
    TOKEN_RECHECK_SECONDS,
    TOKEN_STALE_SECONDS,
    TOKENS_MAX,
)
from fencepost.core.access.sessions import SessionRecord, session_id_in, verify_session
from fencepost.core.access.tokens import Principal, TokenRecord, id_in, verify
from fencepost.core.limits.rates import Bucket
from fencepost.errors import (
    ForbiddenError,
    StoreError,
    StoreUnavailableError,
    TooManyRequestsError,
    UnauthenticatedError,
)
from fencepost.http.cookies import SAFE_METHODS, session_in
from fencepost.http.origin import MAKE, Headers, check_local, check_same_origin
from fencepost.observe import names
from fencepost.observe.log import log
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation

MISSING = f"send a token: `Authorization: Bearer fp_…`; to create one: {MAKE}"

R = TypeVar("R", TokenRecord, SessionRecord)
Tokens = dict[str, TokenRecord]
Reading = Callable[[Store], Operation[list[R]]]


class Known(NamedTuple):
    """A verified token and what it allows."""

    record: TokenRecord
    principal: Principal


class Authenticator:
    """Identifies who sends a request; one for each server process.

    With *is_local*, only this machine can reach the server, and needs no token as long as the store
    has none. A revoked token counts too, so that revoking the last one opens nothing.
    """

    def __init__(self, session: Session, *, is_local: bool = False) -> None:
        self._clock = session.clock
        self._counters = session.counters
        self._is_local = is_local
        self._tokens = RecordCache(session, lambda store: store.access.tokens())
        self._sessions = RecordCache(session, lambda store: store.access.sessions())
        self._looks = Bucket.full(TOKEN_LOOKS_RATE, self._clock.monotonic())
        self._buckets: dict[str, Bucket] = {}
        self._known: dict[bytes, Known] = {}
        self._known_of: dict[str, TokenRecord] = {}

    async def admit(
        self, headers: Headers, *, method: str = "GET", is_repeated: bool = False
    ) -> Principal:
        """Return who sent a request with these headers, or raise.

        A session in a cookie counts where there is no ``Authorization``.

        With *is_repeated*, a request that waits is checked again: it is not counted a second time,
        and is checked against tokens that were just read.

        Raises UnauthenticatedError, ForbiddenError, TooManyRequestsError, or StoreUnavailableError
        if tokens cannot be read.
        """
        given = [value for name, value in headers if name == b"authorization"]
        authorization = given[0].decode("latin-1") if len(given) == 1 else None
        cookie = None if given else session_in(headers)
        try:
            if cookie is not None and (known := await self._in_session(cookie)) is not None:
                check_same_origin(headers, is_safe=method in SAFE_METHODS)
                if not is_repeated:
                    self._count(known.record)
                return known.principal
            principal = await self.identify(authorization, is_repeated=is_repeated)
            if principal.token_id is None:
                check_local(headers)
        except (UnauthenticatedError, ForbiddenError, TooManyRequestsError) as error:
            self._counters.add(names.ACCESS_REFUSED, code=error.code)
            raise
        return principal

    async def identify(self, authorization: str | None, *, is_repeated: bool = False) -> Principal:
        """Return whose token an ``Authorization`` header holds, or raise.

        A principal without a token still has to pass ``check_local``.
        """
        max_age = TOKEN_RECHECK_SECONDS if is_repeated else TOKEN_CACHE_SECONDS
        tokens = await self._tokens.read(max_age)
        if self._is_local and not tokens:
            return Principal.local()
        # A verified header is looked up by its digest: the time of the lookup may reveal something
        # about digests, but nothing about tokens.
        digest = sha256((authorization or "").encode("utf-8", "surrogatepass")).digest()
        known = self._remembered(tokens).get(digest)
        if known is None or not _is_live(known.record, self._clock):
            known = await self._verified(authorization, tokens)
            self._known[digest] = known
        if not is_repeated:
            self._count(known.record)
        return known.principal

    async def _in_session(self, cookie: str) -> Known | None:
        """Return whose session a cookie holds; None if it is not valid, as if there was none."""
        session_id = session_id_in(cookie)
        if session_id is None:
            return None
        sessions = await self._sessions.read(TOKEN_RECHECK_SECONDS)
        session, now = sessions.get(session_id), self._clock.now()
        if not verify_session(cookie, session, now):
            return None
        assert session is not None
        token = (await self._tokens.read(TOKEN_RECHECK_SECONDS)).get(session.token_id)
        if token is None or not token.is_live(now):
            return None
        return Known(token, Principal.of(token, session))

    async def token_of(self, text: str) -> TokenRecord:
        """Return the record of a token that is to be exchanged for a session, or raise."""
        tokens = await self._tokens.read(TOKEN_RECHECK_SECONDS)
        try:
            known = await self._verified(f"Bearer {text}", tokens)
            self._count(known.record)
        except (UnauthenticatedError, TooManyRequestsError) as error:
            self._counters.add(names.ACCESS_REFUSED, code=error.code)
            raise
        return known.record

    def forget(self) -> None:
        """Read tokens and sessions again at the next request: some were changed here."""
        self._tokens.forget()
        self._sessions.forget()

    def _remembered(self, tokens: dict[str, TokenRecord]) -> dict[bytes, Known]:
        """Return what was verified since *tokens* were read; older results may be out of date."""
        if tokens is not self._known_of:
            self._known_of = tokens
            self._known.clear()
        return self._known

    async def _verified(self, authorization: str | None, tokens: dict[str, TokenRecord]) -> Known:
        """Return whose token a header holds that is not cached, or raise."""
        presented = _bearer(authorization or "")
        if presented is None:
            raise UnauthenticatedError(MISSING)
        record = await self._find(presented, tokens)
        if not verify(presented, record, self._clock.now()):
            raise UnauthenticatedError
        assert record is not None
        return Known(record, Principal.of(record))

    async def _find(self, presented: str, tokens: dict[str, TokenRecord]) -> TokenRecord | None:
        """Return the record of a token, also of one that was created a moment ago."""
        token_id = id_in(presented)
        if token_id is None:
            return None
        if token_id not in tokens:
            # A stranger who tries one after another does not have the store read each time.
            self._looks, wait = self._looks.take(TOKEN_LOOKS_RATE, self._clock.monotonic())
            read = self._tokens.read(TOKEN_LOOK_SECONDS) if wait else self._tokens.read_anew()
            tokens = await read
        return tokens.get(token_id)

    def _count(self, record: TokenRecord) -> None:
        """Take one request from a token's bucket, or raise TooManyRequestsError."""
        if record.rate is None:
            return
        if len(self._buckets) > TOKENS_MAX:
            self._buckets.clear()  # also of deleted tokens; live ones get a second's worth
        now = self._clock.monotonic()
        bucket = self._buckets.get(record.id) or Bucket.full(record.rate, now)
        self._buckets[record.id], wait = bucket.take(record.rate, now)
        if wait:
            raise TooManyRequestsError(wait)


def _is_live(record: TokenRecord, clock: Clock) -> bool:
    """Return whether a token that was valid when tokens were read still is."""
    return record.expires_at is None or record.is_live(clock.now())


def _bearer(authorization: str) -> str | None:
    """Return the token in a header, valid or not; None if there is none."""
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


class RecordCache(Generic[R]):
    """Tokens or sessions by id, read at intervals by one reader for all requests.

    While the store is unavailable, those that were read before are used for a while.
    """

    def __init__(self, session: Session, operation: Reading[R]) -> None:
        self._session = session
        self._operation: Reading[R] = operation
        self._clock = session.clock
        self._records: dict[str, R] = {}
        self._read_at = float("-inf")
        self._failed_at = float("-inf")
        self._failure: StoreError | None = None
        self._reading: asyncio.Task[None] | None = None

    async def read(self, max_age: float) -> dict[str, R]:
        """Return records that were read at most *max_age* seconds ago.

        Raises StoreUnavailableError if they cannot be read, and those read before are too old.
        """
        if not self._is_fresh(max_age):
            await self._refresh()
        return self._records

    async def read_anew(self) -> dict[str, R]:
        """Return records of which none was read before now, unless the store does not answer.

        A read that is under way may have begun too early.
        """
        now = self._clock.monotonic()
        while max(self._read_at, self._failed_at) < now:
            await self._refresh()
        return self._records

    def forget(self) -> None:
        """Read again at the next request, if the store answers."""
        self._read_at = min(self._read_at, self._clock.monotonic() - TOKEN_CACHE_SECONDS)

    def _is_fresh(self, max_age: float) -> bool:
        return self._age < max_age or (
            # While the store is unavailable, not every request should wait for it.
            self._is_usable and self._clock.monotonic() - self._failed_at < TOKEN_LOOK_SECONDS
        )

    @property
    def _age(self) -> float:
        return self._clock.monotonic() - self._read_at

    @property
    def _is_usable(self) -> bool:
        return self._age < TOKEN_STALE_SECONDS

    async def _refresh(self) -> None:
        """Wait until tokens are read; only briefly if older ones can be used."""
        reading = self._start()
        # Not wait_for: a request that is cancelled must not cancel the read of the others.
        await asyncio.wait({reading}, timeout=TOKEN_LOOK_SECONDS if self._is_usable else None)
        if not reading.done():
            self._fail(StoreUnavailableError("the store does not answer in time"))
        else:
            reading.result()
        if self._failure is not None and not self._is_usable:
            raise StoreUnavailableError(
                f"tokens cannot be read, so no request is accepted: {self._failure}"
            ) from self._failure

    def _start(self) -> asyncio.Task[None]:
        loop = asyncio.get_running_loop()
        known = self._reading
        if known is None or known.done() or known.get_loop() is not loop:
            self._reading = known = loop.create_task(self._read())
        return known

    async def _read(self) -> None:
        # The time of the query: what is revoked meanwhile may be missing in the answer.
        asked_at = self._clock.monotonic()
        store = self._session.store
        try:
            found = await store.run_async(self._operation(store))
        except StoreError as error:
            self._fail(error)
        else:
            self._records = {record.id: record for record in found}
            self._read_at = asked_at
            self._failure = None

    def _fail(self, error: StoreError) -> None:
        self._failed_at = self._clock.monotonic()
        self._failure = error
        log(names.TOKENS_STALE, level=logging.WARNING, code=error.code, is_usable=self._is_usable)
