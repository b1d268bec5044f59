"""Folding the log into the file: in time, so that it stays short, and whole after a disk error.

SQLite would do the first by itself, but swallows what goes wrong, and never shortens a log beside
readers that overlap. All of this runs under the side-car lock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from fencepost.core.bounds import LOG_PAGES_MAX, LOG_WAIT, REPAIR_ROUNDS
from fencepost.store.sqlite.engine.data_file import DataFile
from fencepost.store.sqlite.engine.errors import NotBegunError, unavailable
from fencepost.store.sqlite.engine.lock import SidecarLock
from fencepost.store.sqlite.engine.log import Log

CHECKPOINT_PAGES = 4_000
LOOK_CHANGES = 16
"""Rows changed between two looks at the log's length, which take 5 µs: a seventeenth of a write."""
USER_VERSION_MAX = 0x7FFFFFFF
UNFORCED = (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)
"""What SQLite says when the disk did not confirm a write."""


class Checkpoints:
    """Folds the log of one open database into its file."""

    def __init__(
        self, path: str, connection: sqlite3.Connection, *, log: Log, lock: SidecarLock
    ) -> None:
        self._path = path
        self._connection = connection
        self._log = log
        self._lock = lock
        self._limit = LOG_PAGES_MAX
        self._looked_at = -LOOK_CHANGES

    def tend(self) -> None:
        """Keep the log short, after a commit; what fails here takes nothing back."""
        changes = self._connection.total_changes
        if changes - self._looked_at < LOOK_CHANGES:
            return
        self._looked_at = changes
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
            return  # the log cannot be looked at; forcing it will tell

    def _shorten(self) -> None:
        """Wait a moment until nobody reads from the log, and begin it anew.

        While readers overlap, no such moment comes by itself. Under the lock it does: nobody
        commits, so that who begins to read now reads the file, and the others end.
        """
        # Readers that stay, such as another program's, cost one wait for each so many pages.
        self._limit += CHECKPOINT_PAGES
        self._run("truncate")

    def repair(self) -> None:
        """Bring all that was committed to the disk anew, and take the mark away.

        Raises NotBegunError, and leaves the mark, unless all of it is there. If the process
        dies half-way, the mark stays: the next one begins again.
        """
        for left in reversed(range(REPAIR_ROUNDS)):
            try:
                # Nobody else forces what we write: they would only see a part of it.
                with self._log.all_turns():
                    self._log.hear_errors()
                    self._log.restore()
                    self._fold(self._rewrite())
                    self._lock.unmark()
                return
            except (OSError, sqlite3.Error) as error:
                # Each descriptor reports an error once, be it over; SQLite has two of its own.
                if not left:
                    raise self._refusal(error) from error

    def _rewrite(self) -> int:
        """Bring the log to the disk before anything of it goes to the file; return its version.

        Were a page of the log missing on the disk, a power cut during the checkpoint would leave a
        file with all commits, over which SQLite then puts older pages from the log's first part.
        """
        (version,) = self._connection.execute("pragma user_version").fetchone()
        version = int(version) % USER_VERSION_MAX + 1
        self._connection.execute(f"pragma user_version = {version}")
        with self._alone():
            self._log.rewrite(version)
        return version

    def _fold(self, version: int) -> None:
        """Bring the file to the disk, look at it there, and only then begin the log anew."""
        file = DataFile(self._path)
        file.drop_cache()
        self._run_whole("full")
        with self._alone():
            file.settle(self._log, self._log.pages(version))
        self._run_whole("truncate")
        self._log.force()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other programs, which do not know our lock, from writing."""
        self._connection.execute("begin immediate")
        try:
            yield
        finally:
            self._connection.execute("rollback")

    def _run_whole(self, mode: str) -> None:
        if self._run(mode):
            raise NotBegunError(
                f"{self._path}: the disk failed to confirm a write, and a program that reads the "
                f"database keeps the log from being folded into it; writes are refused until then"
            )

    def _refusal(self, error: Exception) -> NotBegunError:
        reason = unavailable(error, self._path) if isinstance(error, sqlite3.Error) else error
        return NotBegunError(
            f"{self._path}: the disk failed to confirm a write; writes are refused until all of it "
            f"has reached the disk, which just failed again: {reason}"
        )

    def _run(self, mode: str) -> bool:
        """Run a checkpoint; return whether it had to leave something for readers that stayed."""
        connection = self._connection
        (before,) = connection.execute("pragma busy_timeout").fetchone()
        connection.execute(f"pragma busy_timeout = {int(LOG_WAIT * 1000)}")
        try:
            busy, _, _ = connection.execute(f"pragma wal_checkpoint({mode})").fetchone()
        finally:
            connection.execute(f"pragma busy_timeout = {before}")
        return bool(busy)


def note_unforced(error: sqlite3.Error, lock: SidecarLock) -> None:
    """Let every process know, if *error* says that the disk did not confirm a write."""
    if getattr(error, "sqlite_errorcode", None) in UNFORCED:
        lock.mark()
