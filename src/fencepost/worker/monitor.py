"""A worker's own small HTTP server: ``/metrics``, ``/health/live`` and ``/health/ready``.

It runs in separate threads, on the standard library's server, so that a handler that blocks the
event loop cannot block it. It serves three pages, to a few connections at a time, each for a few
seconds at most.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from fencepost.core.bounds import MONITOR_CONNECTIONS_MAX, MONITOR_TIMEOUT
from fencepost.errors import ConfigurationError
from fencepost.observe import names
from fencepost.observe.health import Verdict
from fencepost.observe.log import log
from fencepost.observe.metrics import CONTENT_TYPE
from fencepost.platform.sockets import allow_next

JSON = "application/json"

Page = Callable[[], tuple[int, str, bytes]]
"""Returns status, content type and body."""


def pages(
    live: Callable[[], Verdict], ready: Callable[[], Verdict], metrics: Callable[[], bytes]
) -> dict[str, Page]:
    """Return the three pages of a process."""

    def health(judge: Callable[[], Verdict]) -> tuple[int, str, bytes]:
        found = judge()
        return found.status, JSON, found.body()

    return {
        "/health/live": lambda: health(live),
        "/health/ready": lambda: health(ready),
        "/metrics": lambda: (200, CONTENT_TYPE, metrics()),
    }


class Monitor:
    """Serves pages until it is closed."""

    def __init__(self, host: str, port: int, pages: dict[str, Page]) -> None:
        try:
            self._server = _Server(host, port, pages)
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {host}:{port}: {error.strerror or error}; choose another "
                f"address with --metrics HOST:PORT"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="fencepost-monitor", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """Where it listens, as ``host:port``."""
        host, port = self._server.server_address[:2]
        shown = str(host)
        return f"[{shown}]:{port}" if ":" in shown else f"{shown}:{port}"

    def close(self) -> None:
        """Stop listening; a second call does nothing."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int, pages: dict[str, Page]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.pages = pages
        self._room = threading.BoundedSemaphore(MONITOR_CONNECTIONS_MAX)
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind without a DNS query for our own name, which may take seconds."""
        allow_next(self.socket)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)  # no probe opens so many
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: a client may hang up."""


class _Handler(BaseHTTPRequestHandler):
    timeout = MONITOR_TIMEOUT
    server_version = "fencepost"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(*self._page())

    do_HEAD = do_GET  # noqa: N815 - the name is inherited

    def _page(self) -> tuple[int, str, bytes]:
        page = cast(_Server, self.server).pages.get(self.path.partition("?")[0])
        if page is None:
            return 404, JSON, b'{"status":"not_found"}'
        try:
            return page()
        except Exception as error:  # noqa: BLE001 - a defect in one page must not end the others
            log(names.METRICS_FAILED, level=logging.ERROR, path=self.path, error=repr(error))
            return 500, JSON, b'{"status":"error"}'

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is inherited
        """Log no requests: probes come every few seconds."""
