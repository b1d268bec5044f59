"""The client: submit and steer the jobs of a server from another machine, or without its code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from fencepost.actions.options import SubmitOptions
from fencepost.client.flows import Nodes, check_nodes
from fencepost.client.handles import (
    AsyncRemoteEventHandle,
    AsyncRemoteTaskHandle,
    RemoteEventHandle,
    RemoteTaskHandle,
)
from fencepost.client.options import Payload, merge, submission
from fencepost.client.session import RemoteSession, check_token, check_url
from fencepost.client.submissions import check_batch
from fencepost.client.transport import HttpTransport
from fencepost.clock import Clock, SystemClock
from fencepost.core.bounds import CLIENT_RETRIES_DEFAULT, CLIENT_TIMEOUT_DEFAULT
from fencepost.core.values.duration import Duration, parse_duration
from fencepost.handles.flows import AsyncFlow, Flow
from fencepost.handles.job import (
    AsyncJobHandle,
    JobHandle,
    async_handle,
    handle,
    naming_existing,
    naming_existing_async,
)
from fencepost.handles.root import AsyncRoot, Root
from fencepost.wire.crons import CronView
from fencepost.wire.jobs import JobSummary, Submission


class Client(Root[JobSummary, CronView]):
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
        self._transport = HttpTransport(self.url, check_token(token), timeout=seconds)
        self._session = RemoteSession(
            self._transport, timeout=seconds, retries=retries, clock=clock or SystemClock()
        )
        super().__init__(self._session)

    @property
    def aio(self) -> AsyncClient:
        """The same names, awaited."""
        return AsyncClient(self)

    def task(self, type: str, **options: Unpack[SubmitOptions]) -> RemoteTaskHandle:
        """Return a handle on the task of this name, which the server's workers know."""
        return RemoteTaskHandle(self._session, type, merge({}, options))

    def event(self, name: str) -> RemoteEventHandle:
        """Return a handle on the event of this full name, to be sent."""
        return RemoteEventHandle(self._session, name)

    def submit(
        self, type: str, payload: Payload = None, **options: Unpack[SubmitOptions]
    ) -> JobHandle[Any]:
        """Store a job and return its handle; when this returns, the job cannot be lost.

        A mapping is the handler's keyword arguments; bytes are sent as they are.
        """
        job = submission(type, payload, merge({}, options))
        with naming_existing(self._session):
            return handle(self._session, self._session.submit(job))

    def submit_many(self, jobs: Iterable[Submission]) -> list[JobHandle[Any]]:
        """Store prepared jobs of any tasks, all or none, in one transaction."""
        checked = check_batch(jobs)
        with naming_existing(self._session):
            stored = self._session.run(self._session.submit_all(checked))
        return [handle(self._session, job) for job in stored]

    def flow(self, nodes: Nodes) -> Flow:
        """Return prepared jobs by name, ready to be submitted together.

        ``using(after=…)`` of one names others, or stored jobs.
        """
        return Flow(self._session, check_nodes(nodes))

    def close(self) -> None:
        """Let go of the server."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> AsyncClient:
        return self.aio

    async def __aexit__(self, *_: object) -> None:
        await self._transport.close_async()

    def __repr__(self) -> str:
        return f"<Client {self.url}>"


class AsyncClient(AsyncRoot[JobSummary, CronView]):
    """The awaited face of Client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._session = client._session
        super().__init__(self._session)

    def task(self, type: str, **options: Unpack[SubmitOptions]) -> AsyncRemoteTaskHandle:
        """Return a handle on the task of this name, which the server's workers know."""
        return AsyncRemoteTaskHandle(self._session, type, merge({}, options))

    def event(self, name: str) -> AsyncRemoteEventHandle:
        """Return a handle on the event of this full name, to be sent."""
        return AsyncRemoteEventHandle(self._session, name)

    async def submit(
        self, type: str, payload: Payload = None, **options: Unpack[SubmitOptions]
    ) -> AsyncJobHandle[Any]:
        """Store a job and return its handle; when this returns, the job cannot be lost.

        A mapping is the handler's keyword arguments; bytes are sent as they are.
        """
        job = submission(type, payload, merge({}, options))
        async with naming_existing_async(self._session):
            return async_handle(self._session, await self._session.submit_async(job))

    async def submit_many(self, jobs: Iterable[Submission]) -> list[AsyncJobHandle[Any]]:
        """Store prepared jobs of any tasks, all or none, in one transaction."""
        checked = check_batch(jobs)
        async with naming_existing_async(self._session):
            stored = await self._session.run_async(self._session.submit_all(checked))
        return [async_handle(self._session, job) for job in stored]

    def flow(self, nodes: Nodes) -> AsyncFlow:
        """Return prepared jobs by name, ready to be submitted together.

        ``using(after=…)`` of one names others, or stored jobs.
        """
        return AsyncFlow(self._session, check_nodes(nodes))

    async def close(self) -> None:
        """Let go of the server."""
        await self._client.__aexit__()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncClient {self._client.url}>"
