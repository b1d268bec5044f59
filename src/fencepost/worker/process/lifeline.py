"""A pipe by which children learn that their parent is gone, even if it was killed with SIGKILL.

Only the parent holds the writing end, and never writes: a child that reads its end of file knows.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import Any

from fencepost.clock import Clock


class Lifeline:
    """Starts children that end with this process."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()

    def spawn(
        self, command: Sequence[str], *, fds: Sequence[int] = (), **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start a worker process of its own group, so that Ctrl-C reaches it only through us.

        It inherits *fds*.
        """
        return subprocess.Popen(
            [*command, "--lifeline", str(self._reading)],
            pass_fds=[self._reading, *fds],
            stdin=subprocess.DEVNULL,
            process_group=0,
            **options,
        )

    def close(self) -> None:
        os.close(self._writing)
        os.close(self._reading)


def watch(fd: int, *, stop: Callable[[], None], clock: Clock, patience: float) -> None:
    """In a child: call *stop* when the parent is gone, and end the process if that hangs."""
    os.set_inheritable(fd, False)

    def wait() -> None:
        while os.read(fd, 1):
            pass
        stop()
        clock.sleep(patience)
        os._exit(1)

    threading.Thread(target=wait, name="fencepost-lifeline", daemon=True).start()
