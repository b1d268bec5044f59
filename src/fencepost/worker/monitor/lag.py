"""Notices when handlers block the event loop."""

from __future__ import annotations

import logging

from fencepost.clock import Clock
from fencepost.core.bounds import LAG_INTERVAL, LAG_WARNING
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log


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
