"""A real HTTP server for tests: uvicorn in a thread of its own, on a port of loopback.

    with serving(app) as server:
        httpx.get(f"{server.url}/health/live")

It has stopped, and its thread has ended, when the block is left.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from fencepost import App
from fencepost.http import asgi

PATIENCE = 20.0


class Served(uvicorn.Server):
    """A server that tells when it has started, and can be stopped from another thread."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket) -> None:
        super().__init__(config)
        self._listener = listener
        self.port: int = listener.getsockname()[1]
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._run_here, name="served", daemon=True)
        self.error: BaseException | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def api(self) -> Any:
        """What the routes share: ``fencepost.http.api.Api``."""
        return self.config.app.state.api  # type: ignore[union-attr]  # uvicorn takes names, too

    def start(self) -> None:
        self._thread.start()
        if not self._is_up.wait(PATIENCE) or self.error is not None:
            raise RuntimeError("the server did not start") from self.error

    def stop(self) -> None:
        """Finish what is under way, hang up, and end the thread."""
        self.should_exit = True
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the server did not stop"

    def abort(self) -> None:
        """Stop without waiting for requests that are under way: their callers hear nothing."""
        self.force_exit = True
        self.stop()

    def _run_here(self) -> None:
        try:
            self.run(sockets=[self._listener])
        except BaseException as error:  # noqa: BLE001 - told to whoever waits for the start
            self.error = error
        finally:
            self._is_up.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._is_up.set()


@contextmanager
def serving(app: App | Any, *, port: int = 0, is_local: bool = True) -> Iterator[Served]:
    """Serve *app*, an App or any ASGI application, until the block is left."""
    listener = socket.create_server(("127.0.0.1", port), backlog=128)
    application = asgi(app, is_local=is_local) if isinstance(app, App) else app
    config = uvicorn.Config(
        application, log_config=None, access_log=False, timeout_graceful_shutdown=5
    )
    server = Served(config, listener)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        listener.close()
