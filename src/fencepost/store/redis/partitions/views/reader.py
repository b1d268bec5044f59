"""Looking at jobs of all partitions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Attempt, DeadLetter, Dependency, Job
from fencepost.core.job.why import Situation
from fencepost.store.interface.control import Selected
from fencepost.store.interface.reader import DeadLetterPage, JobPage
from fencepost.store.plan import Plan
from fencepost.store.redis.jobs import read
from fencepost.store.redis.partitions.hub import HOME, LOOK, Hub, PartitionCall
from fencepost.store.redis.partitions.leases import scatter
from fencepost.store.redis.partitions.numbers import (
    HIDDEN,
    SPREAD,
    gathered,
    gathering,
    partition_of,
    partition_of_id,
)
from fencepost.store.redis.partitions.quotas import running
from fencepost.store.redis.partitions.views.pages import (
    Head,
    Merge,
    beyond,
    place_of,
    unpack_positions,
)

WHOLE_ID = 32


def get(hub: Hub, job_ids: Sequence[str]) -> Plan[list[Job | None]]:
    """Return jobs by id."""
    numbers = yield from hub.whereabouts(job_ids)
    found = yield from scatter(hub, job_ids, numbers, lambda store, part: store.reader.get(part))
    if None in found and (yield from _has_new_strays(hub)):
        return (yield from get(hub, job_ids))
    return [None if job is None or job.queue in HIDDEN else job for job in found]


def _has_new_strays(hub: Hub) -> Plan[bool]:
    """Tell whether jobs have been moved here since the last look."""
    if hub.has_strays:
        return False
    yield from hub.refresh()
    return bool(hub.has_strays)


def locate(hub: Hub, job_ids: Sequence[str]) -> Plan[list[str | None]]:
    """Return the queues of jobs by id."""
    numbers = yield from hub.whereabouts(job_ids)
    found = yield from scatter(hub, job_ids, numbers, lambda store, part: store.reader.locate(part))
    return [None if queue in HIDDEN else queue for queue in found]


def _partitions(hub: Hub, filter: JobFilter) -> Plan[list[int]]:
    """Return the partitions that can have jobs of a filter."""
    known = yield from hub.refresh()
    if filter.queue is not None and filter.queue not in SPREAD:
        return sorted(known & {partition_of(filter.queue)})
    if len(filter.id_prefix or "") == WHOLE_ID and not hub.has_strays:
        return sorted(known & {partition_of_id(filter.id_prefix or "")})
    return sorted(known)


def find(hub: Hub, filter: JobFilter, page: PageRequest) -> Plan[JobPage]:
    """Return one page of the jobs of all partitions."""
    if filter.queue in HIDDEN:
        return JobPage([])
    numbers = yield from _partitions(hub, filter)
    if page.after is None:
        positions: dict[int, int | None] = dict.fromkeys(numbers)
    else:
        positions = {**unpack_positions(page.after)}

    step = -1 if page.is_oldest_first else 1

    def fetch(number: int, after: int | None, size: int) -> Plan[tuple[list[Head], int | None]]:
        reader = hub.at(number).reader
        asked = reader.find(filter, PageRequest(size, after, page.is_oldest_first))
        found: JobPage = yield from hub.on(number, asked)
        heads = [
            Head((step * job.created_at.timestamp(), step * position), position, job)
            for job, position in zip(found.jobs, found.positions, strict=True)
            if job.queue not in HIDDEN
        ]
        return heads, found.next

    merge = Merge(fetch, page.limit, step)
    yield from merge.start(positions)
    jobs: list[Job] = []
    places: list[int] = []
    while len(jobs) < page.limit:
        head = yield from merge.take()
        if head is None:
            break
        jobs.append(head.item)
        places.append(merge.position)
    return JobPage(jobs, merge.position if merge.has_more else None, places)


def select(hub: Hub, filter: JobFilter, page: PageRequest) -> Plan[Selected]:
    """Return one page of the ids of the jobs of all partitions."""
    found = yield from find(hub, filter, page)
    return Selected([job.id for job in found.jobs], found.next)


def count(hub: Hub, filter: JobFilter, at_most: int | None = None) -> Plan[int]:
    """Count the jobs of all partitions."""
    if filter.queue in HIDDEN:
        return 0
    numbers = yield from _partitions(hub, filter)
    filters = [filter]
    if filter.queue is None:
        filters += [replace(filter, queue=queue) for queue in sorted(HIDDEN)]
    calls = [
        PartitionCall(hub.at(number), hub.at(number).reader.count(each, at_most))
        for number in numbers
        for each in filters
    ]
    totals = (yield from hub.each(calls)) if calls else []
    width = len(filters)
    hidden = sum(sum(totals[at::width]) for at in range(1, width))
    total = int(sum(totals[::width]) - hidden)
    if at_most is None or filter.is_countable:
        return total
    if hidden and at_most in totals:  # those that were counted may be hidden ones
        return min((yield from count(hub, filter)), at_most)
    return min(total, at_most)


def attempts(hub: Hub, job_id: str) -> Plan[list[Attempt] | None]:
    """Return the attempts of a job."""
    (number,) = yield from hub.whereabouts([job_id])
    return (yield from hub.on(number, hub.at(number).reader.attempts(job_id)))


def dependencies(
    hub: Hub, job_ids: Sequence[str], *, with_results: bool = False
) -> Plan[list[list[Dependency]]]:
    """Return what each job waits for, with the present state of jobs of other partitions."""
    numbers = yield from hub.whereabouts(job_ids)
    found: list[list[Dependency]] = yield from scatter(
        hub,
        job_ids,
        numbers,
        lambda store, part: store.reader.dependencies(part, with_results=with_results),
    )
    named = yield from plain_names(hub, [each.job_id for own in found for each in own])
    plain = [[replace(each, job_id=named[each.job_id]) for each in own] for own in found]
    return (yield from _current(hub, plain))


def plain_names(hub: Hub, job_ids: Sequence[str]) -> Plan[dict[str, str]]:
    """Return the ids of the jobs that these mirrors stand for."""
    asked = list(dict.fromkeys(job_ids))
    named = {job_id: gathered(job_id) for job_id in asked}
    if hub.has_strays:  # of those, any bit may be set
        strays = yield from hub.find_strays(asked)
        named |= {job_id: job_id for job_id in strays}
    return named


def _current(hub: Hub, found: list[list[Dependency]]) -> Plan[list[list[Dependency]]]:
    """Return dependencies, those that have not ended in the state that they are in."""
    live = {each.job_id for own in found for each in own if not each.state.is_terminal}
    if not live:
        return found
    jobs = {job.id: job for job in (yield from get(hub, sorted(live))) if job is not None}

    def current(each: Dependency) -> Dependency:
        job = jobs.get(each.job_id)
        # A job that has ended is shown as live until the jobs that wait for it know.
        return each if job is None or job.state.is_terminal else replace(each, state=job.state)

    return [[current(each) for each in own] for own in found]


def dependents(hub: Hub, job_ids: Sequence[str]) -> Plan[list[list[str]]]:
    """Return who waits for each job, in its own partition and behind its mirrors."""
    numbers = sorted((yield from hub.refresh()))
    asked = [*job_ids, *map(gathering, map(str.lower, job_ids))]
    calls = [
        PartitionCall(hub.at(number), hub.at(number).reader.dependents(asked)) for number in numbers
    ]
    parts = (yield from hub.each(calls)) if calls else []
    wanted = sorted({job_id for part in parts for own in part for job_id in own})
    jobs = {job.id: job for job in (yield from get(hub, wanted)) if job is not None}
    found = []
    for place in range(len(job_ids)):
        both = (place, place + len(job_ids))
        names = dict.fromkeys(each for part in parts for at in both for each in part[at])
        own = sorted((jobs[each] for each in names if each in jobs), key=_age)
        found.append([job.id for job in own])
    return found


def _age(job: Job) -> datetime:
    return job.created_at


def situation(hub: Hub, job_id: str) -> Plan[Situation | None]:
    """Return what keeps a job from running."""
    (number,) = yield from hub.whereabouts([job_id])
    found = yield from hub.on(number, hub.at(number).reader.situation(job_id))
    if found is None:
        return None
    live = yield from hub.on(HOME, hub.home.cluster.workers())
    awaited: list[Dependency] = []
    if found.dependencies:
        (awaited,) = yield from dependencies(hub, [job_id])
    if found.app_limit is not None:  # that of the partition is a part of it
        limit = yield from hub.on(HOME, hub.home.settings.app_limit())
        found = replace(found, app_limit=limit, app_running=(yield from running(hub)))
    return replace(found, workers=live, dependencies=tuple(awaited))


def dead_letters(
    hub: Hub, type: str | None, page: PageRequest, queues: Sequence[str] | None = None
) -> Plan[DeadLetterPage]:
    """Return one page of the dead letters of all partitions, the most recently dead first."""
    found: list[tuple[int, DeadLetter]] = []
    has_more = False
    for number in sorted((yield from hub.refresh())):
        after = None if page.after is None else beyond(page.after, number, newest_first=True)
        asked = PageRequest(page.limit, after)
        letters, following = yield from hub.ask(
            number, LOOK, read.placed_letters, type, asked, queues
        )
        found += [(place_of(position, number), letter) for position, letter in letters]
        has_more |= following
    found.sort(key=lambda pair: pair[0], reverse=True)
    shown = found[: page.limit]
    is_last = len(found) <= page.limit and not has_more
    following = None if is_last or not shown else shown[-1][0]
    return DeadLetterPage([letter for _, letter in shown], following)
