"""Many jobs at once, by conditions or by ids: cancel them, run them again, or change them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, cast

from msgspec.structs import asdict

from fencepost.actions.local.bulk import (
    RETRIED_IF_NAMED,
    check_selective,
    edited_states,
    retried_part,
)
from fencepost.actions.options import retry_choice
from fencepost.actions.replies import EditCount
from fencepost.core.access.audit import conditions_of
from fencepost.core.bounds import PAGE_MAX
from fencepost.core.display import shown
from fencepost.core.filter import JobQuery
from fencepost.core.job.lifecycle import LIVE, ManyEdits, State
from fencepost.core.look import without_value
from fencepost.errors import StateConflictError
from fencepost.http.operations.jobs import query_of
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.problems import HttpError
from fencepost.http.request.read import check_count
from fencepost.http.request.route import action
from fencepost.wire import control
from fencepost.wire.bounds import HTTP_BATCH_MAX, HTTP_IDS_BODY_MAX

GROWTH_ALLOWED = 1.1
_ID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


@action(
    "POST /v1/jobs/cancel",
    "jobs.cancel",
    "Cancel every job that meets conditions",
    control.Cancelled,
    "invalid_job invalid_key state_conflict",
    body_max=HTTP_IDS_BODY_MAX,
)
async def cancel_jobs(call: Call[control.Selection, Nothing]) -> Reply:
    """Cancel every live job that meets the conditions, and the jobs that wait for one of them."""
    body, jobs = call.body, call.actions.jobs
    _note(call)
    if body.ids is not None:
        ids = await _within_reach(call, body.ids, LIVE)
        return await _end(call, control.Cancelled, len(ids), jobs.cancel_some, ids)
    query = _selected(call)
    live = query.within(LIVE)
    if live is not None and not live.look.is_any:
        ids = await call.run(jobs.selected(live))
        return await _end(call, control.Cancelled, len(ids), jobs.cancel_some, ids)
    count = await _counted(call, live)
    return await _end(call, control.Cancelled, count, jobs.cancel_all, query)


@action(
    "POST /v1/jobs/retry",
    "jobs.retry",
    "Run every job again that meets conditions",
    control.Retried,
    "invalid_job invalid_key invalid_duration state_conflict",
    body_max=HTTP_IDS_BODY_MAX,
)
async def retry_jobs(call: Call[control.RetrySelection, Nothing]) -> Reply:
    """Run jobs again that ended without success; delayed and retrying ones now, if named.

    At most 10,000 at once, the most recent; one whose key is held, or which waits for a job that
    has failed, stays as it is.
    """
    body, jobs = call.body, call.actions.jobs
    _note(call)
    choice = retry_choice(body.reset_attempts, body.delay, body.priority)
    if body.ids is not None:
        ids = await _within_reach(call, body.ids, RETRIED_IF_NAMED)
    else:
        part = retried_part(_selected(call))
        ids = [] if part is None else await call.run(jobs.selected(part, HTTP_BATCH_MAX))
    check_expected(len(ids), body.expected)
    count = len(ids) if body.dry_run else await call.run(jobs.retry_some(ids, choice))
    call.detail["count"] = count
    return Reply(control.Retried(count, body.dry_run))


@action(
    "POST /v1/jobs/edit",
    "jobs.edit",
    "Change every job that meets conditions",
    control.EditedJobs,
    "invalid_job invalid_key state_conflict",
    body_max=HTTP_IDS_BODY_MAX,
)
async def edit_jobs(call: Call[control.EditSelection, Nothing]) -> Reply:
    """Change the priority, the time or the tags of many jobs; a repeat is safe.

    Each by the rules of changing one. Those that the state forbids are not selected.
    """
    body, jobs = call.body, call.actions.jobs
    _note(call)
    edits = cast(ManyEdits, asdict(body.edit))
    states = edited_states(edits)
    if body.ids is not None:
        ids = await _within_reach(call, body.ids, states)
        count, act = len(ids), jobs.edit_some(ids, edits)
    else:
        query = _selected(call)
        part = query.within(states)
        if part is not None and not part.look.is_any:
            ids = await call.run(jobs.selected(part))
            count, act = len(ids), jobs.edit_some(ids, edits)
        else:
            count, act = await _counted(call, part), jobs.edit_all(query, edits)
    check_expected(count, body.expected)
    found = EditCount(count) if body.dry_run else await call.run(act)
    call.detail["count"] = found.count
    return Reply(control.EditedJobs(count=found.count, refused=found.refused, dry_run=body.dry_run))


def _selected(call: Call[Any, Any]) -> JobQuery:
    """Return the conditions of a body; refuse those that select every job."""
    body = call.body
    query = query_of(call.principal, body, body.tags, body.priorities)
    check_selective(query)
    return query


def _note(call: Call[Any, Any]) -> None:
    """Add what is asked for to the audit log, without what payloads are compared with."""
    body = call.body
    conditions = conditions_of(body, without=["dry_run", "ids"])
    if "where" in conditions:
        conditions["where"] = list(map(without_value, conditions["where"]))
    call.detail["conditions"] = conditions
    if body.dry_run:
        call.detail["dry_run"] = True
    if body.ids is None:
        return
    check_ids(body.ids)
    call.detail["ids"] = len(body.ids)
    named = [name for name in control.Selection.__some__ if name != "ids" and getattr(body, name)]
    if named:
        raise HttpError(f"give ids or conditions, not both: {', '.join(named)}")


def check_ids(ids: Sequence[str]) -> None:
    """Raise HttpError unless these are ids, and not too many."""
    check_count(len(ids))
    wrong = [each for each in ids if not _ID.fullmatch(each)]
    if wrong:
        raise HttpError(f"{shown(wrong[0])} is not the id of a job")


async def _within_reach(
    call: Call[Any, Any], ids: list[str], states: Collection[State]
) -> list[str]:
    """Return those of *ids* that the token may use and that are in one of *states*, in order."""
    store, wanted = call.session.store, list(dict.fromkeys(each.lower() for each in ids))
    found: list[str] = []
    for start in range(0, len(wanted), PAGE_MAX):
        jobs = await store.run_async(store.reader.get(wanted[start : start + PAGE_MAX]))
        found += [
            job.id
            for job in jobs
            if job is not None and job.state in states and call.principal.may_use(job.queue)
        ]
    return found


async def _counted(call: Call[Any, Nothing], live: JobQuery | None) -> int:
    """Return how many jobs would be changed, if that is asked for."""
    if live is None or not (call.body.dry_run or call.body.expected is not None):
        return 0
    return (await call.run(call.actions.jobs.count(live))).count


async def _end(call: Call[Any, Any], kind: Any, count: int, act: Any, given: Any) -> Reply:
    """Cancel what was counted, unless it is too many or a dry run."""
    check_expected(count, call.body.expected)
    if not call.body.dry_run:
        count = await call.run(act(given, queues=call.principal.queues))
    call.detail["count"] = count
    return Reply(kind(count, dry_run=call.body.dry_run))


def check_expected(count: int, expected: int | None) -> None:
    """Raise StateConflictError if there are far more than the caller has seen."""
    if expected is not None and count > expected * GROWTH_ALLOWED:
        raise StateConflictError(
            f"{count} meet the conditions now, and {expected} were expected; nothing was changed"
        )
