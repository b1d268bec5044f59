"""Notification where no file is a socket: a port of this machine per listener, named by a file.

Every user of the machine can send to a port. So the name of the file also has a secret, and only a
datagram that repeats it wakes the listener; who can read the folder can read the database as well.
It is sent to this machine alone. A stranger who has taken over the port of a listener that was
killed learns the secret of a port that nobody listens to any more.

A listener holds a lock on its file, so that a file that was left behind is known, and deleted.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable
from contextlib import suppress

from fencepost.platform.files import OPEN
from fencepost.platform.locks import try_lock
from fencepost.platform.sockets import LOOPBACK, address_of, datagrams
from fencepost.store.interface.store import Topic
from fencepost.store.sqlite.engine.files import Access
from fencepost.store.sqlite.engine.listeners import DatagramListener

NAME = re.compile(r".*-([0-9a-f]{32})\.(\d{1,5})\.port", re.ASCII)
TRIES = 5
"""How often a new file is locked; a sender may look at the file just then."""


class PortListener(DatagramListener):
    """Listens on a free port; raises OSError if there is none, or no file can be made."""

    def __init__(self, folder: str, topic: Topic, unique: str, access: Access) -> None:
        made = datagrams(socket.AF_INET)
        super().__init__(made)
        self._secret = unique.encode()
        try:
            made.bind((LOOPBACK, 0))
            name = f"{topic.value}-{os.getpid()}-{unique}.{address_of(made)}.port"
            self._path = os.path.join(folder, name)
            self._fd = _held_file(self._path, access)
        except BaseException:
            made.close()
            raise

    def is_ours(self, datagram: bytes) -> bool:
        return datagram == self._secret

    def close(self) -> None:
        super().close()
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)  # before the file is deleted, which Windows refuses otherwise
            with suppress(OSError):
                os.unlink(self._path)


def _held_file(path: str, access: Access) -> int:
    for _ in range(TRIES):
        fd = access.open_file(path)
        if try_lock(fd) and os.path.exists(path):
            return fd
        os.close(fd)
    raise OSError(f"{path} cannot be locked")


class PortSender:
    """Sends to the ports that the files of one folder name."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._known: set[str] = set()
        self._socket: socket.socket | None = None

    def keep(self, names: Iterable[str]) -> None:
        """Delete those files among *names* that were left behind, as far as they are new here."""
        names = {name for name in names if NAME.fullmatch(name)}
        for name in names - self._known:
            with suppress(OSError):
                delete_if_left(os.path.join(self._folder, name))
        self._known = names

    def send(self, name: str) -> None:
        """Wake the listener whose file is called *name*; never waits, never raises."""
        if (found := NAME.fullmatch(name)) is None or int(found[2]) == 0:
            return
        with suppress(OSError, OverflowError):  # a full buffer wakes it anyway
            if self._socket is None:
                self._socket = datagrams(socket.AF_INET)
            self._socket.sendto(found[1].encode(), (LOOPBACK, int(found[2])))

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


def delete_if_left(path: str) -> None:
    """Delete the file of a listener that has died; raises OSError if it cannot be looked at."""
    fd = os.open(path, OPEN)
    try:
        if not try_lock(fd):
            return
        with suppress(PermissionError):
            os.unlink(path)
            return
    finally:
        os.close(fd)
    os.unlink(path)  # Windows: only now; and not if a new listener has opened it
