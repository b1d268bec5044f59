"""A session whose submissions are spans. An app without traces never loads it."""

from __future__ import annotations

from typing import Any

from fencepost.actions.backend import StoredJob
from fencepost.actions.script import Script
from fencepost.actions.session import Session
from fencepost.core.job.job import NewJob
from fencepost.observe.tracing import Tracing


class TracedSession(Session):
    """Makes a span of every submission, and sends its context with the jobs."""

    def __init__(self, url: str, *, tracing: Tracing, **settings: Any) -> None:
        super().__init__(url, **settings)
        self.tracing = self._traces = tracing

    def submit(self, job: NewJob, conn: Any = None) -> StoredJob:
        with self._traces.submitting([job]) as sending:
            return sending.note_one(super().submit(sending.jobs[0], conn))

    async def submit_async(self, job: NewJob, conn: Any = None) -> StoredJob:
        with self._traces.submitting([job]) as sending:
            return sending.note_one(await super().submit_async(sending.jobs[0], conn))

    def submit_all(self, jobs: list[NewJob], conn: Any = None) -> Script[list[StoredJob]]:
        if not jobs:
            return (yield from super().submit_all(jobs, conn))
        with self._traces.submitting(jobs) as sending:
            return (yield from super().submit_all(sending.jobs, conn))

    def carrying(self, jobs: list[NewJob]) -> list[NewJob]:
        return self._traces.carrying(jobs)
