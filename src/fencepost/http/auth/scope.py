"""Which jobs a token reaches, and how much of them it sees. The rule, for every route:

**A job outside the queues of a token is a job that does not exist**, in every answer, count, cursor
and stream. An id of one is answered as an id that nobody has. A key that one holds refuses with a
bare 409. What a job within reach says of one (a dependency, a culprit) is left out.

**A token without the role ``read`` sees in full the jobs that it submitted itself.** Of others
within its reach it sees how they stand, without payload, result and failure.

A job never changes its queue, and ids are random: what was looked up once stays true.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from fencepost.core.access.tokens import Principal, Role
from fencepost.core.bounds import PAGE_MAX
from fencepost.core.job.job import DeadLetter, Dependency, Failure, Job, NewJob
from fencepost.core.job.why import Reason, Situation, explain
from fencepost.core.values.ids import id_text
from fencepost.errors import (
    DuplicateJobError,
    FencepostError,
    ForbiddenError,
    InvalidJobError,
    StateConflictError,
    StoreError,
    UnknownDependencyError,
)

if TYPE_CHECKING:
    from fencepost.http.request.call import Call

S = TypeVar("S", Job, DeadLetter)

CULPRIT_WITHHELD = "a job that it waited for did not complete"
TOLD_BY_COUNTS = {
    "app_limit": "as many jobs run as may in all; it waits for a slot",
    "pending_key": "as many jobs of its concurrency key are under way as may be; it waits its turn",
}
"""Reasons whose usual words count jobs of all queues."""


def check_queue_allowed(principal: Principal, queue: str) -> None:
    """Raise ForbiddenError if the token is not for jobs of this queue, whether there are any."""
    if not principal.may_use(queue):
        raise ForbiddenError(f"the token {principal.name!r} is not for the queue {queue!r}")


def queue_for(principal: Principal, queue: str | None) -> str | None:
    """Return the queue that a search is about; a token for one queue means that one."""
    if queue is not None:
        check_queue_allowed(principal, queue)
        return queue
    if principal.queues is None:
        return None
    if len(principal.queues) > 1:
        names = ", ".join(sorted(principal.queues))
        raise ForbiddenError(f"name a queue: the token {principal.name!r} is for {names}")
    return min(principal.queues)


def submitted_by(principal: Principal, job: NewJob) -> NewJob:
    """Return *job* as this token submits it: it is told of no job outside that holds the key."""
    if not principal.may_use(job.queue):
        # Where its type or its event would have it go, the caller may not know.
        own = ", ".join(sorted(principal.queues or ()))
        raise ForbiddenError(
            f"the token {principal.name!r} submits to {own} alone; this job is for another queue"
        )
    if principal.token_id is None:
        return job
    key = job.key
    if key is not None and principal.queues is not None:
        key = replace(key, within=principal.queues)
    return replace(job, key=key, submitter=principal.token_id)


# Of ids that were given, or that stand in what was read.


async def outside(call: Call[Any, Any], job_ids: Iterable[str]) -> set[str]:
    """Return those of *job_ids* that are jobs out of reach."""
    queues = await _queues(call, job_ids)
    may_use = call.principal.may_use
    return {job_id for job_id, queue in queues.items() if queue is not None and not may_use(queue)}


async def beyond(call: Call[Any, Any], job_ids: Iterable[str]) -> set[str]:
    """Return those of *job_ids* of which nothing may be said: out of reach, or gone meanwhile."""
    queues = await _queues(call, job_ids)
    may_use = call.principal.may_use
    return {job_id for job_id, queue in queues.items() if queue is None or not may_use(queue)}


async def _queues(call: Call[Any, Any], job_ids: Iterable[str]) -> dict[str, str | None]:
    """Return the queues of jobs; of none for a token that reaches all."""
    if call.principal.queues is None:
        return {}
    store, wanted = call.session.store, list(dict.fromkeys(job_ids))
    found: dict[str, str | None] = {}
    for start in range(0, len(wanted), PAGE_MAX):
        some = wanted[start : start + PAGE_MAX]
        located = await store.run_async(store.reader.locate(some))
        found.update(zip(some, located, strict=True))
    return found


class Disguised:
    """Jobs to submit, with an id that nobody has in the place of each that is out of reach.

    The store then refuses them as it refuses any unknown id, before or after whatever else it
    refuses; ``named`` puts the id back that was given.
    """

    def __init__(self, jobs: list[NewJob], given: dict[str, str]) -> None:
        self.jobs = jobs
        self._given = given

    def some(self, jobs: list[NewJob]) -> Disguised:
        """Return a part of them."""
        return Disguised(jobs, self._given)

    def named(self, error: InvalidJobError) -> InvalidJobError:
        """Return *error* as it tells of the id that was given."""
        if isinstance(error, UnknownDependencyError) and error.job_id in self._given:
            return UnknownDependencyError(self._given[error.job_id])
        return error


async def disguised(call: Call[Any, Any], jobs: list[NewJob]) -> Disguised:
    """Return *jobs* with what they wait for as far as the token reaches."""
    named = [on for job in jobs if job.after for on in job.after.on if isinstance(on, str)]
    hidden = await outside(call, named)
    if not hidden:
        return Disguised(jobs, {})
    fresh = call.session.clock.new_ids(len(hidden))
    aliases = {job_id: id_text(id_) for job_id, id_ in zip(sorted(hidden), fresh, strict=True)}
    return Disguised(
        [_with_aliases(job, aliases) for job in jobs],
        {alias: job_id for job_id, alias in aliases.items()},
    )


def _with_aliases(job: NewJob, aliases: dict[str, str]) -> NewJob:
    if job.after is None:
        return job
    on = tuple(aliases.get(each, each) if isinstance(each, str) else each for each in job.after.on)
    return replace(job, after=replace(job.after, on=on))


# Of what is answered.


async def shown(call: Call[Any, Any], jobs: Sequence[S]) -> list[S]:
    """Return *jobs* without what they say of others that are out of reach."""
    culprits = {each.failure.culprit for each in jobs if each.failure is not None}
    hidden = await beyond(call, (each for each in culprits if each is not None))
    return [_without_culprit(each, hidden) for each in jobs] if hidden else list(jobs)


def _without_culprit(seen: S, hidden: set[str]) -> S:
    failure = seen.failure
    if failure is None or failure.culprit not in hidden:
        return seen
    return replace(seen, failure=Failure(failure.category, CULPRIT_WITHHELD, code=failure.code))


async def known_dependencies(
    call: Call[Any, Any], found: dict[str, list[Dependency]]
) -> dict[str, list[Dependency]]:
    """Return what jobs waited for, as far as the token reaches."""
    ids = [each.job_id for some in found.values() for each in some]
    hidden = await outside(call, ids)
    if not hidden:
        return found
    return {
        job_id: [each for each in some if each.job_id not in hidden]
        for job_id, some in found.items()
    }


async def reasons(call: Call[Any, Any], situation: Situation) -> list[Reason]:
    """Return why a job is where it is, and nothing of jobs that are out of reach."""
    if call.principal.queues is None:
        return explain(situation)
    (job,) = await shown(call, [situation.job])
    found = await known_dependencies(call, {job.id: list(situation.dependencies)})
    some = tuple(found[job.id])
    told = explain(replace(situation, job=job, dependencies=some))
    return [_uncounted(reason, situation, some) for reason in told]


def _uncounted(reason: Reason, situation: Situation, some: Sequence[Dependency]) -> Reason:
    if reason.code == "pending" and len(some) < len(situation.dependencies) and not some:
        return Reason(reason.code, "it waits for other jobs")
    return Reason(reason.code, TOLD_BY_COUNTS.get(reason.code, reason.text))


async def withheld(call: Call[Any, Any], error: FencepostError) -> FencepostError:
    """Return *error* without the job that it names, if that is out of reach.

    Also if nobody can tell whether it is.
    """
    match error:
        case DuplicateJobError(existing_id=str() as named):
            bare: FencepostError = DuplicateJobError(type=error.type, key=error.key)
        case StateConflictError(culprit=str() as named):
            bare = StateConflictError(
                f"job {error.job_id} waits for a job that has not completed", job_id=error.job_id
            )
        case _:
            return error
    try:
        return bare if await beyond(call, [named]) else error
    except StoreError:
        return bare


# Of jobs within reach that others submitted.


def may_see_all(principal: Principal, job: Job) -> bool:
    """Tell whether payload, result and failure of *job* are this token's to see."""
    if principal.token_id is None or principal.may(Role.READ):
        return True
    return job.submitter == principal.token_id
