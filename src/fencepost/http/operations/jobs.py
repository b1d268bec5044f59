"""Looking at jobs and steering them."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from msgspec import UNSET

from fencepost.actions.local.jobs import check_selective, live_part
from fencepost.actions.results import no_result
from fencepost.core.access.audit import conditions_of
from fencepost.core.access.tokens import Principal
from fencepost.core.bounds import HTTP_WAIT_MAX
from fencepost.core.crypto.envelope import readable
from fencepost.core.filter import JobFilter, make_filter
from fencepost.core.job.edits import Edits
from fencepost.core.job.history import history as changes
from fencepost.core.job.job import Job
from fencepost.core.job.lifecycle import State
from fencepost.core.values.duration import parse_duration
from fencepost.errors import ForbiddenError, JobNotFoundError
from fencepost.handles.job import naming_existing_async
from fencepost.http.auth.scope import may_see_all, queue_for, reasons, shown
from fencepost.http.auth.watch import TokenWatch
from fencepost.http.request.call import Call, Nothing, Reply, afterwards
from fencepost.http.request.problems import HttpError
from fencepost.wire.bodies import body_of, check_json, show
from fencepost.wire.control import Cancelled, EditBody, RetryBody, Selection
from fencepost.wire.jobs import JobPage, JobView, summary_of, view_of
from fencepost.wire.search import (
    Attempts,
    CountQuery,
    History,
    JobCount,
    JobSearch,
    Reasons,
    Result,
    Wait,
)
from fencepost.wire.terms import (
    Duration,
)


async def find_jobs(call: Call[Nothing, JobSearch]) -> Reply:
    """Return a page of jobs, newest first."""
    query = call.query
    filter = filter_of(call.principal, query, dict(_tag(text) for text in query.tag))
    page = await call.run(call.actions.jobs.find(filter, query.after, query.limit))
    jobs = await shown(call, page.jobs)
    return Reply(JobPage(jobs=[summary_of(job) for job in jobs], next=page.next))


async def count_jobs(call: Call[Nothing, CountQuery]) -> Reply:
    """Return how many jobs there are, from counters: no job is looked at."""
    query = call.query
    queue = queue_for(call.principal, query.queue)
    filter = make_filter(state=query.state or None, type=query.type, queue=queue)
    return Reply(JobCount(await call.run(call.actions.jobs.count(filter))))


def filter_of(
    principal: Principal, query: JobSearch | Selection, tags: dict[str, str]
) -> JobFilter:
    """Return the filter that *query* describes, within the queues that a token is for."""
    return make_filter(
        state=query.state or None,
        type=query.type,
        queue=queue_for(principal, query.queue),
        tags=tags,
        correlation_id=query.correlation_id,
        flow=query.flow,
        created_after=query.created_after,
        created_before=query.created_before,
    )


def _tag(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise HttpError(f"write tag=name:value, got {text[:100]!r}", status=422)
    return unquote(name), value


async def look(call: Call[Any, Any]) -> Job:
    """Return the job at the path, or raise JobNotFoundError; also for one out of reach."""
    job_id = call.path["id"]
    job = await call.run(call.actions.jobs.get(job_id))
    if not call.principal.may_use(job.queue):
        raise JobNotFoundError(job_id)
    (seen,) = await shown(call, [job])
    return seen


async def get_job(call: Call[Nothing, Nothing]) -> Reply:
    """Return all there is to see of a job."""
    return Reply(_view(call.principal, await look(call)))


def _view(principal: Principal, job: Job) -> JobView:
    return view_of(job, is_full=may_see_all(principal, job))


async def get_attempts(call: Call[Nothing, Nothing]) -> Reply:
    """Return every attempt of a job."""
    job = await look(call)
    found = await call.run(call.actions.jobs.attempts(job.id))
    return Reply(Attempts([readable(attempt) for attempt in found]))


async def get_history(call: Call[Nothing, Nothing]) -> Reply:
    """Return the states that a job has been in."""
    job = await look(call)
    found = await call.run(call.actions.jobs.attempts(job.id))
    return Reply(History(changes(job, found)))


async def get_result(call: Call[Nothing, Nothing]) -> Reply:
    """Return the result of a job that has completed; 409 as long as there is none."""
    job = await look(call)
    if not may_see_all(call.principal, job):
        raise ForbiddenError(
            f"the result of a job is shown to the token that submitted it, and with the role read; "
            f"the token {call.principal.name!r} did not and has it not"
        )
    if job.state is not State.COMPLETED:
        raise no_result(job)
    shown = show(job.result)
    return Reply(
        Result(
            id=job.id,
            state=job.state,
            result=shown.json,
            result_base64=shown.base64,
            result_encrypted=shown.encrypted,
        )
    )


async def explain_job(call: Call[Nothing, Nothing]) -> Reply:
    """Say in words why a job is where it is."""
    job = await look(call)
    store = call.session.store
    situation = await store.run_async(store.reader.situation(job.id))
    if situation is None:
        raise JobNotFoundError(job.id)
    return Reply(Reasons(await reasons(call, situation)))


async def wait_for_job(call: Call[Nothing, Wait]) -> Reply:
    """Answer when the job has ended, or with the job as it is when the time is up.

    So also when the server stops, which whoever waits can see: the job has not ended.
    """
    job = await look(call)
    timeout = duration_of(call.query.timeout)
    seconds = parse_duration(timeout, name="timeout", maximum=HTTP_WAIT_MAX)
    if not job.state.is_terminal and seconds > 0:
        call.listen()
        async with TokenWatch(call) as watch:
            job = await call.run(call.actions.jobs.end(job.id, seconds, watch.is_off))
        await call.check_again()
        if not call.principal.may_use(job.queue):
            raise JobNotFoundError(job.id)
        (job,) = await shown(call, [job])
    return Reply(_view(call.principal, job))


def duration_of(text: str) -> Duration:
    """Return a duration of a query, where a bare number means seconds."""
    return float(text) if _SECONDS.fullmatch(text) else text


_SECONDS = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?", re.ASCII)


# Steering.


async def cancel_job(call: Call[Nothing, Nothing]) -> Reply:
    """Cancel a job in whatever live state it is."""
    job = await look(call)
    await call.run(call.actions.jobs.cancel(job.id))
    return Reply(summary_of(await afterwards(look(call))))


async def cancel_jobs(call: Call[Selection, Nothing]) -> Reply:
    """Cancel every live job that meets the conditions, and what waits for one of them."""
    call.detail["conditions"] = conditions_of(call.body, without=["dry_run"])
    if call.body.dry_run:
        call.detail["dry_run"] = True
    filter = filter_of(call.principal, call.body, call.body.tags)
    check_selective(filter)
    if call.body.dry_run:
        live = live_part(filter)
        count = 0
        if live is not None:
            count = await call.run(call.actions.jobs.count(live))
        call.detail["count"] = count
        return Reply(Cancelled(count, dry_run=True))
    count = await call.run(call.actions.jobs.cancel_all(filter, queues=call.principal.queues))
    call.detail["count"] = count
    return Reply(Cancelled(count))


async def retry_job(call: Call[RetryBody, Nothing]) -> Reply:
    """Run a failed or cancelled job again, under the same id; or a delayed or retrying one now."""
    job, body = await look(call), call.body
    async with naming_existing_async(call.session):
        await call.run(
            call.actions.jobs.retry(job.id, body.reset_attempts, body.delay, body.priority)
        )
    return Reply(summary_of(await afterwards(look(call))))


async def edit_job(call: Call[EditBody, Nothing]) -> Reply:
    """Change the tags of a job; of one that waits, also when it runs, with what, and how soon."""
    job, body = await look(call), call.body
    edits: Edits = {
        "priority": body.priority,
        "tags": body.tags,
        "run_at": body.run_at,
        "correlation_id": body.correlation_id,
        "callback_url": body.callback_url,
        "type": body.type,
        "queue": body.queue,
    }
    if body.payload is not UNSET or body.payload_base64 is not UNSET:
        edits["payload"] = check_json(body_of("payload", body.payload, body.payload_base64))
    edited = await call.run(call.actions.jobs.edit(job.id, edits))
    (seen,) = await shown(call, [edited])
    return Reply(summary_of(seen))
