"""How fast workers drain a queue: one process, two, and from a line of a million."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from functools import partial
from statistics import median

from bench.bench import Measurement
from bench.child import Order, Report, cpu_seconds
from bench.children import ChildFailedError, rate, run_all
from bench.figures import Figure, Target, pair
from bench.redis.bench import RedisBench

DRAIN_TARGET = Target("ratio", at_least=0.5)
TWO_TARGET = Target("ratio", at_least=1.4)
BACKLOG_TARGET = Target("ratio", at_least=0.9)

RAW, ONE, TWO, BIG = "drain: raw", "drain: 1 process", "drain: 2 processes", "drain: backlog"


def measure(bench: RedisBench, names: AbstractSet[str]) -> list[Figure]:
    """Return the figures among *names*; all are measured in the same rounds."""
    drains = Drains(bench)
    sides: dict[str, Measurement] = {ONE: partial(drains.whole, 1)}
    if "drain" in names:
        sides = {RAW: drains.raw, **sides}
    if "drain-2" in names:
        sides[TWO] = partial(drains.whole, 2)
    with ExitStack() as stack:
        if "backlog" in names:
            url = stack.enter_context(bench.new_store())
            bench.fill(url, bench.sizes.backlog)
            sides[BIG] = partial(drains.part, url)
        found = bench.in_turns(sides)
    return _figures(bench, found, drains)


class Drains:
    """The ways to drain; each returns jobs a second and notes what it cost the client."""

    def __init__(self, bench: RedisBench) -> None:
        self._bench = bench
        self.raw_cost: list[float] = []
        self.cost: list[float] = []

    def raw(self) -> float:
        """Drain by plain scripts."""
        bench, count = self._bench, self._bench.sizes.jobs
        bench.raw.empty()
        bench.raw.load(bench.raw.rows(count))
        cpu = cpu_seconds()
        seconds = bench.seconds(partial(bench.raw.drain, count))
        self.raw_cost.append((cpu_seconds() - cpu) / count)
        return count / seconds

    def whole(self, processes: int) -> float:
        """Drain by so many processes, from the first claim to the last settlement."""
        bench = self._bench
        with bench.new_store() as url:
            bench.fill(url, bench.sizes.jobs)
            reports = self._run(Order(url), processes)
        if processes == 1:
            self.cost.append(reports[0].cpu_seconds / reports[0].settled)
        return rate(reports)

    def part(self, url: str) -> float:
        """Drain, by one process, as many jobs of a long line as the small drain has."""
        return rate(self._run(Order(url, limit=self._bench.sizes.jobs), 1))

    def _run(self, order: Order, processes: int) -> list[Report]:
        bench = self._bench
        reports = run_all([order] * processes, folder=bench.folder, clock=bench.clock)
        settled = sum(report.settled for report in reports)
        if settled < bench.sizes.jobs:
            raise ChildFailedError(f"of {bench.sizes.jobs:,} jobs only {settled:,} were settled")
        return reports


def _figures(bench: RedisBench, found: dict[str, list[float]], drains: Drains) -> list[Figure]:
    figures = []
    if RAW in found:
        note = (
            f"{median(drains.cost) * 1e6:.1f} µs of the worker's processor a job, "
            f"raw {median(drains.raw_cost) * 1e6:.1f} µs"
        )
        figures.append(_rate(found, "drain", "drain, 1 process", (ONE, RAW), DRAIN_TARGET, note))
    if TWO in found:
        figures.append(_rate(found, "drain-2", "drain, 2 processes", (TWO, ONE), TWO_TARGET))
    if BIG in found:
        title = f"drain, backlog of {bench.sizes.backlog:,}"
        figures.append(_rate(found, "backlog", title, (BIG, ONE), BACKLOG_TARGET))
    return figures


def _rate(
    found: dict[str, list[float]],
    name: str,
    title: str,
    sides: tuple[str, str],
    target: Target,
    note: str = "",
) -> Figure:
    both = pair(found[sides[0]], found[sides[1]])
    return Figure(
        name=name,
        title=title,
        unit="jobs/s",
        value=both.value,
        beside=both.beside,
        beside_what="raw" if sides[1] == RAW else "1 process",
        ratio=both.ratio,
        spread=both.spread,
        target=target,
        note=note,
    )
