"""Dead letters: jobs that ended in failure, until somebody has dealt with them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from fencepost.core.access.audit import conditions_of
from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.core.crypto.envelope import readable
from fencepost.core.job.job import DeadLetter
from fencepost.handles import dead_letters as scripts
from fencepost.handles.job import naming_existing_async
from fencepost.http.auth.scope import shown
from fencepost.http.operations.jobs import look
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.wire.jobs import Accepted
from fencepost.wire.terms import Cursor, PageLimit, TypeName


class DeadLetterQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Of one type or of all, and from where on."""

    type: TypeName | None = None
    after: Cursor | None = None
    """The ``next`` of the page before."""
    limit: PageLimit = PAGE_DEFAULT


class DeadLetterPage(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters, the most recent first, and where the next page begins."""

    dead_letters: list[DeadLetter]
    next: str | None


class ReplayAll(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Which dead letters to replay; at most ``limit`` of them."""

    type: TypeName | None = None
    limit: Annotated[int, Meta(ge=1)] | None = None


class Replayed(msgspec.Struct, frozen=True):
    """How many dead letters were replayed."""

    count: int


async def list_dead_letters(call: Call[Nothing, DeadLetterQuery]) -> Reply:
    """Return a page of dead letters, the most recent first."""
    query = call.query
    page = await call.session.run_async(
        scripts.list_page(
            call.session, query.type, query.after, query.limit, queues=call.principal.queues
        )
    )
    letters = [readable(letter) for letter in await shown(call, page.letters)]
    return Reply(DeadLetterPage(dead_letters=letters, next=page.next))


async def replay_dead_letter(call: Call[Nothing, Nothing]) -> Reply:
    """Submit a dead letter afresh; the record stays unless the new job is stored."""
    job = await look(call)
    async with naming_existing_async(call.session):
        reply = await call.session.run_async(scripts.replay(call.session, job.id))
    call.detail["job_id"] = reply.job_id
    return Reply(
        Accepted(id=reply.job_id, type=reply.type, state=reply.state),
        201,
        {"location": f"/v1/jobs/{reply.job_id}"},
    )


async def replay_dead_letters(call: Call[ReplayAll, Nothing]) -> Reply:
    """Replay every dead letter (of a type) that can be."""
    body = call.body
    call.detail["conditions"] = conditions_of(body)
    count = await call.session.run_async(scripts.replay_all(call.session, body.type, body.limit))
    call.detail["count"] = count
    return Reply(Replayed(count))


async def discard_dead_letter(call: Call[Nothing, Nothing]) -> Reply:
    """Take a dead letter off the list; its job is kept until retention ends it."""
    job = await look(call)
    await call.session.run_async(scripts.discard(call.session, job.id))
    return Reply(None, 204)
