"""Owners of files, how files are opened, and their paths as other programs need them."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import reduce
from operator import or_
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from fencepost.platform.system import current


def _flags(*names: str) -> int:
    """Return the flags of ``os.open`` that this system has, together."""
    return reduce(or_, (getattr(os, name, 0) for name in names))


REFUSES_LINKS = hasattr(os, "O_NOFOLLOW")
"""Without it, a path has to be checked before it is opened."""
OPEN = _flags("O_RDWR", "O_CLOEXEC", "O_NOFOLLOW", "O_BINARY")
"""To read and write a file: not a link, not in a child, and not with its lines changed."""
OPEN_FOLDER = _flags("O_RDONLY", "O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY")
DESCRIPTORS = "/proc/self/fd"
_grp: Any = importlib.import_module("grp") if os.name == "posix" else None


def user() -> int:
    """Return the user of this process; where files have no owners, the one who may do all."""
    return os.geteuid() if current().has_owners else 0


def groups() -> set[int]:
    """Return the groups of this process."""
    return {os.getegid(), *os.getgroups()} if current().has_owners else set()


def group_called(name: str) -> int | None:
    """Return the id of a group; None if there is none of this name."""
    try:
        number: int = _grp.getgrnam(name).gr_gid
    except (KeyError, ValueError):
        return None
    return number


def give(made: int | str, *, owner: int, group: int, mode: int) -> None:
    """Set owner, group (-1: unchanged) and mode of a file by descriptor or path."""
    if not current().has_owners:
        return  # it has inherited the rights of its folder
    if owner != -1 or group != -1:
        os.chown(made, owner, group)
    os.chmod(made, mode)


def others(mode: int, bits: int) -> int:
    """Return which of *bits* a file's *mode* grants; none where modes mean nothing."""
    return mode & bits if current().has_owners else 0


def change_mode_of_folder(
    path: str, mode: int, *, only_if: Callable[[os.stat_result], bool]
) -> None:
    """Set the mode of a folder that this process may not be allowed to open; raises OSError.

    On Linux by a descriptor that needs no right to the folder itself, so that another one that was
    put in its place is not changed. Elsewhere it could be, but only one of the same user.
    """
    if not current().has_proc:
        if only_if(os.lstat(path)):
            can_refuse = os.chmod in os.supports_follow_symlinks
            os.chmod(path, mode, follow_symlinks=not can_refuse)
        return
    fd = os.open(path, os.O_PATH | OPEN_FOLDER)
    try:
        if only_if(os.fstat(fd)):
            os.chmod(f"{DESCRIPTORS}/{fd}", mode)
    finally:
        os.close(fd)


def inside(folder: str, fd: int, name: str) -> str:
    """Return a path to *name* in an open folder: a short one, where the kernel offers it.

    The address of a socket may have some hundred bytes.
    """
    if current().has_proc and os.path.isdir(DESCRIPTORS):
        return f"{DESCRIPTORS}/{fd}/{name}"
    return os.path.join(folder, name)


def real_path(path: str) -> str | None:
    """Return the absolute path without links, where owners of links need no look; else None."""
    return None if os.name == "posix" else os.path.realpath(path)


def file_url(path: str) -> str:
    """Return an absolute path as SQLite's ``file:`` URL, without options."""
    if os.name == "posix":
        return f"file:{quote(os.fsencode(path))}"
    return PurePath(path).as_uri()
