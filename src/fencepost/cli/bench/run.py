"""One run of ``fencepost bench`` on a store that may be in use: measures, and removes its jobs.

Its jobs have a type and a queue of their own, which no user's task can have. A term in the store
keeps two runs apart. What a run that was killed has left is removed by the next one.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fencepost.app import App
from fencepost.cli.bench.tasks import QUEUE, TYPE, bench_task
from fencepost.cli.output import Bar, progress_bar
from fencepost.core.bounds import CONCURRENCY_DEFAULT, PAGE_MAX, PRUNE_BATCH
from fencepost.core.display import shown_url
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Job
from fencepost.core.job.lifecycle import LIVE, TERMINAL, State
from fencepost.errors import FencepostError, StateConflictError
from fencepost.store.environment import URL_VARIABLE
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.worker.process.lifeline import Lifeline

SINGLES_MAX = 300
SAMPLES_MAX = 200
WARM_UP = 5
PROBES = 20
PAUSE_MIN, PAUSE_MAX = 0.005, 0.025
"""Seconds between two pickups, in which the worker becomes idle again."""
RESULT_TIMEOUT = 30.0
START_TIMEOUT = 60.0
DRAIN_MIN = 20
"""Jobs a second below which a drain is given up."""
STOP_TIMEOUT = 5.0
TERM_TTL = 60.0
TERM_INTERVAL = 10.0
PASSED_ON = (URL_VARIABLE, "FENCEPOST_KEYS", "FENCEPOST_PLAIN")
"""Our variables that the worker process is given; others would change what is measured."""
OURS = JobFilter(type=TYPE, queue=QUEUE)


class BenchError(FencepostError):
    """A measurement failed."""

    code = "bench_failed"


class Measured(NamedTuple):
    """What a run has found; times in seconds."""

    jobs: int
    submits: list[float]
    """The time of each submission, one by one."""
    bulk: float
    """Jobs a second of one bulk."""
    drain: float
    """Jobs a second, from the first start to the last completion."""
    pickups: list[float]
    """From each call of submit to the start of the handler."""


class BenchRun:
    """Measures a store; leaving its context removes its jobs, also after an interruption."""

    def __init__(
        self, app: App, folder: Path, *, jobs: int, check: Callable[[], None] = lambda: None
    ) -> None:
        self._app = app
        self._store = app.store
        self._clock = app.store.clock
        self._task = bench_task(app)
        self._jobs = jobs
        self._check = check
        """Called between two operations; raises KeyboardInterrupt to stop the run."""
        self._log = folder / "worker.log"
        self._holder = f"{socket.gethostname()}-{os.getpid()}-{self._clock.new_token()[:8]}"
        self._renew_at = 0.0
        self._start = 0

    def __enter__(self) -> BenchRun:
        self._refuse_unfit()
        self._keep_term()
        if self._store.run(self._store.reader.count(OURS)):
            self._remove()
        newest = self._store.run(self._store.reader.find(JobFilter(), PageRequest(1)))
        self._start = newest.next or 0
        return self

    def __exit__(self, *_: Any) -> None:
        self._remove(after=self._start)
        self._store.run(self._store.cluster.resign(TYPE, self._holder))

    def measure(self) -> Measured:
        """Measure everything, one after the other."""
        count = min(self._jobs, SINGLES_MAX)
        with progress_bar("submit, one by one", count) as bar:
            submits = [self._submit(number, bar) for number in range(count)]
        with progress_bar("submit, in bulk", None):
            bulk = self._bulk()
        with progress_bar("drain", None):
            drain = self._drain(len(submits) + self._jobs)
        count = min(self._jobs, SAMPLES_MAX)
        with progress_bar("pickup by an idle worker", count) as bar, self._worker():
            for number in range(WARM_UP):
                self._task.submit(number).result(START_TIMEOUT)
            pickups = [self._pickup(number, bar) for number in range(count)]
        return Measured(self._jobs, submits, bulk, drain, pickups)

    def round_trip(self) -> float:
        """Return the seconds that the store takes to answer the smallest question."""
        times = []
        for _ in range(PROBES):
            begun = self._clock.monotonic()
            self._store.run(self._store.settings.app_limit())
            times.append(self._clock.monotonic() - begun)
        return sorted(times)[PROBES // 2]

    # Measuring.

    def _submit(self, number: int, bar: Bar) -> float:
        begun = self._clock.monotonic()
        self._task.submit(number)
        seconds = self._clock.monotonic() - begun
        bar.advance(1)
        self._keep_term()
        return seconds

    def _bulk(self) -> float:
        arguments = [(number,) for number in range(self._jobs)]
        begun = self._clock.monotonic()
        self._task.submit_many(arguments)
        seconds = self._clock.monotonic() - begun
        self._keep_term()
        return self._jobs / seconds

    def _drain(self, count: int) -> float:
        with self._worker("--burst") as process:
            deadline = self._clock.monotonic() + START_TIMEOUT + count / DRAIN_MIN
            while process.poll() is None:
                if self._clock.monotonic() > deadline:
                    raise BenchError(f"the worker has not drained {count:,} jobs in time")
                self._clock.sleep(0.05)
                self._keep_term()
        started, completed = [], []
        for job in self._completed():
            assert job.started_at is not None and job.completed_at is not None
            started.append(job.started_at)
            completed.append(job.completed_at)
        if len(completed) < count:
            raise BenchError(
                f"of {count:,} jobs {len(completed):,} were completed: {self._last_words()}"
            )
        return count / max((max(completed) - min(started)).total_seconds(), 1e-6)

    def _completed(self) -> Iterator[Job]:
        completed = JobFilter(type=TYPE, queue=QUEUE, states=(State.COMPLETED,))
        position: int | None = None
        while True:
            page = self._store.run(
                self._store.reader.find(completed, PageRequest(PAGE_MAX, position))
            )
            yield from page.jobs
            if (position := page.next) is None:
                return

    def _pickup(self, number: int, bar: Bar) -> float:
        self._clock.sleep(self._clock.rng.uniform(PAUSE_MIN, PAUSE_MAX))
        called_at = self._clock.now_us()  # by the wall: the handler is in another process
        started_at = self._task.submit(number).result(RESULT_TIMEOUT)
        bar.advance(1)
        self._keep_term()
        return max(started_at - called_at, 0) / 1e6

    @contextmanager
    def _worker(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """Have a real worker process, with the usual number of slots, which ends with us."""
        lifeline = Lifeline()
        command = [
            *(sys.executable, "-m", "fencepost", "--log-level", "warning", "worker"),
            *("fencepost.cli.bench.tasks:app", "--queue", QUEUE, "--grace", "1s", *options),
            *("--concurrency", str(CONCURRENCY_DEFAULT)),
        ]
        kept = {k: v for k, v in os.environ.items() if k in PASSED_ON or "FENCEPOST_" not in k}
        # Not as an argument, which other users of the machine can read.
        environment = {**kept, URL_VARIABLE: self._app.url}
        with self._log.open("wb") as log:
            process = lifeline.spawn(command, stdout=log, stderr=log, env=environment)
        try:
            yield process
            if process.poll():
                raise BenchError(f"the worker process failed: {self._last_words()}")
        finally:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            lifeline.close()

    def _last_words(self) -> str:
        lines = self._log.read_text("utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "the worker process left no message"

    # Before and after.

    def _refuse_unfit(self) -> None:
        """Refuse a store on which jobs of ours could not run, or would take slots from others."""
        where = shown_url(self._app.url)
        limit = self._store.run(self._store.settings.app_limit())
        if limit is not None:
            raise StateConflictError(
                f"{where} runs at most {limit} jobs at once; a bench would take these slots from "
                "your jobs. Measure another store of the same kind, or lift the limit"
            )
        queues = self._store.run(self._store.overview.queues())
        types = self._store.run(self._store.overview.types())
        for what, views in (("queue", queues), ("type", types)):
            if any(view.is_paused for view in views if view.name == TYPE):
                raise StateConflictError(
                    f"the {what} {TYPE} is paused in {where}; run "
                    f"`fencepost {what}s resume {TYPE}` first"
                )

    def _keep_term(self) -> None:
        """Be the only bench on this store."""
        self._check()
        now = self._clock.monotonic()
        if now < self._renew_at:
            return
        if self._store.run(self._store.cluster.lead(TYPE, self._holder, TERM_TTL)) is None:
            raise StateConflictError(
                f"another bench measures {shown_url(self._app.url)}; if it was killed, try again "
                f"in {TERM_TTL:g} s"
            )
        self._renew_at = now + TERM_INTERVAL

    def _remove(self, *, after: int = 0) -> None:
        """Cancel our live jobs and delete all of ours; those submitted before *after* have none."""
        with progress_bar("removing the jobs of the bench", None) as bar:
            live = JobFilter(type=TYPE, queue=QUEUE, states=tuple(LIVE))
            while jobs := self._store.run(
                self._store.reader.find(live, PageRequest(PAGE_MAX))
            ).jobs:
                self._store.run(self._store.control.cancel([job.id for job in jobs]))
            self._prune(after, bar)
            if after and self._store.run(self._store.reader.count(OURS)):
                self._prune(0, bar)  # positions are given out in blocks, and may overlap

    def _prune(self, after: int, bar: Bar) -> None:
        position: int | None = after
        while position is not None:
            request = PruneRequest(
                keep={},
                keep_by_type={TYPE: dict.fromkeys(TERMINAL, 0.0)},
                after=position,
                limit=PRUNE_BATCH,
            )
            pruned = self._store.run(self._store.upkeep.prune(request))
            bar.advance(pruned.count)
            position = pruned.next
