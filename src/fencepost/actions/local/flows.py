"""Flows of an app's store: submit, wait for, cancel and retry their jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from fencepost.actions.backend import Ids, Script
from fencepost.actions.local.steps import Pause, StoreActions
from fencepost.actions.options import check_bulk
from fencepost.actions.replies import FlowList, StoredFlow
from fencepost.clock import as_uuid7
from fencepost.core.bounds import CANCEL_ROUNDS, PAGE_MAX, POLL_INTERVAL
from fencepost.core.filter import JobFilter, JobQuery, PageRequest
from fencepost.core.flows.graph import (
    Graph,
    Nodes,
    arrange,
    in_order,
    named,
    names_for,
    unique_names,
)
from fencepost.core.flows.listing import FlowKind, encode_flow_cursor, make_flow_request
from fencepost.core.job.job import Dependency, Job, NewJob
from fencepost.core.job.lifecycle import LIVE, State
from fencepost.core.values.names import check_flow, id_text
from fencepost.core.values.times import Duration, parse_duration
from fencepost.errors import FlowNotFoundError, JobNotFoundError, WaitTimeoutError
from fencepost.store.interface.control import RetryReply, RetryRequest
from fencepost.store.interface.queue import Moved
from fencepost.store.interface.records.overview import FlowPage
from fencepost.store.interface.store import Topic


def prepare(nodes: Nodes | Graph) -> dict[str, NewJob]:
    """Return the jobs of a flow by name, in order, or raise DependencyError."""
    jobs = arrange(nodes if isinstance(nodes, Graph) else named(nodes))
    names = names_for(jobs)
    check_bulk(jobs)
    return {name: replace(job, node=name) for job, name in zip(jobs, names, strict=True)}


class LocalFlows(StoreActions):
    """The flows of an app's store."""

    def submit(self, nodes: Mapping[str, NewJob], conn: Any = None) -> Script[StoredFlow]:
        """Store all jobs of a flow or none, in one transaction, or in *conn*'s."""
        flow_id, jobs = self.new(nodes)
        stored = yield from self._session.submit_all(jobs, conn)
        return StoredFlow(flow_id, dict(zip(nodes, stored, strict=True)))

    def new(self, nodes: Mapping[str, NewJob]) -> tuple[str, list[NewJob]]:
        """Return the id of a new flow, which begins with the time for lists, and its jobs."""
        clock = self._session.clock
        flow_id = id_text(as_uuid7(clock.new_id(), clock.now_us()))
        return flow_id, [replace(job, flow=flow_id) for job in nodes.values()]

    def find(
        self,
        kind: FlowKind | None,
        after: str | None,
        limit: int,
        *,
        queues: Collection[str] | None = None,
    ) -> Script[FlowList]:
        """Return a page of the flows (that have jobs in *queues*), newest first."""
        request = make_flow_request(limit=limit, after=after, kind=kind, queues=queues)
        page: FlowPage = yield self._store.overview.flows(request)
        following = None if page.next is None else encode_flow_cursor(page.next)
        return FlowList(page.flows, following)

    def members(self, flow_id: str, *, queues: Collection[str] | None = None) -> Script[list[Job]]:
        """Return every job of a flow (in *queues*), including spawned ones, oldest first."""
        jobs: list[Job] = []
        position: int | None = None
        while True:
            page = yield self._store.reader.find(
                JobFilter(flow=flow_id), PageRequest(PAGE_MAX, position)
            )
            jobs += [job for job in page.jobs if queues is None or job.queue in queues]
            position = page.next
            if position is None:
                return jobs[::-1]

    def get(self, flow_id: str, *, queues: Collection[str] | None = None) -> Script[dict[str, Job]]:
        """Return the jobs of a flow (in *queues*) by name, or raise FlowNotFoundError."""
        jobs = yield from self.members(check_flow(flow_id), queues=queues)
        if not jobs:
            raise FlowNotFoundError(flow_id)
        replaced = _replaced(jobs)
        present = [job for job in jobs if job.id not in replaced]
        names = unique_names([(job.node, job.type) for job in present])
        return dict(zip(names, present, strict=True))

    def states(self, flow_id: str, ids: Ids) -> Script[dict[str, State]]:
        """Return the state of each job by name, without those that were pruned."""
        found = yield from self._look(ids)
        return {name: job.state for name, job in found.items() if job is not None}

    def _look(self, ids: Ids) -> Script[dict[str, Job | None]]:
        names, found = list(ids), dict[str, Job | None]()
        for start in range(0, len(names), PAGE_MAX):
            some = names[start : start + PAGE_MAX]
            jobs = yield self._store.reader.get([ids[name] for name in some])
            found.update(zip(some, jobs, strict=True))
        return found

    def _end(
        self, flow_id: str, ids: Ids, timeout: Duration | None
    ) -> Script[dict[str, Job | None]]:
        """Wait until every job of the flow has ended, including spawned ones; return *ids*."""
        seconds = None if timeout is None else parse_duration(timeout, name="timeout")
        deadline = None if seconds is None else self._session.clock.monotonic() + seconds
        # Listen first, then look: a notification between the two is then not missed.
        yield Pause(Topic.SETTLED, 0)
        live = JobFilter(flow=flow_id, states=tuple(state for state in State if state in LIVE))
        while True:
            page = yield self._store.reader.find(live, PageRequest(1))
            still: Job | None = page.jobs[0] if page.jobs else None
            if still is None:
                found = yield from self._look(ids)
                # A key may have returned a job of another flow, which may still run.
                jobs = (job for job in found.values() if job is not None)
                still = next((job for job in jobs if not job.state.is_terminal), None)
                if still is None:
                    return found
            pause = POLL_INTERVAL
            if deadline is not None and seconds is not None:
                pause = min(pause, deadline - self._session.clock.monotonic())
                if pause <= 0:
                    raise WaitTimeoutError(still.id, seconds, still.state)
            yield Pause(Topic.SETTLED, pause)

    def wait(self, flow_id: str, ids: Ids, timeout: Duration | None) -> Script[dict[str, State]]:
        """Wait until the flow has ended, and return the state of each job."""
        found = yield from self._end(flow_id, ids, timeout)
        return {name: job.state for name, job in found.items() if job is not None}

    def results(self, flow_id: str, ids: Ids, timeout: Duration | None) -> Script[dict[str, Any]]:
        """Wait until the flow has ended; return every result, or raise for the first failure."""
        found = yield from self._end(flow_id, ids, timeout)
        values = {}
        for name, job in found.items():
            if job is None:
                raise JobNotFoundError(ids[name])
            values[name] = self._session.actions.jobs.result_of(job)
        return values

    def cancel(self, flow_id: str, *, queues: Collection[str] | None = None) -> Script[int]:
        """Cancel every live job of a flow (in *queues*); return how many."""
        total = 0
        for _ in range(CANCEL_ROUNDS):
            # A running job may spawn others while its flow is cancelled; the next round finds them.
            count = 0
            for queue in [None] if queues is None else sorted(queues):
                query = JobQuery(JobFilter(flow=flow_id, queue=queue))
                count += yield from self._session.actions.jobs.cancel_all(query, queues=queues)
            total += count
            if not count:
                break
        return total

    def retry(self, flow_id: str, *, queues: Collection[str] | None = None) -> Script[int]:
        """Run failed and cancelled jobs again, in one transaction; return how many."""
        jobs = yield from self.members(flow_id, queues=queues)
        replaced = _replaced(jobs)
        ended = [
            job
            for job in jobs
            if job.state.is_terminal and job.state is not State.COMPLETED and job.id not in replaced
        ]
        if not ended:
            return 0
        waiting = [job.id for job in ended if job.waits is not None]
        found: list[list[Dependency]] = yield self._store.reader.dependencies(waiting)
        order = _oldest_first([job.id for job in ended], dict(zip(waiting, found, strict=True)))
        replies: list[RetryReply] = yield self._store.control.retry(
            [RetryRequest(each) for each in order]
        )
        return sum(isinstance(reply, Moved) for reply in replies)


def _replaced(jobs: Sequence[Job]) -> set[str | None]:
    """Return the ids of dead letters that were replayed."""
    return {job.replay_of for job in jobs}


def _oldest_first(ids: Sequence[str], behind: Mapping[str, Sequence[Dependency]]) -> list[str]:
    """Return *ids* in order, except that a job follows the younger jobs that it waits for."""
    places = {job_id: place for place, job_id in enumerate(ids)}
    edges = [
        [places[each.job_id] for each in behind.get(job_id, ()) if each.job_id in places]
        for job_id in ids
    ]
    return [ids[place] for place in in_order(edges)]
