"""Wake-up across processes: a datagram socket a listener, beside the database.

After a commit that others may be waiting for, one byte goes to every listener's socket: 0.4 ms from
commit to waking, and no polling in between. Nothing depends on it: a lost byte costs a slow poll.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import Iterable
from contextlib import suppress

from fencepost.store.interface.listener import Topic
from fencepost.store.sqlite.engine.permissions import Access

DESCRIPTORS = "/proc/self/fd"
"""Where the system has it, a socket is reached through its folder's descriptor: the kernel allows
only 108 bytes for a socket's path, and a database may lie deep."""


class Bell:
    """Rings the listeners of a topic, in whatever process they are."""

    def __init__(self, folder: str, access: Access | None = None) -> None:
        self.folder = folder
        self._access = access or Access()
        self._access.make_folder(folder)
        self._folder_fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
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

    def listen(self, topic: Topic, unique: str) -> SocketListener | DeafListener:
        """Return a listener; one that hears nothing if the system refuses it a socket."""
        name = f"{topic.value}-{os.getpid()}-{unique[:8]}.sock"
        try:
            return SocketListener(self.address(name), os.path.join(self.folder, name), self._access)
        except OSError:
            return DeafListener()

    def ring(self, topics: Iterable[Topic]) -> None:
        """Send one byte to every listener of *topics*; never waits, never raises."""
        for topic in topics:
            for path in self._paths(topic):
                self._send(path)

    def _paths(self, topic: Topic) -> list[str]:
        """Return the sockets of a topic, looked up again whenever the folder has changed."""
        try:
            changed_ns = os.stat(self.folder).st_mtime_ns
            if changed_ns != self._changed_ns:
                names = os.listdir(self.folder)
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
            return  # its buffer is full: a wake-up is waiting there already
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


class DeafListener:
    """Hears nothing: whoever waits on it polls."""

    def wait(self, timeout: float) -> bool:
        select.select([], [], [], max(timeout, 0))
        return False

    async def wait_async(self, timeout: float) -> bool:
        never = asyncio.get_running_loop().create_future()
        await asyncio.wait([never], timeout=timeout)
        return False

    def close(self) -> None:
        """Nothing to let go of."""


class SocketListener:
    """Wakes when the bell rings for its topic."""

    def __init__(self, address: str, path: str, access: Access) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            self._socket.bind(address)
            access.give(address, access.file_mode)  # its folder keeps others out until then
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
