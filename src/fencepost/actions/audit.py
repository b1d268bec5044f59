"""Who does what: a line in the log before and after, and a record in the store.

A process that dies in between leaves the first line; one whose store goes away leaves both.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from fencepost.actions.local.steps import StoreActions
from fencepost.actions.pages import AuditLog
from fencepost.actions.script import Script
from fencepost.core.access.audit import Action, make_action
from fencepost.core.access.refusals import RefusedTries
from fencepost.core.access.tokens import Principal
from fencepost.core.bounds import AUDIT_REFUSED_WINDOW
from fencepost.core.filter import ACTIONS, encode_cursor, make_page
from fencepost.core.values.ids import id_text
from fencepost.errors import StoreError
from fencepost.observe import names
from fencepost.observe.log import log
from fencepost.store.interface.audit import ActionPage

if TYPE_CHECKING:
    from fencepost.actions.session import Session

REFUSED_MORE = "refused.more"
"""What the record of tries is called that were refused and only counted."""


def begin(
    session: Session,
    principal: Principal,
    action: str,
    *,
    target: str = "",
    detail: Mapping[str, Any] | None = None,
    request_id: str | None = None,
) -> Action:
    """Return an action that is about to be tried, having logged it. No payload goes into detail."""
    begun = make_action(
        principal,
        action,
        id=id_text(session.clock.new_id()),
        target=target,
        detail=detail,
        request_id=request_id,
    )
    log(names.AUDIT_ACTION, phase="begin", **_fields(begun))
    return begun


def end(session: Session, action: Action, status: int | None = None) -> Script[None]:
    """Record how an action ended; to do it again with the same action is harmless."""
    ended = replace(action, status=status)
    log(names.AUDIT_ACTION, phase="end", **_fields(ended))
    yield session.store.audit.record(ended)


class LocalAudit(StoreActions):
    """The log of what operators did."""

    def find(self, after: str | None, limit: int) -> Script[AuditLog]:
        """Return a page of the log."""
        asked = make_page(limit=limit, after=after, of=ACTIONS)
        page: ActionPage = yield self._store.audit.list(asked)
        following = None if page.next is None else encode_cursor(page.next, ACTIONS)
        return AuditLog(page.actions, following)


class Auditor:
    """The same for a server: ``begin`` before an action, ``end`` when its answer is known.

    Of what is refused, so much is recorded as ``RefusedTries`` allows, and the rest is counted.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._refused = RefusedTries()
        self._timer: asyncio.TimerHandle | None = None
        self._telling: asyncio.Task[None] | None = None

    def begin(
        self,
        principal: Principal,
        action: str,
        *,
        target: str = "",
        detail: Mapping[str, Any] | None = None,
        request_id: str | None = None,
    ) -> Action:
        """Log what is about to be tried."""
        session = self._session
        return begin(
            session, principal, action, target=target, detail=detail, request_id=request_id
        )

    async def end(self, action: Action, status: int) -> None:
        """Record how it ended. What was done is not undone by a store that takes no record."""
        await self.tell_of_more()
        await self._record(action, status)

    async def refuse(self, principal: Principal, action: Action, status: int) -> None:
        """Record an action that was refused; its detail says why."""
        await self.tell_of_more()
        if self._refused.note(principal, self._session.clock.monotonic()):
            await self._record(action, status)
        elif self._timer is None:
            # Should nobody come any more, the count is recorded all the same.
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(AUDIT_REFUSED_WINDOW, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._telling = asyncio.get_running_loop().create_task(self.tell_of_more())

    async def tell_of_more(self) -> None:
        """Record how many tries were refused and not recorded, of those whose time is over."""
        clock = self._session.clock
        for principal, count in list(self._refused.ended(clock.monotonic())):
            detail = {"count": count, "seconds": AUDIT_REFUSED_WINDOW}
            id_ = id_text(clock.new_id())
            more = make_action(principal, REFUSED_MORE, id=id_, detail=detail)
            await self._record(more, None)

    async def _record(self, action: Action, status: int | None) -> None:
        try:
            await self._session.run_async(end(self._session, action, status))
        except StoreError as error:
            self._session.counters.add(names.AUDIT_FAILED)
            fields = _fields(replace(action, status=status))
            log(names.AUDIT_FAILED, level=logging.ERROR, code=error.code, **fields)


def _fields(action: Action) -> dict[str, Any]:
    """Return what a line of the log says of an action."""
    return {
        "id": action.id,
        "principal": action.principal,
        "principal_id": action.principal_id,
        "action": action.action,
        "target": action.target,
        "detail": action.detail,
        "request_id": action.request_id,
        "status": action.status,
    }
