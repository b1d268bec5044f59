"""Sockets: waiting for several, ports that are used again, and datagrams within this machine."""

from __future__ import annotations

import errno
import select
import socket
import threading
from collections.abc import Callable
from typing import Any, Protocol

from fencepost.platform.system import current

READABLE, WRITABLE = 1, 4
"""The bits of ``select.POLLIN`` and ``select.POLLOUT``, also where there is no ``poll``."""
LOOPBACK = "127.0.0.1"
DATAGRAM_MAX = 64
LOST = (errno.EMSGSIZE, errno.ECONNRESET)
"""What Windows says of a datagram that was too long, and after one that nobody has received."""


class Poller(Protocol):
    """What ``select.poll`` offers, as far as it is used here."""

    def register(self, fd: int, events: int, /) -> None: ...
    def modify(self, fd: int, events: int, /) -> None: ...
    def poll(self, milliseconds: float | None = None, /) -> list[tuple[int, int]]: ...


def poller() -> Poller:
    """Return what waits for sockets; ``select`` itself fails in a process with many open files."""
    return select.poll() if current().has_poll else SelectPoller()


class SelectPoller:
    """A poller made of ``select``, which Windows has for sockets alone, of any number."""

    def __init__(self) -> None:
        self._events: dict[int, int] = {}

    def register(self, fd: int, events: int, /) -> None:
        self._events[fd] = events

    modify = register

    def poll(self, milliseconds: float | None = None, /) -> list[tuple[int, int]]:
        """Return which sockets are ready for what; none of them after so many milliseconds."""
        reading = [fd for fd, events in self._events.items() if events & READABLE]
        writing = [fd for fd, events in self._events.items() if events & WRITABLE]
        timeout = None if milliseconds is None else max(milliseconds, 0) / 1000
        readable, writable, failed = select.select(reading, writing, list(self._events), timeout)
        found: dict[int, int] = {}
        for fds, bit in ((readable, READABLE), (failed, READABLE), (writable, WRITABLE)):
            for fd in fds:
                found[fd] = found.get(fd, 0) | bit
        return list(found.items())


def wait_for(listening: socket.socket, timeout: float) -> bool:
    """Return whether *listening* can be read within *timeout* seconds."""
    waiting = poller()
    waiting.register(listening.fileno(), READABLE)
    return bool(waiting.poll(max(timeout, 0) * 1000))


def wait_for_nothing(timeout: float) -> None:
    """Return after *timeout* seconds."""
    threading.Event().wait(max(timeout, 0))


def allow_next(listening: socket.socket) -> None:
    """Let the next program listen on this port as soon as this one has stopped, and no sooner.

    Without it the port stays in use for a minute. On Windows that is no trouble, and the option of
    this name lets two programs have the port at once.
    """
    exclusive = getattr(socket, "SO_EXCLUSIVEADDRUSE", None)
    listening.setsockopt(socket.SOL_SOCKET, exclusive or socket.SO_REUSEADDR, 1)


def datagrams(family: int) -> socket.socket:
    """Return a socket for datagrams that never waits; raises OSError if there can be none."""
    made = socket.socket(family, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made


def unix_datagrams() -> socket.socket | None:
    """Return a socket for datagrams to files, where the system has such; raises OSError."""
    return datagrams(socket.AF_UNIX) if current().has_unix_sockets else None


def drain(listening: socket.socket, is_ours: Callable[[bytes], bool] = bool) -> bool:
    """Read all that has come; return whether any of it is ours. Raises OSError if it is closed."""
    found = False
    while True:
        try:
            found = is_ours(listening.recv(DATAGRAM_MAX)) or found
        except BlockingIOError:
            return found
        except OSError as error:
            if error.errno not in LOST:
                raise


def address_of(listening: socket.socket) -> Any:
    """Return the port of a socket that is bound within this machine."""
    return listening.getsockname()[1]
