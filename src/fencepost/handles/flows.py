"""Flows: jobs that are submitted together and wait for each other, and handles on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from fencepost.actions.backend import Backend, FlowActions, KnownJob
from fencepost.core.job.lifecycle import State
from fencepost.core.values.duration import Duration
from fencepost.handles.job import (
    AsyncJobHandle,
    JobHandle,
    async_handle,
    handle,
    naming_existing,
    naming_existing_async,
)
from fencepost.handles.part import BackendPart

H = TypeVar("H", bound="JobHandle[Any] | AsyncJobHandle[Any]")


class _Flow:
    """What both faces of a flow hold."""

    def __init__(self, backend: Backend, jobs: Mapping[str, Any]) -> None:
        self._backend = backend
        self._jobs = jobs
        """Prepared jobs of this backend by name."""

    @property
    def nodes(self) -> list[str]:
        """The names of the jobs; of an app, each behind those that it waits for."""
        return list(self._jobs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._jobs)} jobs>"


class Flow(_Flow):
    """Jobs that are ready to be submitted together; ``aio`` has the same methods, awaited."""

    @property
    def aio(self) -> AsyncFlow:
        return AsyncFlow(self._backend, self._jobs)

    def submit(self, *, conn: Any = None) -> FlowHandle:
        """Store all jobs or none, in one transaction, or in *conn*'s; each call is a new flow."""
        with naming_existing(self._backend):
            flow = self._backend.run(self._backend.actions.flows.submit(self._jobs, conn))
        return _flow_handle(self._backend, flow.id, flow.jobs)


class AsyncFlow(_Flow):
    """The awaited face of Flow."""

    async def submit(self, *, conn: Any = None) -> AsyncFlowHandle:
        """Store all jobs or none, in one transaction, or in *conn*'s; each call is a new flow."""
        script = self._backend.actions.flows.submit(self._jobs, conn)
        async with naming_existing_async(self._backend):
            flow = await self._backend.run_async(script)
        return _async_flow_handle(self._backend, flow.id, flow.jobs)


class _FlowHandle(Generic[H]):
    """What both faces of a flow's handle hold; iterates over the handles of its jobs."""

    def __init__(self, backend: Backend, flow_id: str, jobs: dict[str, H]) -> None:
        self._backend = backend
        self.id = flow_id
        self.jobs = jobs
        """The handles of its jobs by name, each behind those that it waits for."""

    @property
    def _actions(self) -> FlowActions:
        return self._backend.actions.flows

    @property
    def _ids(self) -> dict[str, str]:
        return {name: job.id for name, job in self.jobs.items()}

    def __getitem__(self, name: str) -> H:
        return self.jobs[name]

    def __iter__(self) -> Iterator[H]:
        return iter(self.jobs.values())

    def __len__(self) -> int:
        return len(self.jobs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _FlowHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of {len(self)} jobs>"


class FlowHandle(_FlowHandle[JobHandle[Any]]):
    """A submitted flow; ``aio`` has the same methods, awaited."""

    @property
    def aio(self) -> AsyncFlowHandle:
        jobs = {name: job.aio for name, job in self.jobs.items()}
        return AsyncFlowHandle(self._backend, self.id, jobs)

    def states(self) -> dict[str, State]:
        """Return the present state of each job by name."""
        return self._backend.run(self._actions.states(self.id, self._ids))

    def wait(self, timeout: Duration | None = None) -> dict[str, State]:
        """Wait until everything has ended, what was spawned too; return how, or WaitTimeoutError.

        A failure raises nothing here; ``results`` does.
        """
        return self._backend.run(self._actions.wait(self.id, self._ids, timeout))

    def results(self, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for every result; raise JobFailedError or JobCancelledError for the first failed."""
        return self._backend.run(self._actions.results(self.id, self._ids, timeout))

    def cancel(self) -> int:
        """Cancel whatever has not ended, and return how many jobs that were."""
        return self._backend.run(self._actions.cancel(self.id))

    def retry(self) -> int:
        """Run again what failed or was cancelled, in order; return how many jobs that are."""
        return self._backend.run(self._actions.retry(self.id))


class AsyncFlowHandle(_FlowHandle[AsyncJobHandle[Any]]):
    """The awaited face of FlowHandle."""

    async def states(self) -> dict[str, State]:
        """Return the present state of each job by name."""
        return await self._backend.run_async(self._actions.states(self.id, self._ids))

    async def wait(self, timeout: Duration | None = None) -> dict[str, State]:
        """Wait until everything has ended, what was spawned too; return how, or WaitTimeoutError.

        A failure raises nothing here; ``results`` does.
        """
        return await self._backend.run_async(self._actions.wait(self.id, self._ids, timeout))

    async def results(self, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for every result; raise JobFailedError or JobCancelledError for the first failed."""
        return await self._backend.run_async(self._actions.results(self.id, self._ids, timeout))

    async def cancel(self) -> int:
        """Cancel whatever has not ended, and return how many jobs that were."""
        return await self._backend.run_async(self._actions.cancel(self.id))

    async def retry(self) -> int:
        """Run again what failed or was cancelled, in order; return how many jobs that are."""
        return await self._backend.run_async(self._actions.retry(self.id))


def _flow_handle(backend: Backend, flow_id: str, jobs: Mapping[str, KnownJob]) -> FlowHandle:
    handles = {name: handle(backend, job) for name, job in jobs.items()}
    return FlowHandle(backend, flow_id, handles)


def _async_flow_handle(
    backend: Backend, flow_id: str, jobs: Mapping[str, KnownJob]
) -> AsyncFlowHandle:
    handles = {name: async_handle(backend, job) for name, job in jobs.items()}
    return AsyncFlowHandle(backend, flow_id, handles)


class Flows(BackendPart):
    """The flows; ``aio.flows`` has the same methods, awaited."""

    def get(self, id: str) -> FlowHandle:
        """Return the handle of a flow, or raise FlowNotFoundError."""
        jobs = self._backend.run(self._actions.flows.get(id))
        return _flow_handle(self._backend, id, jobs)


class AsyncFlows(BackendPart):
    """The awaited face of Flows."""

    async def get(self, id: str) -> AsyncFlowHandle:
        """Return the handle of a flow, or raise FlowNotFoundError."""
        jobs = await self._backend.run_async(self._actions.flows.get(id))
        return _async_flow_handle(self._backend, id, jobs)
