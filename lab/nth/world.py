"""What a scenario plays in: an app on a store that fails once, its callers, and its workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, cast

from fencepost import App, Context, Job, Retry, State, StateConflictError
from fencepost.core.bounds import PAGE_MAX
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.handles.job import AsyncJobHandle
from fencepost.store.interface.store import Store
from lab.nth.faults import FaultyStore, insist
from lab.nth.graphs import started_too_early

LEASE_TTL = 2.0
ROUNDS_MAX = 60
"""How often workers are started until every job has ended."""


@dataclass(slots=True, frozen=True)
class Run:
    """A handler was called."""

    job_id: str
    token: str
    attempt: int


@dataclass(slots=True, frozen=True)
class Expected:
    """How a job ends, whichever call failed."""

    state: State
    runs: int
    """How often its handler is called if nothing fails."""
    more_runs: int
    """How many calls one fault may add."""


class World:
    """One run of a scenario."""

    def __init__(self, store: FaultyStore) -> None:
        self.store = store
        self.clock = store.clock
        # More attempts than any scenario needs: one is lost with each claim whose answer is.
        self.app = App(
            store.inner.url,
            store=cast("Store", store),
            retry=Retry(max_attempts=6, initial_delay=0.5),
        )
        self.runs: list[Run] = []
        self.expected: dict[str, Expected] = {}
        self.complaints: list[str] = []

    # What callers do.

    async def insist(self, act: Callable[[], Any]) -> Any:
        """Ask until there is an answer."""
        return await insist(act, self.clock)

    async def submit(self, task: Any, *args: Any, key: str, **options: Any) -> AsyncJobHandle[Any]:
        """Submit one job under a key, until the reply says that it is stored."""
        handle = task.using(key=key, **options).aio
        job: AsyncJobHandle[Any] = await self.insist(lambda: handle.submit(*args))
        return job

    async def cancel(self, job_id: str) -> None:
        """Cancel a job; one that a lost answer had cancelled is in conflict with the repeat."""
        try:
            await self.insist(lambda: self.app.aio.jobs.cancel(job_id))
        except StateConflictError as error:
            self.require(error.state == State.CANCELLED, f"cancelling met a {error.state} job")

    # What workers do.

    def ran(self, ctx: Context) -> int:
        """Note that a handler was called; return for which time its job was."""
        self.runs.append(Run(ctx.job_id, ctx.lease.token, ctx.attempt))
        self.complaints += started_too_early(self.store.inner, ctx.job_id)
        return sum(run.job_id == ctx.job_id for run in self.runs)

    async def work(self, **options: Any) -> None:
        """Run a worker until nothing is claimable."""
        worker = self.app.worker(**{"lease_ttl": LEASE_TTL, "concurrency": 4, **options})
        await worker.aio.run(until_idle=True)

    async def finish(self, *workers: dict[str, Any]) -> None:
        """Start workers again and again until every job has ended."""
        for _ in range(ROUNDS_MAX):
            await asyncio.gather(*(self.work(**options) for options in workers or ({},)))
            if not any(not job.state.is_terminal for job in self.jobs()):
                return
            await self.clock.sleep_async(1.0)
        self.require(False, "jobs are still live after many rounds")

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for something that is sure to come."""
        for _ in range(200):
            if holds():
                return
            await self.clock.sleep_async(0.1)
        self.require(False, f"it never came: {what}")

    def start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(coroutine)

    # What is to come of it.

    def expect(self, job_id: str, state: State, *, runs: int = 1, more_runs: int = 0) -> None:
        """Say how a job has to end."""
        self.expected[job_id] = Expected(state, runs, more_runs)

    def require(self, is_so: bool, complaint: str) -> None:
        """Note a complaint unless all is well."""
        if not is_so:
            self.complaints.append(complaint)

    def jobs(self) -> list[Job]:
        """Return every job there is; not a call that can fail."""
        jobs: list[Job] = []
        after: int | None = None
        while True:
            page = self.store.inner.run(
                self.store.inner.reader.find(JobFilter(), PageRequest(PAGE_MAX, after))
            )
            jobs += page.jobs
            after = page.next
            if after is None:
                return jobs

    def job(self, job_id: str) -> Job:
        (job,) = self.store.inner.run(self.store.inner.reader.get([job_id]))
        assert job is not None
        return job

    def leases_lost(self, job_id: str) -> int:
        """Return how many attempts of a job ended because their lease ran out."""
        attempts = self.store.inner.run(self.store.inner.reader.attempts(job_id)) or []
        return sum(a.failure is not None and a.failure.code == "lease_expired" for a in attempts)
