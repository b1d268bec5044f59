"""A proxy of our own between a client and a server, which loses what it is told to lose.

with between(server.url) as proxy:
    proxy.plan("swallow")            # the next request is done, and its answer lost
    Client(proxy.url).submit("work")
"""

from __future__ import annotations

import http.client
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from fencepost.clock import SystemClock


class Answer:
    """What the proxy answers by itself, without asking the server."""

    def __init__(self, status: int, body: Any = None, **headers: str) -> None:
        self.status = status
        self.data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def problem(status: int, code: str, **more: Any) -> Answer:
    """Return an answer with a problem document."""
    told = {"type": f"urn:fencepost:problem:{code}", "title": "No", "status": status, "code": code}
    return Answer(status, {**told, "detail": "because", "request_id": "r-1", **more})


class Proxy:
    """Passes requests on, one after the other as planned; without a plan, all of them."""

    def __init__(self, url: str) -> None:
        self.target = url
        self.seen: list[tuple[str, str]] = []
        """Every request that came, as method and path."""
        self._plans: deque[str | Answer] = deque()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                proxy.handle(self)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - names of http.server

            def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - its name there

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def plan(self, *steps: str | Answer) -> None:
        """Say what is to become of the next requests: pass, swallow, drop, or an answer."""
        self._plans.extend(steps)

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        self.seen.append((handler.command, handler.path))
        body = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        step = self._plans.popleft() if self._plans else "pass"
        if isinstance(step, Answer):
            reply(handler, step.status, step.headers, step.data)
        elif step == "drop":
            handler.close_connection = True
        else:
            status, headers, data = self._pass_on(handler, body)
            if step == "swallow":
                handler.close_connection = True
            else:
                reply(handler, status, headers, data)

    def _pass_on(
        self, handler: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(str(urlsplit(self.target).netloc), timeout=60)
        try:
            connection.request(handler.command, handler.path, body, dict(handler.headers))
            answer = connection.getresponse()
            return answer.status, dict(answer.headers), answer.read()
        finally:
            connection.close()


def reply(
    handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], data: bytes
) -> None:
    handler.send_response_only(status)
    kept = {k: v for k, v in headers.items() if k.lower() not in ("content-length", "connection")}
    for name, value in {**kept, "content-length": str(len(data))}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)


@contextmanager
def between(url: str) -> Iterator[Proxy]:
    """Put a proxy in front of the server at *url*."""
    proxy = Proxy(url)
    thread = threading.Thread(target=proxy.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.server.shutdown()
        proxy.server.server_close()
        thread.join(10)


class RestlessClock(SystemClock):
    """Never sleeps, and remembers for how long it was asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.rests: list[float] = []
        self.meanwhile: Callable[[], None] = lambda: None
        """What happens while it rests."""

    def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.meanwhile()

    async def sleep_async(self, seconds: float) -> None:
        self.rests.append(seconds)
