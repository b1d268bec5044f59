"""The way to a server, over httpx: which of its errors mean that nothing can have been done."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from fencepost.client.exchange import HttpReply, Outcome, Request, Unheard, Unreached
from fencepost.core.bounds import (
    CLIENT_CONNECT_TIMEOUT,
    CLIENT_CONNECTIONS_MAX,
    CLIENT_KEEPALIVE,
)
from fencepost.errors import ConfigurationError

if TYPE_CHECKING:
    import asyncio

    import httpx


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
        """Send *request*, and return what came of it."""
        pool = self._client()
        try:
            reply = pool.request(**self._arguments(request))
        except self._httpx.RequestError as error:
            return self._failure(error)
        return _reply(reply)

    async def send_async(self, request: Request) -> Outcome:
        """As ``send``, for the async face."""
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

    def _failure(self, error: httpx.RequestError) -> Unreached | Unheard:
        httpx = self._httpx
        reason = str(error) or type(error).__name__
        unsent = (
            httpx.ConnectError,
            httpx.ConnectTimeout,
            httpx.PoolTimeout,
            httpx.ProxyError,
            httpx.UnsupportedProtocol,
        )
        return Unreached(reason) if isinstance(error, unsent) else Unheard(reason)

    def _client(self) -> httpx.Client:
        """Return the pool of this process: two that shared a connection would mix their bytes."""
        with self._mutex:
            self._check_open()
            pool = self._pool
            if pool is None:
                pool = self._httpx.Client(headers=self._headers, limits=self._limits())
                self._pool = pool
            return pool

    def _async_client(self) -> httpx.AsyncClient:
        import asyncio  # callers that never await must not pay for loading it

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
        """Hang up."""
        with self._mutex:
            self._is_closed = True
            pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            pool.close()

    async def close_async(self) -> None:
        """Hang up, on this event loop too."""
        import asyncio

        self.close()
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.aclose()


def _reply(reply: httpx.Response) -> HttpReply:
    return HttpReply(reply.status_code, reply.content, reply.headers.get("retry-after"))


def load_httpx() -> Any:
    """Return httpx, or raise ConfigurationError: most who use Fencepost need no client."""
    try:
        import httpx
    except ImportError:
        raise ConfigurationError(
            "fencepost.Client needs httpx: pip install 'fencepost[client]'"
        ) from None
    return httpx
