"""Which jobs a token can reach, and how much of them it can see. The rules, for every route:

**For a token, a job outside its queues does not exist**, in every answer, count, cursor and stream.
The id of such a job is answered like an unknown id. A key that it holds is refused with a 409
without its id. Where a job within reach refers to it, as a dependency, that is left out.

**A token without the role ``read`` sees in full the jobs that it submitted itself.** Of other jobs
within its reach it sees the state, without payload, result and failure.

A job never changes its queue, and ids are random, so that what was looked up once stays true.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from fencepost.core.access.tokens import Principal, Role
from fencepost.core.bounds import PAGE_MAX
from fencepost.core.filter import JobQuery
from fencepost.core.job.job import DeadLetter, Dependency, Failure, Job, NewJob
from fencepost.core.job.why import Reason, Situation, explain
from fencepost.core.values.names import id_text
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

DEPENDENCY_WITHHELD = "a job that it waited for did not complete"
_WITHOUT_OTHERS = {
    "app_limit": "the limit of running jobs is reached; it waits for a slot",
    "pending_key": "the limit of its concurrency key is reached; it waits its turn",
    "no_worker": "no live worker serves its type on its queue; start one that does",
}
"""Texts for reasons whose usual text counts jobs of all queues, or names what others serve."""


def check_queue_allowed(principal: Principal, queue: str) -> None:
    """Raise ForbiddenError if the token may not use this queue, whether or not it exists."""
    if not principal.may_use(queue):
        raise ForbiddenError(f"token {principal.name!r} may not use queue {queue!r}")


def queue_for(principal: Principal, queue: str | None) -> str | None:
    """Return the queue to search in; for a token of one queue, that one by default."""
    if queue is not None:
        check_queue_allowed(principal, queue)
        return queue
    if principal.queues is None:
        return None
    if len(principal.queues) > 1:
        names = ", ".join(sorted(principal.queues))
        raise ForbiddenError(f"name a queue: token {principal.name!r} may use {names}")
    return min(principal.queues)


def submitted_by(principal: Principal, job: NewJob) -> NewJob:
    """Return *job* as submitted by this token; a key held outside its queues stays hidden."""
    if not principal.may_use(job.queue):
        # The queue is not named: the caller may not know where its type or event leads.
        own = ", ".join(sorted(principal.queues or ()))
        raise ForbiddenError(
            f"token {principal.name!r} may submit only to {own}; this job is for another queue"
        )
    if principal.token_id is None:
        return job
    key = job.key
    if key is not None and principal.queues is not None:
        key = replace(key, within=principal.queues)
    return replace(job, key=key, submitter=principal.token_id)


async def outside(call: Call[Any, Any], job_ids: Iterable[str]) -> set[str]:
    """Return those of *job_ids* that are jobs outside the token's queues."""
    found, may_use = await _queues(call, job_ids), call.principal.may_use
    return {job_id for job_id, queue in found.items() if queue is not None and not may_use(queue)}


async def beyond(call: Call[Any, Any], job_ids: Iterable[str]) -> set[str]:
    """Return those of *job_ids* that must be hidden: out of reach, or deleted meanwhile."""
    found, may_use = await _queues(call, job_ids), call.principal.may_use
    return {job_id for job_id, queue in found.items() if queue is None or not may_use(queue)}


async def _queues(call: Call[Any, Any], job_ids: Iterable[str]) -> dict[str, str | None]:
    """Return the queues of jobs; empty for a token that may use all queues."""
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
    """Jobs to submit, in which each id out of reach is replaced by an unknown one.

    So the store refuses them as it refuses any unknown id, in the same order with other checks;
    ``named`` puts the given id back into the error.
    """

    def __init__(self, jobs: list[NewJob], given: dict[str, str]) -> None:
        self.jobs = jobs
        self._given = given

    def some(self, jobs: list[NewJob]) -> Disguised:
        """Return some of the jobs, with the same replacements."""
        return Disguised(jobs, self._given)

    def named(self, error: InvalidJobError) -> InvalidJobError:
        """Return *error* with the id that the client gave."""
        if isinstance(error, UnknownDependencyError) and error.job_id in self._given:
            return UnknownDependencyError(self._given[error.job_id])
        return error


async def disguised(call: Call[Any, Any], jobs: list[NewJob]) -> Disguised:
    """Return *jobs* with dependencies out of reach replaced."""
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


async def shown(call: Call[Any, Any], jobs: Sequence[S]) -> list[S]:
    """Return *jobs* without references to jobs out of reach."""
    failed = {each.failure.failed_dependency for each in jobs if each.failure is not None}
    hidden = await beyond(call, (each for each in failed if each is not None))
    return [_without_dependency(each, hidden) for each in jobs] if hidden else list(jobs)


def _without_dependency(seen: S, hidden: set[str]) -> S:
    failure = seen.failure
    if failure is None or failure.failed_dependency not in hidden:
        return seen
    return replace(seen, failure=Failure(failure.category, DEPENDENCY_WITHHELD, code=failure.code))


async def known_dependencies(
    call: Call[Any, Any], found: dict[str, list[Dependency]]
) -> dict[str, list[Dependency]]:
    """Return the dependencies of jobs that the token can reach."""
    ids = [each.job_id for some in found.values() for each in some]
    hidden = await outside(call, ids)
    if not hidden:
        return found
    return {
        job_id: [each for each in some if each.job_id not in hidden]
        for job_id, some in found.items()
    }


async def reasons(call: Call[Any, Any], situation: Situation) -> list[Reason]:
    """Return why a job is where it is, without references to jobs out of reach."""
    if call.principal.queues is None:
        return explain(situation)
    (job,) = await shown(call, [situation.job])
    found = await known_dependencies(call, {job.id: list(situation.dependencies)})
    some = tuple(found[job.id])
    explained = explain(replace(situation, job=job, dependencies=some))
    return [_without_others(reason, situation, some) for reason in explained]


def _without_others(reason: Reason, situation: Situation, some: Sequence[Dependency]) -> Reason:
    if reason.code == "pending" and len(some) < len(situation.dependencies) and not some:
        return Reason(reason.code, "it waits for other jobs")
    return Reason(reason.code, _WITHOUT_OTHERS.get(reason.code, reason.text))


async def withheld(call: Call[Any, Any], error: FencepostError) -> FencepostError:
    """Return *error* without the job that it names, if that is out of reach or may be."""
    match error:
        case DuplicateJobError(existing_id=str() as named):
            bare: FencepostError = DuplicateJobError(type=error.type, key=error.key)
        case StateConflictError(failed_dependency=str() as named):
            bare = StateConflictError(
                f"job {error.job_id} waits for a job that has not completed", job_id=error.job_id
            )
        case _:
            return error
    try:
        if await beyond(call, [named]):
            return bare
        if isinstance(error, DuplicateJobError) and error.differs:
            is_comparable = bool(await comparable(call, [named]))
            return error if is_comparable else _without_differences(error)
    except StoreError:
        return bare
    return error


def _without_differences(error: DuplicateJobError) -> DuplicateJobError:
    return DuplicateJobError(type=error.type, key=error.key, existing_id=error.existing_id)


async def comparable(call: Call[Any, Any], job_ids: Iterable[str]) -> set[str]:
    """Return those of *job_ids* of which the token may know whether their payload is the same.

    Otherwise a token that may not see a payload could guess it, field by field.
    """
    wanted, store = list(dict.fromkeys(job_ids)), call.session.store
    if _may_read(call.principal):
        return set(wanted)
    seen: set[str] = set()
    for start in range(0, len(wanted), PAGE_MAX):
        jobs = await store.run_async(store.reader.get(wanted[start : start + PAGE_MAX]))
        seen |= {job.id for job in jobs if job is not None and may_see_all(call.principal, job)}
    return seen


def may_see_all(principal: Principal, job: Job) -> bool:
    """Return whether this token may see payload, result and failure of *job*."""
    return _may_read(principal) or job.submitter == principal.token_id


def _may_read(principal: Principal) -> bool:
    return principal.token_id is None or principal.may(Role.READ)


def check_content_allowed(principal: Principal, job: Job, verb: str) -> None:
    """Raise ForbiddenError if the token may not see the content of *job*, and so cannot *verb*."""
    if not may_see_all(principal, job):
        raise ForbiddenError(
            f"token {principal.name!r} did not submit this job and lacks role read, so it cannot "
            f"{verb}"
        )


def within_reach(principal: Principal, query: JobQuery) -> JobQuery:
    """Return a search that tells this token no more than the jobs that it may see.

    Raise ForbiddenError if it asks for content that the token may not read: it could guess it.
    """
    if query.look.needs_content and not _may_read(principal):
        raise ForbiddenError(
            f"token {principal.name!r} lacks role read, so it cannot select jobs by error or where"
        )
    if principal.queues is None:
        return query
    return replace(query, look=replace(query.look, withholds_dependency=True))
