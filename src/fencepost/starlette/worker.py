"""A worker in a thread of a server's process, with an event loop of its own.

So a handler that blocks holds up no request, the server keeps its signals, and the worker keeps its
leases. If the worker fails, that is logged, the process is not ready, and it is started again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

from fencepost.core.bounds import (
    EMBEDDED_PAUSE_MAX,
    EMBEDDED_PAUSE_MIN,
    GRACE_DEFAULT,
    INTERRUPT_GRACE,
    THREADS_FAREWELL,
)
from fencepost.core.values.times import Duration, parse_duration
from fencepost.observe import names
from fencepost.observe.health import Verdict, WorkerHealth, verdict
from fencepost.observe.log import write

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.worker import Worker


class EmbeddedOptions(TypedDict, total=False):
    """How a worker beside a server runs; as the options of ``app.worker``."""

    queues: Mapping[str, int] | Sequence[str] | None
    concurrency: int
    lease_ttl: Duration | None
    grace: Duration


class EmbeddedWorker:
    """Runs a worker of *app* from ``start`` to ``stop``, again and again if it fails."""

    def __init__(self, app: App, **options: Unpack[EmbeddedOptions]) -> None:
        self._app = app
        self._options = options
        grace = parse_duration(options.get("grace", GRACE_DEFAULT), name="grace")
        # Twice the grace at most: for what runs, and for what it settles.
        self._patience = 2 * max(grace, 1.0) + INTERRUPT_GRACE + THREADS_FAREWELL
        self._pulse = app.session.counters.pulse
        self._health = WorkerHealth(self._pulse, app.session.clock)
        self._failure: str | None = None
        self._failed_at = 0.0
        self._mutex = threading.Lock()
        self._stopping = threading.Event()
        self._worker: Worker | None = None
        self._thread = threading.Thread(target=self._work, name="fencepost-embedded", daemon=True)

    def start(self) -> None:
        """Start it, and have the readiness of this process depend on it; refuse bad options."""
        self._worker = self._app.worker(**self._options)
        self._app.session.health_checks.append(self.ready)
        self._thread.start()

    async def stop(self) -> None:
        """Let running jobs finish within grace, release the others, and wait for the end.

        What does not end in time is interrupted, then left behind: its leases run out.
        """
        self._stopping.set()
        for patience in (self._patience, INTERRUPT_GRACE + THREADS_FAREWELL):
            with self._mutex:
                if self._worker is not None:
                    self._worker.stop()
            await asyncio.to_thread(self._thread.join, patience)
            if not self._thread.is_alive():
                break
        else:
            self._log("it has not stopped; its jobs come back when their leases expire")
        self._app.session.health_checks.remove(self.ready)

    def ready(self) -> Verdict:
        """Return whether the worker would take a job now; if it failed, why."""
        turned_at = self._pulse.turned_at
        if self._failure is not None and (turned_at is None or turned_at <= self._failed_at):
            return verdict(f"worker_failed: {self._failure}")
        return self._health.ready()

    def _work(self) -> None:
        pause = EMBEDDED_PAUSE_MIN
        while not self._stopping.is_set():
            started_at = self._app.session.clock.monotonic()
            try:
                self._run()
            except BaseException as error:  # noqa: BLE001 - the thread's edge; SystemExit is one too
                self._note(error)
            if self._app.session.clock.monotonic() - started_at > EMBEDDED_PAUSE_MAX:
                pause = EMBEDDED_PAUSE_MIN
            self._stopping.wait(pause)
            pause = min(2 * pause, EMBEDDED_PAUSE_MAX)

    def _run(self) -> None:
        with self._mutex:
            if self._stopping.is_set():
                return
            worker = self._worker = self._worker or self._app.worker(**self._options)
        try:
            worker.run()
        finally:
            with self._mutex:
                self._worker = None

    def _note(self, error: BaseException) -> None:
        self._failure = f"{type(error).__name__}: {error}"
        self._failed_at = self._app.session.clock.monotonic()
        self._log(f"{self._failure}; it is started again", error)

    def _log(self, why: str, error: BaseException | None = None) -> None:
        text = f"the worker beside the server has failed: {why}"
        write(names.WORKER_FAILED, {"error": why}, level=logging.ERROR, text=text, raised=error)
