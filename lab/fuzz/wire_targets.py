"""Bytes of a connection, read by both parsers: they never see different requests in them.

If one of them took for a body what the other takes for a request, a proxy that reads like the one
would let pass what the other answers. Either may refuse what the other takes; then it reads on no
further.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple
from urllib.parse import unquote

import uvicorn
from hypothesis import strategies as st
from tests.http.hostile import CHUNKED, DISGUISED, DISGUISES, HIDDEN, HOST, JSON, REFUSED
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from fencepost.clock import SystemClock
from fencepost.http.server.connection import ConnectionLimits
from fencepost.http.server.framing import is_plain
from fencepost.http.server.gate import Gate
from fencepost.http.server.uvicorn_protocols import H11Connection, HttptoolsConnection
from lab.fuzz.inputs import bent_bytes
from lab.fuzz.target import Target

CLOCK, LIMITS = SystemClock(), ConnectionLimits()
BOUNDS: dict[str, Any] = {"clock": CLOCK, "limits": LIMITS, "peers": set()}
CLASSES: tuple[Any, ...] = (
    type("FuzzedH11", (H11Connection, H11Protocol), BOUNDS),
    type("FuzzedHttptools", (HttptoolsConnection, HttpToolsProtocol), BOUNDS),
)
LENGTH, CODING = b"content-length", b"transfer-encoding"
NAMED = frozenset([b"host", b"authorization", b"content-type", b"origin", LENGTH, CODING])
"""Headers by which something is decided."""


class Seen(NamedTuple):
    """A request as the API is given it."""

    method: str
    path: bytes
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class Wire(asyncio.Transport):
    """A connection without a socket: what is written is dropped."""

    def __init__(self) -> None:
        super().__init__()
        self._is_closing = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def write(self, data: Any) -> None: ...

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    def abort(self) -> None:
        self._is_closing = True


def read(data: bytes) -> tuple[list[Seen], ...]:
    """Return what each parser finds in the bytes of a connection: whole requests, in order."""
    return tuple(asyncio.run(_read(kind, data)) for kind in CLASSES)


async def _read(kind: Any, data: bytes) -> list[Seen]:
    seen: list[Seen] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = tuple(sorted(pair for pair in scope["headers"] if pair[0] in NAMED))
        where = (scope["raw_path"], scope["query_string"])
        seen.append(Seen(scope["method"], *where, headers, body))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    gate = Gate(app, CLOCK, head_max=LIMITS.head_max)
    config = uvicorn.Config(gate, ws="none", lifespan="off", log_config=None, log_level=60)
    connection = kind(config=config, server_state=ServerState(), app_state={})
    connection.connection_made(Wire())
    connection.data_received(data)
    while connection.tasks:
        turn = asyncio.gather(*connection.tasks, return_exceptions=True)
        try:
            await asyncio.wait_for(turn, 0 if _waits(connection) else None)
        except TimeoutError:
            break
    connection.connection_lost(None)
    await asyncio.gather(*connection.tasks, return_exceptions=True)
    return seen


def _waits(connection: Any) -> bool:
    """Tell whether a request is not whole, so that there is nothing to wait for."""
    return bool(connection.cycle is not None and connection.cycle.more_body)


def _agree(_: bytes, found: tuple[list[Seen], ...]) -> None:
    plain, quick = found
    for one, other in zip(plain, quick, strict=False):
        assert one == other, f"{one} and {other}"
    for each in (*plain, *quick):
        names = [name for name, _ in each.headers]
        assert names.count(b"host") < 2, f"{each} has several hosts"
        assert LENGTH not in names or CODING not in names, f"{each} ends in two places"


def _is_plain(path: bytes) -> bool:
    return is_plain(unquote(path.decode("latin-1")), path)


def _check_plain(path: bytes, is_so: bool) -> None:
    lowered = path.lower()
    if is_so:
        assert not any(each.lower() in lowered for each in DISGUISES)


heads = st.sampled_from(
    [
        *REFUSED.values(),
        HIDDEN,
        b"POST /v1/claims HTTP/1.1\r\n" + HOST + JSON + CHUNKED + b"\r\n2\r\n{}\r\n0\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\n" + HOST + JSON + b"content-length: 2\r\n\r\n{}",
        b"GET /v1/queues HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n0\r\nauthorization: x\r\n\r\n",
    ]
)
connections = st.lists(bent_bytes(heads), min_size=1, max_size=3).map(
    lambda parts: b"".join(parts) + HIDDEN
)
paths = st.builds(lambda where, what: where % what, st.sampled_from(DISGUISED),
                  st.sampled_from(DISGUISES) | st.just(b""))  # fmt: skip

WIRE_TARGETS = (
    Target("bytes of a connection", read, connections, (), _agree),
    Target("path of a request", _is_plain, bent_bytes(paths), (), _check_plain),
)
