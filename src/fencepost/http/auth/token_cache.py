"""The tokens of a store, read at most every so often, by one reader for all who wait."""

from __future__ import annotations

import asyncio
import logging

from fencepost.actions.session import Session
from fencepost.core.access.tokens import TokenRecord
from fencepost.core.bounds import TOKEN_LOOK_SECONDS, TOKEN_STALE_SECONDS
from fencepost.errors import StoreError, StoreUnavailableError
from fencepost.observe import names
from fencepost.observe.log import log

Tokens = dict[str, TokenRecord]


class TokenCache:
    """Tokens by id. While the store is away, those that were read before are good for a while."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._clock = session.clock
        self._tokens: Tokens = {}
        self._read_at = float("-inf")
        self._failed_at = float("-inf")
        self._failure: StoreError | None = None
        self._reading: asyncio.Task[None] | None = None

    async def read(self, max_age: float) -> Tokens:
        """Return tokens that were read at most *max_age* seconds ago, or raise.

        Raises StoreUnavailableError if there are none to go by.
        """
        if not self._is_fresh(max_age):
            await self._refresh()
        return self._tokens

    def _is_fresh(self, max_age: float) -> bool:
        return self._age < max_age or (
            # Who comes while the store is away is not to wait for it again and again.
            self._is_usable and self._clock.monotonic() - self._failed_at < TOKEN_LOOK_SECONDS
        )

    @property
    def _age(self) -> float:
        return self._clock.monotonic() - self._read_at

    @property
    def _is_usable(self) -> bool:
        return self._age < TOKEN_STALE_SECONDS

    async def _refresh(self) -> None:
        """Wait until tokens were read: not for long if there are some to go by."""
        reading = self._start()
        # Not wait_for: whoever hangs up must not end what others wait for.
        await asyncio.wait({reading}, timeout=TOKEN_LOOK_SECONDS if self._is_usable else None)
        if not reading.done():
            self._fail(StoreUnavailableError("the store takes long to answer"))
        else:
            reading.result()
        if self._failure is not None and not self._is_usable:
            raise StoreUnavailableError(
                f"the tokens cannot be read, so nobody can be let in: {self._failure}"
            ) from self._failure

    def _start(self) -> asyncio.Task[None]:
        loop = asyncio.get_running_loop()
        known = self._reading
        if known is None or known.done() or known.get_loop() is not loop:
            self._reading = known = loop.create_task(self._read())
        return known

    async def _read(self) -> None:
        # From when it was asked: what is revoked meanwhile may not be in the answer.
        asked_at = self._clock.monotonic()
        store = self._session.store
        try:
            found = await store.run_async(store.access.tokens())
        except StoreError as error:
            self._fail(error)
        else:
            self._tokens = {record.id: record for record in found}
            self._read_at = asked_at
            self._failure = None

    def _fail(self, error: StoreError) -> None:
        self._failed_at = self._clock.monotonic()
        self._failure = error
        log(names.TOKENS_STALE, level=logging.WARNING, code=error.code, is_usable=self._is_usable)
