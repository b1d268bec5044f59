"""A worker process of a benchmark, started by ``children`` and controlled by its standard input.

It says ``ready`` when everything is imported and the store is open, works from ``go`` on, prints
what it did as one line of JSON, and stops when its standard input ends: no child outlives a bench.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
from copy import copy
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from bench.noop import BenchApp
from fencepost.store.interface.queue import Claim, ClaimRequest, QueueFacet
from fencepost.store.interface.store import Facets, Store
from fencepost.store.open import open_store
from fencepost.store.plan import Operation
from fencepost.worker import Worker

T = TypeVar("T")

CONCURRENCY = 100
# Not sys.stdin: a thread that waits in its buffer breaks the end of the interpreter.
STDIN = 0
READ = 64
TENTHS = 10


class Order(msgspec.Struct, frozen=True):
    """What a child is to do: ``limit`` jobs, or all there are, or work until stopped."""

    url: str
    limit: int | None = None
    until_idle: bool = True
    concurrency: int = CONCURRENCY


class Report(msgspec.Struct, frozen=True):
    """What a child has done. Times are on the machine's monotonic clock, shared by processes."""

    settled: int
    began: float
    ended: float
    cpu_seconds: float
    resident_before: int
    resident_after: int
    tenths: list[float] = []
    """Jobs a second in each tenth of the jobs; fewer where several fell into one settlement."""
    resident_gathered: int | None = None
    """When jobs that wait for each other all ran at once."""


class Mark(NamedTuple):
    """How many jobs had been settled by when."""

    settled: int
    at: float


class _LimitedQueue:
    """A queue in which no more than so many jobs seem to be left."""

    def __init__(self, queue: QueueFacet, stopwatch: Stopwatch) -> None:
        self._queue = queue
        self._stopwatch = stopwatch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def claim(self, request: ClaimRequest) -> Operation[Claim]:
        left = self._stopwatch.left
        if left is not None and left < request.limit:
            request = msgspec.structs.replace(request, limit=left)
        return self._queue.claim(request)


class Stopwatch:
    """Passes operations on to a store; notes the first claim and the last settlement.

    Costs a microsecond an operation, and nothing a job. Under a limit the line seems to end there:
    a worker that went on claiming would be measured with work that is not counted.
    """

    def __init__(self, store: Store, limit: int | None) -> None:
        self._store = store
        self.left = limit
        self.settled = 0
        self.began = self.ended = store.clock.monotonic()
        self._has_begun = False
        self.marks: list[Mark] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @property
    def queue(self) -> Any:
        return self.facets.queue

    @property
    def facets(self) -> Facets:
        """What a wrapper of this store takes over."""
        facets = copy(self._store.facets)
        facets.queue = cast(QueueFacet, _LimitedQueue(self._store.queue, self))
        return facets

    def run(self, operation: Operation[T]) -> T:
        self._before(operation)
        return self._after(operation, self._store.run(operation))

    async def run_async(self, operation: Operation[T]) -> T:
        self._before(operation)
        return self._after(operation, await self._store.run_async(operation))

    def _before(self, operation: Operation[Any]) -> None:
        if not self._has_begun and operation.is_a(QueueFacet.claim):
            self._has_begun = True
            self.began = self._store.clock.monotonic()

    def _after(self, operation: Operation[Any], result: T) -> T:
        if operation.is_a(QueueFacet.claim) and self.left is not None:
            self.left -= len(cast(Claim, result).jobs)
        elif operation.is_a(QueueFacet.settle):
            self.settled += len(operation.given[0])
            self.ended = self._store.clock.monotonic()
            self.marks.append(Mark(self.settled, self.ended))
        return result


def tenths(marks: list[Mark]) -> list[float]:
    """Return the rates between the marks nearest to each tenth of the jobs."""
    edges = marks[:1]
    for mark in marks[1:]:
        passed = edges[-1].settled * TENTHS // marks[-1].settled
        if mark.settled * TENTHS // marks[-1].settled > passed and mark.at > edges[-1].at:
            edges.append(mark)
    return [(b.settled - a.settled) / (b.at - a.at) for a, b in pairwise(edges)]


def cpu_seconds() -> float:
    """Return the time that this process has spent on a processor, in all its threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def resident() -> int:
    """Return the bytes of memory that this process occupies."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:  # not Linux: the peak has to do
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def work(order: Order) -> Report:
    """Wait for the word, then run a worker as *order* says."""
    store = open_store(order.url)
    stopwatch = Stopwatch(store, order.limit)
    gathered: list[int] = []

    def note() -> None:
        gathered.append(resident())

    with BenchApp(order.url, store=cast(Store, stopwatch), on_gathered=note) as bench:
        worker = bench.app.worker(concurrency=order.concurrency)
        before, cpu_before = resident(), cpu_seconds()
        say("ready")
        os.read(STDIN, READ)
        threading.Thread(target=_stop_at_end_of_input, args=(worker,), daemon=True).start()
        worker.run(until_idle=order.until_idle)
        return Report(
            settled=stopwatch.settled,
            began=stopwatch.began,
            ended=stopwatch.ended,
            cpu_seconds=cpu_seconds() - cpu_before,
            resident_before=before,
            resident_after=resident(),
            tenths=tenths([Mark(0, stopwatch.began), *stopwatch.marks]),
            resident_gathered=gathered[0] if gathered else None,
        )


def _stop_at_end_of_input(worker: Worker) -> None:
    while os.read(STDIN, READ):
        pass
    worker.stop()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    order = msgspec.json.decode(sys.argv[1], type=Order)
    say(msgspec.json.encode(work(order)).decode())


if __name__ == "__main__":
    main()
