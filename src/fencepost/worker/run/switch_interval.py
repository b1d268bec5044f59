"""How soon a thread that computes lets the event loop have its turn."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_INTERVAL = 0.0005
"""Seconds, a tenth of Python's own. With eight `def` handlers that compute, the loop would wait for
some 40 ms each time it wants to go on, and jobs would begin too late."""


@contextmanager
def short_turns() -> Iterator[None]:
    """Let threads of this process take shorter turns, while a worker has it for itself."""
    was = sys.getswitchinterval()
    sys.setswitchinterval(min(was, SWITCH_INTERVAL))
    try:
        yield
    finally:
        sys.setswitchinterval(was)
