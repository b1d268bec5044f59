"""Whether a worker keeps its speed while somebody holds an old snapshot, so that no row that died
since can be removed."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager

from bench.child import Order
from bench.children import ChildFailedError, run_all
from bench.figures import Figure, Target, pair
from bench.postgres.bench import PostgresBench

TARGET = Target("ratio", at_least=0.85)

# A server may end sessions that do what this one is for.
STAY = "set idle_in_transaction_session_timeout = 0"
BEGIN = "begin isolation level repeatable read, read only"
# The snapshot is taken by the first statement, not by begin.
LOOK = "select count(*) from pg_class"


def measure(bench: PostgresBench, _: AbstractSet[str]) -> list[Figure]:
    """Return the rate of the last tenth of the jobs beside that of the first."""
    count = bench.sizes.passing
    first: list[float] = []
    last: list[float] = []
    for number in range(1, bench.sizes.rounds + 1):
        with bench.new_store() as url, held_snapshot(bench):
            bench.fill(count)
            bench.tell(f"old snapshot: {count:,} jobs, round {number} of {bench.sizes.rounds}")
            tenths = _drained(bench, url, count)
        first.append(tenths[0])
        last.append(tenths[-1])
    both = pair(last, first)
    return [
        Figure(
            name="snapshot",
            title=f"old snapshot, {count:,} jobs: last tenth",
            unit="jobs/s",
            value=both.value,
            beside=both.beside,
            beside_what="first",
            ratio=both.ratio,
            spread=both.spread,
            target=TARGET,
        )
    ]


@contextmanager
def held_snapshot(bench: PostgresBench) -> Iterator[None]:
    """Hold the present open, by a connection of its own."""
    with bench.connect() as connection:
        connection.execute(STAY)
        connection.execute(BEGIN)
        connection.execute(LOOK)
        yield
        connection.execute("rollback")


def _drained(bench: PostgresBench, url: str, count: int) -> list[float]:
    (report,) = run_all([Order(url)], folder=bench.folder, clock=bench.clock)
    if report.settled < count:
        raise ChildFailedError(f"of {count:,} jobs only {report.settled:,} were settled")
    return report.tenths
