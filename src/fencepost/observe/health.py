"""The health of a process: times at which it was last seen to work, and a verdict with reasons."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from fencepost.clock import Clock
from fencepost.core.bounds import LIVE_MAX, READY_MAX


class Verdict(msgspec.Struct, frozen=True):
    """Whether the process is healthy; if not, each reason as ``code: what that means``."""

    reasons: tuple[str, ...] = ()

    @property
    def is_ok(self) -> bool:
        return not self.reasons

    @property
    def status(self) -> int:
        """The HTTP status of the reply."""
        return 200 if self.is_ok else 503

    def body(self) -> bytes:
        """Return the JSON of the reply."""
        status = "ok" if self.is_ok else "failing"
        return msgspec.json.encode({"status": status, "reasons": list(self.reasons)})


def verdict(*reasons: str | None) -> Verdict:
    """Return the verdict with these *reasons*; None is no reason."""
    return Verdict(tuple(reason for reason in reasons if reason is not None))


STARTING = "starting: the worker has not begun to run"
STOPPING = "stopping: no new work is taken"
"""Running jobs may still finish."""


def store_away(error: str) -> str:
    return f"store_unavailable: {error}"


@dataclass(slots=True)
class Pulse:
    """When store and loop last answered, on the monotonic clock; None is never."""

    answered_at: float | None = None
    """The store has answered."""
    refused_at: float | None = None
    """The store could not be reached."""
    turned_at: float | None = None
    """The worker's event loop has turned."""
    is_stopping: bool = False
    """Whether the process is to end."""


class WorkerHealth:
    """Judges a worker by its pulse.

    It waits neither for the event loop nor for the store: both may hang, and just then the answer
    is wanted.
    """

    def __init__(
        self,
        pulse: Pulse,
        clock: Clock,
        *,
        live_max: float = LIVE_MAX,
        ready_max: float = READY_MAX,
    ) -> None:
        self._pulse = pulse
        self._clock = clock
        self._live_max = live_max
        self._ready_max = ready_max
        self._born_at = clock.monotonic()

    def live(self) -> Verdict:
        """Return whether the event loop turns; if it does not, the worker should be restarted.

        A worker that stops, or whose store is away, is live: killing it would not help.
        """
        return verdict(self._stuck(self._live_max))

    def ready(self) -> Verdict:
        """Return whether the worker would take a job now."""
        pulse = self._pulse
        if pulse.turned_at is None:
            return verdict(STARTING, self._away())
        return verdict(
            STOPPING if pulse.is_stopping else None, self._stuck(self._ready_max), self._away()
        )

    def _stuck(self, most: float) -> str | None:
        turned_at = self._born_at if self._pulse.turned_at is None else self._pulse.turned_at
        silence = self._clock.monotonic() - turned_at
        if silence <= most:
            return None
        return f"loop_blocked: the event loop has not turned for {silence:.0f} s"

    def _away(self) -> str | None:
        answered_at, refused_at = self._pulse.answered_at, self._pulse.refused_at
        if answered_at is None:
            return store_away("it has not answered yet")
        if refused_at is not None and refused_at >= answered_at:
            return store_away("it refused when it was last asked")
        silence = self._clock.monotonic() - answered_at
        if silence > self._ready_max:
            return store_away(f"it has not answered for {silence:.0f} s")
        return None
