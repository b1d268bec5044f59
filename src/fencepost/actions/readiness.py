"""Whether a process that serves an app could serve it now: it asks the store, briefly.

Probes may come from many sides at once and must not become load: they share one question at a
time, and its answer for a moment.
"""

from __future__ import annotations

import asyncio

from fencepost.actions.session import Session
from fencepost.core.bounds import READY_INTERVAL, READY_TIMEOUT
from fencepost.errors import FencepostError
from fencepost.observe.health import STOPPING, Verdict, store_away, verdict


class Readiness:
    """The last verdict on an app's store, and the question that is under way."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._is_migrated = False
        self._asked_at: float | None = None
        self._reason: str | None = None
        self._asking: asyncio.Task[str | None] | None = None

    async def check(self, *, is_stopping: bool = False) -> Verdict:
        """Tell whether requests can be served: not while stopping, nor without the store."""
        if is_stopping:
            return verdict(STOPPING)
        now = self._session.clock.monotonic()
        if self._asked_at is None or now - self._asked_at >= READY_INTERVAL:
            await self._ask()
        return verdict(self._reason)

    async def _ask(self) -> None:
        loop = asyncio.get_running_loop()
        asking = self._asking
        if asking is None or asking.done() or asking.get_loop() is not loop:
            asking = self._asking = loop.create_task(self._question())
        try:
            # Shielded: others wait for the answer too, and a store that hangs is asked once.
            async with asyncio.timeout(READY_TIMEOUT):
                reason = await asyncio.shield(asking)
        except TimeoutError:
            reason = store_away(f"it has not answered for {READY_TIMEOUT:g} s")
        self._reason = reason
        self._asked_at = self._session.clock.monotonic()

    async def _question(self) -> str | None:
        try:
            store = await asyncio.to_thread(lambda: self._session.store)
            if not self._is_migrated:
                pending = await asyncio.to_thread(store.pending_migrations)
                if pending:
                    return f"schema_pending: {pending[0][0]} is not applied; fencepost migrate"
                self._is_migrated = True  # a schema never goes back
            await store.run_async(store.settings.app_limit())
        except FencepostError as error:
            return f"{error.code}: {error}"
        except Exception as error:  # noqa: BLE001 - whatever it is, we could not serve either
            return store_away(type(error).__name__)
        return None
