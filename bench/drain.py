"""How fast workers drain a queue: one process, four, and from a line of a million."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from statistics import median

from bench.backlog import filled
from bench.bench import Measurement
from bench.child import Order, Report, cpu_seconds
from bench.children import ChildFailedError, rate, run_all
from bench.figures import Figure, Target, pair
from bench.raw import RawDatabase
from bench.sqlite_bench import SqliteBench

PROCESSES = 4

DRAIN_TARGET = Target("ratio", at_least=0.35)
PROCESSES_TARGET = Target("ratio", at_least=1.0)
BACKLOG_TARGET = Target("ratio", at_least=0.95)
"""Not slower; a twentieth is noise."""

RAW, ONE, FOUR, BIG = "drain: raw", "drain: 1 process", "drain: 4 processes", "drain: backlog"


def measure(bench: SqliteBench, names: AbstractSet[str]) -> list[Figure]:
    """Return the figures among *names*; all are measured in the same rounds."""
    drains = Drains(bench)
    small = filled(bench, bench.sizes.jobs)
    sides: dict[str, Measurement] = {ONE: partial(drains.whole, small, 1)}
    if "drain" in names:
        sides = {RAW: partial(drains.raw, small), **sides}
    if "drain-4" in names:
        sides[FOUR] = partial(drains.whole, small, PROCESSES)
    if "backlog" in names:
        sides[BIG] = partial(drains.part, filled(bench, bench.sizes.backlog))
    return _figures(bench, bench.in_turns(sides), drains)


class Drains:
    """The ways to drain; each returns jobs a second and notes what it cost the processor.

    The cost hardly depends on what else the machine does, so that it shows what a rate hides.
    """

    def __init__(self, bench: SqliteBench) -> None:
        self._bench = bench
        self.raw_cost: list[float] = []
        self.cost: list[float] = []

    def raw(self, template: Path) -> float:
        """Drain by plain statements."""
        bench = self._bench
        path = bench.copy_of(template)
        database = RawDatabase(path, durability=bench.durability, clock=bench.clock)
        cpu = cpu_seconds()
        seconds = bench.seconds(partial(database.drain, bench.sizes.jobs))
        self.raw_cost.append((cpu_seconds() - cpu) / bench.sizes.jobs)
        database.close()
        bench.remove(path)
        return bench.sizes.jobs / seconds

    def whole(self, template: Path, processes: int) -> float:
        """Drain by so many processes, from the first claim to the last settlement."""
        path = self._bench.copy_of(template)
        reports = self._run(Order(self._bench.url(path)), processes)
        self._bench.remove(path)
        if processes == 1:
            self.cost.append(reports[0].cpu_seconds / reports[0].settled)
        return rate(reports)

    def part(self, path: Path) -> float:
        """Drain, by one process, as many jobs of a long line as the small drain has.

        The next round goes on where this one ended: a line of a million is hardly shorter for it.
        """
        order = Order(self._bench.url(path), limit=self._bench.sizes.jobs)
        return rate(self._run(order, 1))

    def _run(self, order: Order, processes: int) -> list[Report]:
        bench = self._bench
        reports = run_all([order] * processes, folder=bench.folder, clock=bench.clock)
        settled = sum(report.settled for report in reports)
        if settled < bench.sizes.jobs:
            raise ChildFailedError(f"of {bench.sizes.jobs:,} jobs only {settled:,} were settled")
        return reports


def _figures(bench: SqliteBench, found: dict[str, list[float]], drains: Drains) -> list[Figure]:
    figures = []
    if RAW in found:
        drained = pair(found[ONE], found[RAW])
        figures.append(
            Figure(
                name="drain",
                title="drain, 1 process",
                unit="jobs/s",
                value=drained.value,
                beside=drained.beside,
                ratio=drained.ratio,
                spread=drained.spread,
                target=DRAIN_TARGET,
                note=f"{median(drains.cost) * 1e6:.0f} µs of processor a job, "
                f"raw {median(drains.raw_cost) * 1e6:.0f} µs",
            )
        )
    if FOUR in found:
        several = pair(found[FOUR], found[ONE])
        figures.append(
            Figure(
                name="drain-4",
                title=f"drain, {PROCESSES} processes",
                unit="jobs/s",
                value=several.value,
                beside=several.beside,
                beside_what="1 process",
                ratio=several.ratio,
                spread=several.spread,
                target=PROCESSES_TARGET,
            )
        )
    if BIG in found:
        big = pair(found[BIG], found[ONE])
        figures.append(
            Figure(
                name="backlog",
                title=f"drain, backlog of {bench.sizes.backlog:,}",
                unit="jobs/s",
                value=big.value,
                beside=big.beside,
                beside_what=f"of {bench.sizes.jobs:,}",
                ratio=big.ratio,
                spread=big.spread,
                target=BACKLOG_TARGET,
            )
        )
    return figures
