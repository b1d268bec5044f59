"""The socket that a server listens on, and what it is called."""

from __future__ import annotations

import os
import resource
import socket

from fencepost.core.bounds import HTTP_BACKLOG, HTTP_CONNECTIONS_MAX, HTTP_DESCRIPTORS_KEPT
from fencepost.errors import ConfigurationError


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at *host*, where clients can connect from now on.

    Port 0 is any that is free. Raises ConfigurationError when this cannot be.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise _refused(host, port, error) from error
    try:
        # Else a port stays taken for a minute after each stop.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(HTTP_BACKLOG)
    except OSError as error:
        made.close()
        raise _refused(host, port, error) from error
    made.setblocking(False)
    return made


def _refused(host: str, port: int, error: Exception) -> ConfigurationError:
    why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return ConfigurationError(
        f"cannot listen on {host} port {port}: {why}; choose others with --host and --port "
        f"(port 0 is any that is free)"
    )


def inherited(fd: int) -> socket.socket:
    """Return the listening socket that a parent has left open for this process."""
    os.set_inheritable(fd, False)
    made = socket.socket(fileno=fd)
    made.setblocking(False)
    return made


def url_of(listening: socket.socket, *, is_tls: bool = False) -> str:
    """Return where a socket can be reached."""
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if is_tls else 'http'}://{shown}:{port}"


def room_for_connections(wanted: int = HTTP_CONNECTIONS_MAX) -> int:
    """Ask the system for as many file descriptors as that takes; return how many it leaves."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + HTTP_DESCRIPTORS_KEPT
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = raised
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, soft - HTTP_DESCRIPTORS_KEPT))
