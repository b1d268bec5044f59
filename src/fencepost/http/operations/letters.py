"""Dead letters: listed, grouped by what they died of, replayed and discarded by conditions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fencepost.core.access.audit import conditions_of
from fencepost.core.bounds import PAGE_MAX
from fencepost.core.encryption import readable
from fencepost.core.filter import FOUND_LETTERS, encode_cursor, make_filter, make_page
from fencepost.core.fingerprints import LetterMark, grouped
from fencepost.core.job.job import Body, DeadLetter, Job
from fencepost.core.job.lifecycle import DEAD
from fencepost.core.values.times import check_instant
from fencepost.errors import InvalidJobError
from fencepost.http.operations.bulk import check_expected, check_ids
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.route import action, route
from fencepost.http.scope import check_queue_allowed, shown
from fencepost.store.interface.control import Discarded
from fencepost.wire import control
from fencepost.wire.attention import Groups
from fencepost.wire.bodies import check_json
from fencepost.wire.bounds import HTTP_IDS_BODY_MAX


@route("GET /v1/dead-letters", "List dead letters", control.WireDeadLetterPage, "invalid_job")
async def list_dead_letters(call: Call[Nothing, control.DeadLetterQuery]) -> Reply:
    """Return a page of dead letters, the most recent first."""
    query = call.query
    if query.is_looked_up:
        return await _list_found(call)
    page = await call.run(
        call.actions.dead_letters.find(
            query.type, query.after, query.limit, queues=call.principal.queues
        )
    )
    letters = [readable(letter) for letter in await shown(call, page.letters)]
    return Reply(control.WireDeadLetterPage(dead_letters=letters, next=page.next))


async def _list_found(call: Call[Nothing, control.DeadLetterQuery]) -> Reply:
    """Return a page of those that meet conditions which the store does not know."""
    query, store = call.query, call.session.store
    asked = make_page(limit=query.limit, after=query.after, of=FOUND_LETTERS)
    start = asked.after or 0
    marks = await _selected(call, query, query.group)
    some = marks[start : start + asked.limit]
    jobs = await store.run_async(store.reader.get([mark.job_id for mark in some]))
    found = [_letter(job) for job in jobs if job is not None and job.state in DEAD]
    letters = [readable(letter) for letter in await shown(call, found)]
    end = start + asked.limit
    following = encode_cursor(end, FOUND_LETTERS) if end < len(marks) else None
    return Reply(control.WireDeadLetterPage(dead_letters=letters, next=following))


def _letter(job: Job) -> DeadLetter:
    assert job.failure is not None and job.completed_at is not None
    return DeadLetter(
        job_id=job.id,
        type=job.type,
        queue=job.queue,
        state=job.state,
        attempts=job.attempt,
        failure=job.failure,
        completed_at=job.completed_at,
    )


@route("GET /v1/dead-letters/groups", "See what jobs died of", Groups, "invalid_job")
async def group_dead_letters(call: Call[Nothing, control.LetterConditions]) -> Reply:
    """Return dead letters in groups of the same type, class of error and place in the code."""
    marks = await _selected(call, call.query)
    letters = await call.api.letters.read(call.principal.queues)
    now = call.session.clock.now()
    groups = grouped(marks, now)
    return Reply(Groups(at=now, is_complete=letters.is_complete, groups=groups))


async def _selected(
    call: Call[Any, Any], wanted: control.LetterConditions, group: str | None = None
) -> list[LetterMark]:
    """Return the newest dead letters within reach that meet the conditions, the newest first."""
    make_filter(type=wanted.type, queue=wanted.queue)  # checks the names
    if wanted.queue is not None:
        check_queue_allowed(call.principal, wanted.queue)
    since = None if wanted.since is None else check_instant(wanted.since, name="since")
    until = None if wanted.until is None else check_instant(wanted.until, name="until")
    letters = await call.api.letters.read(call.principal.queues)
    return [
        mark
        for mark in letters.marks
        if wanted.type in (None, mark.type)
        and wanted.queue in (None, mark.queue)
        and group in (None, mark.group)
        and (since is None or mark.at >= since)
        and (until is None or mark.at < until)
    ]


@action(
    "POST /v1/dead-letters/replay",
    "dead_letters.replay",
    "Replay every dead letter that meets conditions",
    control.WireReplayed,
    "invalid_job state_conflict payload_too_large invalid_payload",
    is_body_optional=True,
    body_max=HTTP_IDS_BODY_MAX,
)
async def replay_dead_letters(call: Call[control.ReplayAll, Nothing]) -> Reply:
    """Replay every dead letter that meets the conditions and can be replayed."""
    body = call.body
    check_ids(body.ids or ())
    call.detail["conditions"] = conditions_of(body, without=["patch", "ids", "dry_run"])
    if body.patch:
        call.detail["patched"] = sorted(body.patch)
    if body.dry_run:
        call.detail["dry_run"] = True
    letters = call.actions.dead_letters
    if not body.is_selective and call.principal.queues is None:
        count = await call.run(letters.replay_all(body.type, body.limit))
        call.api.letters.forget()
    else:
        for raw in body.patch.values():
            check_json(Body(bytes(raw)))
        call.api.letters.forget()  # what is counted here must be what is replayed
        ids = _named(await _selected(call, body, body.group), body)
        check_expected(len(ids), body.expected)
        if body.dry_run:
            call.detail["count"] = len(ids)
            return Reply(control.WireReplayed(len(ids), dry_run=True))
        count = await call.run(letters.replay_some(ids, body.patch))
        call.api.letters.forget()
    call.detail["count"] = count
    return Reply(control.WireReplayed(count))


def _named(marks: Iterable[LetterMark], body: control.ReplayAll) -> list[str]:
    """Return the ids of those that were asked for by id, if any were, up to the limit."""
    asked = None if body.ids is None else {each.lower() for each in body.ids}
    ids = [mark.job_id for mark in marks if asked is None or mark.job_id in asked]
    return ids[: body.limit]


@action(
    "POST /v1/dead-letters/discard",
    "dead_letters.discard",
    "Discard every dead letter that meets conditions",
    control.WireDiscarded,
    "invalid_job state_conflict",
)
async def discard_dead_letters(call: Call[control.DiscardAll, Nothing]) -> Reply:
    """Take every dead letter that meets the conditions off the list; their jobs are kept."""
    body, store = call.body, call.session.store
    call.detail["conditions"] = conditions_of(body, without=["dry_run"])
    if body.dry_run:
        call.detail["dry_run"] = True
    if body.type is None and not body.is_looked_up:
        raise InvalidJobError("give at least one condition: all would be discarded")
    call.api.letters.forget()  # what is counted here must be what is discarded
    ids = [mark.job_id for mark in await _selected(call, body, body.group)]
    check_expected(len(ids), body.expected)
    count = len(ids)
    if not body.dry_run:
        count = 0
        for start in range(0, len(ids), PAGE_MAX):
            some = ids[start : start + PAGE_MAX]
            replies = await store.run_async(store.control.discard(some))
            count += sum(isinstance(reply, Discarded) for reply in replies)
        call.api.letters.forget()
    call.detail["count"] = count
    return Reply(control.WireDiscarded(count, dry_run=body.dry_run))
