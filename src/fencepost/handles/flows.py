"""Flows: jobs that are submitted together and wait for each other, and handles on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from fencepost.actions import flows as scripts
from fencepost.actions.session import Session, accepted
from fencepost.core.flows.graph import Graph, Nodes, named
from fencepost.core.flows.order import arrange, names_for
from fencepost.core.job.job import Job, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.values.duration import Duration
from fencepost.core.values.ids import id_text
from fencepost.handles.job import (
    AsyncJobHandle,
    JobHandle,
    naming_existing,
    naming_existing_async,
)
from fencepost.handles.task import async_handle, check_bulk, handle

H = TypeVar("H", bound="JobHandle[Any] | AsyncJobHandle[Any]")


def prepare(nodes: Nodes | Graph) -> list[NewJob]:
    """Return the jobs of a flow, in order and each with a name, or raise DependencyError."""
    jobs = arrange(nodes if isinstance(nodes, Graph) else named(nodes))
    return check_bulk(
        [replace(job, node=name) for job, name in zip(jobs, names_for(jobs), strict=True)]
    )


def new_flow(session: Session, jobs: Sequence[NewJob]) -> tuple[str, list[NewJob]]:
    """Return the id of a new flow, and *jobs* as its own."""
    flow_id = id_text(session.clock.new_id())
    return flow_id, [replace(job, flow=flow_id) for job in jobs]


class _Flow:
    """What both faces of a flow hold."""

    def __init__(self, session: Session, jobs: Sequence[NewJob]) -> None:
        self._session = session
        self._jobs = jobs

    @property
    def nodes(self) -> list[str]:
        """The names of the jobs, each behind those that it waits for."""
        return [str(job.node) for job in self._jobs]

    def _new(self) -> tuple[str, list[NewJob]]:
        return new_flow(self._session, self._jobs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._jobs)} jobs>"


class Flow(_Flow):
    """Jobs that are ready to be submitted together; ``aio`` has the same methods, awaited."""

    @property
    def aio(self) -> AsyncFlow:
        return AsyncFlow(self._session, self._jobs)

    def submit(self, *, conn: Any = None) -> FlowHandle:
        """Store all jobs or none, in one transaction, or in *conn*'s; each call is a new flow."""
        flow_id, jobs = self._new()
        with naming_existing(self._session):
            replies = self._session.submit_all(jobs, conn)
        handles = [handle(self._session, accepted(reply)) for reply in replies]
        return FlowHandle(self._session, flow_id, dict(zip(self.nodes, handles, strict=True)))


class AsyncFlow(_Flow):
    """The awaited face of Flow."""

    async def submit(self, *, conn: Any = None) -> AsyncFlowHandle:
        """Store all jobs or none, in one transaction, or in *conn*'s; each call is a new flow."""
        flow_id, jobs = self._new()
        async with naming_existing_async(self._session):
            replies = await self._session.submit_all_async(jobs, conn)
        handles = [async_handle(self._session, accepted(reply)) for reply in replies]
        return AsyncFlowHandle(self._session, flow_id, dict(zip(self.nodes, handles, strict=True)))


class _FlowHandle(Generic[H]):
    """What both faces of a flow's handle hold; iterates over the handles of its jobs."""

    def __init__(self, session: Session, flow_id: str, jobs: dict[str, H]) -> None:
        self._session = session
        self.id = flow_id
        self.jobs = jobs
        """The handles of its jobs by name, each behind those that it waits for."""

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
        return AsyncFlowHandle(self._session, self.id, jobs)

    def states(self) -> dict[str, State]:
        """Return the present state of each job by name."""
        return self._session.run(scripts.states(self._session, self._ids))

    def wait(self, timeout: Duration | None = None) -> dict[str, State]:
        """Wait until everything has ended, what was spawned too; return how, or WaitTimeoutError.

        A failure raises nothing here; ``results`` does.
        """
        return self._session.run(scripts.ends(self._session, self.id, self._ids, timeout))

    def results(self, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for every result; raise JobFailedError or JobCancelledError for the first failed."""
        return self._session.run(scripts.results(self._session, self.id, self._ids, timeout))

    def cancel(self) -> int:
        """Cancel whatever has not ended, and return how many jobs that were."""
        return self._session.run(scripts.cancel(self._session, self.id))

    def retry(self) -> int:
        """Run again what failed or was cancelled, in order; return how many jobs that are."""
        return self._session.run(scripts.retry(self._session, self.id))


class AsyncFlowHandle(_FlowHandle[AsyncJobHandle[Any]]):
    """The awaited face of FlowHandle."""

    async def states(self) -> dict[str, State]:
        """Return the present state of each job by name."""
        return await self._session.run_async(scripts.states(self._session, self._ids))

    async def wait(self, timeout: Duration | None = None) -> dict[str, State]:
        """Wait until everything has ended, what was spawned too; return how, or WaitTimeoutError.

        A failure raises nothing here; ``results`` does.
        """
        script = scripts.ends(self._session, self.id, self._ids, timeout)
        return await self._session.run_async(script)

    async def results(self, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for every result; raise JobFailedError or JobCancelledError for the first failed."""
        script = scripts.results(self._session, self.id, self._ids, timeout)
        return await self._session.run_async(script)

    async def cancel(self) -> int:
        """Cancel whatever has not ended, and return how many jobs that were."""
        return await self._session.run_async(scripts.cancel(self._session, self.id))

    async def retry(self) -> int:
        """Run again what failed or was cancelled, in order; return how many jobs that are."""
        return await self._session.run_async(scripts.retry(self._session, self.id))


class Flows:
    """The flows of an app; ``app.aio.flows`` has the same methods, awaited."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, id: str) -> FlowHandle:
        """Return the handle of a flow, or raise FlowNotFoundError."""
        jobs = self._session.run(scripts.get(self._session, id))
        return FlowHandle(self._session, id, {n: self._handle(job) for n, job in jobs.items()})

    def _handle(self, job: Job) -> JobHandle[Any]:
        return JobHandle(self._session, job.id, job.type, job.state)


class AsyncFlows:
    """The awaited face of Flows."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def get(self, id: str) -> AsyncFlowHandle:
        """Return the handle of a flow, or raise FlowNotFoundError."""
        jobs = await self._session.run_async(scripts.get(self._session, id))
        handles = {name: self._handle(job) for name, job in jobs.items()}
        return AsyncFlowHandle(self._session, id, handles)

    def _handle(self, job: Job) -> AsyncJobHandle[Any]:
        return AsyncJobHandle(self._session, job.id, job.type, job.state)
