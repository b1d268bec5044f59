"""One run of ``fencepost bench`` on a store that may be in use: it measures, and removes its jobs.

Its jobs have a reserved type and queue, which no task of a user can have. A term in the store
prevents two runs at once. The next run removes what a killed one has left.
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

from fencepost.actions.options import Options
from fencepost.app import App, TaskHandle
from fencepost.cli.commands.worker import end
from fencepost.cli.output import Bar, progress_bar
from fencepost.clock import Clock, SystemClock
from fencepost.core.bounds import CONCURRENCY_DEFAULT, DURATION_MAX, PAGE_MAX, PRUNE_BATCH
from fencepost.core.display import shown_url
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Job
from fencepost.core.job.lifecycle import TERMINAL, State
from fencepost.core.job.task import Isolation, Task
from fencepost.core.job.timeouts import Retention
from fencepost.core.values.names import RESERVED_TYPES
from fencepost.core.values.signature import Signature
from fencepost.errors import FencepostError, StateConflictError
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.store.url import URL_VARIABLE
from fencepost.worker import Context
from fencepost.worker.supervisor import Lifeline

QUEUE = TYPE = f"{RESERVED_TYPES}bench"
OURS = JobFilter(type=TYPE, queue=QUEUE)
SINGLES_MAX = 300
SAMPLES_MAX = 200
WARM_UP = 5
PAUSE_MIN, PAUSE_MAX = 0.005, 0.025
"""Seconds between two pickups, so that the worker becomes idle again."""
RESULT_TIMEOUT = 30.0
START_TIMEOUT = 60.0
DRAIN_MIN = 20
"""Jobs per second below which a drain is given up."""
STOP_TIMEOUT = 5.0
TERM_TTL = 60.0
TERM_INTERVAL = 10.0
PASSED_ON = (URL_VARIABLE, "FENCEPOST_KEYS", "FENCEPOST_PLAIN")
"""Variables of ours that the worker process inherits; others would change the figures."""


class Measured(NamedTuple):
    """The raw figures; times in seconds."""

    jobs: int
    submits: list[float]
    """How long each single submission took."""
    bulk: float
    """Jobs per second, submitted in bulk."""
    drain: float
    """Jobs per second, from the first start to the last completion."""
    pickups: list[float]
    """From each call of submit to the start of the handler."""


class BenchError(FencepostError):
    """A measurement failed."""

    code = "bench_failed"


def bench_task(app: App) -> TaskHandle[[int], int]:
    """Add the measured task to *app*; it returns when it was started, in microseconds."""
    clock = SystemClock()

    async def bench(number: int) -> int:  # noqa: ARG001 - decoded and checked, as in real tasks
        return clock.now_us()

    task = Task(
        type=TYPE,
        function=bench,
        signature=Signature(bench, Context),
        isolation=Isolation.LOOP,
        queue=QUEUE,
    )
    app.session.tasks[TYPE] = task
    return TaskHandle(app.session, task, Options())


# A worker that is alone on a store does maintenance. It must prune nothing: the retention of the
# user's own app is not known here.
KEPT = ("completed", "cancelled", "failed", "dead_letter", "events", "audit")
FOREVER: Any = dict.fromkeys(KEPT, DURATION_MAX)
app = App(name="fencepost-bench", retention=Retention(**FOREVER))
"""What the worker process of a bench runs."""
bench_task(app)


class BenchRun:
    """Measures a store; on exit it removes its jobs, also after an interruption."""

    def __init__(
        self, app: App, folder: Path, *, jobs: int, check: Callable[[], None] = lambda: None
    ) -> None:
        self._app = app
        self._store = app.store
        self._clock = app.store.clock
        self._task = bench_task(app)
        self._jobs = jobs
        self._check = check
        """Called between operations; raises KeyboardInterrupt to stop the run."""
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
        """Measure submit, drain and pickup, one after the other."""
        singles, samples = min(self._jobs, SINGLES_MAX), min(self._jobs, SAMPLES_MAX)
        with progress_bar("submit, one by one", singles) as advance:
            submits = [self._submit(number, advance) for number in range(singles)]
        with progress_bar("submit, in bulk", None):
            arguments = [(number,) for number in range(self._jobs)]
            bulk = self._jobs / timed(self._clock, lambda: self._task.submit_many(arguments))
            self._keep_term()
        with progress_bar("drain", None):
            drain = self._drain(singles + self._jobs)
        with progress_bar("pickup by an idle worker", samples) as advance, self._worker():
            for number in range(WARM_UP):
                self._task.submit(number).result(START_TIMEOUT)
            pickups = [self._pickup(number, advance) for number in range(samples)]
        return Measured(self._jobs, submits, bulk, drain, pickups)

    def _submit(self, number: int, advance: Bar) -> float:
        seconds = timed(self._clock, lambda: self._task.submit(number))
        advance(1)
        self._keep_term()
        return seconds

    def _drain(self, count: int) -> float:
        with self._worker("--burst") as process:
            deadline = self._clock.monotonic() + START_TIMEOUT + count / DRAIN_MIN
            while process.poll() is None:
                if self._clock.monotonic() > deadline:
                    raise BenchError(f"the worker has not drained {count:,} jobs in time")
                self._clock.sleep(0.05)
                self._keep_term()
        jobs = list(self._completed())
        if len(jobs) < count:
            raise BenchError(
                f"of {count:,} jobs {len(jobs):,} were completed: {self._last_words()}"
            )
        started = min(job.started_at for job in jobs if job.started_at)
        completed = max(job.completed_at for job in jobs if job.completed_at)
        return count / max((completed - started).total_seconds(), 1e-6)

    def _completed(self) -> Iterator[Job]:
        after: str | None = None
        while True:
            page = self._app.jobs.find(
                type=TYPE, queue=QUEUE, state=State.COMPLETED, after=after, limit=PAGE_MAX
            )
            yield from page
            if (after := page.next) is None:
                return

    def _pickup(self, number: int, advance: Bar) -> float:
        self._clock.sleep(self._clock.rng.uniform(PAUSE_MIN, PAUSE_MAX))
        called_at = self._clock.now_us()  # wall clock: the handler is in another process
        started_at = self._task.submit(number).result(RESULT_TIMEOUT)
        advance(1)
        self._keep_term()
        return max(started_at - called_at, 0) / 1e6

    @contextmanager
    def _worker(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a real worker process with the default concurrency; it exits with this process."""
        lifeline = Lifeline()
        command = [
            *(sys.executable, "-m", "fencepost", "--log-level", "warning", "worker"),
            *(f"{__name__}:app", "--queue", QUEUE, "--grace", "1s", *options),
            *("--concurrency", str(CONCURRENCY_DEFAULT)),
        ]
        kept = {k: v for k, v in os.environ.items() if k in PASSED_ON or "FENCEPOST_" not in k}
        # In the environment: other users of the machine can read arguments.
        environment = {**kept, URL_VARIABLE: self._app.url}
        with self._log.open("wb") as log:
            process = lifeline.spawn(command, stdout=log, stderr=log, env=environment)
        try:
            yield process
            if process.poll():
                raise BenchError(f"the worker process failed: {self._last_words()}")
        finally:
            end(process, STOP_TIMEOUT)
            lifeline.close()

    def _last_words(self) -> str:
        lines = self._log.read_text("utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "the worker process logged nothing"

    def _refuse_unfit(self) -> None:
        """Refuse a store where the bench could not run, or would take slots from other jobs."""
        where = shown_url(self._app.url)
        limit = self._store.run(self._store.settings.app_limit())
        if limit is not None:
            raise StateConflictError(
                f"{where} runs at most {limit} jobs at once; a bench would take these slots from "
                "your jobs. Measure another store of the same kind, or lift the limit"
            )
        for what, views in (("queue", self._app.queues.list()), ("type", self._app.types.list())):
            if any(view.is_paused for view in views if view.name == TYPE):
                raise StateConflictError(
                    f"the {what} {TYPE} is paused in {where}; run "
                    f"`fencepost {what}s resume {TYPE}` first"
                )

    def _keep_term(self) -> None:
        """Renew the term that makes this the only bench on the store."""
        self._check()
        now = self._clock.monotonic()
        if now < self._renew_at:
            return
        if self._store.run(self._store.cluster.lead(TYPE, self._holder, TERM_TTL)) is None:
            raise StateConflictError(
                f"another bench is measuring {shown_url(self._app.url)}; if it was killed, try "
                f"again in {TERM_TTL:g} s"
            )
        self._renew_at = now + TERM_INTERVAL

    def _remove(self, *, after: int = 0) -> None:
        """Cancel and delete the jobs of the bench; there are none at or before position *after*."""
        with progress_bar("removing the jobs of the bench", None) as advance:
            self._app.jobs.cancel(type=TYPE, queue=QUEUE)
            self._prune(after, advance)
            if after and self._store.run(self._store.reader.count(OURS)):
                self._prune(0, advance)  # positions are allocated in blocks, which may overlap

    def _prune(self, after: int, advance: Bar) -> None:
        ours = {TYPE: dict.fromkeys(TERMINAL, 0.0)}
        position: int | None = after
        while position is not None:
            request = PruneRequest(keep={}, keep_by_type=ours, after=position, limit=PRUNE_BATCH)
            pruned = self._store.run(self._store.upkeep.prune(request))
            advance(pruned.count)
            position = pruned.next


def timed(clock: Clock, act: Callable[[], object]) -> float:
    """Return how many seconds *act* takes."""
    begun = clock.monotonic()
    act()
    return clock.monotonic() - begun
