"""The client: submit and steer the jobs of a server from another machine, or without its code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from fencepost.client import submitting as scripts
from fencepost.client.crons import AsyncCrons, Crons
from fencepost.client.dead_letters import AsyncDeadLetterList, DeadLetterList
from fencepost.client.events import AsyncEventHandle, AsyncEvents, EventHandle, Events
from fencepost.client.flows import AsyncFlow, AsyncFlows, Flow, Flows, Nodes
from fencepost.client.job import (
    AsyncJobHandle,
    JobHandle,
    async_handle,
    handle,
    naming_existing,
    naming_existing_async,
)
from fencepost.client.jobs import AsyncJobs, Jobs
from fencepost.client.lanes import (
    AsyncQueues,
    AsyncTypes,
    AsyncWorkers,
    Queues,
    Types,
    Workers,
    limit_all,
    stats,
)
from fencepost.client.line import HttpLine
from fencepost.client.options import Payload, SubmitOptions, merge, submission
from fencepost.client.session import Session, check_token, check_url
from fencepost.client.task import AsyncTaskHandle, TaskHandle
from fencepost.clock import Clock, SystemClock
from fencepost.core.bounds import (
    CLIENT_RETRIES_DEFAULT,
    CLIENT_TIMEOUT_DEFAULT,
    STATS_WINDOW_DEFAULT,
)
from fencepost.core.stats.recent import Statistics
from fencepost.core.values.duration import Duration, parse_duration
from fencepost.wire.jobs import Submission


class Client:
    """A server's jobs, with the names of ``App``; what runs them is elsewhere.

    *timeout* is how long the server may say nothing, *retries* how often a request is sent again
    when that is harmless. Safe to share between threads; ``aio`` has the same names, awaited.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: Duration = CLIENT_TIMEOUT_DEFAULT,
        retries: int = CLIENT_RETRIES_DEFAULT,
        clock: Clock | None = None,
    ) -> None:
        self.url = check_url(url)
        seconds = parse_duration(timeout, name="timeout", minimum=0.001)
        self._line = HttpLine(self.url, check_token(token), timeout=seconds)
        self._session = Session(
            self._line, timeout=seconds, retries=retries, clock=clock or SystemClock()
        )
        self.jobs = Jobs(self._session)
        self.flows = Flows(self._session)
        self.dead_letters = DeadLetterList(self._session)
        self.events = Events(self._session)
        self.queues = Queues(self._session)
        self.types = Types(self._session)
        self.workers = Workers(self._session)
        self.crons = Crons(self._session)

    @property
    def aio(self) -> AsyncClient:
        """The same names, awaited."""
        return AsyncClient(self)

    def task(self, type: str, **options: Unpack[SubmitOptions]) -> TaskHandle:
        """Return a handle on the task of this name, which the server's workers know."""
        return TaskHandle(self._session, type, merge({}, options))

    def event(self, name: str) -> EventHandle:
        """Return a handle on the event of this full name, to be sent."""
        return EventHandle(self._session, name)

    def submit(
        self, type: str, payload: Payload = None, **options: Unpack[SubmitOptions]
    ) -> JobHandle:
        """Store a job and return its handle; when this returns, the job cannot be lost.

        A mapping is the handler's keyword arguments; bytes are sent as they are.
        """
        job = submission(type, payload, merge({}, options))
        with naming_existing(self._session):
            return handle(self._session, self._session.run(scripts.submit(self._session, job)))

    def submit_many(self, jobs: Iterable[Submission]) -> list[JobHandle]:
        """Store prepared jobs of any tasks, all or none, in one transaction."""
        checked = scripts.check_batch(jobs)
        with naming_existing(self._session):
            stored = self._session.run(scripts.submit_many(self._session, checked))
        return [handle(self._session, job) for job in stored]

    def flow(self, nodes: Nodes) -> Flow:
        """Return prepared jobs by name, ready to be submitted together.

        ``using(after=…)`` of one names others, or stored jobs.
        """
        return Flow(self._session, nodes)

    def limit(self, *, max_running: int | None) -> None:
        """Run at most so many jobs at once in all, over all workers; None lifts the limit."""
        self._session.run(limit_all(self._session, max_running))

    def stats(self, *, window: Duration = STATS_WINDOW_DEFAULT) -> Statistics:
        """Return counts, and rates and times of wait and run of the last *window*."""
        return self._session.run(stats(self._session, window))

    def close(self) -> None:
        """Let go of the server."""
        self._line.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> AsyncClient:
        return self.aio

    async def __aexit__(self, *_: object) -> None:
        await self._line.close_async()

    def __repr__(self) -> str:
        return f"<Client {self.url}>"


class AsyncClient:
    """The awaited face of Client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._session = client._session
        self.jobs = AsyncJobs(self._session)
        self.flows = AsyncFlows(self._session)
        self.dead_letters = AsyncDeadLetterList(self._session)
        self.events = AsyncEvents(self._session)
        self.queues = AsyncQueues(self._session)
        self.types = AsyncTypes(self._session)
        self.workers = AsyncWorkers(self._session)
        self.crons = AsyncCrons(self._session)

    def task(self, type: str, **options: Unpack[SubmitOptions]) -> AsyncTaskHandle:
        """Return a handle on the task of this name, which the server's workers know."""
        return AsyncTaskHandle(self._session, type, merge({}, options))

    def event(self, name: str) -> AsyncEventHandle:
        """Return a handle on the event of this full name, to be sent."""
        return AsyncEventHandle(self._session, name)

    async def submit(
        self, type: str, payload: Payload = None, **options: Unpack[SubmitOptions]
    ) -> AsyncJobHandle:
        """Store a job and return its handle; when this returns, the job cannot be lost.

        A mapping is the handler's keyword arguments; bytes are sent as they are.
        """
        job = submission(type, payload, merge({}, options))
        async with naming_existing_async(self._session):
            stored = await self._session.run_async(scripts.submit(self._session, job))
        return async_handle(self._session, stored)

    async def submit_many(self, jobs: Iterable[Submission]) -> list[AsyncJobHandle]:
        """Store prepared jobs of any tasks, all or none, in one transaction."""
        checked = scripts.check_batch(jobs)
        async with naming_existing_async(self._session):
            stored = await self._session.run_async(scripts.submit_many(self._session, checked))
        return [async_handle(self._session, job) for job in stored]

    def flow(self, nodes: Nodes) -> AsyncFlow:
        """Return prepared jobs by name, ready to be submitted together.

        ``using(after=…)`` of one names others, or stored jobs.
        """
        return AsyncFlow(self._session, nodes)

    async def limit(self, *, max_running: int | None) -> None:
        """Run at most so many jobs at once in all, over all workers; None lifts the limit."""
        await self._session.run_async(limit_all(self._session, max_running))

    async def stats(self, *, window: Duration = STATS_WINDOW_DEFAULT) -> Statistics:
        """Return counts, and rates and times of wait and run of the last *window*."""
        return await self._session.run_async(stats(self._session, window))

    async def close(self) -> None:
        """Let go of the server."""
        await self._client.__aexit__()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncClient {self._client.url}>"
