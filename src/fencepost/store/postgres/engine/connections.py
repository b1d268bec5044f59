"""Connections to one server: a small pool to lend from, and connections that a thread keeps.

Nothing connects before it is needed. Connections are in autocommit mode, and the server's timeouts
bound every statement and every forgotten transaction. Behind a pooler such settings would stay with
a connection that other programs use, too, so there only transactions are given settings.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from queue import Empty, SimpleQueue

import psycopg
from psycopg.conninfo import make_conninfo

from fencepost.clock import Clock
from fencepost.core.bounds import LOCK_TIMEOUT
from fencepost.errors import StoreUnavailableError
from fencepost.store.interface.store import check_open
from fencepost.store.plan import Statement
from fencepost.store.postgres.engine.errors import refused
from fencepost.store.postgres.engine.search_path import SEARCH_PATH
from fencepost.store.postgres.engine.session import ServerSession
from fencepost.store.postgres.engine.url import Address

CONNECT_TIMEOUT = 10.0
CONNECT_TIMEOUT_MIN = 2
"""Below two seconds, libpq takes two."""

SETTINGS = {
    "search_path": SEARCH_PATH,
    "timezone": "UTC",
    "statement_timeout": "30s",
    "lock_timeout": f"{LOCK_TIMEOUT:g}s",
    "idle_in_transaction_session_timeout": "60s",
    "jit": "off",  # compiling a plan takes longer than any statement of a job queue
}

# Unless the URL says otherwise: a lost peer is noticed after about a minute, not hours.
DEFAULTS = {
    "client_encoding": "UTF8",
    "fallback_application_name": "fencepost",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}

# There is a pooler in between if the server has another process number than it gave when
# connecting: a pooler makes that up. The question and the settings take one round trip.
_GREET = "select pg_backend_pid() = %s, case when pg_backend_pid() = %s then array[{}] end".format(
    ", ".join(f"set_config('{name}', '{value}', false)" for name, value in SETTINGS.items())
)


class Connections:
    """Lends connections to threads. Thread-safe; bound to the process that made it."""

    def __init__(self, address: Address, *, clock: Clock, patience: float) -> None:
        self.address = address
        self.clock = clock
        self._patience = patience
        self._pid = os.getpid()
        self._is_closed = False
        self._idle: list[ServerSession] = []
        self._mutex = threading.Lock()
        # One item a place: the queue is written in C; a Python semaphore costs 4 µs more a loan.
        self._places: SimpleQueue[None] = SimpleQueue()
        for _ in range(address.pool_size):
            self._places.put(None)

    @contextmanager
    def lend(self) -> Iterator[ServerSession]:
        """Lend a connection to this thread; one that comes back broken or busy is closed."""
        self.check()
        try:
            self._places.get(timeout=max(self._patience, 0))
        except Empty:
            raise StoreUnavailableError(
                f"{self.address.shown}: all {self.address.pool_size} connections of this process "
                f"have been busy for {self._patience:g} s; raise pool_size in the URL"
            ) from None
        try:
            session = self._take() or self.open()
            try:
                yield session
            finally:
                self._give_back(session)
        finally:
            self._places.put(None)

    def open(self, address: Address | None = None) -> ServerSession:
        """Open a connection, which the caller closes."""
        self.check()
        target = address or self.address
        timeout = max(ceil(min(self._patience, CONNECT_TIMEOUT)), CONNECT_TIMEOUT_MIN)
        options = {**DEFAULTS, "connect_timeout": str(timeout), **target.options}
        try:
            session = ServerSession.connect(
                make_conninfo("", **options), autocommit=True, prepare_threshold=None
            )
        except psycopg.Error as error:
            raise refused(error, where=target.shown) from error
        try:
            self._greet(session)
        except psycopg.Error as error:
            session.close()
            raise refused(error, where=target.shown) from error
        return session

    def _greet(self, session: ServerSession) -> None:
        session.is_pooled = True
        session.answer_timeout = max(min(self._patience, CONNECT_TIMEOUT), CONNECT_TIMEOUT_MIN)
        pid = session.info.backend_pid
        ((is_server, _),) = session.ask([Statement(_GREET, (pid, pid))])[0]
        session.is_pooled = not is_server
        session.answer_timeout = None

    def check(self) -> None:
        """Raise if the store is closed or belongs to another process."""
        check_open(self._pid, is_closed=self._is_closed)

    def close(self) -> None:
        """Close idle connections; lent ones are closed when they come back."""
        if os.getpid() != self._pid:
            return
        with self._mutex:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()

    def _take(self) -> ServerSession | None:
        while True:
            with self._mutex:
                if not self._idle:
                    return None
                session = self._idle.pop()  # the latest used: the others may be dropped by age
            if session.is_fresh:
                return session
            session.close()

    def _give_back(self, session: ServerSession) -> None:
        if os.getpid() != self._pid:
            return
        session.answer_timeout = None
        if session.is_idle:
            with self._mutex:
                if not self._is_closed:
                    self._idle.append(session)
                    return
        session.close()


class Dedicated:
    """One connection that its thread keeps, opened at first use and again if it breaks."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._session: ServerSession | None = None
        self.is_refused = False
        """Whether the last attempt to connect failed."""

    @contextmanager
    def lend(self) -> Iterator[ServerSession]:
        """Lend the connection to the thread that owns it."""
        if self._session is None or not self._session.is_fresh:
            self.close()
            self.is_refused = True
            self._session = self._connections.open()
            self.is_refused = False
        yield self._session

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()
