"""The dashboard of a demo that keeps running: a server of its own, which ends with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fencepost.cli.options import LOOPBACK

if TYPE_CHECKING:
    from fencepost.app import App

GRACE = 1.0
STOP_TIMEOUT = 5.0


@contextmanager
def serve_dashboard(app: App) -> Iterator[str]:
    """Serve the API and the dashboard of *app* on a free port of this machine; yield its URL.

    Workers do the maintenance. If this process is killed, its threads and the socket go with it.
    """
    from fencepost.http.server.server import Server, ServerOptions, listen

    options = ServerOptions(grace=GRACE, has_maintenance=False, is_local=True)
    listening = listen(LOOPBACK, 0)
    server = Server(app, listening, options)
    thread = threading.Thread(
        target=lambda: asyncio.run(server.run_async()), name="demo-dashboard", daemon=True
    )
    thread.start()
    try:
        yield server.url
    finally:
        server.stop()
        server.stop()  # nobody waits for a page that is open
        thread.join(STOP_TIMEOUT)
        listening.close()
