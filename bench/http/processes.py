"""A server and a caller, each a process, and what one asks of the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from bench.bench import Bench
from bench.children import START_TIMEOUT, WORK_TIMEOUT, Child
from bench.http.caller import Timed, Volley
from bench.http.server import HOST, Serve, Serving
from bench.noop import BenchApp

SERVER = "bench.http.server"
CALLER = "bench.http.caller"
ROLES = ("submit", "read")


class Measured(NamedTuple):
    """A volley, and the processor time of the server, in seconds."""

    timed: Timed
    cpu_seconds: float


class Request(NamedTuple):
    """What is asked, and the status that it is to be answered with."""

    method: str
    path: str
    status: int
    body: bytes = b""


class Served:
    """A server and its client."""

    def __init__(self, server: Child, caller: Child, token: str) -> None:
        self._server = server
        self._caller = caller
        self.token = token
        self.serving = msgspec.json.decode(server.line(START_TIMEOUT), type=Serving)
        caller.wait_until_ready()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.serving.port}"

    @property
    def means(self) -> str:
        """Say what the server is made of."""
        return f"{self.serving.parser}, {self.serving.loop}"

    def ask(self, request: Request, *, connections: int, count: int) -> Measured:
        """Have *request* asked *count* times, and say how long it took."""
        volley = Volley(
            port=self.serving.port,
            request=self._bytes(request),
            status=request.status,
            connections=connections,
            count=count,
        )
        before = self._cpu()
        self._caller.tell(msgspec.json.encode(volley))
        timed = msgspec.json.decode(self._caller.line(WORK_TIMEOUT), type=Timed)
        return Measured(timed, self._cpu() - before)

    def _cpu(self) -> float:
        self._server.tell(b"cpu")
        return float(self._server.line(WORK_TIMEOUT))

    def _bytes(self, request: Request) -> bytes:
        head = [
            f"{request.method} {request.path} HTTP/1.1",
            f"host: {HOST}:{self.serving.port}",
            f"authorization: Bearer {self.token}",
            "content-type: application/json",
            f"content-length: {len(request.body)}",
        ]
        return "\r\n".join(head).encode() + b"\r\n\r\n" + request.body


@contextmanager
def serving(bench: Bench, store: str, roles: Sequence[str] = ROLES) -> Iterator[Served]:
    """Serve the API of *store*, to a caller with a token, as callers from elsewhere have one."""
    with BenchApp(store) as app:
        token = app.app.tokens.create("bench", roles=roles).text
    logs = (bench.folder / name for name in ("server.log", "caller.log"))
    with (
        Child(Serve(store), module=SERVER, log=next(logs), clock=bench.clock) as server,
        Child(None, module=CALLER, log=next(logs), clock=bench.clock) as caller,
    ):
        yield Served(server, caller, token)
