"""Who can tell afterwards whether anything was lost: a ledger of runs, and producers who remember.

A handler notes each run, with the lease it runs under, in a file outside of the store. A producer
notes each submission that it was told of as safe, and repeats with its key each that it was not.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Self

from tests.worker.support import LONG, eventually_sync

from fencepost import App, Context, Retry, TaskHandle, Timeouts
from fencepost.core.job.job import AttemptOutcome
from fencepost.errors import StoreError

LEASE_TTL = 2.0


def make_app(url: str) -> App:
    """Return an app that gives a job up soon and never for good."""
    return App(
        url,
        retry=Retry(max_attempts=50, initial_delay=0.05, max_delay=0.5),
        timeouts=Timeouts(lease_ttl=LEASE_TTL),
    )


class Ledger:
    """Which job was run under which leases, in the order of the runs."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def task(self, app: App, seconds: float = 0.0) -> TaskHandle[[int], str]:
        """Add a task to *app* whose handler notes each run, and returns the lease it had."""

        @app.task
        async def work(ctx: Context, number: int) -> str:
            self._note([ctx.job_id, ctx.lease.token])
            await asyncio.sleep(seconds)
            return ctx.lease.token

        return work

    def _note(self, entry: list[str]) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(file, (json.dumps(entry) + "\n").encode())
        os.close(file)

    def runs(self) -> dict[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                job_id, token = json.loads(line)
                found[job_id].append(token)
        return found


class Producer:
    """Submits one job after another, in a thread, as long as the block lasts."""

    def __init__(self, app: App, task: TaskHandle[[int], Any], *, is_async: bool = False) -> None:
        self._app = app
        self._task = task
        self._is_async = is_async
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.acknowledged: list[str] = []
        """The id of each job, in the order of the keys."""
        self.errors: list[StoreError] = []
        self.defects: list[BaseException] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopping.set()
        self._thread.join(LONG)
        assert not self._thread.is_alive()
        assert self.defects == []

    def wait_for_more(self, count: int = 5) -> None:
        """Wait until so many more jobs have been accepted."""
        goal = len(self.acknowledged) + count
        eventually_sync(
            lambda: len(self.acknowledged) >= goal or self.defects,
            f"job {goal}; the last errors are {self.errors[-3:]}",
        )

    def _run(self) -> None:
        try:
            if self._is_async:
                asyncio.run(self._submit_async())
            else:
                while not self._is_stopping.is_set():
                    self._submit()
        except BaseException as error:  # noqa: BLE001 - the test's own thread is told
            self.defects.append(error)

    def _submit(self) -> None:
        try:
            job = self._next().submit(len(self.acknowledged))
        except StoreError as error:
            self.errors.append(error)
            time.sleep(0.02)
        else:
            self.acknowledged.append(job.id)
            time.sleep(0.01)

    async def _submit_async(self) -> None:
        while not self._is_stopping.is_set():
            try:
                job = await self._next().aio.submit(len(self.acknowledged))
            except StoreError as error:
                self.errors.append(error)
                await asyncio.sleep(0.02)
            else:
                self.acknowledged.append(job.id)
                await asyncio.sleep(0.01)

    def _next(self) -> TaskHandle[[int], Any]:
        colour = "async" if self._is_async else "sync"
        return self._task.using(key=f"{colour} {len(self.acknowledged)}")


def check_nothing_lost(app: App, ledger: Ledger, job_ids: list[str]) -> None:
    """Wait for the end of each job, which must be settled once, by whoever had the last lease."""
    assert len(set(job_ids)) == len(job_ids)
    results = {job_id: app.jobs.get(job_id).result(LONG) for job_id in job_ids}
    assert app.jobs.count() == len(job_ids), "a repeated submission became a second job"
    runs = ledger.runs()
    for job_id, result in results.items():
        assert len(set(runs[job_id])) == len(runs[job_id]), "one lease, two runs"
        assert result == runs[job_id][-1]
        if len(runs[job_id]) > 1:
            outcomes = [attempt.outcome for attempt in app.jobs.attempts(job_id)]
            assert outcomes.count(AttemptOutcome.SUCCEEDED) == 1
