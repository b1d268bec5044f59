"""Which system has what: one value, that a test can replace.

``docs/platforms.md`` says which of these were run on the system itself.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FORCED = "FENCEPOST_TEST_PLATFORM"
"""For tests alone: use what the system of this name has, as far as this one can."""


BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, kw_only=True)
class System:
    """What Fencepost may use of a system; each False has an alternative."""

    name: str
    has_flock: bool = True
    """Locks on whole files, with a queue in the kernel; else on bytes of a file, without one."""
    has_positions: bool = True
    """Reading and writing at an offset, without moving the position that threads share."""
    has_owners: bool = True
    """Users, groups and modes of files; else lists of access, which nobody here reads."""
    has_proc: bool = True
    """What the kernel knows of processes, as files."""
    has_unix_sockets: bool = True
    """Sockets whose addresses are files."""
    has_poll: bool = True
    """Waiting for any number of sockets at once."""
    has_signals: bool = True
    """Signals that a process can send to another, which handles them."""
    has_shared_descriptors: bool = True
    """A child can inherit sockets and pipes, and an event loop can wait for the latter."""
    has_exec: bool = True
    """A process can start another program in its place."""
    has_suspension: bool = True
    """A process can be suspended from outside, and go on later."""


LINUX = System(name="linux")
MACOS = System(name="macos", has_proc=False)
WINDOWS = System(
    name="windows",
    has_flock=False,
    has_positions=False,
    has_owners=False,
    has_proc=False,
    has_unix_sockets=False,
    has_poll=False,
    has_signals=False,
    has_shared_descriptors=False,
    has_exec=False,
    has_suspension=False,
)
SYSTEMS = {each.name: each for each in (LINUX, MACOS, WINDOWS)}


@cache
def current() -> System:
    """Return what this system has; another POSIX system is taken for a macOS."""
    forced = os.environ.get(FORCED)
    if forced is not None:
        return SYSTEMS[forced]
    name: str = sys.platform
    if name.startswith("linux"):
        return LINUX
    return WINDOWS if name == "win32" else MACOS


def boot() -> str:
    """Name the time from one start of the machine to the next; raises OSError if nobody knows."""
    if not current().has_proc:
        raise OSError("this system does not say when it was started")
    return BOOT.read_text().strip()
