"""What concurrency keys cost: jobs of a hundred keys beside jobs without one."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import partial

from bench.bench import Bench
from bench.child import Order
from bench.children import drain
from bench.figures import Figure, pair
from bench.noop import BenchApp

KEYS = 100
BULK = 20_000

KEYED, PLAIN = f"{KEYS} keys", "no keys"


def measure(bench: Bench, _: AbstractSet[str]) -> list[Figure]:
    """Return the rate of jobs with keys, one of each at a time, beside that of others."""
    found = bench.in_turns({PLAIN: partial(_drain, bench, 0), KEYED: partial(_drain, bench, KEYS)})
    both = pair(found[KEYED], found[PLAIN])
    return [
        Figure(
            name="keyed",
            title=f"drain, {KEYS} concurrency keys",
            unit="jobs/s",
            value=both.value,
            beside=both.beside,
            beside_what="no key",
            ratio=both.ratio,
            spread=both.spread,
        )
    ]


def _drain(bench: Bench, keys: int) -> float:
    """Return the jobs a second of one worker process; without *keys*, of plain jobs."""
    with bench.new_store() as url:
        fill(url, bench.sizes.jobs, keys)
        return drain(bench, Order(url))


def fill(url: str, count: int, keys: int) -> None:
    """Submit jobs whose keys take turns."""
    with BenchApp(url) as app:
        tasks = [app.noop.using(concurrency_key=f"key {n}") for n in range(keys)] or [app.noop]
        for start in range(0, count, BULK):
            numbers = range(start, min(start + BULK, count))
            app.app.submit_many(tasks[number % len(tasks)].prepare(number) for number in numbers)
