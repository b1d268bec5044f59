"""What few slots cost: a worker claims as many jobs as it has free slots, and no more."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import partial

from bench.bench import Bench
from bench.child import Order
from bench.children import drain
from bench.figures import Figure, pair
from bench.keys import fill
from fencepost.core.bounds import CONCURRENCY_DEFAULT

MANY = 500
SIDES = (CONCURRENCY_DEFAULT, 100)


def measure(bench: Bench, _: AbstractSet[str]) -> list[Figure]:
    """Return the rate of no-op jobs in few slots, beside that in many."""
    slots = {str(count): partial(_drain, bench, count) for count in (MANY, *SIDES)}
    found = bench.in_turns(slots)
    figures = []
    for count in SIDES:
        both = pair(found[str(count)], found[str(MANY)])
        figures.append(
            Figure(
                name=f"slots.{count}",
                title=f"drain, {count} slots",
                unit="jobs/s",
                value=both.value,
                beside=both.beside,
                beside_what=f"{MANY} slots",
                ratio=both.ratio,
                spread=both.spread,
            )
        )
    return figures


def _drain(bench: Bench, slots: int) -> float:
    with bench.new_store() as url:
        fill(url, bench.sizes.jobs, 0)
        return drain(bench, Order(url, concurrency=slots))
