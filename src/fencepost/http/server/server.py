"""A server: one process, one socket, the HTTP API behind it; beside it upkeep, and webhooks.

It can be stopped at any point. What was answered with success is in the store; of what was not
answered, nobody can tell, and it may be repeated with the same key or token.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from msgspec.structs import replace

from fencepost.core.bounds import GRACE_DEFAULT, HTTP_BACKLOG
from fencepost.errors import ConfigurationError
from fencepost.http.api import asgi
from fencepost.http.server.connection import connection_class
from fencepost.http.server.connection_limits import ConnectionLimits
from fencepost.http.server.deliveries import Deliveries, deliveries_of
from fencepost.http.server.gate import Gate
from fencepost.http.server.socket import room_for_connections, url_of
from fencepost.http.server.sweeper import Sweeper
from fencepost.maintenance import Caretaker
from fencepost.observe import names
from fencepost.observe.log import log
from fencepost.worker.startup import declare_rates

if TYPE_CHECKING:
    from fencepost.app import App


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a server serves."""

    grace: float = GRACE_DEFAULT
    """How long requests may finish after a stop."""
    notice: float = 0.0
    """How long it goes on after a stop as if nothing were, but for saying that it is not ready."""
    has_maintenance: bool = True
    is_local: bool = False
    """Only this machine can ask: see ``Authenticator``."""
    tls_cert: str | None = None
    tls_key: str | None = None
    forwarded_allow_ips: str | None = None
    """Whose word on where a request comes from is taken; nobody's unless told."""


class Server:
    """Serves the API of an app on a socket that listens already."""

    def __init__(
        self,
        app: App,
        listening: socket.socket,
        options: ServerOptions | None = None,
        *,
        patience: ConnectionLimits | None = None,
    ) -> None:
        self._app = app
        self._socket = listening
        self._options = options or ServerOptions()
        self._clock = app.session.clock
        patience = patience or ConnectionLimits()
        room = room_for_connections(patience.connections_max)
        self._patience = replace(patience, connections_max=room)
        served = asgi(app, is_local=self._options.is_local, bodies_max=self._patience.bodies_max)
        self.api = served.state.api
        self._uvicorn = _Uvicorn(self._config(served))
        self._sweeper = Sweeper(
            self.connections,
            self._clock,
            interval=self._patience.sweep_interval,
            is_stopping=lambda: self._uvicorn.should_exit,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_requests = 0
        self._deliveries: Deliveries | None = None
        self._mutex = threading.Lock()

    @property
    def url(self) -> str:
        """Where it can be reached."""
        return url_of(self._socket, is_tls=self._options.tls_cert is not None)

    @property
    def connections(self) -> Any:
        """The connections that are open."""
        return self._uvicorn.server_state.connections

    def _config(self, served: Any) -> uvicorn.Config:
        options, patience = self._options, self._patience
        return uvicorn.Config(
            Gate(
                served,
                self._clock,
                head_max=patience.head_max,
                direct=served.state.direct,
            ),
            http=connection_class(self._clock, patience),
            ws="none",
            lifespan="on",
            interface="asgi3",
            log_config=None,
            log_level=logging.CRITICAL,  # what it would say, we say as events
            access_log=False,
            server_header=False,
            proxy_headers=options.forwarded_allow_ips is not None,
            forwarded_allow_ips=options.forwarded_allow_ips or "",
            backlog=HTTP_BACKLOG,
            timeout_keep_alive=patience.idle_timeout,
            timeout_graceful_shutdown=options.grace,  # type: ignore[arg-type]  # a float will do
            h11_max_incomplete_event_size=patience.head_max,
            ssl_certfile=options.tls_cert,
            ssl_keyfile=options.tls_key,
        )

    # Running and stopping.

    def run(self) -> None:
        """Serve until stopped, by ``stop`` or by a signal."""
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(self.run_async(heeds_signals=True))

    async def run_async(self, *, heeds_signals: bool = False) -> None:
        """As ``run``, on the present event loop, which may have others to serve."""
        with self._mutex:
            self._loop = asyncio.get_running_loop()
            is_stopped = self._stop_requests > 0
        if is_stopped:
            self._heed_stop()
        url = self.url
        log(names.HTTP_STARTED, url=url)
        with self._signals() if heeds_signals else nullcontext():
            async with self._services():
                await self._uvicorn.serve(sockets=[self._socket])
        with self._mutex:
            self._loop = None
        log(names.HTTP_STOPPED, url=url)

    @asynccontextmanager
    async def _services(self) -> AsyncIterator[None]:
        """Run what goes on beside the requests."""
        services = [asyncio.create_task(self._sweeper.start())]
        caretaker = self._caretaker()
        if caretaker is not None:
            caretaker.start()
            self._deliveries = deliveries_of(self._app, grace=self._options.grace)
            services.append(asyncio.create_task(self._declare_rates()))
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
        """Stop, from any thread: answer what was asked within grace; a second call, at once."""
        with self._mutex:
            self._stop_requests += 1
            loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(self._heed_stop)

    def _heed_stop(self) -> None:
        is_first = not self.api.is_stopping
        self.api.is_stopping = True  # from now on, nobody waits for long and we are not ready
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
            for task in self._uvicorn.server_state.tasks:
                task.cancel()
            if self._deliveries is not None:
                self._deliveries.hurry()

    def _cut_connections(self) -> None:
        """End what is left: whoever has not taken an answer by now will not."""
        for connection in list(self.connections):
            connection.transport.abort()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    # Upkeep.

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
        )

    async def _declare_rates(self) -> None:
        session = self._app.session
        if session.tasks:
            await declare_rates(
                session.store,
                session.tasks,
                session.counters,
                is_stopping=lambda: self.api.is_stopping,
            )


class _Uvicorn(uvicorn.Server):
    """uvicorn without its way with signals: it would end the process by the one that stopped it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


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
    """Return what makes the quicker event loop, if there is one."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
