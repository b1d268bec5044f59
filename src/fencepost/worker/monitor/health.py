"""Whether a worker is alive and whether it takes jobs, as probes want to know.

Nothing here waits for the event loop or for the store: both may hang, and just then the answer is
wanted. What they did last is known from the signs that they leave.
"""

from __future__ import annotations

import logging

from fencepost.clock import Clock
from fencepost.core.bounds import LAG_INTERVAL, LAG_WARNING, LIVE_MAX, READY_MAX
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.health import STARTING, STOPPING, Pulse, Verdict, store_away, verdict
from fencepost.observe.log import log


class WorkerHealth:
    """Judges a worker by its pulse."""

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
        """Tell whether the event loop turns; one whose loop does not should be restarted.

        A worker that stops, or whose store is away, lives: to kill it would help nobody.
        """
        return verdict(self._stuck(self._live_max))

    def ready(self) -> Verdict:
        """Tell whether the worker would take a job now."""
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


async def measure_lag(clock: Clock, counters: Counters) -> None:
    """Leave a sign that the loop turns, and count by how much it oversleeps, forever."""
    while True:
        before = counters.pulse.turned_at = clock.monotonic()
        await clock.sleep_async(LAG_INTERVAL)
        lag = clock.monotonic() - before - LAG_INTERVAL
        counters.add(names.LOOP_LAG, max(lag, 0.0))
        if lag > LAG_WARNING:
            log(
                names.LOOP_LAG,
                level=logging.WARNING,
                seconds=lag,
                hint="a handler blocked the event loop; make it a `def` or isolate it",
            )
