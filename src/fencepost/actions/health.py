"""What monitors ask of an app: whether it can serve requests now, and its metrics."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

from fencepost.actions.local.doctor import examine
from fencepost.actions.session import Session
from fencepost.core.bounds import FINDINGS_AGE, READY_INTERVAL, READY_TIMEOUT
from fencepost.core.stats.overview import Finding
from fencepost.errors import FencepostError
from fencepost.observe.health import STOPPING, Verdict, store_away, verdict
from fencepost.observe.metrics import Metric, exposition, of_counters


class Readiness:
    """Whether the store answers.

    Many probes at once must not become load: they share one request to the store, and for a moment
    its result.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._is_migrated = False
        self._checked_at: float | None = None
        self._reason: str | None = None
        self._request: asyncio.Task[str | None] | None = None

    async def check(self, *, is_stopping: bool = False) -> Verdict:
        """Return whether requests can be served: not while stopping, nor without the store.

        What else runs in this process, such as a worker beside the server, has to be ready, too.
        """
        if is_stopping:
            return verdict(STOPPING)
        now = self._session.clock.monotonic()
        if self._checked_at is None or now - self._checked_at >= READY_INTERVAL:
            await self._refresh()
        others = [why for check in self._session.health_checks for why in check().reasons]
        return verdict(self._reason, *others)

    async def _refresh(self) -> None:
        loop = asyncio.get_running_loop()
        request = self._request
        if request is None or request.done() or request.get_loop() is not loop:
            request = self._request = loop.create_task(self._reason_now())
        try:
            # Shielded: other probes wait for it too, and a store that hangs gets one request.
            async with asyncio.timeout(READY_TIMEOUT):
                reason = await asyncio.shield(request)
        except TimeoutError:
            reason = store_away(f"it has not answered for {READY_TIMEOUT:g} s")
        self._reason = reason
        self._checked_at = self._session.clock.monotonic()

    async def _reason_now(self) -> str | None:
        try:
            store = await asyncio.to_thread(lambda: self._session.store)
            if not self._is_migrated:
                pending = await asyncio.to_thread(store.pending_migrations)
                if pending:
                    return f"schema_pending: {pending[0][0]} is not applied; fencepost migrate"
                self._is_migrated = True  # schemas are never downgraded
            await store.run_async(store.settings.app_limit())
        except FencepostError as error:
            return f"{error.code}: {error}"
        except Exception as error:  # noqa: BLE001 - with any defect, requests would fail too
            return store_away(type(error).__name__)
        return None


class FindingCache:
    """What the doctor found, kept for a while: many who ask must not become load."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._found: list[Finding] = []
        self._read_at = -math.inf
        self._mutex = asyncio.Lock()

    async def read(self, max_age: float = FINDINGS_AGE) -> list[Finding]:
        """Return findings that are at most *max_age* seconds old, or raise StoreError."""
        clock = self._session.clock
        async with self._mutex:
            if clock.monotonic() - self._read_at >= max_age:
                self._found = await self._session.run_async(examine(self._session))
                self._read_at = clock.monotonic()
        return self._found


def read_metrics(session: Session, more: Sequence[Metric] = ()) -> bytes:
    """Return the metrics of the process and the store, and *more*, within a bounded time."""
    counted = of_counters(session.counters)
    return exposition([*counted, *session.gauges.read(lambda: session.store), *more])


async def metrics_text(session: Session, more: Sequence[Metric] = ()) -> bytes:
    """As ``read_metrics``, without blocking the event loop."""
    return await asyncio.to_thread(read_metrics, session, more)
