"""How soon a worker in another process starts a job: an idle one, and one that is kept at work."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from statistics import median
from typing import NamedTuple

from bench.figures import Figure, Target, percentile
from bench.pickup import RATE, Waits, idle, steady
from bench.postgres.bench import PostgresBench


class Bounds(NamedTuple):
    """What is aimed at, in ms."""

    p50: float
    p99: float


IDLE = Bounds(p50=3.0, p99=12.0)
BUSY = Bounds(p50=2.0, p99=9.0)


def measure(bench: PostgresBench, names: AbstractSet[str]) -> list[Figure]:
    """Return medians and 99th percentiles."""
    figures: list[Figure] = []
    if "pickup" in names:
        figures += _figures(bench, "pickup", "pickup by an idle worker", idle(bench), IDLE)
    if "pickup-busy" in names:
        title = f"pickup at {RATE} jobs/s"
        figures += _figures(bench, "pickup-busy", title, steady(bench, bench.sizes.steady), BUSY)
    return figures


def _figures(
    bench: PostgresBench, name: str, title: str, waits: Waits, bounds: Bounds
) -> list[Figure]:
    # A job is created by the server's clock and started by ours: one clock only if one machine.
    if bench.meter.sees_processes:
        readings = [
            ("", title, waits.from_created),
            ("call.", "… from the call of submit", waits.from_call),
        ]
    else:
        readings = [("call.", f"{title}, from the call", waits.from_call)]
    return [
        Figure(
            name=f"{name}.{infix}p{percent}",
            title=f"{reading}, p{percent}",
            unit="ms",
            value=percentile(samples, percent / 100),
            target=Target("value", at_most=bound),
            note=f"submit itself returned after {median(waits.submits):.2f} ms"
            if (infix, percent) == (readings[0][0], 50)
            else "",
        )
        for infix, reading, samples in readings
        for percent, bound in ((50, bounds.p50), (99, bounds.p99))
    ]
