"""Events: send one, and look at those that were sent."""

from __future__ import annotations

from fencepost.core.job.idempotency import OnDuplicate, check_key
from fencepost.handles.job import naming_existing_async
from fencepost.http.auth.scope import submitted_by
from fencepost.http.operations.accepted import accepted
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.wire.events import EventBody, EventPage, EventQuery, Sent, event_view


async def send_event(call: Call[EventBody, Nothing]) -> Reply:
    """Record an event and a job for each handler that matches, all or none."""
    actions, body = call.actions.events, call.body
    key = None if body.key is None else check_key(body.key)
    on_duplicate = OnDuplicate(body.on_duplicate)
    event, jobs = await call.compute(
        lambda: actions.prepare(call.path["name"], key, body.payload, on_duplicate=on_duplicate)
    )
    jobs = [submitted_by(call.principal, job) for job in jobs]
    async with naming_existing_async(call.session):
        sent = await call.run(actions.record(event, jobs))
    made = [accepted(job) for job in sent.jobs]
    return Reply(Sent(id=sent.id, name=sent.name, sent_at=sent.sent_at, jobs=made), 202)


async def list_events(call: Call[Nothing, EventQuery]) -> Reply:
    """Return a page of the events that were sent, newest first."""
    query = call.query
    page = await call.run(call.actions.events.find(query.name, query.after, query.limit))
    return Reply(EventPage(events=[event_view(event) for event in page], next=page.next))
