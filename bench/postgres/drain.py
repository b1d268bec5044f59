"""How fast workers drain a queue: one process, two, from a long line; and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from statistics import median

from bench.bench import Measurement
from bench.child import Order, Report, cpu_seconds
from bench.children import ChildFailedError, rate, run_all
from bench.figures import Figure, Target, Unit, pair
from bench.postgres import raw
from bench.postgres.bench import PostgresBench
from bench.postgres.meter import Cost

DRAIN_TARGET = Target("ratio", at_least=0.6)
TWO_TARGET = Target("ratio", at_least=1.0)
BACKLOG_TARGET = Target("ratio", at_least=0.9)

RAW, ONE, TWO = "drain: raw", "drain: 1 process", "drain: 2 processes"

Rates = dict[str, list[float]]
Readings = Sequence[float | None]


def measure(bench: PostgresBench, names: AbstractSet[str]) -> list[Figure]:
    """Return the figures among *names*; all are measured in the same rounds."""
    drains = Drains(bench)
    sides: dict[str, Measurement] = {ONE: partial(drains.whole, 1)}
    if names & {"drain", "wal", "cpu"}:
        sides = {RAW: drains.raw, **sides}
    if "drain-2" in names:
        sides[TWO] = partial(drains.whole, 2)
    backlogs = bench.sizes.backlogs if "backlog" in names else ()
    try:
        for count in backlogs:
            bench.make_store()
            bench.fill(count)
            bench.put_aside(count)
            sides[_big(count)] = partial(drains.part, count)
        found = bench.in_turns(sides)
    finally:
        for count in backlogs:
            bench.forget(count)
    return _figures(bench, names, found, drains)


class Drains:
    """The ways to drain; each returns jobs a second and notes what it cost.

    The costs hardly depend on what else the machine does, so that they show what a rate hides.
    """

    def __init__(self, bench: PostgresBench) -> None:
        self._bench = bench
        self.raw_client: list[float] = []
        self.client: list[float] = []
        self.raw_server: list[Cost] = []
        self.server: list[Cost] = []
        self._before = bench.meter.read()

    def raw(self) -> float:
        """Drain by plain statements."""
        bench, count = self._bench, self._bench.sizes.jobs
        bench.raw.empty()
        bench.raw.load(bench.raw.block(bench.raw.rows(count)))
        bench.tidy(raw.SCHEMA)
        before, cpu = bench.meter.read(), cpu_seconds()
        seconds = bench.seconds(partial(bench.raw.drain, count))
        self.raw_client.append((cpu_seconds() - cpu) / count)
        self.raw_server.append(bench.meter.cost(before, count))
        return count / seconds

    def whole(self, processes: int) -> float:
        """Drain by so many processes, from the first claim to the last settlement."""
        bench = self._bench
        with bench.new_store() as url:
            bench.fill(bench.sizes.jobs)
            reports = self._run(Order(url), processes)
            cost = bench.meter.cost(self._before, bench.sizes.jobs)
        if processes == 1:
            self.client.append(reports[0].cpu_seconds / reports[0].settled)
            self.server.append(cost)
        return rate(reports)

    def part(self, backlog: int) -> float:
        """Drain, by one process, as many jobs of a long line as the small drain has.

        The next round goes on where this one ended: a line of a million is hardly shorter for it.
        """
        with self._bench.brought_back(backlog) as url:
            return rate(self._run(Order(url, limit=self._bench.sizes.jobs), 1))

    def _begin(self) -> None:
        self._before = self._bench.meter.read()

    def _run(self, order: Order, processes: int) -> list[Report]:
        bench = self._bench
        reports = run_all(
            [order] * processes, folder=bench.folder, clock=bench.clock, at_start=self._begin
        )
        settled = sum(report.settled for report in reports)
        if settled < bench.sizes.jobs:
            raise ChildFailedError(f"of {bench.sizes.jobs:,} jobs only {settled:,} were settled")
        return reports


def _big(count: int) -> str:
    return f"drain: backlog of {count:,}"


def _figures(
    bench: PostgresBench, names: AbstractSet[str], found: Rates, drains: Drains
) -> list[Figure]:
    figures = []
    if "drain" in names:
        figures.append(_drain(found, drains))
    if TWO in found:
        figures.append(_two(found))
    figures += [
        _backlog(bench, found, count) for count in bench.sizes.backlogs if _big(count) in found
    ]
    if "wal" in names:
        figures.append(_wal(drains))
    if "cpu" in names and bench.meter.sees_processes:
        figures.append(_cpu(drains))
    return figures


def _drain(found: Rates, drains: Drains) -> Figure:
    drained = pair(found[ONE], found[RAW])
    return Figure(
        name="drain",
        title="drain, 1 process",
        unit="jobs/s",
        value=drained.value,
        beside=drained.beside,
        ratio=drained.ratio,
        spread=drained.spread,
        target=DRAIN_TARGET,
        note=f"{median(drains.client) * 1e6:.1f} µs of the worker's processor a job, "
        f"raw {median(drains.raw_client) * 1e6:.1f} µs",
    )


def _two(found: Rates) -> Figure:
    both = pair(found[TWO], found[ONE])
    return Figure(
        name="drain-2",
        title="drain, 2 processes",
        unit="jobs/s",
        value=both.value,
        beside=both.beside,
        beside_what="1 process",
        ratio=both.ratio,
        spread=both.spread,
        target=TWO_TARGET,
    )


def _backlog(bench: PostgresBench, found: Rates, count: int) -> Figure:
    both = pair(found[_big(count)], found[ONE])
    return Figure(
        name=f"backlog.{count}",
        title=f"drain, backlog of {count:,}",
        unit="jobs/s",
        value=both.value,
        beside=both.beside,
        beside_what=f"of {bench.sizes.jobs:,}",
        ratio=both.ratio,
        spread=both.spread,
        target=BACKLOG_TARGET,
    )


def _wal(drains: Drains) -> Figure:
    return _cost(
        "wal",
        "WAL of a drained job",
        "bytes",
        (
            [cost.wal_bytes for cost in drains.server],
            [cost.wal_bytes for cost in drains.raw_server],
        ),
    )


def _cpu(drains: Drains) -> Figure:
    return _cost(
        "cpu",
        "server CPU of a drained job",
        "µs",
        ([cost.cpu_us for cost in drains.server], [cost.cpu_us for cost in drains.raw_server]),
        note="of the whole server: sessions, log, checkpoints, vacuum",
    )


def _cost(
    name: str, title: str, unit: Unit, both: tuple[Readings, Readings], note: str = ""
) -> Figure:
    """Return two medians: costs, unlike rates, may be compared across rounds."""
    value, beside = (median(each or 0.0 for each in side) for side in both)
    return Figure(
        name=name,
        title=title,
        unit=unit,
        value=value,
        beside=beside,
        # A short drain takes less than the processor's clock can tell.
        ratio=value / beside if beside else None,
        note=note,
    )
