"""Handles on tasks and events of a server, whose functions are not known here.

Arguments are given by name; what else a handle can do, it shares with that of an app.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from fencepost.actions.options import SubmitOptions
from fencepost.client.options import Fields, Payload, merge, payload_of, submission
from fencepost.client.session import RemoteSession
from fencepost.client.submissions import check_batch
from fencepost.core.events import check_event_name
from fencepost.core.values.duration import Duration
from fencepost.handles.events import AsyncEventSender, EventReference, EventSender
from fencepost.handles.job import AsyncJobHandle, JobHandle
from fencepost.handles.task import AsyncTaskSubmitter, TaskReference, TaskSubmitter
from fencepost.wire.jobs import Submission

Arguments = Mapping[str, Any] | bytes
"""The payload of one job in a bulk: a mapping by name, or bytes."""


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
        return check_batch(self._submission(each) for each in arguments)

    def _prepare_idempotent(
        self, key: str, data: tuple[bytes, ...], arguments: dict[str, Any]
    ) -> Submission:
        """Return a job whose key is held while it is live and refuses a second one (C15)."""
        options = SubmitOptions(key=key, key_window="active", on_duplicate="reject")
        fields = merge(self._fields, options)
        return submission(self._type, payload_of(data, arguments), fields)


class RemoteTaskHandle(_RemoteTask, TaskSubmitter):
    """A task of a server; ``aio`` has the same methods, awaited."""

    @property
    def aio(self) -> AsyncRemoteTaskHandle:
        return AsyncRemoteTaskHandle(self._session, self._type, self._fields)

    def using(self, **options: Unpack[SubmitOptions]) -> RemoteTaskHandle:
        """Return this task with other options for what is submitted through it."""
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


class AsyncRemoteTaskHandle(_RemoteTask, AsyncTaskSubmitter):
    """The awaited face of RemoteTaskHandle."""

    def using(self, **options: Unpack[SubmitOptions]) -> AsyncRemoteTaskHandle:
        """Return this task with other options for what is submitted through it."""
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
