"""The log of what operators did: who, what, to what, and how it was answered."""

from __future__ import annotations

import logging
from typing import Any

from msgspec.structs import replace

from fencepost.app.session import Session
from fencepost.core.audit import make_action
from fencepost.core.ids import id_text
from fencepost.errors import StoreError
from fencepost.http.call import Call
from fencepost.http.route import Route
from fencepost.observe import names
from fencepost.observe.log import log


class Audit:
    """Writes actions down, in the store and in the log of the process."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def begin(self, route: Route, call: Call[Any, Any]) -> None:
        """Log that an action is about to be taken: should we die meanwhile, there is a trace."""
        log(
            names.AUDIT_ACTION,
            action=route.action,
            target=_target(call),
            token=call.principal.token_id,
            request_id=call.request_id,
        )

    async def record(self, route: Route, call: Call[Any, Any], status: int) -> None:
        """Keep an action with its outcome; an audit that cannot be written is at least logged."""
        assert route.action is not None
        action = make_action(
            call.principal,
            route.action,
            id=id_text(self._session.clock.new_id()),
            target=_target(call),
            detail=call.detail,
            request_id=call.request_id,
        )
        store = self._session.store
        try:
            await store.run_async(store.record_action(replace(action, status=status)))
        except StoreError as error:
            log(
                names.AUDIT_FAILED,
                level=logging.ERROR,
                action=route.action,
                target=_target(call),
                request_id=call.request_id,
                error=error.code,
            )


def _target(call: Call[Any, Any]) -> str:
    return call.path.get("id") or call.path.get("name") or ""
