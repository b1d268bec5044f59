"""How much memory a worker process occupies: an idle one, and one whose slots are all busy."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from bench.bench import Bench
from bench.child import Order, Report
from bench.children import ChildFailedError, run_all
from bench.figures import Figure, Target
from bench.noop import BenchApp
from fencepost.core.bounds import CONCURRENCY_DEFAULT, CONCURRENCY_MAX

MB = 1e6
IDLE_TARGET = Target("value", at_most=45.0)
BUSY_TARGET = Target("value", at_most=150.0)


def measure(bench: Bench, _: AbstractSet[str]) -> list[Figure]:
    """Return the resident memory of both, in bytes."""
    slots = min(CONCURRENCY_MAX, bench.sizes.jobs)
    bench.tell("footprint: an idle worker")
    idle = _worked(bench, 1, CONCURRENCY_DEFAULT)
    bench.tell(f"footprint: a worker with {slots:,} jobs at once")
    busy = _worked(bench, slots, slots)
    if busy.resident_gathered is None:
        raise ChildFailedError(f"{slots:,} jobs never ran at once")
    return [
        Figure(
            name="footprint.idle",
            title="memory of an idle worker",
            unit="MB",
            value=idle.resident_after / MB,
            target=IDLE_TARGET,
            note=f"with {CONCURRENCY_DEFAULT} slots, after one job",
        ),
        Figure(
            name="footprint.busy",
            title=f"memory of a worker, {slots:,} slots busy",
            unit="MB",
            value=busy.resident_gathered / MB,
            target=BUSY_TARGET,
        ),
    ]


def _worked(bench: Bench, jobs: int, slots: int) -> Report:
    """Return what a worker has done that ran *jobs* at once."""
    with bench.new_store() as url:
        with BenchApp(url) as app:
            app.gathered.submit_many([jobs] * jobs)
        order = Order(url, concurrency=slots)
        (report,) = run_all([order], folder=bench.folder, clock=bench.clock)
    return report
