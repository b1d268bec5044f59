"""Which file a path names, and whether that file is a store of ours.

A store is known by SQLite's ``application_id``, which stands in the first page and is part of the
first write to an empty file. So a file that has bytes and not this number belongs to somebody else,
and is refused before anything is opened for writing, locked or made beside it.

The number is read through SQLite, never with a plain ``open``: to close any descriptor of a file
drops all POSIX locks that the process has on it, those of a database library in the same process
included. ``immutable`` takes no lock and makes no file.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from urllib.parse import quote

from fencepost.errors import ForeignFileError, StoreUnavailableError
from fencepost.store.sqlite.engine.errors import unavailable

APPLICATION_ID = 0x46707374
"""``Fpst``."""


def resolve(path: str) -> str:
    """Return the one name by which every process knows the file: no links, nothing relative."""
    return os.path.realpath(path)


def refuse_foreign(path: str) -> None:
    """Raise ForeignFileError if *path* holds anything but a store; changes nothing.

    A path without a file, and an empty file, may become a store.
    """
    try:
        status = os.stat(path)
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
    if status.st_size > 0 and _application_id(path) != APPLICATION_ID:
        raise _foreign(path)


def claim(connection: sqlite3.Connection, path: str) -> None:
    """Make an empty database a store: its first write names it, and is all or nothing."""
    (found,) = connection.execute("pragma application_id").fetchone()
    if found == APPLICATION_ID:
        return
    connection.execute("begin immediate")
    try:
        # Under SQLite's own lock: another program may have put something there meanwhile.
        if os.stat(path).st_size > 0:
            raise _foreign(path)
        connection.execute(f"pragma application_id = {APPLICATION_ID}")
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def _application_id(path: str) -> int | None:
    """Return the number in the first page; None if this is no database."""
    try:
        connection = sqlite3.connect(
            f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1", uri=True, isolation_level=None
        )
    except sqlite3.Error as error:
        raise unavailable(error, path) from error
    try:
        # Without this, SQLite calls a file damaged whose header counts more pages than it has. A
        # checkpoint that is under way, or was cut short, leaves that; the log has the rest.
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
        f"{path} is not a Fencepost store, and was left as it is; name a file of its own, such as "
        f"sqlite:///fencepost.db (only an empty or a new file becomes a store)"
    )
