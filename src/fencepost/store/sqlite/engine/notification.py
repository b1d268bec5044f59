"""Notification across processes: one datagram socket per listener, in a folder by the database.

After a commit, one byte goes to the socket of every listener of its topics: 0.4 ms from commit to
wake-up, without polling. Nothing depends on it: a lost byte costs a slow poll.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import Iterable
from contextlib import suppress

from fencepost.store.interface.store import Topic
from fencepost.store.sqlite.engine.files import Access

DESCRIPTORS = "/proc/self/fd"
"""Where it exists, a socket is addressed through its folder's descriptor: the kernel allows only
108 bytes for a socket's path."""


class Notifier:
    """Wakes the listeners of a topic in all processes."""

    def __init__(self, folder: str, access: Access | None = None) -> None:
        self.folder = folder
        self._access = access or Access()
        self._folder_fd = self._access.open_folder(folder)
        try:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        except OSError:
            os.close(self._folder_fd)
            raise
        self._socket.setblocking(False)
        self._changed_ns = -1
        self._listeners: dict[Topic, list[str]] = {}

    def address(self, name: str) -> str:
        """Return a short path to the socket called *name*."""
        if os.path.isdir(DESCRIPTORS):
            return f"{DESCRIPTORS}/{self._folder_fd}/{name}"
        return os.path.join(self.folder, name)

    def listen(self, topic: Topic, unique: str) -> SocketListener | PollingListener:
        """Return a listener; one that only polls if the system refuses a socket."""
        name = f"{topic.value}-{os.getpid()}-{unique[:8]}.sock"
        try:
            return SocketListener(self.address(name), os.path.join(self.folder, name), self._access)
        except OSError:
            return PollingListener()

    def notify(self, topics: Iterable[Topic]) -> None:
        """Send one byte to every listener of *topics*; never waits, never raises."""
        for topic in topics:
            for path in self._paths(topic):
                self._send(path)

    def _paths(self, topic: Topic) -> list[str]:
        """Return the sockets of a topic, listed again when the folder has changed."""
        try:
            changed_ns = os.stat(self._folder_fd).st_mtime_ns
            if changed_ns != self._changed_ns:
                # Not by the descriptor itself: threads would share its position in the folder.
                names = os.listdir(self.address(""))
                self._listeners = {
                    each: [self.address(n) for n in names if n.startswith(each.value)]
                    for each in Topic
                }
                self._changed_ns = changed_ns
        except OSError:
            return []
        return self._listeners.get(topic, [])

    def _send(self, path: str) -> None:
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
        self._socket.close()
        fd, self._folder_fd = self._folder_fd, -1
        if fd >= 0:
            os.close(fd)


class PollingListener:
    """Is never woken: its caller polls."""

    def wait(self, timeout: float) -> bool:
        select.select([], [], [], max(timeout, 0))
        return False

    async def wait_async(self, timeout: float) -> bool:
        never = asyncio.get_running_loop().create_future()
        await asyncio.wait([never], timeout=timeout)
        return False

    def close(self) -> None:
        """Do nothing."""


class SocketListener:
    """Wakes when a byte arrives for its topic."""

    def __init__(self, address: str, path: str, access: Access) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            self._socket.bind(address)
            access.give(address, access.file_mode)  # until then, its folder keeps others out
        except OSError:
            self._socket.close()
            raise

    def wait(self, timeout: float) -> bool:
        readable, _, _ = select.select([self._socket], [], [], max(timeout, 0))
        self._drain()
        return bool(readable)

    async def wait_async(self, timeout: float) -> bool:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                await loop.sock_recv(self._socket, 64)
        except TimeoutError:
            return False
        self._drain()
        return True

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            while True:
                self._socket.recv(64)

    def close(self) -> None:
        self._socket.close()
        with suppress(OSError):
            os.unlink(self._path)
