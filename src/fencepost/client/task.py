"""Handles on tasks of a server: submit jobs by the type's name, wait for results, pause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from fencepost.client import submitting as scripts
from fencepost.client.job import (
    AsyncJobHandle,
    JobHandle,
    async_handle,
    handle,
    naming_existing,
    naming_existing_async,
)
from fencepost.client.lanes import TYPES, pause, resume
from fencepost.client.options import (
    Fields,
    Payload,
    SubmitOptions,
    merge,
    payload_of,
    submission,
)
from fencepost.client.session import Session
from fencepost.core.values.duration import Duration
from fencepost.wire.jobs import Submission

Arguments = Mapping[str, Any] | bytes
"""The payload of one job in a bulk: a mapping by name, or bytes."""


class _Handle:
    """What both faces of a task handle hold."""

    def __init__(self, session: Session, type: str, fields: Fields) -> None:
        self._session = session
        self._type = type
        self._fields = fields

    @property
    def type(self) -> str:
        """The name under which the server knows the task."""
        return self._type

    def _prepare(self, data: tuple[bytes, ...], arguments: dict[str, Any]) -> Submission:
        return self._submission(payload_of(data, arguments))

    def _submission(self, payload: Payload) -> Submission:
        return submission(self._type, payload, self._fields)

    def _prepare_idempotent(
        self, key: str, data: tuple[bytes, ...], arguments: dict[str, Any]
    ) -> Submission:
        """Return a job whose key is held while it is live and refuses a second one (C15)."""
        options = SubmitOptions(key=key, key_window="active", on_duplicate="reject")
        fields = merge(self._fields, options)
        return submission(self._type, payload_of(data, arguments), fields)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.type}>"


class TaskHandle(_Handle):
    """A task of a server; ``aio`` has the same methods, awaited."""

    @property
    def aio(self) -> AsyncTaskHandle:
        return AsyncTaskHandle(self._session, self._type, self._fields)

    def using(self, **options: Unpack[SubmitOptions]) -> TaskHandle:
        """Return this task with other options for what is submitted through it."""
        return TaskHandle(self._session, self._type, merge(self._fields, options))

    def prepare(self, /, *data: bytes, **arguments: Any) -> Submission:
        """Return an encoded job, for ``client.submit_many`` and flows."""
        return self._prepare(data, arguments)

    def submit(self, /, *data: bytes, **arguments: Any) -> JobHandle:
        """Store a job and return its handle; when this returns, the job cannot be lost."""
        with naming_existing(self._session):
            script = scripts.submit(self._session, self._prepare(data, arguments))
            return handle(self._session, self._session.run(script))

    def wait(self, /, *data: bytes, timeout: Duration | None = None, **arguments: Any) -> Any:
        """Submit a job and return its result."""
        return self.submit(*data, **arguments).result(timeout)

    def submit_idempotent(self, key: str, /, *data: bytes, **arguments: Any) -> JobHandle:
        """Store a job unless one with this key is live; then raise DuplicateJobError."""
        with naming_existing(self._session):
            job = self._prepare_idempotent(key, data, arguments)
            return handle(self._session, self._session.run(scripts.submit(self._session, job)))

    def wait_idempotent(
        self,
        key: str,
        /,
        *data: bytes,
        timeout: Duration | None = None,
        **arguments: Any,
    ) -> Any:
        """Submit unless a job with this key is live, and return the result."""
        return self.submit_idempotent(key, *data, **arguments).result(timeout)

    def submit_many(self, arguments: Iterable[Arguments]) -> list[JobHandle]:
        """Store many jobs, all or none, in one transaction."""
        jobs = scripts.check_batch(self._submission(each) for each in arguments)
        with naming_existing(self._session):
            stored = self._session.run(scripts.submit_many(self._session, jobs))
        return [handle(self._session, job) for job in stored]

    def pause(self) -> None:
        """Hand out no more jobs of this type; those running go on."""
        self._session.run(pause(self._session, TYPES, self._type))

    def resume(self) -> None:
        """Hand out the jobs of this type again, in their old order."""
        self._session.run(resume(self._session, TYPES, self._type))


class AsyncTaskHandle(_Handle):
    """The awaited face of TaskHandle."""

    def using(self, **options: Unpack[SubmitOptions]) -> AsyncTaskHandle:
        """Return this task with other options for what is submitted through it."""
        return AsyncTaskHandle(self._session, self._type, merge(self._fields, options))

    def prepare(self, /, *data: bytes, **arguments: Any) -> Submission:
        """Return an encoded job, for ``client.aio.submit_many`` and flows."""
        return self._prepare(data, arguments)

    async def submit(self, /, *data: bytes, **arguments: Any) -> AsyncJobHandle:
        """Store a job and return its handle; when this returns, the job cannot be lost."""
        async with naming_existing_async(self._session):
            script = scripts.submit(self._session, self._prepare(data, arguments))
            return async_handle(self._session, await self._session.run_async(script))

    async def wait(self, /, *data: bytes, timeout: Duration | None = None, **arguments: Any) -> Any:
        """Submit a job and return its result."""
        return await (await self.submit(*data, **arguments)).result(timeout)

    async def submit_idempotent(
        self, key: str, /, *data: bytes, **arguments: Any
    ) -> AsyncJobHandle:
        """Store a job unless one with this key is live; then raise DuplicateJobError."""
        async with naming_existing_async(self._session):
            script = scripts.submit(self._session, self._prepare_idempotent(key, data, arguments))
            return async_handle(self._session, await self._session.run_async(script))

    async def wait_idempotent(
        self,
        key: str,
        /,
        *data: bytes,
        timeout: Duration | None = None,
        **arguments: Any,
    ) -> Any:
        """Submit unless a job with this key is live, and return the result."""
        return await (await self.submit_idempotent(key, *data, **arguments)).result(timeout)

    async def submit_many(self, arguments: Iterable[Arguments]) -> list[AsyncJobHandle]:
        """Store many jobs, all or none, in one transaction."""
        jobs = scripts.check_batch(self._submission(each) for each in arguments)
        async with naming_existing_async(self._session):
            stored = await self._session.run_async(scripts.submit_many(self._session, jobs))
        return [async_handle(self._session, job) for job in stored]

    async def pause(self) -> None:
        """Hand out no more jobs of this type; those running go on."""
        await self._session.run_async(pause(self._session, TYPES, self._type))

    async def resume(self) -> None:
        """Hand out the jobs of this type again, in their old order."""
        await self._session.run_async(resume(self._session, TYPES, self._type))
