"""A server: one process, one socket, the HTTP API behind it; also maintenance and webhooks.

It can be stopped at any point. Whatever was answered with success is in the store. The outcome of a
request without an answer is unknown; it can be repeated with the same key or token.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

import msgspec
import uvicorn
from msgspec.structs import replace

from fencepost.core.bounds import GRACE_DEFAULT
from fencepost.core.webhooks.delivery import DELIVERY_TYPE
from fencepost.errors import ConfigurationError
from fencepost.http.api import asgi
from fencepost.http.server.connection import Connection, ConnectionLimits, Sweeper
from fencepost.http.server.deliveries import Deliveries
from fencepost.http.server.gate import Gate
from fencepost.http.server.uvicorn_protocols import UvicornServer, connection_class
from fencepost.maintenance import Caretaker
from fencepost.observe import names
from fencepost.observe.log import log
from fencepost.platform import signals
from fencepost.platform.processes import raise_file_limit
from fencepost.platform.sockets import allow_next
from fencepost.wire.bounds import HTTP_BACKLOG, HTTP_CONNECTIONS_MAX, HTTP_DESCRIPTORS_KEPT
from fencepost.worker.run.fetcher import declare_limits

if TYPE_CHECKING:
    from fencepost.app import App


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a server."""

    grace: float = GRACE_DEFAULT
    """How long requests may take to finish after a stop."""
    notice: float = 0.0
    """How long it keeps serving after a stop, reporting that it is not ready."""
    has_maintenance: bool = True
    is_local: bool = False
    """Only this machine can reach it: see ``Authenticator``."""
    tls_cert: str | None = None
    tls_key: str | None = None
    forwarded_allow_ips: str | None = None
    """Proxies whose ``X-Forwarded-*`` headers are trusted; None: no proxy is."""
    has_dashboard: bool = True


class Server:
    """Serves the API of an app on a socket that is already listening."""

    def __init__(
        self,
        app: App,
        listening: socket.socket,
        options: ServerOptions | None = None,
        *,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self._app = app
        self._socket = listening
        self._options = options or ServerOptions()
        self._clock = app.session.clock
        limits = limits or ConnectionLimits()
        room = room_for_connections(limits.connections_max)
        limits = replace(limits, connections_max=room)
        served = asgi(
            app,
            is_local=self._options.is_local,
            bodies_max=limits.bodies_max,
            dashboard=self._options.has_dashboard,
        )
        self.api = served.state.api
        self.connections: set[Connection] = set()
        """The connections that are open."""
        self._gate = Gate(served, self._clock, head_max=limits.head_max, direct=served.state.direct)
        self._uvicorn = UvicornServer(self._config(limits))
        self._sweeper = Sweeper(
            self.connections,
            self._clock,
            interval=limits.sweep_interval,
            is_stopping=lambda: self._uvicorn.should_exit,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_requests = 0
        self._deliveries: Deliveries | None = None
        self._mutex = threading.Lock()

    @property
    def url(self) -> str:
        """The address that clients connect to."""
        return url_of(self._socket, is_tls=self._options.tls_cert is not None)

    def _config(self, limits: ConnectionLimits) -> uvicorn.Config:
        options = self._options
        return uvicorn.Config(
            self._gate,
            http=connection_class(self._clock, limits, self.connections),
            ws="none",
            lifespan="on",
            interface="asgi3",
            log_config=None,
            log_level=logging.CRITICAL,  # we log events instead of its lines
            access_log=False,
            server_header=False,
            proxy_headers=options.forwarded_allow_ips is not None,
            forwarded_allow_ips=options.forwarded_allow_ips or "",
            backlog=HTTP_BACKLOG,
            timeout_keep_alive=limits.idle_timeout,
            timeout_graceful_shutdown=options.grace,  # type: ignore[arg-type]  # a float will do
            h11_max_incomplete_event_size=limits.head_max,
            ssl_certfile=options.tls_cert,
            ssl_keyfile=options.tls_key,
        )

    def run(self) -> None:
        """Serve until stopped, by ``stop`` or by a signal."""
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(self.run_async(handles_signals=True))

    async def run_async(self, *, handles_signals: bool = False) -> None:
        """Do as ``run`` does on the running event loop, which may be shared."""
        with self._mutex:
            self._loop = asyncio.get_running_loop()
            is_stopped = self._stop_requests > 0
        if is_stopped:
            self._on_stop()
        url = self.url
        log(names.HTTP_STARTED, url=url)
        with self._signals() if handles_signals else nullcontext():
            async with self._services():
                await self._uvicorn.serve(sockets=[self._socket])
        with self._mutex:
            self._loop = None
        log(names.HTTP_STOPPED, url=url)

    @asynccontextmanager
    async def _services(self) -> AsyncIterator[None]:
        """Run maintenance, deliveries and time limits beside the requests."""
        services = [asyncio.create_task(self._sweeper.start())]
        caretaker = self._caretaker()
        if caretaker is not None:
            caretaker.start()
            if DELIVERY_TYPE in self._app.session.tasks:  # else there is no secret to sign with
                self._deliveries = Deliveries(self._app, grace=self._options.grace)
            services.append(asyncio.create_task(self._declare_limits()))
        if self._deliveries is not None:
            self._deliveries.start()
        try:
            yield
        finally:
            self._cut_connections()
            for service in services:
                service.cancel()
            await asyncio.gather(*services, return_exceptions=True)
            if self._deliveries is not None:
                await self._deliveries.stop()
            if caretaker is not None:
                await caretaker.stop()

    def stop(self) -> None:
        """Stop, from any thread: finish requests within the grace; a second call ends them."""
        with self._mutex:
            self._stop_requests += 1
            loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(self._on_stop)

    def _on_stop(self) -> None:
        is_first = not self.api.is_stopping
        self.api.is_stopping = True  # long polls end, and we report not to be ready
        if is_first:
            log(names.HTTP_STOPPING, url=self.url, connections=len(self.connections))
        if is_first and self._options.notice and self._stop_requests < 2:
            asyncio.get_running_loop().call_later(self._options.notice, self._leave)
        else:
            self._leave()

    def _leave(self) -> None:
        self._uvicorn.should_exit = True
        if self._stop_requests > 1:
            self._uvicorn.force_exit = True
            self._cut_connections()
            for task in list(self._gate.tasks):
                task.cancel()
            if self._deliveries is not None:
                self._deliveries.hurry()

    def _cut_connections(self) -> None:
        """Abort what is left: a client that has not read its answer by now will not."""
        for connection in list(self.connections):
            connection.transport.abort()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        signals.watch(loop, self.stop)
        try:
            yield
        finally:
            signals.leave(loop)

    def _caretaker(self) -> Caretaker | None:
        if not self._options.has_maintenance:
            return None
        name = f"{socket.gethostname()}-{os.getpid()}-server-{self._clock.new_id().hex()[:8]}"
        return Caretaker(
            self._app.store,
            name=name,
            retention=self._app.full_retention,
            crons=self._app.session.crons,
            counters=self._app.session.counters,
            tracing=self._app.session.tracing,
        )

    async def _declare_limits(self) -> None:
        session = self._app.session
        if session.tasks:
            await declare_limits(
                session.store,
                session.tasks,
                session.counters,
                is_stopping=lambda: self.api.is_stopping,
            )


def check_tls(cert: str | None, key: str | None) -> None:
    """Raise ConfigurationError if a certificate and its key cannot be used."""
    import ssl

    if cert is None and key is None:
        return
    if cert is None:
        raise ConfigurationError("a key without its certificate: add --tls-cert")
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"the certificate {cert} cannot be used: {error.strerror or error}; it must be PEM, "
            f"with its key in the same file or in --tls-key"
        ) from error


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of the faster event loop, if uvloop is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at *host*; port 0 is any free one.

    Raises ConfigurationError if it cannot.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise _refused(host, port, error) from error
    try:
        allow_next(made)
        made.bind(address)
        made.listen(HTTP_BACKLOG)
    except OSError as error:
        made.close()
        raise _refused(host, port, error) from error
    made.setblocking(False)
    return made


def _refused(host: str, port: int, error: Exception) -> ConfigurationError:
    why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return ConfigurationError(
        f"cannot listen on {host} port {port}: {why}; choose others with --host and --port "
        f"(port 0 is any free one)"
    )


def inherited(fd: int) -> socket.socket:
    """Return the listening socket that the parent process left open."""
    os.set_inheritable(fd, False)
    made = socket.socket(fileno=fd)
    made.setblocking(False)
    return made


def url_of(listening: socket.socket, *, is_tls: bool = False) -> str:
    """Return the address of a socket as a URL."""
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if is_tls else 'http'}://{shown}:{port}"


def room_for_connections(wanted: int = HTTP_CONNECTIONS_MAX) -> int:
    """Raise the limit of file descriptors as needed; return how many connections it allows."""
    limit = raise_file_limit(wanted + HTTP_DESCRIPTORS_KEPT)
    return wanted if limit is None else max(1, min(wanted, limit - HTTP_DESCRIPTORS_KEPT))
