"""Flows: jobs that are submitted together and wait for each other, and handles on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from fencepost.actions.backend import Backend
from fencepost.actions.replies import FlowList, KnownJob
from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.core.flows.listing import FlowKind
from fencepost.core.job.lifecycle import State
from fencepost.core.values.times import Duration
from fencepost.handles.job import AsyncJobHandle, Awaited, BackendPart, Blocking, JobHandle

H = TypeVar("H", bound="JobHandle[Any] | AsyncJobHandle[Any]")


class _Flow(BackendPart):
    """What both faces of a flow hold."""

    def __init__(self, backend: Backend, jobs: Mapping[str, Any]) -> None:
        super().__init__(backend)
        self._jobs = jobs
        """Prepared jobs of this backend by name."""

    @property
    def nodes(self) -> list[str]:
        """The names of the jobs; in an app, each after those that it waits for."""
        return list(self._jobs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._jobs)} jobs>"


class Flow(_Flow, Blocking):
    """Jobs that are ready to be submitted together; ``aio`` has the same methods, awaited."""

    @property
    def aio(self) -> AsyncFlow:
        return AsyncFlow(self._backend, self._jobs)

    def submit(self, *, conn: Any = None) -> FlowHandle:
        """Store all jobs or none, in one transaction, or in *conn*'s; each call is a new flow."""
        flow = self._run_keyed(self._actions.flows.submit(self._jobs, conn))
        return FlowHandle(self._backend, flow.id, _handles(self, flow.jobs))


class AsyncFlow(_Flow, Awaited):
    """The awaited face of Flow."""

    async def submit(self, *, conn: Any = None) -> AsyncFlowHandle:
        """Store all jobs or none, in one transaction, or in *conn*'s; each call is a new flow."""
        flow = await self._run_keyed(self._actions.flows.submit(self._jobs, conn))
        return AsyncFlowHandle(self._backend, flow.id, _handles(self, flow.jobs))


class _FlowHandle(BackendPart, Generic[H]):
    """What both faces of a flow's handle hold; iterates over the handles of its jobs."""

    def __init__(self, backend: Backend, flow_id: str, jobs: dict[str, H]) -> None:
        super().__init__(backend)
        self.id = flow_id
        self.jobs = jobs
        """The handles of its jobs by name, each after those that it waits for."""

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


class FlowHandle(_FlowHandle[JobHandle[Any]], Blocking):
    """A submitted flow; ``aio`` has the same methods, awaited."""

    @property
    def aio(self) -> AsyncFlowHandle:
        jobs = {name: job.aio for name, job in self.jobs.items()}
        return AsyncFlowHandle(self._backend, self.id, jobs)

    def states(self) -> dict[str, State]:
        """Return the current state of each job by name."""
        return self._run(self._actions.flows.states(self.id, self._ids))

    def wait(self, timeout: Duration | None = None) -> dict[str, State]:
        """Wait until all jobs have ended, including spawned ones; return their states.

        Raises WaitTimeoutError. A failed job raises nothing here, but in ``results``.
        """
        return self._run(self._actions.flows.wait(self.id, self._ids, timeout))

    def results(self, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for all results; raise JobFailedError or JobCancelledError at the first failure."""
        return self._run(self._actions.flows.results(self.id, self._ids, timeout))

    def cancel(self) -> int:
        """Cancel every job that has not ended; return how many."""
        return self._run(self._actions.flows.cancel(self.id))

    def retry(self) -> int:
        """Run failed and cancelled jobs again, in order; return how many."""
        return self._run(self._actions.flows.retry(self.id))


class AsyncFlowHandle(_FlowHandle[AsyncJobHandle[Any]], Awaited):
    """The awaited face of FlowHandle."""

    async def states(self) -> dict[str, State]:
        """Return the current state of each job by name."""
        return await self._run(self._actions.flows.states(self.id, self._ids))

    async def wait(self, timeout: Duration | None = None) -> dict[str, State]:
        """Wait until all jobs have ended, including spawned ones; return their states."""
        return await self._run(self._actions.flows.wait(self.id, self._ids, timeout))

    async def results(self, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for all results; raise JobFailedError or JobCancelledError at the first failure."""
        return await self._run(self._actions.flows.results(self.id, self._ids, timeout))

    async def cancel(self) -> int:
        """Cancel every job that has not ended; return how many."""
        return await self._run(self._actions.flows.cancel(self.id))

    async def retry(self) -> int:
        """Run failed and cancelled jobs again, in order; return how many."""
        return await self._run(self._actions.flows.retry(self.id))


def _handles(part: BackendPart, jobs: Mapping[str, KnownJob]) -> dict[str, Any]:
    return {name: part._handle(job) for name, job in jobs.items()}


class Flows(Blocking):
    """The flows; ``aio.flows`` has the same methods, awaited."""

    def find(
        self, kind: FlowKind | None = None, *, after: str | None = None, limit: int = PAGE_DEFAULT
    ) -> FlowList:
        """Return a page of the flows, newest first: all, or those that are live or have failed."""
        return self._run(self._actions.flows.find(kind, after, limit))

    def get(self, id: str) -> FlowHandle:
        """Return the handle of a flow, or raise FlowNotFoundError."""
        jobs = self._run(self._actions.flows.get(id))
        return FlowHandle(self._backend, id, _handles(self, jobs))


class AsyncFlows(Awaited):
    """The awaited face of Flows."""

    async def find(
        self, kind: FlowKind | None = None, *, after: str | None = None, limit: int = PAGE_DEFAULT
    ) -> FlowList:
        """Return a page of the flows, newest first: all, or those that are live or have failed."""
        return await self._run(self._actions.flows.find(kind, after, limit))

    async def get(self, id: str) -> AsyncFlowHandle:
        """Return the handle of a flow, or raise FlowNotFoundError."""
        jobs = await self._run(self._actions.flows.get(id))
        return AsyncFlowHandle(self._backend, id, _handles(self, jobs))
