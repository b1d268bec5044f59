"""How soon a worker process starts a job: an idle one, and one that is kept at work."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from statistics import median
from typing import NamedTuple

from bench.figures import Figure, Target, percentile
from bench.pickup import RATE, Waits, idle, steady
from bench.redis.bench import RedisBench


class Bounds(NamedTuple):
    """What is aimed at, in ms."""

    p50: float
    p99: float | None


IDLE = Bounds(p50=1.5, p99=8.0)
BUSY = Bounds(p50=1.0, p99=None)


def measure(bench: RedisBench, names: AbstractSet[str]) -> list[Figure]:
    """Return medians and 99th percentiles, from created_at and from the call of submit."""
    figures: list[Figure] = []
    if "pickup" in names:
        figures += _figures("pickup", "pickup by an idle worker", idle(bench), IDLE)
    if "pickup-busy" in names:
        waits = steady(bench, bench.sizes.steady)
        figures += _figures("pickup-busy", f"pickup at {RATE} jobs/s", waits, BUSY)
    return figures


def _figures(name: str, title: str, waits: Waits, bounds: Bounds) -> list[Figure]:
    # A job is created by the server's clock and started by ours: fair only on one machine.
    readings = [
        ("", title, waits.from_created),
        ("call.", "… from the call of submit", waits.from_call),
    ]
    return [
        Figure(
            name=f"{name}.{infix}p{percent}",
            title=f"{reading}, p{percent}",
            unit="ms",
            value=percentile(samples, percent / 100),
            target=None if bound is None else Target("value", at_most=bound),
            note=f"submit itself returned after {median(waits.submits):.2f} ms"
            if (infix, percent) == ("", 50)
            else "",
        )
        for infix, reading, samples in readings
        for percent, bound in ((50, bounds.p50), (99, bounds.p99))
    ]
