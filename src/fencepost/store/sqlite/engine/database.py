"""One SQLite file, opened: a connection to write, one to read, the lock, and the way to the disk.

Commits run with ``synchronous=NORMAL`` under the side-car lock; ``sync`` then forces the WAL to the
disk outside it, before anybody is told. In sixty simulated power cuts that lost nothing that had
been acknowledged (NORMAL alone lost in 58), at twice the rate of FULL inside the lock.

When the disk does not confirm a write, a mark that all processes see refuses further ones, until
one of them has brought everything to the disk anew (``checkpoints``).
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar

from fencepost.clock import Clock
from fencepost.errors import (
    ConfigurationError,
    ForkedStoreError,
    StoreUnavailableError,
    UnknownOutcomeError,
)
from fencepost.store.plan import Operation, Row, Statement, run_plan
from fencepost.store.sqlite.engine import identity, schema
from fencepost.store.sqlite.engine.checkpoints import Checkpoints, note_unforced
from fencepost.store.sqlite.engine.errors import NotBegunError, unavailable
from fencepost.store.sqlite.engine.lock import SidecarLock
from fencepost.store.sqlite.engine.log import FRAME, Log, force
from fencepost.store.sqlite.engine.permissions import access

T = TypeVar("T")

SQLITE_OLDEST = (3, 35, 0)
LOCK_TIMEOUT = 10.0
BUSY_TIMEOUT = 5.0
CACHE_KIB = 65_536
PAGE_BYTES = 4_096
LOG_KEPT_BYTES = 32 << 20
"""To so much is a log cut that has grown longer, once it begins anew."""
DURABILITIES = ("power", "process")


class Database:
    """The file and its two connections. Thread-safe; bound to the process that opened it."""

    def __init__(
        self,
        path: str,
        *,
        clock: Clock,
        durability: str = "power",
        patience: float = LOCK_TIMEOUT,
        group: str | None = None,
        on_rollback: Callable[[], None],
    ) -> None:
        if sqlite3.sqlite_version_info < SQLITE_OLDEST:
            raise ConfigurationError(
                f"SQLite 3.35 or newer is needed, this is {sqlite3.sqlite_version}"
            )
        if durability not in DURABILITIES:
            raise ConfigurationError(f"durability must be power or process, got {durability!r}")
        self.path = identity.resolve(path)
        self.access = access(self.path, group)
        self.durability = durability
        self.clock = clock
        self._patience = patience
        self._on_rollback = on_rollback
        self._pid = os.getpid()
        self._is_open = False
        self._is_kept_open = False
        self._is_closed = False
        self._write_mutex = threading.Lock()
        self._read_mutex = threading.Lock()
        self._committed = 0
        self._forced = 0
        self._open()

    # Opening and closing.

    def _open(self) -> None:
        identity.refuse_foreign(self.path)
        try:
            self._lock = SidecarLock(f"{self.path}-lock", self.access)
        except OSError as error:
            raise StoreUnavailableError(f"cannot open {self.path}: {error}") from error
        try:
            with self._writing(), ExitStack() as opened:
                self._open_connections(opened)
                opened.pop_all()
        except OSError as error:
            raise StoreUnavailableError(f"cannot open {self.path}: {error}") from error
        finally:
            if not self._is_open:
                self._lock.close()

    def _open_connections(self, opened: ExitStack) -> None:
        """Open all that is needed; *opened* is told how to close it, should a later part fail."""
        self._lock.prepare_mark()
        self.access.make_file(self.path)  # SQLite would let everybody read it
        self.access.make_sqlite_files(self.path)
        self._writer = self._connect()
        opened.callback(self._close_writer)
        identity.claim(self._writer, self.path)
        self._configure(self._writer)
        pending = schema.pending(self._writer)  # which also makes SQLite open its log
        self.access.give_sqlite_files(self.path)
        self._log = Log(self.path)
        opened.callback(self._log.close)
        self._checkpoints = Checkpoints(self.path, self._writer, log=self._log, lock=self._lock)
        if pending:
            self._repair()
            schema.apply(self._writer, self.clock.now_us())
        self._sync_folder()
        self._reader = self._connect()
        self._reader.execute("pragma query_only = on")
        self._is_open = True

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path,
            isolation_level=None,
            timeout=BUSY_TIMEOUT,
            check_same_thread=False,
            cached_statements=512,
        )

    def _configure(self, connection: sqlite3.Connection) -> None:
        (mode,) = connection.execute("pragma journal_mode = wal").fetchone()
        if mode != "wal":
            raise StoreUnavailableError(f"{self.path}: write-ahead logging is not available here")
        connection.execute("pragma synchronous = normal")
        connection.execute("pragma foreign_keys = on")  # a lane that was removed is noticed
        connection.execute(f"pragma cache_size = -{CACHE_KIB}")
        connection.execute("pragma temp_store = memory")
        connection.execute("pragma wal_autocheckpoint = 0")  # ``checkpoints`` does
        connection.execute(f"pragma journal_size_limit = {LOG_KEPT_BYTES}")

    def _sync_folder(self) -> None:
        """Make the names of the file and its log survive a power cut."""
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def close(self) -> None:
        if self._is_closed or os.getpid() != self._pid:
            return
        with self._write_mutex, self._read_mutex:
            self._is_closed = True
            # The last connection to close checkpoints, which must not happen beside a commit.
            # If the lock cannot be had, the connections stay open until the process is gone.
            try:
                self._lock.acquire(self._patience)
            except StoreUnavailableError:
                self._keep_open()
            else:
                self._close_connections()
                self._lock.release()
            self._lock.close()
            self._log.close()

    def _close_connections(self) -> None:
        with suppress(StoreUnavailableError):
            self._repair()
        self._reader.close()
        self._close_writer()
        if self.durability != "process":
            try:
                with self._log.turn() as fd:
                    force(fd)  # the checkpoint of the last to close does not say how it went
            except OSError:
                self._lock.mark()

    def _close_writer(self) -> None:
        """Close the connection that may be the last, unless its checkpoint would do harm.

        After a disk error it would put to the file what the log on the disk may lack.
        """
        if self._lock.is_marked:
            self._keep_open()
        else:
            self._writer.close()

    def _keep_open(self) -> None:
        """Keep the connection that writes from ever being closed by the interpreter.

        It closes what it collects, also at its own end, and the last to close runs a checkpoint.
        """
        if not self._is_kept_open:
            self._is_kept_open = True
            never_collect(self._writer)

    # Running operations.

    def transact(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        """Run *operations* in one transaction; return their results in order."""
        with self._writing():
            self._repair()
            try:
                results = self._transaction(operations)
            except sqlite3.IntegrityError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
                    raise
                # Another process has removed a lane that this one remembered, until now.
                results = self._transaction(operations)
            self._committed += 1
            self._checkpoints.tend()
            return results

    def _repair(self) -> None:
        """Make good for a write that the disk did not confirm, if there is one; or raise."""
        if self._lock.is_marked:
            self._keep_open()  # should the repair fail; once it is done, ``close`` still closes
            self._checkpoints.repair()

    def _transaction(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        connection = self._writer
        connection.execute("begin immediate")
        try:
            executor = _Cursor(connection)
            results = [run_plan(operation.start(), executor) for operation in operations]
            connection.execute("commit")
        except BaseException:
            self._on_rollback()
            if connection.in_transaction:
                connection.execute("rollback")
            raise
        return results

    def read(self, operation: Operation[T]) -> T:
        """Run *operation* on one snapshot, without the lock."""
        self.check()
        with self._read_mutex:
            self.check()
            try:
                self._reader.execute("begin")
                try:
                    return run_plan(operation.start(), _Cursor(self._reader))
                finally:
                    self._reader.execute("rollback")
            except sqlite3.Error as error:
                raise unavailable(error, self.path) from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self.check()
        if not self._write_mutex.acquire(timeout=self._patience):
            raise NotBegunError(f"{self.path}: a write of this process has not ended")
        try:
            self.check()
            self._lock.acquire(self._patience)
            try:
                yield
            finally:
                self._lock.release()
        except sqlite3.Error as error:
            note_unforced(error, self._lock)
            raise unavailable(error, self.path) from error
        finally:
            self._write_mutex.release()

    def sync(self) -> None:
        """Force what has been committed to the disk, as far as this durability promises."""
        try:
            self._force()
        except OSError as error:
            self._lock.mark()
            self._keep_open()
            raise UnknownOutcomeError(
                f"{self.path}: committed, but the disk did not confirm it: {error}"
            ) from error

    def _force(self) -> None:
        """Return when all that this process has committed is on the disk."""
        if self.durability == "process":
            return
        committed = self._committed
        with self._log.turn() as fd:
            if self._forced >= committed:
                return  # another thread has covered it
            covered = self._committed
            force(fd)
            if self._lock.is_marked:
                raise OSError(errno.EIO, "a forced write has failed since")
            self._forced = covered

    def check(self) -> None:
        """Raise if this object must not be used here and now."""
        if os.getpid() != self._pid:
            raise ForkedStoreError(
                "this store was opened before fork(); open one in the child (an App made in the "
                "child does), or start workers with `fencepost worker --processes`"
            )
        if self._is_closed:
            raise StoreUnavailableError("this store has been closed")

    # Looking at the file itself.

    def pragma(self, name: str) -> Any:
        """Return the value of a pragma of the writing connection."""
        with self._write_mutex:
            return self._writer.execute(f"pragma {name}").fetchone()[0]

    @property
    def is_marked(self) -> bool:
        """Whether a write that the disk did not confirm has not been made good yet."""
        return self._lock.is_marked

    @property
    def log_bytes(self) -> int:
        return self._log.size

    @property
    def log_pages(self) -> int:
        return self._log.size // (PAGE_BYTES + FRAME.size)

    def pending_migrations(self) -> list[tuple[str, str]]:
        with self._write_mutex:
            return [(name, sql) for _, name, sql in schema.pending(self._writer)]


def never_collect(connection: sqlite3.Connection) -> None:
    """Count a reference to *connection* that nothing gives back."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


class _Cursor:
    """Executes a plan's statements on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: Statement) -> list[Row]:
        if statement.many:
            self._connection.executemany(statement.sql, statement.params)
            return []
        return self._connection.execute(statement.sql, statement.params).fetchall()
