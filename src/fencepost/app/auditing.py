"""Who does what: a line in the log before and after, and a record in the store.

A process that dies in between leaves the first line; one whose store goes away leaves both.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from fencepost.app.script import Script
from fencepost.app.session import Session
from fencepost.core.audit import Action, make_action
from fencepost.core.ids import id_text
from fencepost.core.token import Principal
from fencepost.errors import StoreError
from fencepost.observe import names
from fencepost.observe.log import log


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
    yield session.store.record_action(ended)


class Auditor:
    """The same for a server: ``begin`` before an action, ``end`` when its answer is known."""

    def __init__(self, session: Session) -> None:
        self._session = session

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
