"""The client: submit and control the jobs of a server, from another machine or without its code.

Its handles on tasks and events take arguments by name, since it does not know the functions;
everything else they share with those of an app.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from fencepost.actions.options import SubmitOptions
from fencepost.client.jobs import Nodes, check_nodes
from fencepost.client.server import AsyncServerView, ServerView
from fencepost.client.session import RemoteSession, check_token, check_url
from fencepost.client.submissions import Fields, Payload, check_batch, merge, payload_of, submission
from fencepost.client.transport import HttpTransport
from fencepost.clock import Clock, SystemClock
from fencepost.core.events import check_event_name
from fencepost.core.values.times import Duration, parse_duration
from fencepost.errors import InvalidJobError
from fencepost.handles.events import AsyncEventSender, EventReference, EventSender
from fencepost.handles.flows import AsyncFlow, Flow
from fencepost.handles.job import AsyncJobHandle, JobHandle
from fencepost.handles.root import AsyncRoot, Root
from fencepost.handles.task import AsyncTaskControl, TaskControl, TaskReference
from fencepost.wire.bounds import CLIENT_RETRIES_DEFAULT, CLIENT_TIMEOUT_DEFAULT
from fencepost.wire.jobs import JobSummary, Submission
from fencepost.wire.overview import WireCronView

Arguments = Mapping[str, Any] | bytes
"""The payload of one job in a bulk: a mapping by name, or bytes."""


class Client(Root[JobSummary, WireCronView]):
    """A server's jobs, with the methods of ``App``; they run elsewhere.

    *timeout* is how long the server may be silent, *retries* how often a request is sent again
    when that is harmless. Safe to share between threads; ``aio`` has the same methods, awaited.
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
        self.server = ServerView(self._session)

    @property
    def aio(self) -> AsyncClient:
        """The same names, awaited."""
        return AsyncClient(self)

    def task(self, type: str, **options: Unpack[SubmitOptions]) -> RemoteTaskHandle:
        """Return a handle on the task of this name, which the server's workers run."""
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
        return self._submit(submission(type, payload, merge({}, options)))

    def submit_many(self, jobs: Iterable[Submission]) -> list[JobHandle[Any]]:
        """Store prepared jobs of any tasks, all or none, in one transaction."""
        return self._submit_all(check_batch(jobs))

    def flow(self, nodes: Nodes) -> Flow:
        """Return prepared jobs by name, ready to be submitted together.

        ``using(after=…)`` of a task names other nodes, or stored jobs.
        """
        return Flow(self._session, check_nodes(nodes))

    def close(self) -> None:
        """Close the connections to the server."""
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


class AsyncClient(AsyncRoot[JobSummary, WireCronView]):
    """The awaited face of Client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._session = client._session
        super().__init__(self._session)
        self.server = AsyncServerView(self._session)

    def task(self, type: str, **options: Unpack[SubmitOptions]) -> AsyncRemoteTaskHandle:
        """Return a handle on the task of this name, which the server's workers run."""
        return AsyncRemoteTaskHandle(self._session, type, merge({}, options))

    def event(self, name: str) -> AsyncRemoteEventHandle:
        """Return a handle on the event of this full name, to be sent."""
        return AsyncRemoteEventHandle(self._session, name)

    async def submit(
        self, type: str, payload: Payload = None, **options: Unpack[SubmitOptions]
    ) -> AsyncJobHandle[Any]:
        """Store a job and return its handle; when this returns, the job cannot be lost."""
        return await self._submit(submission(type, payload, merge({}, options)))

    async def submit_many(self, jobs: Iterable[Submission]) -> list[AsyncJobHandle[Any]]:
        """Store prepared jobs of any tasks, all or none, in one transaction."""
        return await self._submit_all(check_batch(jobs))

    def flow(self, nodes: Nodes) -> AsyncFlow:
        """Return prepared jobs by name, ready to be submitted together."""
        return AsyncFlow(self._session, check_nodes(nodes))

    async def close(self) -> None:
        """Close the connections to the server."""
        await self._client.__aexit__()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncClient {self._client.url}>"


class _RemoteTask(TaskReference):
    """What both faces of a task handle hold."""

    def __init__(self, session: RemoteSession, type: str, fields: Fields) -> None:
        super().__init__(session, type)
        self._session = session
        self._fields = fields

    def prepare(self, /, *data: bytes, **arguments: Any) -> Submission:
        """Return an encoded job, for ``submit_many`` and flows."""
        return self._submission(payload_of(data, arguments))

    def _submission(self, payload: Payload) -> Submission:
        return submission(self._type, payload, self._fields)

    def _submissions(self, arguments: Iterable[Arguments]) -> list[Submission]:
        given = list(arguments)
        if any(isinstance(each, Submission) for each in given):
            raise InvalidJobError(
                f"submit_many of a task takes the arguments of each job; give prepared jobs to "
                f"client.submit_many([client.task({self.type!r}).prepare(…), …])"
            )
        return check_batch(self._submission(each) for each in given)

    def _prepare_idempotent(
        self, key: str, data: tuple[bytes, ...], arguments: dict[str, Any]
    ) -> Submission:
        """Return a job whose key is held while it is live, and refuses a second one (C15)."""
        options = SubmitOptions(key=key, key_window="active", on_duplicate="reject")
        fields = merge(self._fields, options)
        return submission(self._type, payload_of(data, arguments), fields)


class RemoteTaskHandle(_RemoteTask, TaskControl):
    """A task of a server; ``aio`` has the same methods, awaited."""

    @property
    def aio(self) -> AsyncRemoteTaskHandle:
        return AsyncRemoteTaskHandle(self._session, self._type, self._fields)

    def using(self, **options: Unpack[SubmitOptions]) -> RemoteTaskHandle:
        """Return this task with other options for its submissions."""
        return RemoteTaskHandle(self._session, self._type, merge(self._fields, options))

    def submit(self, /, *data: bytes, **arguments: Any) -> JobHandle[Any]:
        """Store a job and return its handle; when this returns, the job cannot be lost."""
        return self._submit(self.prepare(*data, **arguments))

    def wait(self, /, *data: bytes, timeout: Duration | None = None, **arguments: Any) -> Any:
        """Submit a job and return its result."""
        return self.submit(*data, **arguments).result(timeout)

    def submit_idempotent(self, key: str, /, *data: bytes, **arguments: Any) -> JobHandle[Any]:
        """Store a job unless one with this key is live; then raise DuplicateJobError."""
        return self._submit(self._prepare_idempotent(key, data, arguments))

    def wait_idempotent(
        self, key: str, /, *data: bytes, timeout: Duration | None = None, **arguments: Any
    ) -> Any:
        """Submit unless a job with this key is live, and return the result."""
        return self.submit_idempotent(key, *data, **arguments).result(timeout)

    def submit_many(self, arguments: Iterable[Arguments]) -> list[JobHandle[Any]]:
        """Store many jobs, all or none, in one transaction."""
        return self._submit_all(self._submissions(arguments))


class AsyncRemoteTaskHandle(_RemoteTask, AsyncTaskControl):
    """The awaited face of RemoteTaskHandle."""

    def using(self, **options: Unpack[SubmitOptions]) -> AsyncRemoteTaskHandle:
        """Return this task with other options for its submissions."""
        return AsyncRemoteTaskHandle(self._session, self._type, merge(self._fields, options))

    async def submit(self, /, *data: bytes, **arguments: Any) -> AsyncJobHandle[Any]:
        """Store a job and return its handle; when this returns, the job cannot be lost."""
        return await self._submit(self.prepare(*data, **arguments))

    async def wait(self, /, *data: bytes, timeout: Duration | None = None, **arguments: Any) -> Any:
        """Submit a job and return its result."""
        return await (await self.submit(*data, **arguments)).result(timeout)

    async def submit_idempotent(
        self, key: str, /, *data: bytes, **arguments: Any
    ) -> AsyncJobHandle[Any]:
        """Store a job unless one with this key is live; then raise DuplicateJobError."""
        return await self._submit(self._prepare_idempotent(key, data, arguments))

    async def wait_idempotent(
        self, key: str, /, *data: bytes, timeout: Duration | None = None, **arguments: Any
    ) -> Any:
        """Submit unless a job with this key is live, and return the result."""
        return await (await self.submit_idempotent(key, *data, **arguments)).result(timeout)

    async def submit_many(self, arguments: Iterable[Arguments]) -> list[AsyncJobHandle[Any]]:
        """Store many jobs, all or none, in one transaction."""
        return await self._submit_all(self._submissions(arguments))


class _RemoteEvent(EventReference):
    """What both faces of an event handle hold."""

    def __init__(self, session: RemoteSession, name: str) -> None:
        super().__init__(session, check_event_name(name))
        self._session = session

    @property
    def name(self) -> str:
        """The name of the event."""
        return self._name


class RemoteEventHandle(_RemoteEvent, EventSender):
    """An event of a server; ``aio`` has the same methods, awaited."""

    @property
    def aio(self) -> AsyncRemoteEventHandle:
        return AsyncRemoteEventHandle(self._session, self._name)


class AsyncRemoteEventHandle(_RemoteEvent, AsyncEventSender):
    """The awaited face of RemoteEventHandle."""
