"""The log of what operators did, for whoever may read it."""

from __future__ import annotations

import msgspec

from fencepost.core.access.audit import Action
from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.handles.audit import list_page
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.wire.terms import Cursor, PageLimit


class ActionQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """From where on."""

    after: Cursor | None = None
    """The ``next`` of the page before."""
    limit: PageLimit = PAGE_DEFAULT


class ActionPage(msgspec.Struct, frozen=True, kw_only=True):
    """What operators did, newest first, and where the next page begins."""

    actions: list[Action]
    next: str | None


async def list_actions(call: Call[Nothing, ActionQuery]) -> Reply:
    """Return a page of the audit log, newest first."""
    query = call.query
    page = await call.session.run_async(list_page(call.session, query.after, query.limit))
    return Reply(ActionPage(actions=page.actions, next=page.next))
