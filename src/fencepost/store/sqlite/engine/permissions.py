"""Who on this machine may open a store's files: their owner, and one group if that is asked for.

A file is never open to anybody else, not even between its creation and a ``chmod``: the mode is
part of the creation, and an umask can only narrow it. What is there already keeps the permissions
that somebody gave it, and ``fencepost doctor`` says what is wrong with them.
"""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from fencepost.core.display import shown
from fencepost.errors import ConfigurationError

FILE, FOLDER = 0o600, 0o700
GROUP_FILE, GROUP_FOLDER = 0o660, 0o770
GROUP_BITS, OTHERS_BITS = 0o070, 0o007
WRITE_BITS, READ_BITS = 0o222, 0o444
OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
GROUP_ID_MAX = 2**32 - 2
"""What a system can number; the number after it means that nothing is to change."""
FIRST_FILES = ("-journal",)
"""What SQLite makes beside the database for its first transaction, and deletes after it."""
SQLITE_FILES = ("-wal", "-shm")


@dataclass(frozen=True)
class Access:
    """To whom the files of one store are given."""

    group: int | None = None
    """The group that may read and write them, beside their owner."""
    database: str | None = None
    """The file whose owner also gets what root makes beside it, as SQLite's own files do."""

    @property
    def file_mode(self) -> int:
        return FILE if self.group is None else GROUP_FILE

    @property
    def folder_mode(self) -> int:
        return FOLDER if self.group is None else GROUP_FOLDER

    def open_file(self, path: str) -> int:
        """Return a descriptor to read and write *path*, which is made if it is not there.

        A link is refused: where others may put one, it would lead to a file of their choice.
        """
        with suppress(FileNotFoundError):
            return os.open(path, OPEN)
        try:
            return self._create(path)
        except FileExistsError:  # another process was quicker
            return os.open(path, OPEN)

    def make_file(self, path: str) -> None:
        """Make an empty file if there is none.

        One that is there is not even opened: to close it would drop SQLite's locks on it.
        """
        with suppress(FileExistsError):
            os.close(self._create(path))

    def make_sqlite_files(self, path: str) -> None:
        """Make the files that SQLite will need beside the database *path*, for a group.

        By itself it gives them the mode of the database, but the group of the process that happens
        to open it. An empty one is to SQLite as none, except that it deletes a log beside a
        database without a page: there ``give_sqlite_files`` helps. Under the side-car lock.
        """
        if self.group is not None:
            is_new = os.stat(path).st_size == 0
            for suffix in FIRST_FILES if is_new else SQLITE_FILES:
                self.make_file(f"{path}{suffix}")

    def give_sqlite_files(self, path: str) -> None:
        """Give the group what SQLite has made itself; under the side-car lock."""
        if self.group is None:
            return
        for suffix in SQLITE_FILES:
            status = os.stat(f"{path}{suffix}")
            if status.st_uid == os.geteuid() and status.st_gid != self.group:
                self.give(f"{path}{suffix}", self.file_mode)

    def make_folder(self, path: str) -> None:
        """Make a folder if there is none."""
        with suppress(FileExistsError):
            os.mkdir(path, FOLDER)
            self.give(path, self.folder_mode)

    def give(self, made: int | str, mode: int) -> None:
        """Give what was just *made* to those who may have it: a descriptor or a path."""
        owner, group = self._owner()
        if owner != -1 or group != -1:
            os.chown(made, owner, group)
        os.chmod(made, mode)

    def _create(self, path: str) -> int:
        fd = os.open(path, OPEN | os.O_CREAT | os.O_EXCL, FILE)
        try:
            self.give(fd, self.file_mode)
        except OSError:
            os.close(fd)
            raise
        return fd

    def _owner(self) -> tuple[int, int]:
        """Return user and group for a new file; -1 for what the system gives by itself."""
        owner, group = -1, -1
        if os.geteuid() == 0 and self.database is not None:
            with suppress(FileNotFoundError):
                status = os.stat(self.database)
                owner, group = status.st_uid, status.st_gid
        return owner, group if self.group is None else self.group


def access(path: str, group: str | None) -> Access:
    """Return to whom the files of the database *path* are given, or raise ConfigurationError."""
    return Access(None if group is None else find_group(group), path)


def find_group(text: str) -> int:
    """Return the number of a group that this process can give files to."""
    try:
        number = grp.getgrnam(text).gr_gid
    except (KeyError, ValueError):
        if not (text.isascii() and text.isdecimal() and int(text[:12]) <= GROUP_ID_MAX):
            raise ConfigurationError(
                f"group={shown(text)}: there is no such group on this machine"
            ) from None
        number = int(text)
    if os.geteuid() != 0 and number not in (os.getegid(), *os.getgroups()):
        raise ConfigurationError(
            f"group={shown(text)}: the user of this process is not a member of that group"
        )
    return number


def exposures(path: str, group: int | None) -> Iterator[str]:
    """Say of each file of the database *path* who can open it and should not, and what to do."""
    owner = os.stat(path).st_uid
    for suffix in ("", *FIRST_FILES, *SQLITE_FILES, "-lock", ".d"):
        with suppress(FileNotFoundError):
            name = f"{path}{suffix}"
            yield from _exposure(name, os.stat(name), owner=owner, group=group)
    folder = os.path.dirname(path)
    if os.stat(folder).st_mode & OTHERS_BITS & WRITE_BITS:
        yield (
            f"other users of this machine can put files of their own into {folder}, also in place "
            f"of the store's; keep it in a folder that is yours, or chmod o-w {folder}"
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
