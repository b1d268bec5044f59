"""Whose files a store uses: those of its own user, of root, or of the group that the URL names.

Where other users can create files, as in ``/tmp``, one of them may have made a file of a store
before the store was opened: with its own lock file it stops every write, with its own database or
log it chooses the jobs, with a link it chooses the file. All of these are refused.

A file is judged by what was opened, after opening it, or, where SQLite opens it, by its name. That
holds where a folder has the sticky bit, as ``/tmp`` has: there, nobody else can replace a file of
ours. In a folder without it, others can replace a file at any time; ``fencepost doctor`` warns.

Where files have no owners, on Windows, only links are refused: a file has the rights of its folder.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from fencepost.core.display import shown
from fencepost.errors import ForeignFileError
from fencepost.platform.files import others, real_path, user
from fencepost.platform.system import current

ROOT = 0
OTHERS_WRITE = 0o002
SHARED_WRITE = 0o022
LINKS_MAX = 40
"""Links that one path may lead through, as in Linux."""


def check_owner(
    path: str, status: os.stat_result, *, group: int | None, database: str | None
) -> None:
    """Raise ForeignFileError unless this process can rely on the file or folder *path*.

    *status* is that of what was opened, or of the name itself, links not followed. Root uses what
    belongs to the owner of *database* too, unless others could have put that there.
    """
    if stat.S_ISLNK(status.st_mode):
        raise ForeignFileError(
            f"{path} is a link, which could lead to any file; remove it (rm {shown(path)})"
        )
    if not stat.S_ISDIR(status.st_mode) and status.st_nlink > 1:
        raise ForeignFileError(
            f"{path} has {status.st_nlink} hard links, so another file would be written to; "
            f"remove it (rm {shown(path)})"
        )
    if not current().has_owners:
        return
    if status.st_uid not in _trusted(database) and not _fits(path, status, group):
        raise ForeignFileError(
            f"{path} belongs to user {status.st_uid}, and this process runs as user "
            f"{user()}: its owner could stop the store or choose its jobs; {_remedy(path)}"
        )


def check_name(path: str, *, group: int | None, database: str | None) -> None:
    """Do the same by name, for a file that must not be opened; it need not exist."""
    with suppress(FileNotFoundError):
        check_owner(path, os.lstat(path), group=group, database=database)


def is_shared(folder: str) -> bool:
    """Return whether users besides its owner can create files in *folder*."""
    return bool(others(os.stat(folder).st_mode, SHARED_WRITE))


def without_links(path: str) -> str:
    """Return the absolute path without links, the same for every process.

    Raises ForeignFileError for a link that another user has put where everybody can create files.
    As ``realpath`` otherwise, which would read such a link though the system refuses to follow it.
    """
    if (found := real_path(path)) is not None:
        return found
    place, links = "/", 0
    rest = os.path.join(os.getcwd(), path).split("/")[::-1]
    while rest:
        name = rest.pop()
        if name in ("", "."):
            continue
        if name == "..":
            place = os.path.dirname(place)
            continue
        here = os.path.join(place, name)
        target = _target(here)
        if target is None:
            place = here
            continue
        links += 1
        if links > LINKS_MAX:
            raise ForeignFileError(f"{path} leads through more than {LINKS_MAX} links")
        place = "/" if target.startswith("/") else place
        rest += target.split("/")[::-1]
    return place


def _target(path: str) -> str | None:
    """Return where a link leads; None if *path* is none, or cannot be looked at."""
    try:
        status = os.lstat(path)
        if not stat.S_ISLNK(status.st_mode):
            return None
        is_open = others(os.stat(os.path.dirname(path)).st_mode, OTHERS_WRITE)
        target = os.readlink(path)
    except OSError:
        return None
    if is_open and status.st_uid not in (user(), ROOT):
        raise ForeignFileError(
            f"{path} is a link that belongs to user {status.st_uid}, in a folder where everybody "
            f"can create files; {_remedy(path)}"
        )
    return target


def _trusted(database: str | None) -> set[int]:
    """Return the users whose files this process uses."""
    trusted = {user(), ROOT}
    if user() == ROOT and database is not None and not is_shared(os.path.dirname(database)):
        with suppress(FileNotFoundError):
            trusted.add(os.lstat(database).st_uid)
    return trusted


def _fits(path: str, status: os.stat_result, group: int | None) -> bool:
    """Return whether a file belongs to *group*, so that only one of its members can have made it.

    Where everybody can create files, these may get the group of the folder without any membership.
    """
    if group is None or status.st_gid != group:
        return False
    folder = os.stat(os.path.dirname(path))
    return not (folder.st_gid == group and folder.st_mode & OTHERS_WRITE)


def _remedy(path: str) -> str:
    return (
        f"move the store to a folder that only you can write to, or remove {shown(path)} if it is "
        f"not yours; users who share a store name their group in the URL (?group=NAME)"
    )
