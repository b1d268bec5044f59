"""Signs of life of one process, left by whoever is alive, read by whoever asks after its health.

Plain fields, each written whole: any thread may write or read them without a lock.
"""

from __future__ import annotations


class Pulse:
    """When what was last heard of, on the monotonic clock; None is never."""

    __slots__ = ("answered_at", "is_stopping", "refused_at", "turned_at")

    def __init__(self) -> None:
        self.answered_at: float | None = None
        """The store has answered."""
        self.refused_at: float | None = None
        """The store could not be reached."""
        self.turned_at: float | None = None
        """The worker's event loop has turned."""
        self.is_stopping = False
        """Whether the process has been told to end."""
