"""The files of a store: which path, whether the file is a store, and who may open it.

A store has SQLite's ``application_id`` in its first page, as part of the first write to an empty
file. A file that has bytes but not this number belongs to another program, and is refused before
anything is opened for writing, locked or made beside it. The number is read through SQLite, never
with a plain ``open``: closing any descriptor of a file drops all POSIX locks that the process has
on it, those of a database library in the same process included. ``immutable`` takes no lock and
makes no file.

Files can be opened by their owner, and by one group if the URL names it. A file is never open to
others, not even between its creation and a ``chmod``: the mode is part of the creation, and an
umask can only narrow it. An existing file keeps its permissions, and ``fencepost doctor`` says what
is wrong with them; one that another user has made is refused (``ownership``). On Windows they have
the rights that their folder passes on, and nothing of this is checked.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from fencepost.core.display import shown
from fencepost.errors import ConfigurationError, ForeignFileError, StoreUnavailableError
from fencepost.platform.files import (
    OPEN,
    OPEN_FOLDER,
    REFUSES_LINKS,
    change_mode_of_folder,
    file_url,
    give,
    group_called,
    groups,
    user,
)
from fencepost.platform.system import current
from fencepost.store.sqlite.engine.errors import unavailable
from fencepost.store.sqlite.engine.ownership import (
    check_name,
    check_owner,
    is_shared,
    without_links,
)

FILE, FOLDER = 0o600, 0o700
GROUP_FILE, GROUP_FOLDER = 0o660, 0o770
GROUP_BITS, OTHERS_BITS = 0o070, 0o007
WRITE_BITS = 0o222
GROUP_ID_MAX = 2**32 - 2
"""The highest group id; the number after it means "unchanged"."""
CLOSED = -1
FIRST_FILES = ("-journal",)
"""What SQLite creates for its first transaction, and deletes after it."""
SQLITE_FILES = ("-wal", "-shm")


@dataclass(frozen=True)
class Access:
    """Who may open the files of one store."""

    group: int | None = None
    """The group that may read and write them, besides their owner."""
    database: str | None = None
    """If root creates files, they get the owner of this file, as SQLite's own files do."""

    @property
    def file_mode(self) -> int:
        return FILE if self.group is None else GROUP_FILE

    @property
    def folder_mode(self) -> int:
        return FOLDER if self.group is None else GROUP_FOLDER

    def open_file(self, path: str) -> int:
        """Return a descriptor to read and write *path*, created if it does not exist.

        A link is refused, and so is the file of another user (``ownership``).
        """
        with suppress(FileNotFoundError):
            return self._open(path, OPEN)
        try:
            return self._create(path)
        except FileExistsError:  # another process was quicker
            return self._open(path, OPEN)

    def open_folder(self, path: str) -> int:
        """Return a descriptor of the folder *path*, created if it does not exist; as above.

        It is ``CLOSED`` where folders cannot be opened.
        """
        is_new = True
        try:
            os.mkdir(path, FOLDER)
        except FileExistsError:
            is_new = False
        if not current().has_owners:
            self.check_name(path)
            return CLOSED
        restore_own_rights(path)  # also of an old one: its maker may have died before it did so
        fd = self._open(path, OPEN_FOLDER)
        return self._given(fd, self.folder_mode) if is_new else fd

    def check(self, path: str, status: os.stat_result) -> None:
        """Raise ForeignFileError unless this process can rely on an open file or folder."""
        check_owner(path, status, group=self.group, database=self.database)

    def check_name(self, path: str) -> None:
        """Do the same by name, for a file that must not be opened; it need not exist."""
        check_name(path, group=self.group, database=self.database)

    def make_file(self, path: str) -> None:
        """Create an empty file if there is none.

        An existing one is not opened: closing it would drop SQLite's locks on it.
        """
        with suppress(FileExistsError):
            os.close(self._create(path))

    def make_sqlite_files(self, path: str) -> None:
        """Create the files that SQLite needs beside the database *path*, and check them.

        For a group: SQLite gives them the mode of the database, but the group of the process that
        opens it. And where others can create files: SQLite would take theirs. It treats an empty
        file as a missing one, except that it deletes a log beside a database without pages;
        ``check_sqlite_files`` covers that. Under the side-car lock.
        """
        is_exposed = is_shared(os.path.dirname(path))
        if self.group is not None or is_exposed:
            is_new = os.stat(path).st_size == 0
            for suffix in FIRST_FILES if is_new else SQLITE_FILES:
                self.make_file(f"{path}{suffix}")
        self.check_names(path)

    def check_names(self, path: str) -> None:
        """Check the database *path*, and what SQLite reads beside it."""
        for suffix in ("", *FIRST_FILES, *SQLITE_FILES):
            self.check_name(f"{path}{suffix}")

    def check_sqlite_files(self, path: str) -> None:
        """Check the files that SQLite has opened, and give them to the group.

        An empty journal stays where others can create files: SQLite would copy the pages in theirs
        into the database, as if they were left by a crash. Under the side-car lock.
        """
        for suffix in SQLITE_FILES:
            status = os.lstat(f"{path}{suffix}")
            self.check(f"{path}{suffix}", status)
            is_given = self.group is None or status.st_gid == self.group
            if status.st_uid == user() and not is_given:
                self.give(f"{path}{suffix}", self.file_mode)
        if is_shared(os.path.dirname(path)):
            for suffix in FIRST_FILES:
                self.make_file(f"{path}{suffix}")
                self.check_name(f"{path}{suffix}")

    def give(self, made: int | str, mode: int) -> None:
        """Set owner, group and mode of a new file or folder, by descriptor or path."""
        owner, group = self._owner()
        give(made, owner=owner, group=group, mode=mode)

    def _open(self, path: str, flags: int) -> int:
        """Return a descriptor of an existing file or folder that this process can rely on."""
        if not REFUSES_LINKS:
            self.check_name(path)
        try:
            fd = os.open(path, flags)
        except FileNotFoundError:
            raise
        except OSError:  # a link, or the file of another user, can often not be opened
            self.check_name(path)
            raise
        try:
            self.check(path, os.fstat(fd))
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _create(self, path: str) -> int:
        return self._given(os.open(path, OPEN | os.O_CREAT | os.O_EXCL, FILE), self.file_mode)

    def _given(self, fd: int, mode: int) -> int:
        """Return *fd* with its owner and mode set; close it if that fails."""
        try:
            self.give(fd, mode)
        except OSError:
            os.close(fd)
            raise
        return fd

    def _owner(self) -> tuple[int, int]:
        """Return user and group for a new file; -1 keeps the system's choice."""
        owner, group = -1, -1
        if user() == 0 and self.database is not None:
            with suppress(FileNotFoundError):
                status = os.stat(self.database)
                owner, group = status.st_uid, status.st_gid
        return owner, group if self.group is None else self.group


def restore_own_rights(path: str) -> None:
    """Let the owner of a new folder open it, if the umask has taken that right from all.

    Whatever is no folder is left to those who open it.
    """

    def is_closed_to_us(status: os.stat_result) -> bool:
        is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == user()
        return is_own and stat.S_IMODE(status.st_mode) & FOLDER != FOLDER

    with suppress(OSError):
        change_mode_of_folder(path, FOLDER, only_if=is_closed_to_us)


def access(path: str, group: str | None) -> Access:
    """Return who may open the files of the database *path*, or raise ConfigurationError."""
    return Access(None if group is None else find_group(group), path)


def find_group(text: str) -> int:
    """Return the id of a group that this process can give files to."""
    if not current().has_owners:
        raise ConfigurationError(
            f"group={shown(text)}: files have no group on this system; leave it out"
        )
    number = group_called(text)
    if number is None:
        if not (text.isascii() and text.isdecimal() and int(text[:12]) <= GROUP_ID_MAX):
            raise ConfigurationError(f"group={shown(text)}: there is no such group on this machine")
        number = int(text)
    if user() != 0 and number not in groups():
        raise ConfigurationError(
            f"group={shown(text)}: the user of this process is not a member of that group"
        )
    return number


def exposures(path: str, group: int | None) -> Iterator[str]:
    """Yield who can open a file of the database *path* and should not, with a remedy."""
    if not current().has_owners:
        return
    owner = os.stat(path).st_uid
    for suffix in ("", *FIRST_FILES, *SQLITE_FILES, "-lock", ".d"):
        with suppress(FileNotFoundError):
            name = f"{path}{suffix}"
            yield from _exposure(name, os.stat(name), owner=owner, group=group)
    folder = os.path.dirname(path)
    if os.stat(folder).st_mode & OTHERS_BITS & WRITE_BITS:
        yield (
            f"other users of this machine can create files in {folder}, and replace those of the "
            f"store; move the store to a folder of yours, or chmod o-w {folder}"
        )


def _exposure(name: str, status: os.stat_result, *, owner: int, group: int | None) -> Iterator[str]:
    mode = stat.S_IMODE(status.st_mode)
    wanted = Access(group)
    right = wanted.folder_mode if stat.S_ISDIR(status.st_mode) else wanted.file_mode
    advice = f"chmod {right:o} {name}"
    is_foreign_group = group is not None and status.st_gid != group
    if is_foreign_group:
        advice = f"chgrp {group} {name} && {advice}"
    if group is None and status.st_uid != owner:
        yield f"{name} belongs to user {status.st_uid}, the database to {owner}; chown it"
    if mode & OTHERS_BITS:
        yield f"every user of this machine {_can(name, mode & OTHERS_BITS)}; {advice}"
    elif mode & GROUP_BITS and (group is None or is_foreign_group):
        yield (
            f"the users of group {status.st_gid} {_can(name, mode & GROUP_BITS)}; if they should, "
            f"name the group in the URL (?group=…), else {advice}"
        )
    elif group is not None and (is_foreign_group or mode & right != right):
        yield f"the users of group {group} cannot use {name}; {advice}"


def _can(name: str, bits: int) -> str:
    if name.endswith("-lock"):
        return f"can open {name}, hold its lock and so stop every write"
    return f"can {'write to' if bits & WRITE_BITS else 'read'} {name}"


APPLICATION_ID = 0x46707374
"""``Fpst``."""


def resolve(path: str) -> str:
    """Return the absolute path without links, the same for every process."""
    return without_links(path)


def refuse_foreign(path: str, group: int | None = None) -> None:
    """Raise ForeignFileError if *path* is anything but a store; change nothing.

    A missing file and an empty file can become a store, unless another user made it.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreUnavailableError(f"cannot open {path}: {error}") from error
    if not stat.S_ISREG(status.st_mode):
        raise ForeignFileError(f"{path} is not a file, so it cannot be a store")
    if status.st_nlink > 1:
        raise StoreUnavailableError(
            f"{path} has {status.st_nlink} hard links: SQLite would keep a separate log under each "
            f"name; remove the others, or copy the file with SQLite's backup"
        )
    check_owner(path, status, group=group, database=path)
    if status.st_size > 0 and _application_id(path) != APPLICATION_ID:
        raise _foreign(path)


def claim(connection: sqlite3.Connection, path: str) -> None:
    """Make an empty database a store, by a first write that is all or nothing."""
    (found,) = connection.execute("pragma application_id").fetchone()
    if found == APPLICATION_ID:
        return
    connection.execute("begin immediate")
    try:
        # Under SQLite's own lock: another program may have written to it meanwhile.
        if os.stat(path).st_size > 0:
            raise _foreign(path)
        connection.execute(f"pragma application_id = {APPLICATION_ID}")
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def _application_id(path: str) -> int | None:
    """Return the number in the first page; None if the file is not a database."""
    try:
        connection = sqlite3.connect(
            f"{file_url(path)}?mode=ro&immutable=1", uri=True, isolation_level=None
        )
    except sqlite3.Error as error:
        raise unavailable(error, path) from error
    try:
        # Otherwise SQLite reports damage if the header counts more pages than the file has, as
        # during or after an interrupted checkpoint; the log has the rest.
        connection.execute("pragma writable_schema = on")
        (number,) = connection.execute("pragma application_id").fetchone()
    except sqlite3.OperationalError as error:
        raise unavailable(error, path) from error
    except sqlite3.DatabaseError:
        return None
    finally:
        connection.close()
    return int(number)


def _foreign(path: str) -> ForeignFileError:
    return ForeignFileError(
        f"{path} is not a Fencepost store and was not changed; name another file, such as "
        f"sqlite:///fencepost.db (only an empty or a new file becomes a store)"
    )
