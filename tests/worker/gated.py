"""A handler for child processes, in a module that a child has imported only when a gate is open."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

GATE, DOOR = "FENCEPOST_TEST_GATE", "FENCEPOST_TEST_DOOR"


def wait_for(variable: str) -> None:
    """Return when the file is there that an environment variable names, if it names one."""
    path = os.environ.get(variable)
    while path is not None and not Path(path).exists():
        time.sleep(0.01)


def wait_at_door() -> None:
    wait_for(DOOR)


if multiprocessing.parent_process() is not None:
    wait_for(GATE)
