"""Flows over HTTP: jobs that are submitted together and wait for each other; handles on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from fencepost.client import submitting as submissions
from fencepost.client.exchange import Script, post
from fencepost.client.job import (
    AsyncJobHandle,
    JobHandle,
    async_handle,
    handle,
    naming_existing,
    naming_existing_async,
)
from fencepost.client.job_scripts import result
from fencepost.client.session import Session
from fencepost.client.submitting import StoredFlow, check_batch, look_at_flow
from fencepost.core.display import shown
from fencepost.core.job.lifecycle import State
from fencepost.core.values.duration import Duration, parse_duration
from fencepost.errors import (
    EmptyFlowError,
    InvalidJobError,
    JobCancelledError,
    JobFailedError,
    WaitTimeoutError,
)
from fencepost.wire.jobs import Submission

H = TypeVar("H", bound="JobHandle | AsyncJobHandle")
Nodes = Mapping[str, Submission]
Ids = Mapping[str, str]
"""The ids of a flow's jobs by their names there."""


def check_nodes(nodes: Nodes) -> dict[str, Submission]:
    """Return the jobs of a flow by name; whether they can run, the server says."""
    if not isinstance(nodes, Mapping):
        raise InvalidJobError(f"a flow is prepared jobs by name, got {shown(nodes)}")
    if not nodes:
        raise EmptyFlowError("a flow of nothing has nothing to run; give it a prepared job")
    check_batch(nodes.values())
    return dict(nodes)


def states(session: Session, flow_id: str, ids: Ids) -> Script[dict[str, State]]:
    """Return the state of each job by name; one that has been pruned is left out."""
    found = yield from look_at_flow(session, flow_id)
    by_id = {job.id: job.state for job in found.jobs.values()}
    return {name: by_id[job_id] for name, job_id in ids.items() if job_id in by_id}


def wait(
    session: Session, flow_id: str, ids: Ids, timeout: Duration | None
) -> Script[dict[str, State]]:
    """Wait until every job of the flow has ended, what it spawned included; return how."""
    seconds = None if timeout is None else parse_duration(timeout, name="timeout")
    deadline = None if seconds is None else session.clock.monotonic() + seconds
    while True:
        found = yield from look_at_flow(session, flow_id)
        still = next((job for job in found.jobs.values() if not job.state.is_terminal), None)
        if still is None:
            return (yield from states(session, flow_id, ids))
        left = None if deadline is None else max(deadline - session.clock.monotonic(), 0.0)
        try:
            yield from result(session, still.id, left)
        except WaitTimeoutError as error:
            raise WaitTimeoutError(still.id, seconds or 0.0, error.state) from None
        except (JobFailedError, JobCancelledError):
            continue


def results(
    session: Session, flow_id: str, ids: Ids, timeout: Duration | None
) -> Script[dict[str, Any]]:
    """Wait until the flow has ended, and return every result, or raise for the first failure."""
    yield from wait(session, flow_id, ids, timeout)
    values = {}
    for name, job_id in ids.items():
        values[name], _ = yield from result(session, job_id, 0)
    return values


def cancel(session: Session, flow_id: str) -> Script[int]:
    """Cancel every live job of a flow; return how many."""
    return (yield from session.read(post("/v1/flows", flow_id, "cancel"), int, "count"))


def retry(session: Session, flow_id: str) -> Script[int]:
    """Run again what failed or was cancelled; return how many were."""
    return (yield from session.read(post("/v1/flows", flow_id, "retry"), int, "count"))


class _Flow:
    """What both faces of a flow hold."""

    def __init__(self, session: Session, nodes: Nodes) -> None:
        self._session = session
        self._nodes = check_nodes(nodes)

    @property
    def nodes(self) -> list[str]:
        """The names of the jobs."""
        return list(self._nodes)

    def _submission(self) -> Script[StoredFlow]:
        return submissions.submit_flow(self._session, self._nodes)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._nodes)} jobs>"


class Flow(_Flow):
    """Jobs that are ready to be submitted together; ``aio`` has the same methods, awaited."""

    @property
    def aio(self) -> AsyncFlow:
        return AsyncFlow(self._session, self._nodes)

    def submit(self) -> FlowHandle:
        """Store all jobs or none, in one transaction; each call is a new flow."""
        with naming_existing(self._session):
            return flow_handle(self._session, self._session.run(self._submission()))


class AsyncFlow(_Flow):
    """The awaited face of Flow."""

    async def submit(self) -> AsyncFlowHandle:
        """Store all jobs or none, in one transaction; each call is a new flow."""
        async with naming_existing_async(self._session):
            stored = await self._session.run_async(self._submission())
        return async_flow_handle(self._session, stored)


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


class FlowHandle(_FlowHandle[JobHandle]):
    """A submitted flow; ``aio`` has the same methods, awaited."""

    @property
    def aio(self) -> AsyncFlowHandle:
        jobs = {name: job.aio for name, job in self.jobs.items()}
        return AsyncFlowHandle(self._session, self.id, jobs)

    def states(self) -> dict[str, State]:
        """Return the present state of each job by name."""
        return self._session.run(states(self._session, self.id, self._ids))

    def wait(self, timeout: Duration | None = None) -> dict[str, State]:
        """Wait until everything has ended, what was spawned too; return how, or WaitTimeoutError.

        A failure raises nothing here; ``results`` does.
        """
        return self._session.run(wait(self._session, self.id, self._ids, timeout))

    def results(self, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for every result; raise JobFailedError or JobCancelledError for the first failed."""
        return self._session.run(results(self._session, self.id, self._ids, timeout))

    def cancel(self) -> int:
        """Cancel whatever has not ended, and return how many jobs that were."""
        return self._session.run(cancel(self._session, self.id))

    def retry(self) -> int:
        """Run again what failed or was cancelled, in order; return how many jobs that are."""
        return self._session.run(retry(self._session, self.id))


class AsyncFlowHandle(_FlowHandle[AsyncJobHandle]):
    """The awaited face of FlowHandle."""

    async def states(self) -> dict[str, State]:
        """Return the present state of each job by name."""
        return await self._session.run_async(states(self._session, self.id, self._ids))

    async def wait(self, timeout: Duration | None = None) -> dict[str, State]:
        """Wait until everything has ended, what was spawned too; return how, or WaitTimeoutError.

        A failure raises nothing here; ``results`` does.
        """
        return await self._session.run_async(wait(self._session, self.id, self._ids, timeout))

    async def results(self, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for every result; raise JobFailedError or JobCancelledError for the first failed."""
        return await self._session.run_async(results(self._session, self.id, self._ids, timeout))

    async def cancel(self) -> int:
        """Cancel whatever has not ended, and return how many jobs that were."""
        return await self._session.run_async(cancel(self._session, self.id))

    async def retry(self) -> int:
        """Run again what failed or was cancelled, in order; return how many jobs that are."""
        return await self._session.run_async(retry(self._session, self.id))


def flow_handle(session: Session, flow: StoredFlow) -> FlowHandle:
    """Return the handle of a flow that the server told of."""
    jobs = {name: handle(session, job) for name, job in flow.jobs.items()}
    return FlowHandle(session, flow.id, jobs)


def async_flow_handle(session: Session, flow: StoredFlow) -> AsyncFlowHandle:
    """As ``flow_handle``, for the async face."""
    jobs = {name: async_handle(session, job) for name, job in flow.jobs.items()}
    return AsyncFlowHandle(session, flow.id, jobs)


def get(session: Session, flow_id: str) -> Script[StoredFlow]:
    """Return a flow, or raise FlowNotFoundError."""
    found = yield from look_at_flow(session, flow_id)
    return StoredFlow(found.id, found.jobs)


class Flows:
    """The flows of a server; ``client.aio.flows`` has the same methods, awaited."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, id: str) -> FlowHandle:
        """Return the handle of a flow, or raise FlowNotFoundError."""
        return flow_handle(self._session, self._session.run(get(self._session, id)))


class AsyncFlows:
    """The awaited face of Flows."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def get(self, id: str) -> AsyncFlowHandle:
        """Return the handle of a flow, or raise FlowNotFoundError."""
        flow = await self._session.run_async(get(self._session, id))
        return async_flow_handle(self._session, flow)
