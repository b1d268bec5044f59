"""Checkpoints: writing the log to the file, in time to keep it short, and after a disk error.

SQLite's automatic checkpoints hide errors, and never shorten a log while readers overlap. All of
this runs under the side-car lock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from fencepost.core.bounds import LOG_PAGES_MAX, LOG_WAIT, REPAIR_ROUNDS
from fencepost.store.sqlite.engine.errors import NotBegunError, unavailable
from fencepost.store.sqlite.engine.lock import SidecarLock
from fencepost.store.sqlite.engine.log import DataFile, Log

CHECKPOINT_PAGES = 4_000
LOOK_CHANGES = 16
"""Changed rows between two checks of the log's length, which take 5 µs: 1/17 of a write."""
USER_VERSION_MAX = 0x7FFFFFFF
UNFORCED = (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)
"""SQLite's error codes when the disk did not confirm a write."""


class Checkpoints:
    """Runs the checkpoints of one open database."""

    def __init__(
        self, path: str, connection: sqlite3.Connection, *, log: Log, lock: SidecarLock
    ) -> None:
        self._path = path
        self._connection = connection
        self._log = log
        self._lock = lock
        self._limit = LOG_PAGES_MAX
        self.due_at = 0
        """After so many changes of the connection ``tend`` has something to do."""

    def tend(self) -> None:
        """Keep the log short, after a commit, which an error here does not undo."""
        self.due_at = self._connection.total_changes + LOOK_CHANGES
        try:
            if not self._log.reaches(CHECKPOINT_PAGES):
                self._limit = LOG_PAGES_MAX
                return
            self._run("passive")
            if self._log.reaches(self._limit):
                self._shorten()
        except sqlite3.Error as error:
            note_unforced(error, self._lock)
        except OSError:
            return  # the log cannot be read; forcing it will report that

    def _shorten(self) -> None:
        """Wait until no connection reads from the log, and start it again.

        While readers overlap, that does not happen by itself. Under the lock it does: there are
        no commits, so that new readers read the file, and the others end.
        """
        # Readers that stay, such as another program's, cost one wait per CHECKPOINT_PAGES.
        self._limit += CHECKPOINT_PAGES
        self._run("truncate")

    def repair(self) -> None:
        """Write all commits to the disk again, and remove the mark.

        Raises NotBegunError, and leaves the mark, unless all of it is there. If the process
        dies half-way, the mark stays, and the next process starts the repair again.
        """
        for left in reversed(range(REPAIR_ROUNDS)):
            try:
                # No other thread forces meanwhile: it would confirm a part of what we write.
                with self._log.all_turns():
                    self._log.clear_errors()
                    self._log.restore()
                    self._fold(self._rewrite())
                    self._lock.unmark()
                return
            except (OSError, sqlite3.Error) as error:
                # Each descriptor reports an error once, even a past one; SQLite has two.
                if not left:
                    raise self._refusal(error) from error

    def _rewrite(self) -> int:
        """Write the log to the disk before any of it goes to the file; return its version.

        If a page of the log were missing on the disk, a power cut during the checkpoint would leave
        a file with all commits, which SQLite then overwrites with older pages from the log.
        """
        (version,) = self._connection.execute("pragma user_version").fetchone()
        version = int(version) % USER_VERSION_MAX + 1
        self._connection.execute(f"pragma user_version = {version}")
        with self._alone():
            self._log.rewrite(version)
        return version

    def _fold(self, version: int) -> None:
        """Write the file to the disk, read it back, and only then start the log again."""
        file = DataFile(self._path)
        file.drop_cache()
        self._run_whole("full")
        with self._alone():
            file.settle(self._log, self._log.pages(version))
        self._run_whole("truncate")
        self._log.force()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other programs, which do not use our lock, from writing."""
        self._connection.execute("begin immediate")
        try:
            yield
        finally:
            self._connection.execute("rollback")

    def _run_whole(self, mode: str) -> None:
        if self._run(mode):
            raise NotBegunError(
                f"{self._path}: the disk failed to confirm a write, and a program that reads the "
                f"database keeps the log from being checkpointed; writes are refused until it ends"
            )

    def _refusal(self, error: Exception) -> NotBegunError:
        reason = unavailable(error, self._path) if isinstance(error, sqlite3.Error) else error
        return NotBegunError(
            f"{self._path}: the disk failed to confirm a write; writes are refused until all of it "
            f"has reached the disk, which just failed again: {reason}"
        )

    def _run(self, mode: str) -> bool:
        """Run a checkpoint; return whether readers kept it from completing."""
        connection = self._connection
        (before,) = connection.execute("pragma busy_timeout").fetchone()
        connection.execute(f"pragma busy_timeout = {int(LOG_WAIT * 1000)}")
        try:
            busy, _, _ = connection.execute(f"pragma wal_checkpoint({mode})").fetchone()
        finally:
            connection.execute(f"pragma busy_timeout = {before}")
        return bool(busy)


def note_unforced(error: sqlite3.Error, lock: SidecarLock) -> None:
    """Set the mark for all processes, if the disk did not confirm a write."""
    if getattr(error, "sqlite_errorcode", None) in UNFORCED:
        lock.mark()
