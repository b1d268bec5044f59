"""What waiting jobs weigh: on the disk, and in a worker that drains some of them."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from pathlib import Path

from bench.child import Order
from bench.children import run_all
from bench.figures import Figure
from bench.noop import BenchApp
from bench.sqlite_bench import SqliteBench
from fencepost.core.bounds import BULK_MAX

PER = 100_000
"""Jobs that the figure is given for."""
BULK = min(20_000, BULK_MAX)
MB = 1e6


def measure(bench: SqliteBench, _: AbstractSet[str]) -> list[Figure]:
    """Return bytes on the disk, and how much a worker grows that has so many jobs before it."""
    stored = bench.sizes.stored
    bench.tell(f"memory: storing {stored:,} jobs")
    path = bench.new_path()
    database, log = _stored(bench, path, stored)
    bench.tell("memory: a worker with these before it")
    order = Order(bench.url(path), limit=min(bench.sizes.jobs, stored))
    (report,) = run_all([order], folder=bench.folder, clock=bench.clock)
    bench.remove(path)
    grown = report.resident_after - report.resident_before
    return [
        Figure(
            name="memory.disk",
            title=f"disk for {PER:,} waiting jobs",
            unit="MB",
            value=(database + log) * PER / stored / MB,
            note=f"{(database + log) / stored:.0f} bytes a job; {log / MB:.1f} MB of it is log",
        ),
        Figure(
            name="memory.worker",
            title=f"growth of a worker, {stored:,} waiting",
            unit="MB",
            value=grown / MB,
            note=f"over {report.settled:,} jobs run, from {report.resident_before / MB:.0f} MB",
        ),
    ]


def _stored(bench: SqliteBench, path: Path, count: int) -> tuple[int, int]:
    """Submit *count* jobs; return the sizes of the database and of its log while it is open."""
    with BenchApp(bench.url(path)) as app:
        for start in range(0, count, BULK):
            app.noop.submit_many(range(start, min(start + BULK, count)))
        return path.stat().st_size, Path(f"{path}-wal").stat().st_size
