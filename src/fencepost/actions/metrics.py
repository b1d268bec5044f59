"""All that a monitor is told of an app: what its process has counted, and what its store holds."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.actions.session import Session
from fencepost.observe.exposition import Metric, exposition, of_counters


def read_metrics(session: Session, more: Sequence[Metric] = ()) -> bytes:
    """Return the text for a monitor, *more* at its end; waits a bounded time for the store."""
    counted = of_counters(session.counters)
    return exposition([*counted, *session.gauges.read(lambda: session.store), *more])


async def metrics_text(session: Session, more: Sequence[Metric] = ()) -> bytes:
    """As ``read_metrics``, without blocking the event loop."""
    import asyncio

    return await asyncio.to_thread(read_metrics, session, more)
