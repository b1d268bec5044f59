"""What needs attention, and dead letters in groups of the same failure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fencepost.actions.local.letters import needs_attention
from fencepost.core.fingerprints import LetterMark, grouped
from fencepost.core.values.times import check_instant
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.route import route
from fencepost.http.scope import check_queue_allowed
from fencepost.wire.attention import Attention, Groups, LetterConditions


@route("GET /v1/attention", "See what needs somebody", Attention)
async def get_attention(call: Call[Nothing, Nothing]) -> Reply:
    """Return what needs somebody, worst first; a token for some queues sees what concerns these."""
    queues = call.principal.queues
    letters = await call.api.letters.read(queues)
    findings = await call.api.findings.read() if queues is None else []
    items = await call.run(needs_attention(call.session, letters.marks, findings, queues))
    return Reply(Attention(at=call.session.clock.now(), items=items))


@route("GET /v1/dead-letters/groups", "See what jobs died of", Groups, "invalid_job")
async def group_dead_letters(call: Call[Nothing, LetterConditions]) -> Reply:
    """Return dead letters in groups of the same type, class of error and place in the code."""
    letters = await call.api.letters.read(call.principal.queues)
    marks = selected(call, letters.marks, call.query)
    now = call.session.clock.now()
    groups = grouped(marks, now)
    return Reply(Groups(at=now, is_complete=letters.is_complete, groups=groups))


def selected(
    call: Call[Any, Any], marks: Iterable[LetterMark], wanted: LetterConditions
) -> list[LetterMark]:
    """Return those of *marks* that meet the conditions."""
    if wanted.queue is not None:
        check_queue_allowed(call.principal, wanted.queue)
    since = None if wanted.since is None else check_instant(wanted.since, name="since")
    until = None if wanted.until is None else check_instant(wanted.until, name="until")
    return [
        mark
        for mark in marks
        if (wanted.type is None or mark.type == wanted.type)
        and (wanted.queue is None or mark.queue == wanted.queue)
        and (since is None or mark.at >= since)
        and (until is None or mark.at < until)
    ]
