"""What keeps a store in order where no worker of ours runs: the chores, and the crons."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from fencepost.core.bounds import FAREWELL
from fencepost.core.cron.cron import Cron
from fencepost.core.retention import Retention
from fencepost.errors import StoreError
from fencepost.maintenance.maintenance import Maintenance
from fencepost.observe.counters import Counters
from fencepost.store.interface.store import Store


class Caretaker:
    """Stands for the term, and fires the crons of an app, beside whatever else the process does."""

    def __init__(
        self,
        store: Store,
        *,
        name: str,
        retention: Retention,
        crons: Mapping[str, Cron],
        counters: Counters,
    ) -> None:
        self._store = store
        self._crons = crons
        self._counters = counters
        self._maintenance = Maintenance(store, worker=name, retention=retention, counters=counters)
        self._services: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, on the present event loop."""
        services = [self._maintenance.start()]
        if self._crons:
            from fencepost.maintenance.ticker import Ticker

            services.append(Ticker(self._store, self._crons, self._counters).start())
        self._services = [asyncio.create_task(service) for service in services]

    async def stop(self) -> None:
        """End, and give up the term; if that cannot be said, it runs out by itself."""
        for service in self._services:
            service.cancel()
        await asyncio.gather(*self._services, return_exceptions=True)
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await self._maintenance.resign()
