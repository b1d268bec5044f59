"""How fast jobs are that wait for each other, beside as many that do not, in the same rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from math import isqrt
from typing import NamedTuple

from bench.bench import Bench, Measurement
from bench.child import Order
from bench.children import ChildFailedError, rate, run_all
from bench.figures import Figure, pair
from bench.noop import BenchApp
from bench.pickup import RESULT_TIMEOUT, working
from fencepost.core.flows.graph import Graph, Stage, chain, fan_in, fan_out
from fencepost.core.job.job import NewJob

LONGEST = 100
"""The jobs of a chain, and the chains side by side."""
WIDEST = 1_000
"""The jobs between a fan-out and its fan-in."""
DIAMONDS = 10_000
"""Of four jobs each."""

Make = Callable[[int, NewJob], Sequence[Stage]]


class Shape(NamedTuple):
    """A graph that is measured: how many of what for so many jobs, and how it is made."""

    title: str
    size: Callable[[int], int]
    """The number that *make* is given, for the number of jobs of a drain."""
    make: Make


def chains(count: int, job: NewJob) -> Sequence[Graph]:
    """Return *count* chains of *count* jobs, side by side."""
    return [chain(*[job] * count)] * count


def fan(count: int, job: NewJob) -> Sequence[Graph]:
    """Return one job, then *count* side by side, then one."""
    return [fan_in([fan_out(job, [job] * count)], job)]


def diamonds(count: int, job: NewJob) -> Sequence[Graph]:
    """Return *count* graphs of a job, two side by side, and a job."""
    return [fan_in([fan_out(job, [job, job])], job)] * count


SHAPES = {
    "chains": Shape(
        "{0:,} chains of {0:,}", lambda jobs: max(min(LONGEST, isqrt(jobs)), 2), chains
    ),
    "fan": Shape("a fan of {0:,}", lambda jobs: min(WIDEST, jobs), fan),
    "diamonds": Shape("{0:,} diamonds", lambda jobs: max(min(DIAMONDS, jobs // 2), 1), diamonds),
}


def measure(bench: Bench, names: AbstractSet[str]) -> list[Figure]:
    """Return the figures among *names*."""
    figures: list[Figure] = []
    for name in SHAPES.keys() & names:
        figures += _beside_independent(bench, name)
    figures.sort(key=lambda figure: list(SHAPES).index(figure.name.partition(".")[0]))
    if "chain" in names:
        figures.append(_link(bench))
    return figures


def _beside_independent(bench: Bench, name: str) -> list[Figure]:
    shape = SHAPES[name]
    size = shape.size(bench.sizes.jobs)
    waiting, free = Flowing(bench, shape.make, size), Flowing(bench, independent(shape.make), size)
    sides: dict[str, Measurement] = {name: waiting.run, f"{name}: independent": free.run}
    bench.in_turns(sides)
    title = shape.title.format(size)
    drained, whole = pair(waiting.drains, free.drains), pair(waiting.wholes, free.wholes)
    return [
        Figure(
            name=f"{name}{suffix}",
            title=f"{title}, {what}",
            unit="jobs/s",
            value=found.value,
            beside=found.beside,
            beside_what="independent",
            ratio=found.ratio,
            spread=found.spread,
        )
        for suffix, what, found in (("", "drain", drained), (".whole", "submit and drain", whole))
    ]


def independent(make: Make) -> Make:
    """Return what makes as many jobs that wait for nobody."""

    def free(count: int, job: NewJob) -> Sequence[Stage]:
        return [job] * sum(len(each) for each in make(count, job) if isinstance(each, Graph))

    return free


class Flowing:
    """Submits a graph and has it drained by one process; notes the rates of both."""

    def __init__(self, bench: Bench, make: Make, size: int) -> None:
        self._bench = bench
        self._make = make
        self._size = size
        self.drains: list[float] = []
        self.wholes: list[float] = []

    def run(self) -> float:
        """Return the jobs a second, from the submission to the last settlement."""
        bench = self._bench
        with bench.new_store() as url:
            with BenchApp(url) as app:
                flow = app.app.flow(self._make(self._size, app.noop.prepare(0)))
                submitting = bench.seconds(partial(flow.submit))
            reports = run_all([Order(url)], folder=bench.folder, clock=bench.clock)
        count, settled = len(flow.nodes), reports[0].settled
        if settled < count:
            raise ChildFailedError(f"of {count:,} jobs only {settled:,} were settled")
        self.drains.append(rate(reports))
        self.wholes.append(count / (submitting + count / self.drains[-1]))
        return self.wholes[-1]


def _link(bench: Bench) -> Figure:
    """Measure a chain with nothing beside it: how long after one job's end the next one ends."""
    length = max(min(LONGEST, bench.sizes.jobs), 2)
    bench.tell(f"a lone chain of {length}")
    with bench.new_store() as url, BenchApp(url) as app, working(bench, url):
        app.noop.submit(0).result(RESULT_TIMEOUT)
        flow = app.app.flow(chain(*[app.noop.prepare(0)] * length)).submit()
        flow.results(RESULT_TIMEOUT * 10)
        ends = [job.refresh().completed_at for job in flow]
    first, last = ends[0], ends[-1]
    assert first is not None and last is not None
    return Figure(
        name="chain",
        title=f"a link of a lone chain of {length}",
        unit="ms",
        value=(last - first).total_seconds() * 1e3 / (length - 1),
    )
