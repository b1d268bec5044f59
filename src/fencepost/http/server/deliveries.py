"""Delivers the webhooks of an app from its server: no other process may have the app.

Workers in other languages cannot deliver them, since that takes the app's secrets and its check of
addresses. So a server runs a worker for deliveries, in a thread with another event loop: a slow
receiver delays no request, and signals stay with the server. Workers of the app share the work.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

from fencepost.core.bounds import DELIVERY_PAUSE, DELIVERY_SLOTS
from fencepost.core.webhooks.delivery import DELIVERY_QUEUE, DELIVERY_TYPE
from fencepost.observe import names
from fencepost.observe.log import log
from fencepost.worker import Worker

if TYPE_CHECKING:
    from fencepost.app import App


class Deliveries:
    """Runs the app's deliveries beside a server."""

    def __init__(self, app: App, *, grace: float) -> None:
        session = app.session
        self._worker = Worker(
            session.store,
            {DELIVERY_TYPE: session.tasks[DELIVERY_TYPE]},
            counters=session.counters,
            retention=app.full_retention,
            queues=[DELIVERY_QUEUE],
            concurrency=DELIVERY_SLOTS,
            grace=grace,
        )
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fencepost-deliveries", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hurry(self) -> None:
        """Do not wait for receivers any more, after ``stop``."""
        self._worker.stop()

    async def stop(self) -> None:
        """Finish what is being sent within the grace, and release the rest."""
        self._is_stopping.set()
        self._worker.stop()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            try:
                self._worker.run()
            except Exception as error:  # noqa: BLE001 - the edge of a loop, which must go on
                log(names.DELIVERIES_FAILED, level=logging.ERROR, error=repr(error))
                self._is_stopping.wait(DELIVERY_PAUSE)
