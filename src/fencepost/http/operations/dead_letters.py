"""Dead letters: jobs that ended in failure, until somebody has dealt with them."""

from __future__ import annotations

from fencepost.core.access.audit import conditions_of
from fencepost.core.crypto.envelope import readable
from fencepost.handles.job import naming_existing_async
from fencepost.http.auth.scope import shown
from fencepost.http.operations.accepted import created
from fencepost.http.operations.jobs import look
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.wire.dead_letters import DeadLetterPage, DeadLetterQuery, ReplayAll, Replayed


async def list_dead_letters(call: Call[Nothing, DeadLetterQuery]) -> Reply:
    """Return a page of dead letters, the most recent first."""
    query = call.query
    page = await call.run(
        call.actions.dead_letters.find(
            query.type, query.after, query.limit, queues=call.principal.queues
        )
    )
    letters = [readable(letter) for letter in await shown(call, page.letters)]
    return Reply(DeadLetterPage(dead_letters=letters, next=page.next))


async def replay_dead_letter(call: Call[Nothing, Nothing]) -> Reply:
    """Submit a dead letter afresh; the record stays unless the new job is stored."""
    job = await look(call)
    async with naming_existing_async(call.session):
        stored = await call.run(call.actions.dead_letters.replay(job.id))
    call.detail["job_id"] = stored.id
    return created(stored)


async def replay_dead_letters(call: Call[ReplayAll, Nothing]) -> Reply:
    """Replay every dead letter (of a type) that can be."""
    body = call.body
    call.detail["conditions"] = conditions_of(body)
    count = await call.run(call.actions.dead_letters.replay_all(body.type, body.limit))
    call.detail["count"] = count
    return Reply(Replayed(count))


async def discard_dead_letter(call: Call[Nothing, Nothing]) -> Reply:
    """Take a dead letter off the list; its job is kept until retention ends it."""
    job = await look(call)
    await call.run(call.actions.dead_letters.discard(job.id))
    return Reply(None, 204)
