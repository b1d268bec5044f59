"""Notification across processes: one datagram socket per listener, in a folder by the database.

After a commit, one datagram goes to the socket of every listener of its topics: 0.4 ms from commit
to wake-up, without polling. Nothing depends on it: a lost datagram costs a slow poll.

A socket is a file of the folder where the system has such sockets and allows this one; otherwise
it is a port of this machine, which a file names (``ports``). Senders know both.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from contextlib import suppress

from fencepost.platform.files import inside
from fencepost.platform.sockets import unix_datagrams
from fencepost.store.interface.store import Listener, Topic
from fencepost.store.sqlite.engine.files import Access
from fencepost.store.sqlite.engine.listeners import DatagramListener, PollingListener
from fencepost.store.sqlite.engine.ports import PortListener, PortSender

SUFFIX = ".sock"


class Notifier:
    """Wakes the listeners of a topic in all processes."""

    def __init__(self, folder: str, access: Access | None = None) -> None:
        self.folder = folder
        self._access = access or Access()
        self._folder_fd = self._access.open_folder(folder)
        try:
            self._socket = unix_datagrams()
        except OSError:
            self._close_folder()
            raise
        self._ports = PortSender(folder)
        self._changed_ns = -1
        self._listeners: dict[Topic, list[str]] = {}

    def address(self, name: str) -> str:
        """Return a short path to the socket called *name*."""
        return inside(self.folder, self._folder_fd, name)

    def listen(self, topic: Topic, unique: str) -> Listener:
        """Return a listener; one that only polls if the system refuses every socket."""
        name = f"{topic.value}-{os.getpid()}-{unique[:8]}{SUFFIX}"
        with suppress(OSError):
            if (made := unix_datagrams()) is not None:
                path = os.path.join(self.folder, name)
                return SocketListener(made, self.address(name), path, self._access)
        with suppress(OSError):
            return PortListener(self.folder, topic, unique, self._access)
        return PollingListener()

    def notify(self, topics: Iterable[Topic]) -> None:
        """Send a datagram to every listener of *topics*; never waits, never raises."""
        for topic in topics:
            for name in self._names(topic):
                if name.endswith(SUFFIX):
                    self._send(self.address(name))
                else:
                    self._ports.send(name)

    def _names(self, topic: Topic) -> list[str]:
        """Return the listeners of a topic, listed again when the folder has changed."""
        try:
            is_open = self._folder_fd >= 0
            changed_ns = os.stat(self._folder_fd if is_open else self.folder).st_mtime_ns
            # Elsewhere, two changes of a folder can have the same time.
            if changed_ns != self._changed_ns or not is_open:
                # Not by the descriptor itself: threads would share its position in the folder.
                names = os.listdir(self.address(""))
                self._ports.keep(names)
                self._listeners = {
                    each: [name for name in names if name.startswith(each.value)] for each in Topic
                }
                self._changed_ns = changed_ns
        except OSError:
            return []
        return self._listeners.get(topic, [])

    def _send(self, path: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(b"!", path)
        except BlockingIOError:
            return  # its buffer is full, so it will wake anyway
        except (ConnectionRefusedError, FileNotFoundError):
            self._changed_ns = -1
            with suppress(OSError):
                os.unlink(path)  # left behind by a process that was killed
        except OSError:
            return

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._ports.close()
        self._close_folder()

    def _close_folder(self) -> None:
        fd, self._folder_fd = self._folder_fd, -1
        if fd >= 0:
            os.close(fd)


class SocketListener(DatagramListener):
    """Listens on a file that is a socket; only users who can open the file can wake it."""

    def __init__(self, made: socket.socket, address: str, path: str, access: Access) -> None:
        super().__init__(made)
        self._path = path
        try:
            made.bind(address)
            access.give(address, access.file_mode)  # until then, its folder keeps others out
        except OSError:
            made.close()
            raise

    def close(self) -> None:
        super().close()
        with suppress(OSError):
            os.unlink(self._path)
