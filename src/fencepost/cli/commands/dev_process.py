"""A worker and the HTTP API in one process, on one event loop: what ``fencepost dev`` restarts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.http.server.server import Server
    from fencepost.worker import Worker


def work_and_serve(worker: Worker, app: App, fd: int, *, grace: float) -> None:
    """Run until the worker is stopped; the API is on the listening socket *fd*, our parent's."""
    from fencepost.http.server.server import Server, ServerOptions
    from fencepost.http.server.socket import inherited

    # The worker does the chores, and only this machine reaches a socket of `fencepost dev`.
    options = ServerOptions(grace=grace, has_maintenance=False, is_local=True)
    asyncio.run(_both(worker, Server(app, inherited(fd), options)))


async def _both(worker: Worker, server: Server) -> None:
    serving = asyncio.create_task(server.run_async())
    serving.add_done_callback(lambda _: worker.stop())
    try:
        await worker.run_async()
    finally:
        # Last, so that requests are served for as long as jobs finish.
        server.stop()
        await serving
