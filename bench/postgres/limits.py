"""Whether a limit holds when many claim at once, and what it costs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from urllib.parse import urlsplit, urlunsplit

from bench.figures import Figure, Target, pair
from bench.noop import BenchApp
from bench.postgres.bench import PostgresBench
from fencepost.clock import Clock
from fencepost.core.filter import JobFilter
from fencepost.core.job.job import Body, ClaimedJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.interface.store import Store

QUEUE = "default"
CLAIMERS = 16
CLAIM = 10
"""Jobs of one claim."""
LIMIT = 80
"""Half of what the claimers would hold without it, so that it is felt."""
PAUSE = 0.01
"""How long a claimer waits that was given nothing; a worker would wait for a wake-up."""
POOL = "pool_size="
CONNECTIONS = CLAIMERS + 1
WATCH_INTERVAL = 0.005
EMPTY_CLAIMS_MAX = 3_000

TARGET = Target("ratio", at_least=0.5)
STRICT, UNLIMITED = f"limit of {LIMIT}", "no limit"
RUNNING = JobFilter(states=(State.RUNNING,))
NULL = Succeeded(Body(b"null"))


class Gauge:
    """The most jobs that ran at once, by two witnesses.

    The claimers count those that surely run: from the answer to a claim to the call of settle. The
    store is asked all the while; it sees also those on their way there and back.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._running = 0
        self.most = 0

    def add(self, count: int) -> None:
        with self._mutex:
            self._running += count
            self.most = max(self.most, self._running)

    @contextmanager
    def watching(self, store: Store) -> Iterator[None]:
        """Ask *store* again and again how many run."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(WATCH_INTERVAL):
                seen = store.run(store.reader.count(RUNNING))
                with self._mutex:
                    self.most = max(self.most, seen)

        with ThreadPoolExecutor(1) as threads:
            watcher = threads.submit(watch)
            try:
                yield
            finally:
                ended.set()
            watcher.result()


def measure(bench: PostgresBench, _: AbstractSet[str]) -> list[Figure]:
    """Return the rate under a limit beside that without one, and the most that ran at once."""
    strict, unlimited = Gauge(), Gauge()
    found = bench.in_turns(
        {
            UNLIMITED: partial(_rate, bench, None, unlimited),
            STRICT: partial(_rate, bench, LIMIT, strict),
        }
    )
    both = pair(found[STRICT], found[UNLIMITED])
    return [
        Figure(
            name="limit",
            title=f"{CLAIMERS} claimers, limit of {LIMIT}",
            unit="jobs/s",
            value=both.value,
            beside=both.beside,
            beside_what="none",
            ratio=both.ratio,
            spread=both.spread,
            target=TARGET,
        ),
        Figure(
            name="limit.most",
            title="… most that ran at once",
            unit="jobs",
            value=strict.most,
            beside=unlimited.most,
            beside_what="none",
            target=Target("value", at_most=LIMIT),
        ),
    ]


def _rate(bench: PostgresBench, limit: int | None, gauge: Gauge) -> float:
    """Return the jobs a second of all claimers together."""
    count = bench.sizes.limited
    with bench.new_store() as url:
        bench.fill(count)
        with BenchApp(with_connections(url)) as app, ThreadPoolExecutor(CLAIMERS) as threads:
            if limit is not None:
                app.app.queues.limit(QUEUE, max_running=limit)
            claimer = Claimer(app.app.store, gauge, bench.clock, count)
            names = [f"claimer-{number}" for number in range(CLAIMERS)]
            with gauge.watching(app.app.store):
                seconds = bench.seconds(lambda: list(threads.map(claimer.work, names)))
    return count / seconds


def with_connections(url: str) -> str:
    """Return *url* with a connection for each claimer and the watcher: none is to wait."""
    parts = urlsplit(url)
    others = [part for part in parts.query.split("&") if part and not part.startswith(POOL)]
    return urlunsplit(parts._replace(query="&".join([*others, f"{POOL}{CONNECTIONS}"])))


class Claimer:
    """Claims and settles in a thread for each name, until all jobs are settled."""

    def __init__(self, store: Store, gauge: Gauge, clock: Clock, count: int) -> None:
        self._store = store
        self._gauge = gauge
        self._clock = clock
        self._left = count
        self._mutex = threading.Lock()

    def work(self, name: str) -> None:
        empty = 0
        while self._left > 0:
            jobs = self._store.run(
                self._store.queue.claim(ClaimRequest(worker=name, limit=CLAIM, queues={QUEUE: 1}))
            ).jobs
            if jobs:
                empty = 0
                self._settle(jobs)
            else:
                empty += 1
                if empty > EMPTY_CLAIMS_MAX:
                    raise RuntimeError(
                        f"{name} was given nothing, and {self._left:,} jobs are left"
                    )
                self._clock.sleep(PAUSE)

    def _settle(self, jobs: list[ClaimedJob]) -> None:
        self._gauge.add(len(jobs))
        settlements = [
            Settlement(job.id, job.lease.token, decide(job, NULL, self._clock.rng)) for job in jobs
        ]
        self._gauge.add(-len(jobs))
        self._store.run(self._store.queue.settle(settlements))
        with self._mutex:
            self._left -= len(jobs)
