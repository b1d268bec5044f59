"""The server process of a benchmark: the API as ``fencepost server`` serves it, and an echo.

It says where it listens, answers each line on its standard input with the processor time that it
has used, and stops when its standard input ends: no child outlives a bench.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bench.child import READ, STDIN, cpu_seconds, say
from bench.noop import BenchApp
from fencepost.http.server.server import Server, ServerOptions, listen

ECHO = "/echo"
HOST = "127.0.0.1"


class Serve(msgspec.Struct, frozen=True):
    """What is to be served."""

    url: str


class Serving(msgspec.Struct, frozen=True):
    """Where it is served, and by what."""

    port: int
    parser: str
    loop: str


class EchoServer(Server):
    """A server with one route more, which is as bare as Starlette has them.

    It goes through the same connections and the same application, and stands first in the table,
    so that all that differs is what is done with a request.
    """

    def _config(self, limits: Any) -> Any:
        self._gate._api.router.routes.insert(0, Route(ECHO, _echo, methods=["POST"]))
        return super()._config(limits)


async def _echo(request: Request) -> Response:
    return JSONResponse(await request.json())


def serve(order: Serve) -> None:
    """Serve until the standard input ends."""
    with BenchApp(order.url) as bench:
        socket = listen(HOST, 0)
        server = EchoServer(bench.app, socket, ServerOptions(is_local=True))
        serving = Serving(
            socket.getsockname()[1],
            parser=_installed("httptools", "h11"),
            loop=_installed("uvloop", "asyncio"),
        )
        say(msgspec.json.encode(serving).decode())
        threading.Thread(target=_answer, args=(server,), daemon=True).start()
        server.run()


def _answer(server: Server) -> None:
    while os.read(STDIN, READ):
        say(repr(cpu_seconds()))
    server.stop()


def _installed(*names: str) -> str:
    """Return the first of these that is there, with its version; the last always is."""
    for name in names:
        with suppress(PackageNotFoundError):
            return f"{name} {version(name)}"
    return names[-1]


def main() -> None:
    serve(msgspec.json.decode(sys.argv[1], type=Serve))


if __name__ == "__main__":
    main()
