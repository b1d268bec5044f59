"""Connections to one server: a small pool to lend from, and some that a thread keeps.

Nothing connects before it is needed. Every connection commits by itself unless told otherwise, and
is bounded by timeouts of the server's, so that no statement and no forgotten transaction holds
others up for ever. Behind a pooler such settings would stay with a connection that others use too,
so there none is made, but for those that a transaction begins with.
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
from fencepost.errors import ForkedStoreError, StoreUnavailableError
from fencepost.store.plan import Statement
from fencepost.store.postgres.engine.errors import refused
from fencepost.store.postgres.engine.search_path import SEARCH_PATH
from fencepost.store.postgres.engine.session import Session
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
    "jit": "off",  # compiling a plan takes longer than anything that a job queue asks
}

# Unless the URL says otherwise: a peer that vanished is noticed after about a minute, not in hours.
DEFAULTS = {
    "client_encoding": "UTF8",
    "fallback_application_name": "fencepost",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}

# Whoever answers is the server that we reached only if it has the process number that we were
# told when connecting: a pooler makes that up. Asked and set in one round trip.
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
        self._idle: list[Session] = []
        self._mutex = threading.Lock()
        # One token a place, for it is in C: a semaphore of Python's costs 4 µs more a loan.
        self._places: SimpleQueue[None] = SimpleQueue()
        for _ in range(address.pool_size):
            self._places.put(None)

    @contextmanager
    def lend(self) -> Iterator[Session]:
        """Lend a connection to this thread; one that comes back broken or busy is thrown away."""
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

    def dedicated(self) -> Dedicated:
        """Return a place for one connection that its thread keeps."""
        return Dedicated(self)

    def open(self, address: Address | None = None) -> Session:
        """Open a connection, which the caller closes."""
        self.check()
        target = address or self.address
        timeout = max(ceil(min(self._patience, CONNECT_TIMEOUT)), CONNECT_TIMEOUT_MIN)
        options = {**DEFAULTS, "connect_timeout": str(timeout), **target.options}
        try:
            session = Session.connect(
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

    def _greet(self, session: Session) -> None:
        session.is_pooled = True
        session.answer_timeout = max(min(self._patience, CONNECT_TIMEOUT), CONNECT_TIMEOUT_MIN)
        told = session.info.backend_pid
        ((is_server, _),) = session.ask([Statement(_GREET, (told, told))])[0]
        session.is_pooled = not is_server
        session.answer_timeout = None

    def check(self) -> None:
        """Raise if this object must not be used here and now."""
        if os.getpid() != self._pid:
            raise ForkedStoreError(
                "this store was opened before fork(); open one in the child (an App made in the "
                "child does), or start workers with `fencepost worker --processes`"
            )
        if self._is_closed:
            raise StoreUnavailableError("this store has been closed")

    def close(self) -> None:
        """Close what is idle; what is lent is closed when it comes back."""
        if os.getpid() != self._pid:
            return
        with self._mutex:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()

    def _take(self) -> Session | None:
        while True:
            with self._mutex:
                if not self._idle:
                    return None
                session = self._idle.pop()  # the latest used: the others may be dropped by age
            if session.is_fresh:
                return session
            session.close()

    def _give_back(self, session: Session) -> None:
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
    """One connection that its thread keeps, opened with its first use and again if it breaks."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._session: Session | None = None
        self.is_refused = False
        """Whether the last attempt to connect failed."""

    @contextmanager
    def lend(self) -> Iterator[Session]:
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
