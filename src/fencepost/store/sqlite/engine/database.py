"""An open SQLite file: a connection to write, two to read, the lock, and forced writes.

Commits run with ``synchronous=NORMAL`` under the side-car lock; ``sync`` then forces the WAL to the
disk outside it, before the answer. In sixty simulated power cuts that lost nothing that had been
acknowledged (NORMAL alone lost in 58), at twice the rate of FULL inside the lock.

If the disk does not confirm a write, a mark that all processes see refuses further writes, until
one of them has written everything to the disk again (``checkpoints``).
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
    StoreUnavailableError,
    UnknownOutcomeError,
)
from fencepost.platform.disk import force, force_folder
from fencepost.store.interface.store import check_open
from fencepost.store.plan import Operation
from fencepost.store.sqlite.engine import files, schema
from fencepost.store.sqlite.engine.checkpoints import Checkpoints, note_unforced
from fencepost.store.sqlite.engine.connection import Reader, check_version, connect, transact
from fencepost.store.sqlite.engine.errors import NotBegunError, unavailable
from fencepost.store.sqlite.engine.files import access
from fencepost.store.sqlite.engine.lock import SidecarLock
from fencepost.store.sqlite.engine.log import FRAME, Log

T = TypeVar("T")

LOCK_TIMEOUT = 10.0
CACHE_KIB = 65_536
PAGE_BYTES = 4_096
LOG_KEPT_BYTES = 32 << 20
"""A longer log is truncated to this size when it starts again."""
DURABILITIES = ("power", "process")


class Database:
    """The file and its connections. Thread-safe; bound to the process that opened it."""

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
        check_version()
        if durability not in DURABILITIES:
            raise ConfigurationError(f"durability must be power or process, got {durability!r}")
        self.path = files.resolve(path)
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
        self._reader, self._long_reader = Reader(self.path), Reader(self.path)
        self._committed = 0
        self._forced = 0
        self._open()

    def _open(self) -> None:
        files.refuse_foreign(self.path, self.access.group)
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
        """Open everything; *opened* closes it again if a later part fails."""
        self._lock.prepare_mark()
        self.access.make_file(self.path)  # SQLite would make it readable for all users
        self.access.make_sqlite_files(self.path)
        self._writer = connect(self.path)
        opened.callback(self._close_writer)
        files.claim(self._writer, self.path)
        self._configure(self._writer)
        pending = schema.pending(self._writer)  # SQLite also opens its log here
        self.access.check_sqlite_files(self.path)
        self._log = Log(self.path)
        opened.callback(self._log.close)
        self._checkpoints = Checkpoints(self.path, self._writer, log=self._log, lock=self._lock)
        if pending:
            self._repair()
            schema.apply(self._writer, self.clock.now_us())
        force_folder(os.path.dirname(self.path))  # the names of the file and its log
        self._reader.open()
        self._is_open = True

    def _configure(self, connection: sqlite3.Connection) -> None:
        (mode,) = connection.execute("pragma journal_mode = wal").fetchone()
        if mode != "wal":
            raise StoreUnavailableError(f"{self.path}: write-ahead logging is not available here")
        connection.execute("pragma synchronous = normal")
        for each in ("fullfsync", "checkpoint_fullfsync"):  # macOS alone knows a difference
            connection.execute(f"pragma {each} = on")
        connection.execute("pragma foreign_keys = on")  # a removed lane is noticed
        connection.execute(f"pragma cache_size = -{CACHE_KIB}")
        connection.execute("pragma temp_store = memory")
        connection.execute("pragma wal_autocheckpoint = 0")  # ``checkpoints`` does
        connection.execute(f"pragma journal_size_limit = {LOG_KEPT_BYTES}")

    def close(self) -> None:
        if self._is_closed or os.getpid() != self._pid:
            return
        with self._write_mutex, self._reader.mutex, self._long_reader.mutex:
            self._is_closed = True
            # The last connection that closes runs a checkpoint, which must not overlap a commit.
            # Without the lock, the connections stay open until the process ends.
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
        self._long_reader.close()
        self._close_writer()
        if self.durability != "process":
            try:
                with self._log.turn() as fd:
                    force(fd)  # the last checkpoint does not report its errors
            except OSError:
                self._lock.mark()

    def _close_writer(self) -> None:
        """Close the writer, unless its checkpoint could do harm.

        After a disk error it would write to the file what the log on the disk may lack.
        """
        if self._lock.is_marked:
            self._keep_open()
        else:
            self._writer.close()

    def _keep_open(self) -> None:
        """Keep the interpreter from ever closing the writer.

        It closes what it collects, also when it exits, and the last close runs a checkpoint.
        """
        if not self._is_kept_open:
            self._is_kept_open = True
            never_collect(self._writer)

    def transact(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        """Run *operations* in one transaction; return their results in order."""
        with self._writing():
            self._repair()
            try:
                results = transact(self._writer, operations, self._on_rollback)
            except sqlite3.IntegrityError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
                    raise
                # Another process has removed a lane that this one had cached.
                results = transact(self._writer, operations, self._on_rollback)
            self._committed += 1
            if self._writer.total_changes >= self._checkpoints.due_at:
                self._checkpoints.tend()
            return results

    def _repair(self) -> None:
        """Repair a write that the disk did not confirm, if there is one, or raise."""
        if self._lock.is_marked:
            self._keep_open()  # in case the repair fails; after it, ``close`` still closes
            self._checkpoints.repair()

    def read(self, operation: Operation[T]) -> T:
        """Run *operation* on one snapshot, without the lock; a short one waits for no long one."""
        self.check()
        reader = self._long_reader if operation.declaration.is_long else self._reader
        with reader.mutex:
            self.check()
            try:
                return reader.run(operation)
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
        """Force commits to the disk, if the durability is "power"."""
        try:
            self._force()
        except OSError as error:
            self._lock.mark()
            self._keep_open()
            raise UnknownOutcomeError(
                f"{self.path}: committed, but the disk did not confirm it: {error}"
            ) from error

    def _force(self) -> None:
        """Return when all commits of this process are on the disk."""
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
        """Raise if this store is closed, or was opened before a fork."""
        check_open(self._pid, is_closed=self._is_closed)

    def pragma(self, name: str) -> Any:
        """Return the value of a pragma of the writer."""
        with self._write_mutex:
            return self._writer.execute(f"pragma {name}").fetchone()[0]

    @property
    def is_marked(self) -> bool:
        """Whether a write that the disk did not confirm is yet to be repaired."""
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
    """Add a reference to *connection* that is never dropped."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
