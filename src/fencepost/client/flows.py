"""What can be asked of the flows of a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from fencepost.actions.backend import Ids, StoredFlow
from fencepost.actions.script import Script
from fencepost.client.exchange import FLOWS, ServerActions, get, post
from fencepost.client.submissions import check_batch, keyed
from fencepost.core.display import shown
from fencepost.core.job.lifecycle import State
from fencepost.core.values.duration import Duration, parse_duration
from fencepost.errors import (
    ConfigurationError,
    DuplicateJobError,
    EmptyFlowError,
    FlowNotFoundError,
    InvalidJobError,
    JobCancelledError,
    JobFailedError,
    WaitTimeoutError,
)
from fencepost.wire.flows import FlowView, SubmittedFlow
from fencepost.wire.jobs import JobSummary, Submission

Nodes = Mapping[str, Submission]


def check_nodes(nodes: Nodes) -> dict[str, Submission]:
    """Return the jobs of a flow by name; whether they can run, the server says."""
    if not isinstance(nodes, Mapping):
        raise InvalidJobError(f"a flow is prepared jobs by name, got {shown(nodes)}")
    if not nodes:
        raise EmptyFlowError("a flow of nothing has nothing to run; give it a prepared job")
    check_batch(nodes.values())
    return dict(nodes)


class RemoteFlows(ServerActions):
    """The flows of a server."""

    def submit(self, nodes: Nodes, conn: Any = None) -> Script[StoredFlow]:
        """Store all jobs of a flow or none, and once.

        One random key is enough for that: should it be held already, all of the flow is stored.
        """
        if conn is not None:
            raise ConfigurationError("a server cannot join a transaction of yours; leave out conn")
        own = next((name for name, job in nodes.items() if job.key is None), None)
        sent, safe = dict(nodes), 0.0
        if own is not None:
            sent[own] = replace(keyed(self._session, nodes[own]), on_duplicate="reject")
            safe = self._session.key_window
        request = post(FLOWS, body={"nodes": sent}, repeat_for=safe)
        try:
            stored = yield from self._session.read(request, SubmittedFlow)
        except DuplicateJobError as error:
            if error.existing_id is None:
                raise
            existing = yield from self._session.actions.jobs.get(error.existing_id)
            if own is None or existing.key != sent[own].key:
                raise
            assert existing.flow is not None
            return StoredFlow(existing.flow, (yield from self.get(existing.flow)))
        return StoredFlow(stored.id, stored.jobs)

    def get(self, flow_id: str) -> Script[dict[str, JobSummary]]:
        """Return the jobs of a flow by name, or raise FlowNotFoundError."""
        if not isinstance(flow_id, str) or not flow_id:
            raise FlowNotFoundError(shown(flow_id))
        return (yield from self._session.read(get(FLOWS, flow_id), FlowView)).jobs

    def states(self, flow_id: str, ids: Ids) -> Script[dict[str, State]]:
        """Return the state of each job by name; one that has been pruned is left out."""
        found = yield from self.get(flow_id)
        by_id = {job.id: job.state for job in found.values()}
        return {name: by_id[job_id] for name, job_id in ids.items() if job_id in by_id}

    def wait(self, flow_id: str, ids: Ids, timeout: Duration | None) -> Script[dict[str, State]]:
        """Wait until every job of the flow has ended, what it spawned included; return how."""
        seconds = None if timeout is None else parse_duration(timeout, name="timeout")
        clock = self._session.clock
        deadline = None if seconds is None else clock.monotonic() + seconds
        while True:
            found = yield from self.get(flow_id)
            still = next((job for job in found.values() if not job.state.is_terminal), None)
            if still is None:
                return (yield from self.states(flow_id, ids))
            left = None if deadline is None else max(deadline - clock.monotonic(), 0.0)
            try:
                yield from self._session.actions.jobs.result(still.id, left)
            except WaitTimeoutError as error:
                raise WaitTimeoutError(still.id, seconds or 0.0, error.state) from None
            except (JobFailedError, JobCancelledError):
                continue

    def results(self, flow_id: str, ids: Ids, timeout: Duration | None) -> Script[dict[str, Any]]:
        """Wait until the flow has ended; return every result, or raise for the first failure."""
        yield from self.wait(flow_id, ids, timeout)
        values = {}
        for name, job_id in ids.items():
            values[name], _ = yield from self._session.actions.jobs.result(job_id, 0)
        return values

    def cancel(self, flow_id: str) -> Script[int]:
        """Cancel every live job of a flow; return how many."""
        return self._session.read(post(FLOWS, flow_id, "cancel"), int, "count")

    def retry(self, flow_id: str) -> Script[int]:
        """Run again what failed or was cancelled; return how many were."""
        return self._session.read(post(FLOWS, flow_id, "retry"), int, "count")
