"""Requests to a server and what comes of them, and the transport that sends them, over httpx.

Requests and rests are the steps of a client's scripts.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import msgspec

from fencepost.errors import ConfigurationError
from fencepost.wire.bounds import CLIENT_CONNECT_TIMEOUT, CLIENT_CONNECTIONS_MAX, CLIENT_KEEPALIVE

if TYPE_CHECKING:
    import asyncio

    import httpx

    from fencepost.client.session import RemoteSession

JOBS = "/v1/jobs"
FLOWS = "/v1/flows"
DEAD_LETTERS = "/v1/dead-letters"
REPLAYS = "/v1/replays"
EVENTS = "/v1/events"
QUEUES = "/v1/queues"
TYPES = "/v1/types"
CRONS = "/v1/crons"
SCALE = "/v1/scale"

FOREVER = math.inf
"""A repeat is harmless at any time: the request sets a state."""


class Request(msgspec.Struct, frozen=True):
    """One request, without the server's address and the token."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    wait: float = 0.0
    """How many seconds the server may wait before it answers."""
    repeat_for: float = 0.0
    """How long a repeat is harmless if the answer is lost; 0: never repeat it."""

    @property
    def is_read(self) -> bool:
        """Whether it changes nothing."""
        return self.method == "GET"


class HttpReply(msgspec.Struct, frozen=True):
    """The answer of a server, with any status."""

    status: int
    data: bytes
    retry_after: str | None = None
    """The text of the header."""


class NotSent(msgspec.Struct, frozen=True):
    """The server was not reached: nothing was sent, so nothing was done."""

    reason: str


class NoReply(msgspec.Struct, frozen=True):
    """The request was sent, at least in part, and no answer came: it may have been done."""

    reason: str


class Rest(msgspec.Struct, frozen=True):
    """Wait before the next request."""

    seconds: float


Outcome = HttpReply | NotSent | NoReply


class Transport(Protocol):
    """Sends requests to a server."""

    def send(self, request: Request) -> Outcome: ...

    async def send_async(self, request: Request) -> Outcome: ...


NAMED = frozenset([QUEUES, TYPES, CRONS, SCALE])
"""Routes that end in a name, which may have slashes."""


def path(*parts: str) -> str:
    """Return the path of a route: the first part as it is, the others quoted.

    Servers refuse a path with an encoded slash. The slashes of a name stay as they are; an id has
    none, and one that does matches no job.
    """
    first, *rest = parts
    if first in NAMED:
        rest = [segment for part in rest for segment in part.split("/")]
    return "/".join((first, *map(_segment, rest)))


def _segment(text: str) -> str:
    # A segment of dots alone would mean a parent folder.
    return quote(text, safe="").replace(".", "%2E") if not text.strip(".") else quote(text, safe="")


def get(*parts: str, query: tuple[tuple[str, str], ...] = (), wait: float = 0.0) -> Request:
    """Return a request that changes nothing."""
    return Request("GET", path(*parts), query, wait=wait, repeat_for=FOREVER)


def post(*parts: str, body: Any = None, repeat_for: float = 0.0) -> Request:
    """Return a request that changes something."""
    data = None if body is None else msgspec.json.encode(body)
    return Request("POST", path(*parts), body=data, repeat_for=repeat_for)


def put(*parts: str, body: Any) -> Request:
    """Return a request that sets a value."""
    return Request("PUT", path(*parts), body=msgspec.json.encode(body), repeat_for=FOREVER)


def query_of(**given: Any) -> tuple[tuple[str, str], ...]:
    """Return the parameters that are not None, in the order of the call."""
    return tuple((name, str(value)) for name, value in given.items() if value is not None)


class ServerActions:
    """The actions on one subject of a server; each is a script."""

    def __init__(self, session: RemoteSession) -> None:
        self._session = session


class HttpTransport:
    """Connections to one server: one pool for all threads, and one for each event loop."""

    def __init__(self, url: str, token: str | None, *, timeout: float) -> None:
        self._httpx = load_httpx()
        self._url = url
        self._timeout = timeout
        self._headers = {"accept": "application/json"}
        if token is not None:
            self._headers["authorization"] = f"Bearer {token}"
        self._mutex = threading.Lock()
        self._is_closed = False
        self._pid = os.getpid()
        self._pool: httpx.Client | None = None
        self._pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = (
            weakref.WeakKeyDictionary()
        )

    def send(self, request: Request) -> Outcome:
        """Send *request*, and return its outcome."""
        pool = self._client()
        try:
            reply = pool.request(**self._arguments(request))
        except self._httpx.RequestError as error:
            return self._failure(error)
        return _reply(reply)

    async def send_async(self, request: Request) -> Outcome:
        """As ``send``, for the awaited face."""
        pool = self._async_client()
        try:
            reply = await pool.request(**self._arguments(request))
        except self._httpx.RequestError as error:
            return self._failure(error)
        return _reply(reply)

    def _arguments(self, request: Request) -> dict[str, Any]:
        timeout = self._httpx.Timeout(
            self._timeout,
            read=self._timeout + request.wait,
            connect=min(self._timeout, CLIENT_CONNECT_TIMEOUT),
        )
        given: dict[str, Any] = {
            "method": request.method,
            "url": self._url + request.path,
            "timeout": timeout,
        }
        if request.query:
            given["params"] = request.query
        if request.body is not None:
            given |= {"content": request.body, "headers": {"content-type": "application/json"}}
        return given

    def _failure(self, error: httpx.RequestError) -> NotSent | NoReply:
        httpx = self._httpx
        reason = str(error) or type(error).__name__
        unsent = (
            httpx.ConnectError,
            httpx.ConnectTimeout,
            httpx.PoolTimeout,
            httpx.ProxyError,
            httpx.UnsupportedProtocol,
        )
        return NotSent(reason) if isinstance(error, unsent) else NoReply(reason)

    def _client(self) -> httpx.Client:
        """Return the pool of this process: two on one connection would mix their bytes."""
        with self._mutex:
            self._check_open()
            pool = self._pool
            if pool is None:
                pool = self._httpx.Client(headers=self._headers, limits=self._limits())
                self._pool = pool
            return pool

    def _async_client(self) -> httpx.AsyncClient:
        import asyncio  # callers that never await need not load it

        loop = asyncio.get_running_loop()
        with self._mutex:
            self._check_open()
            pool = self._pools.get(loop)
            if pool is None:
                pool = self._httpx.AsyncClient(headers=self._headers, limits=self._limits())
                self._pools[loop] = pool
            return pool

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConfigurationError("this client has been closed")
        if self._pid != os.getpid():
            self._pid, self._pool = os.getpid(), None
            self._pools = weakref.WeakKeyDictionary()

    def _limits(self) -> httpx.Limits:
        limits: httpx.Limits = self._httpx.Limits(
            max_connections=CLIENT_CONNECTIONS_MAX, keepalive_expiry=CLIENT_KEEPALIVE
        )
        return limits

    def close(self) -> None:
        """Close the connections of all threads."""
        with self._mutex:
            self._is_closed = True
            pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            pool.close()

    async def close_async(self) -> None:
        """Close them, and those of this event loop."""
        import asyncio

        self.close()
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.aclose()


def _reply(reply: httpx.Response) -> HttpReply:
    return HttpReply(reply.status_code, reply.content, reply.headers.get("retry-after"))


def load_httpx() -> Any:
    """Return httpx, or raise ConfigurationError: it is an optional dependency."""
    try:
        import httpx
    except ImportError:
        raise ConfigurationError(
            "fencepost.Client needs httpx: pip install 'fencepost[client]'"
        ) from None
    return httpx
