"""Finding, reading and steering jobs and dead letters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import unquote

from msgspec import UNSET
from msgspec.structs import asdict

from fencepost.actions.options import retry_choice
from fencepost.actions.replies import no_result
from fencepost.core.access.tokens import Principal
from fencepost.core.bounds import LOOK_MAX
from fencepost.core.encryption import readable
from fencepost.core.filter import JobQuery, is_oldest_first, make_query
from fencepost.core.job.checks import checks
from fencepost.core.job.history import history as changes
from fencepost.core.job.job import Job
from fencepost.core.job.lifecycle import Edits, State
from fencepost.core.values.times import TEXT_LENGTH_MAX, parse_duration
from fencepost.errors import JobNotFoundError
from fencepost.http.operations.submit import created
from fencepost.http.request.call import Call, Nothing, Reply, afterwards, token_watch
from fencepost.http.request.problems import HttpError
from fencepost.http.request.route import FOLLOW, action, route
from fencepost.http.scope import (
    check_content_allowed,
    may_see_all,
    queue_for,
    reasons,
    shown,
    within_reach,
)
from fencepost.wire import control
from fencepost.wire.bodies import body_of, check_json, shown_fields
from fencepost.wire.bounds import HTTP_WAIT_MAX
from fencepost.wire.jobs import (
    Accepted,
    JobSummary,
    JobView,
    WireJobPage,
    listed_of,
    summary_of,
    view_of,
)
from fencepost.wire.terms import Duration


@route("GET /v1/jobs", "Find jobs", WireJobPage, "invalid_job invalid_key")
async def find_jobs(call: Call[Nothing, control.JobSearch]) -> Reply:
    """Return a page of jobs, newest first unless the oldest are asked for first."""
    asked = call.query
    page = await call.run(
        call.actions.jobs.find(
            searched(call.principal, asked),
            asked.after,
            asked.limit,
            is_oldest_first=is_oldest_first(asked.order),
        )
    )
    jobs = [
        listed_of(job, is_full=may_see_all(call.principal, job))
        for job in await shown(call, page.jobs)
    ]
    return Reply(
        WireJobPage(jobs=jobs, next=page.next, looked=page.looked, unreadable=page.unreadable)
    )


@route("GET /v1/jobs/count", "Count jobs", control.JobCount, "invalid_job invalid_key")
async def count_jobs(call: Call[Nothing, control.CountQuery]) -> Reply:
    """Return how many jobs there are: by state, type and queue from counters, else up to 10,000."""
    query = searched(call.principal, call.query)
    found = await call.run(call.actions.jobs.count(query, at_most=LOOK_MAX))
    return Reply(control.JobCount(found.count, not found.is_exact, found.looked, found.unreadable))


def searched(principal: Principal, query: control.CountQuery) -> JobQuery:
    """Return what a query string describes, within the queues that the token may use."""
    priorities = [int(each) if each.isdecimal() else each for each in query.priority]
    return query_of(principal, query, dict(_tag(text) for text in query.tag), priorities)


def query_of(
    principal: Principal,
    given: control.JobConditions,
    tags: dict[str, str],
    priorities: Sequence[int | str],
) -> JobQuery:
    """Return what conditions describe, within the queues that the token may use."""
    query = make_query(
        state=given.state or None,
        type=given.type,
        queue=queue_for(principal, given.queue),
        tags=tags,
        correlation_id=given.correlation_id,
        flow=given.flow,
        id_prefix=given.id_prefix,
        created_after=given.created_after,
        created_before=given.created_before,
        priority=cast(Sequence[int], priorities) or None,
        key=given.key,
        error=given.error,
        where=given.where,
    )
    return within_reach(principal, query)


def _tag(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise HttpError(f"write tag=name:value, got {text[:100]!r}")
    return unquote(name), value


async def look(call: Call[Any, Any]) -> Job:
    """Return the job in the path; raise JobNotFoundError also for a job of another's queue."""
    job_id = call.path["id"]
    job = await call.run(call.actions.jobs.get(job_id))
    if not call.principal.may_use(job.queue):
        raise JobNotFoundError(job_id)
    (seen,) = await shown(call, [job])
    return seen


@route("GET /v1/jobs/{id}", "Look at a job", JobView, roles=FOLLOW)
async def get_job(call: Call[Nothing, Nothing]) -> Reply:
    """Return a job with all its details."""
    return Reply(_view(call.principal, await look(call)))


def _view(principal: Principal, job: Job) -> JobView:
    return view_of(job, is_full=may_see_all(principal, job))


def _summary(principal: Principal, job: Job) -> JobSummary:
    return summary_of(job, is_full=may_see_all(principal, job))


@route("GET /v1/jobs/{id}/attempts", "Look at a job's attempts", control.Attempts)
async def get_attempts(call: Call[Nothing, Nothing]) -> Reply:
    """Return every attempt of a job."""
    job = await look(call)
    found = await call.run(call.actions.jobs.attempts(job.id))
    return Reply(control.Attempts([readable(attempt) for attempt in found]))


@route("GET /v1/jobs/{id}/history", "See what states a job has been in", control.History)
async def get_history(call: Call[Nothing, Nothing]) -> Reply:
    """Return the states that a job has been in."""
    job = await look(call)
    found = await call.run(call.actions.jobs.attempts(job.id))
    return Reply(control.History(changes(job, found)))


@route("GET /v1/jobs/{id}/refusals", "See refused writes to a job", control.RefusedWrites)
async def get_refusals(call: Call[Nothing, Nothing]) -> Reply:
    """Return what workers without a valid lease tried to write about a job, the newest first."""
    job = await look(call)
    store = call.session.store
    found = await store.run_async(store.refusals.list(job.id))
    attempts = await call.run(call.actions.jobs.attempts(job.id)) if found else []
    workers = {attempt.lease_version: attempt.worker for attempt in attempts}
    shown_ = [
        control.WireRefusal(**asdict(each), worker=workers.get(each.fence_held or 0))
        for each in found
    ]
    return Reply(control.RefusedWrites(shown_))


@route(
    "GET /v1/jobs/{id}/result",
    "Get the result of a completed job",
    control.Result,
    "state_conflict",
    roles=FOLLOW,
)
async def get_result(call: Call[Nothing, Nothing]) -> Reply:
    """Return the result of a completed job; 409 as long as there is none."""
    job = await look(call)
    check_content_allowed(call.principal, job, "read the result")
    if job.state is not State.COMPLETED:
        raise no_result(job)
    return Reply(control.Result(id=job.id, state=job.state, **shown_fields(result=job.result_body)))


@route("GET /v1/jobs/{id}/why", "Ask why a job is where it is", control.Reasons)
async def explain_job(call: Call[Nothing, Nothing]) -> Reply:
    """Explain why a job is where it is."""
    job = await look(call)
    store = call.session.store
    situation = await store.run_async(store.reader.situation(job.id))
    if situation is None:
        raise JobNotFoundError(job.id)
    found = checks(situation)
    if call.principal.queues is not None:
        found = [check.without_others for check in found]
    return Reply(control.Reasons(await reasons(call, situation), found))


@route(
    "GET /v1/jobs/{id}/wait",
    "Wait until a job has ended",
    JobView,
    "invalid_duration",
    roles=FOLLOW,
)
async def wait_for_job(call: Call[Nothing, control.Wait]) -> Reply:
    """Answer when the job has ended, or with its present state when the time is up.

    The same when the server stops: the answer shows that the job has not ended.
    """
    job = await look(call)
    timeout = duration_of(call.query.timeout)
    seconds = parse_duration(timeout, name="timeout", maximum=HTTP_WAIT_MAX)
    if not job.state.is_terminal and seconds > 0:
        call.listen()
        async with token_watch(call) as is_off:
            job = await call.run(call.actions.jobs.end(job.id, seconds, is_off))
        await call.check_again()
        if not call.principal.may_use(job.queue):
            raise JobNotFoundError(job.id)
        (job,) = await shown(call, [job])
    return Reply(_view(call.principal, job))


def duration_of(text: str) -> Duration:
    """Return a duration of a query, in which a bare number means seconds."""
    is_number = len(text) <= TEXT_LENGTH_MAX and _SECONDS.fullmatch(text)
    return float(text) if is_number else text


_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)


@action("POST /v1/jobs/{id}/cancel", "job.cancel", "Cancel a job", JobSummary, "state_conflict")
async def cancel_job(call: Call[Nothing, Nothing]) -> Reply:
    """Cancel a job in any live state."""
    job = await look(call)
    await call.run(call.actions.jobs.cancel(job.id))
    return Reply(_summary(call.principal, await afterwards(look(call))))


@action(
    "POST /v1/jobs/{id}/retry",
    "job.retry",
    "Run a job again",
    JobSummary,
    "state_conflict duplicate_key invalid_job invalid_duration",
    is_body_optional=True,
)
async def retry_job(call: Call[control.RetryBody, Nothing]) -> Reply:
    """Run a failed or cancelled job again, under the same id; or a delayed or retrying one now."""
    job, body = await look(call), call.body
    choice = retry_choice(body.reset_attempts, body.delay, body.priority)
    await call.run(call.actions.jobs.retry(job.id, choice))
    return Reply(_summary(call.principal, await afterwards(look(call))))


@action("PATCH /v1/jobs/{id}", "job.edit", "Change a job", JobSummary, "state_conflict invalid_job")
async def edit_job(call: Call[control.EditBody, Nothing]) -> Reply:
    """Change the tags of a job; if it waits, also its time, payload, priority and callback."""
    job, body = await look(call), call.body
    if body.callback_url:  # the result is sent there
        check_content_allowed(call.principal, job, "set its callback_url")
    given = asdict(body)
    payload, encoded = given.pop("payload"), given.pop("payload_base64")
    if payload is not UNSET or encoded is not UNSET:
        given["payload"] = check_json(body_of("payload", payload, encoded))
    edited = await call.run(call.actions.jobs.edit(job.id, cast(Edits, given)))
    (seen,) = await shown(call, [edited])
    return Reply(_summary(call.principal, seen))


@action(
    "POST /v1/dead-letters/{id}/replay",
    "dead_letter.replay",
    "Replay a dead letter as a fresh job",
    Accepted,
    "duplicate_key state_conflict encryption",
    status=201,
)
async def replay_dead_letter(call: Call[Nothing, Nothing]) -> Reply:
    """Submit a dead letter as a fresh job; its record stays unless the new job is stored."""
    job = await look(call)
    stored = await call.run(call.actions.dead_letters.replay(job.id))
    call.detail["job_id"] = stored.id
    call.api.letters.forget()
    return created(stored)


@action(
    "DELETE /v1/dead-letters/{id}", "dead_letter.discard", "Take a dead letter off the list", None
)
async def discard_dead_letter(call: Call[Nothing, Nothing]) -> Reply:
    """Take a dead letter off the list; its job is kept until retention removes it."""
    job = await look(call)
    await call.run(call.actions.dead_letters.discard(job.id))
    call.api.letters.forget()
    return Reply(None, 204)
