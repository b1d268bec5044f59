"""Looking at jobs and steering them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, ClassVar
from urllib.parse import unquote

import msgspec
from msgspec import Meta

from fencepost.actions import jobs as scripts
from fencepost.core.access.audit import conditions_of
from fencepost.core.access.tokens import Principal
from fencepost.core.bounds import HTTP_WAIT_DEFAULT, HTTP_WAIT_MAX, PAGE_DEFAULT
from fencepost.core.crypto.readable import readable
from fencepost.core.filter import JobFilter, make_filter
from fencepost.core.job.edits import Edits
from fencepost.core.job.history import Change
from fencepost.core.job.history import history as changes
from fencepost.core.job.job import Attempt, Job
from fencepost.core.job.lifecycle import COARSE, State
from fencepost.core.job.why import Reason
from fencepost.core.values.duration import parse_duration
from fencepost.errors import ForbiddenError, JobNotFoundError
from fencepost.handles.job import naming_existing_async
from fencepost.handles.jobs import cancel as cancel_script
from fencepost.handles.jobs import count as count_script
from fencepost.handles.jobs import find as find_script
from fencepost.http.auth.scope import may_see_all, queue_for, reasons, shown
from fencepost.http.auth.watch import TokenWatch
from fencepost.http.operations.after_write import afterwards
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.problems import HttpError
from fencepost.wire.bodies import Base64, Json, body_of, check_json, show
from fencepost.wire.jobs import JobPage, JobView, summary_of, view_of
from fencepost.wire.terms import (
    ClearableId,
    ClearableUrl,
    CorrelationId,
    Cursor,
    Duration,
    PageLimit,
    PriorityName,
    PriorityNumber,
    QueryDuration,
    QueueName,
    Tags,
    TypeName,
)

UNSET = msgspec.UNSET

StateName = Annotated[str, Meta(extra_json_schema={"enum": sorted({*State, *COARSE.values()})})]
TagText = Annotated[str, Meta(extra_json_schema={"pattern": "^[^:]+:."})]


class Search(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Conditions, all of which a job must meet; and a page of those that do."""

    state: list[StateName] = []
    """Any of these; ``in_flight`` and ``succeeded`` are other words for states."""
    type: TypeName | None = None
    queue: QueueName | None = None
    tag: list[TagText] = []
    """``name:value`` each; the first colon divides them, and one in the name is ``%3A``."""
    correlation_id: CorrelationId | None = None
    flow: CorrelationId | None = None
    """The id of a flow."""
    created_after: datetime | None = None
    """Submitted at this time or later."""
    created_before: datetime | None = None
    """Submitted earlier than this."""
    after: Cursor | None = None
    """The ``next`` of the page before."""
    limit: PageLimit = PAGE_DEFAULT

    @property
    def tags(self) -> dict[str, str]:
        """The tags as a body has them."""
        return dict(_tag(text) for text in self.tag)


async def find_jobs(call: Call[Nothing, Search]) -> Reply:
    """Return a page of jobs, newest first."""
    query = call.query
    filter = filter_of(call.principal, query)
    page = await call.session.run_async(find_script(call.session, filter, query.after, query.limit))
    jobs = await shown(call, page.jobs)
    return Reply(JobPage(jobs=[summary_of(job) for job in jobs], next=page.next))


class CountQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Conditions by which jobs are counted anyway."""

    state: list[StateName] = []
    """Any of these; ``in_flight`` and ``succeeded`` are other words for states."""
    type: TypeName | None = None
    queue: QueueName | None = None


class JobCount(msgspec.Struct, frozen=True):
    """How many jobs meet the conditions."""

    count: int


async def count_jobs(call: Call[Nothing, CountQuery]) -> Reply:
    """Return how many jobs there are, from counters: no job is looked at."""
    query = call.query
    queue = queue_for(call.principal, query.queue)
    filter = make_filter(state=query.state or None, type=query.type, queue=queue)
    return Reply(JobCount(await call.session.run_async(count_script(call.session, filter))))


def filter_of(principal: Principal, query: Any) -> JobFilter:
    """Return the filter that *query* describes, within the queues that a token is for."""
    return make_filter(
        state=query.state or None,
        type=query.type,
        queue=queue_for(principal, query.queue),
        tags=query.tags,
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
    job = await call.session.run_async(scripts.get(call.session, job_id))
    if not call.principal.may_use(job.queue):
        raise JobNotFoundError(job_id)
    (seen,) = await shown(call, [job])
    return seen


async def get_job(call: Call[Nothing, Nothing]) -> Reply:
    """Return all there is to see of a job."""
    return Reply(_view(call.principal, await look(call)))


def _view(principal: Principal, job: Job) -> JobView:
    return view_of(job, is_full=may_see_all(principal, job))


class Attempts(msgspec.Struct, frozen=True):
    """Every attempt, oldest first."""

    attempts: list[Attempt]


async def get_attempts(call: Call[Nothing, Nothing]) -> Reply:
    """Return every attempt of a job."""
    job = await look(call)
    found = await call.session.run_async(scripts.attempts(call.session, job.id))
    return Reply(Attempts([readable(attempt) for attempt in found]))


class History(msgspec.Struct, frozen=True):
    """The states that a job has been in, oldest first."""

    history: list[Change]


async def get_history(call: Call[Nothing, Nothing]) -> Reply:
    """Return the states that a job has been in."""
    job = await look(call)
    found = await call.session.run_async(scripts.attempts(call.session, job.id))
    return Reply(History(changes(job, found)))


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended, and what its handler returned."""

    id: str
    state: State
    result: Json = UNSET
    result_base64: Base64 = UNSET
    result_encrypted: str | msgspec.UnsetType = UNSET


async def get_result(call: Call[Nothing, Nothing]) -> Reply:
    """Return the result of a job that has completed; 409 as long as there is none."""
    job = await look(call)
    if not may_see_all(call.principal, job):
        raise ForbiddenError(
            f"the result of a job is shown to the token that submitted it, and with the role read; "
            f"the token {call.principal.name!r} did not and has it not"
        )
    if job.state is not State.COMPLETED:
        raise scripts.no_result(job)
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


class Reasons(msgspec.Struct, frozen=True):
    """Why a job is where it is, what matters most first."""

    reasons: list[Reason]


async def explain_job(call: Call[Nothing, Nothing]) -> Reply:
    """Say in words why a job is where it is."""
    job = await look(call)
    store = call.session.store
    situation = await store.run_async(store.reader.situation(job.id))
    if situation is None:
        raise JobNotFoundError(job.id)
    return Reply(Reasons(await reasons(call, situation)))


class Wait(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How long to wait at the most, as seconds or text such as ``10s``."""

    timeout: QueryDuration = f"{HTTP_WAIT_DEFAULT:g}s"


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
            waiting = scripts.end(call.session, job.id, seconds, watch.is_off)
            job = await call.session.run_async(waiting)
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


class Cancelled(msgspec.Struct, frozen=True):
    """How many jobs were cancelled; or, of a dry run, how many would be."""

    count: int
    dry_run: bool = False


async def cancel_job(call: Call[Nothing, Nothing]) -> Reply:
    """Cancel a job in whatever live state it is."""
    job = await look(call)
    await call.session.run_async(scripts.cancel(call.session, job.id))
    return Reply(summary_of(await afterwards(look(call))))


class Selection(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Conditions, all of which a job must meet; at least one."""

    __some__: ClassVar = (
        "state",
        "type",
        "queue",
        "tags",
        "correlation_id",
        "flow",
        "created_after",
        "created_before",
    )

    state: list[StateName] = []
    type: TypeName | None = None
    queue: QueueName | None = None
    tags: Tags = {}
    correlation_id: CorrelationId | None = None
    flow: CorrelationId | None = None
    """The id of a flow."""
    created_after: datetime | None = None
    """Submitted at this time or later."""
    created_before: datetime | None = None
    """Submitted earlier than this."""
    dry_run: bool = False
    """Only count them."""


async def cancel_jobs(call: Call[Selection, Nothing]) -> Reply:
    """Cancel every live job that meets the conditions, and what waits for one of them."""
    call.detail["conditions"] = conditions_of(call.body, without=["dry_run"])
    if call.body.dry_run:
        call.detail["dry_run"] = True
    filter = filter_of(call.principal, call.body)
    scripts.check_selective(filter)
    if call.body.dry_run:
        live = scripts.live_part(filter)
        count = 0
        if live is not None:
            count = await call.session.run_async(count_script(call.session, live))
        call.detail["count"] = count
        return Reply(Cancelled(count, dry_run=True))
    count = await call.session.run_async(
        cancel_script(call.session, None, filter, queues=call.principal.queues)
    )
    call.detail["count"] = count
    return Reply(Cancelled(count))


class RetryBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How to run a job again; one that is delayed or retrying becomes due."""

    reset_attempts: bool = True
    """Whether it has all of its attempts again."""
    delay: Duration = 0.0
    priority: PriorityNumber | PriorityName | None = None


async def retry_job(call: Call[RetryBody, Nothing]) -> Reply:
    """Run a failed or cancelled job again, under the same id; or a delayed or retrying one now."""
    job, body = await look(call), call.body
    async with naming_existing_async(call.session):
        await call.session.run_async(
            scripts.retry(call.session, job.id, body.reset_attempts, body.delay, body.priority)
        )
    return Reply(summary_of(await afterwards(look(call))))


class EditBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What may be changed of a job; what is left out stays as it is.

    Tags may change at any time, the rest while the job waits.
    """

    priority: PriorityNumber | PriorityName | None = None
    """Reaches those that wait for the job and have inherited its priority."""
    tags: Tags | None = None
    """All that it is to have: these take the place of those it has."""
    run_at: datetime | None = None
    """A time with its zone; one that has come means now."""
    payload: Json = UNSET
    payload_base64: Base64 = UNSET
    """A payload that is no JSON; give one of the two."""
    correlation_id: ClearableId | None = None
    """Empty: none any more."""
    callback_url: ClearableUrl | None = None
    """Empty: none any more."""
    type: TypeName | None = None
    """Another than it has is refused with 409: submit a new job, and cancel this one."""
    queue: QueueName | None = None
    """As ``type``."""


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
    edited = await call.session.run_async(scripts.edit(call.session, job.id, edits))
    (seen,) = await shown(call, [edited])
    return Reply(summary_of(seen))
