"""The log of what operators did, for whoever may read it."""

from __future__ import annotations

from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.wire.audit import ActionPage, ActionQuery


async def list_actions(call: Call[Nothing, ActionQuery]) -> Reply:
    """Return a page of the audit log, newest first."""
    query = call.query
    page = await call.run(call.actions.audit.find(query.after, query.limit))
    return Reply(ActionPage(actions=page.actions, next=page.next))
