"""The webhooks of an app, delivered by its server: there may be no other process that has the app.

Workers in other languages cannot deliver them: it takes the app's secrets and its guard of
addresses. So a server runs a worker of its own for deliveries alone, in a thread with an event loop
of its own: a slow receiver holds up no request, and signals stay the server's. Where workers of the
app run too, whoever is free takes the next.
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
        """Wait for no receiver any more, once it was stopped."""
        self._worker.stop()

    async def stop(self) -> None:
        """Let what is being sent finish within grace, and give the rest back."""
        self._is_stopping.set()
        self._worker.stop()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            try:
                self._worker.run()
            except Exception as error:  # noqa: BLE001 - the edge of a loop: webhooks must go on
                log(names.DELIVERIES_FAILED, level=logging.ERROR, error=repr(error))
                self._is_stopping.wait(DELIVERY_PAUSE)


def deliveries_of(app: App, *, grace: float) -> Deliveries | None:
    """Return what delivers the webhooks of *app*; None if it has no secrets to sign them with."""
    return Deliveries(app, grace=grace) if DELIVERY_TYPE in app.session.tasks else None
