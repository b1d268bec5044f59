"""What a process says when asked whether it is well: signs of life, and a verdict with reasons."""

from __future__ import annotations

import msgspec


class Verdict(msgspec.Struct, frozen=True):
    """Whether all is well; if not, each reason as ``code: what that means``."""

    reasons: tuple[str, ...] = ()

    @property
    def is_ok(self) -> bool:
        return not self.reasons

    @property
    def status(self) -> int:
        """The HTTP status that says so."""
        return 200 if self.is_ok else 503

    def body(self) -> bytes:
        """Return the JSON for whoever probes."""
        status = "ok" if self.is_ok else "failing"
        return msgspec.json.encode({"status": status, "reasons": list(self.reasons)})


OK = Verdict()


def verdict(*reasons: str | None) -> Verdict:
    """Return the verdict that *reasons* make; None is no reason."""
    return Verdict(tuple(reason for reason in reasons if reason is not None))


STARTING = "starting: the worker has not begun to run"
STOPPING = "stopping: no new work is taken"
"""Said while running jobs may still finish."""


def store_away(error: str) -> str:
    return f"store_unavailable: {error}"


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
