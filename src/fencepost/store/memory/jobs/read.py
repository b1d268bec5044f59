"""Looking at jobs: filters, pages, counts, and what surrounds one job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Attempt, Dependency, Job
from fencepost.core.job.lifecycle import State
from fencepost.core.job.why import Situation
from fencepost.core.values.instants import from_us, from_us_or_none, to_us
from fencepost.store.interface.cluster import WorkerInfo
from fencepost.store.interface.overview import QueueView, TypeView
from fencepost.store.interface.reader import DeadLetterPage, JobPage
from fencepost.store.memory.jobs.claim import Running
from fencepost.store.memory.jobs.record import Record
from fencepost.store.memory.jobs.rows import attempts_of, dead_letter_of, job_of
from fencepost.store.memory.jobs.table import JobTable

if TYPE_CHECKING:
    from fencepost.store.memory.world import MemoryWorld

AHEAD_MAX = 1_000
"""How many jobs ahead of one are counted; past that, the exact number helps nobody."""


def get(world: MemoryWorld, job_ids: Sequence[str]) -> list[Job | None]:
    """Return jobs as they stand."""
    now = world.now
    records = [world.jobs.get(job_id) for job_id in job_ids]
    return [None if record is None else job_of(record, now) for record in records]


def locate(world: MemoryWorld, job_ids: Sequence[str]) -> list[str | None]:
    """Return the queue of each job."""
    records = [world.jobs.get(job_id) for job_id in job_ids]
    return [None if record is None else record.queue for record in records]


def attempts(world: MemoryWorld, job_id: str) -> list[Attempt] | None:
    """Return the attempts of a job, oldest first."""
    record = world.jobs.get(job_id)
    return None if record is None else attempts_of(record)


def find(world: MemoryWorld, filter: JobFilter, page: PageRequest) -> JobPage:
    """Return one page of the jobs that *filter* means, newest submission first."""
    jobs, now = world.jobs, world.now
    found = list(islice(_matching(jobs, filter, page.after), page.limit + 1))
    shown = found[: page.limit]
    has_more = len(found) > len(shown) > 0
    return JobPage([job_of(record, now) for record in shown], shown[-1].seq if has_more else None)


def count(world: MemoryWorld, filter: JobFilter) -> int:
    """Return how many jobs *filter* means: from counters where they can tell."""
    jobs = world.jobs
    if not filter.is_countable:
        return sum(1 for _ in _matching(jobs, filter, None))
    return sum(
        number
        for queue, type, state, number in jobs.counts.cells()
        if (not filter.states or state in filter.states)
        and filter.type in (None, type)
        and filter.queue in (None, queue)
    )


def _matching(jobs: JobTable, filter: JobFilter, after: int | None) -> Iterator[Record]:
    return (record for record in jobs.roll.before(after) if _matches(record, filter))


def _matches(record: Record, filter: JobFilter) -> bool:
    return (
        (not filter.states or record.state in filter.states)
        and filter.type in (None, record.type)
        and filter.queue in (None, record.queue)
        and filter.correlation_id in (None, record.correlation_id)
        and filter.flow in (None, record.flow)
        and filter.tags.items() <= record.tags.items()
        and (filter.created_after is None or record.created_at >= to_us(filter.created_after))
        and (filter.created_before is None or record.created_at < to_us(filter.created_before))
    )


def dead_letters(
    world: MemoryWorld, type: str | None, page: PageRequest, queues: Sequence[str] | None = None
) -> DeadLetterPage:
    """Return one page of the dead-letter list, most recently dead first."""
    wanted = (
        record
        for record in world.jobs.dead.before(page.after)
        if type in (None, record.type) and (queues is None or record.queue in queues)
    )
    found = list(islice(wanted, page.limit + 1))
    shown = found[: page.limit]
    has_more = len(found) > len(shown) > 0
    letters = [dead_letter_of(record) for record in shown]
    return DeadLetterPage(letters, shown[-1].dead_number if has_more else None)


def situation(world: MemoryWorld, job_id: str) -> Situation | None:
    """Return what keeps a job where it is, and what stands around it."""
    jobs, settings, rates, now = world.jobs, world.settings, world.rates, world.now
    record = jobs.get(job_id)
    if record is None:
        return None
    workers = world.presence.workers(now)
    running = Running(jobs, now)
    return Situation(
        job=job_of(record, now),
        now=from_us(now),
        is_type_paused=settings.is_type_paused(record.type),
        is_queue_paused=settings.is_queue_paused(record.queue),
        queue_limit=settings.queue_limit(record.queue),
        queue_running=running.of_queue(record.queue),
        app_limit=settings.app_limit,
        app_running=running.total(),
        rate=rates.by_type.get(record.type),
        rate_opens_at=from_us_or_none(rates.opens_at([record.type], now)),
        jobs_ahead=_jobs_ahead(jobs, record),
        has_worker=any(_serves(worker, record) for worker in workers),
        dependencies=tuple(_dependencies(jobs, record)) if record.state is State.PENDING else (),
        key_active=jobs.slots.active((record.type, record.concurrency_key or "")),
    )


def dependencies(
    world: MemoryWorld, job_ids: Sequence[str], *, with_results: bool = False
) -> list[list[Dependency]]:
    """Return what each job waits for or waited for."""
    records = [world.jobs.get(job_id) for job_id in job_ids]
    return [_dependencies(world.jobs, each, with_results) for each in records]


def _dependencies(
    jobs: JobTable, record: Record | None, with_results: bool = False
) -> list[Dependency]:
    return [
        Dependency(
            job_id=parent.id,
            type=parent.type,
            state=parent.state,
            node=parent.node,
            result=parent.result if with_results else None,
        )
        for parent in (jobs.parents(record) if record is not None else ())
    ]


def dependents(world: MemoryWorld, job_ids: Sequence[str]) -> list[list[str]]:
    """Return the ids of the jobs that wait for each job or waited for it."""
    records = [world.jobs.get(job_id) for job_id in job_ids]
    return [
        [child.id for child in world.jobs.children(each)] if each is not None else []
        for each in records
    ]


def _jobs_ahead(jobs: JobTable, record: Record) -> int:
    lane = jobs.lanes.lane(record.queue, record.type)
    if lane is None or record.state is not State.SCHEDULED:
        return 0
    return sum(1 for _ in islice(lane.before(record.line_entry), AHEAD_MAX))


def _serves(worker: WorkerInfo, record: Record) -> bool:
    return record.type in worker.types and (worker.queues is None or record.queue in worker.queues)


def queues(world: MemoryWorld) -> list[QueueView]:
    """Return every queue that has (had) a job or a setting, sorted by name."""
    jobs, settings = world.jobs, world.settings
    counts = jobs.counts.by_queue()
    names = jobs.pairs.queues() | settings.queue_pauses | settings.queue_limits.keys()
    return [
        QueueView(
            name=name,
            is_paused=settings.is_queue_paused(name),
            max_running=settings.queue_limit(name),
            counts=counts.get(name, {}),
            oldest_at=from_us_or_none(jobs.oldest(name)),
        )
        for name in sorted(names)
    ]


def types(world: MemoryWorld) -> list[TypeView]:
    """Return every type that has (had) a job or a setting, sorted by name."""
    jobs, settings, rates = world.jobs, world.settings, world.rates
    counts = jobs.counts.by_type()
    return [
        TypeView(
            name=name,
            is_paused=settings.is_type_paused(name),
            rate=rates.by_type.get(name),
            counts=counts.get(name, {}),
        )
        for name in sorted(jobs.pairs.types() | settings.type_pauses | rates.by_type.keys())
    ]
