"""The log of what operators did: who, what, to what, and how it was answered."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fencepost.app.auditing import begin, end_surely
from fencepost.app.session import Session
from fencepost.core.audit import Action, bounded
from fencepost.http.call import Call
from fencepost.http.route import Route


class Audit:
    """Writes actions down, in the store and in the log of the process."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def begin(self, route: Route, call: Call[Any, Any]) -> Action | None:
        """Log that an action is about to be taken: should we die meanwhile, there is a trace.

        None for what is not an operator's.
        """
        if route.action is None:
            return None
        target = call.path.get("id") or call.path.get("name") or ""
        return begin(
            self._session, call.principal, route.action, target=target, request_id=call.request_id
        )

    async def end(self, action: Action, call: Call[Any, Any], status: int) -> None:
        """Keep an action with its outcome; one that cannot be written is at least logged."""
        detailed = replace(action, detail=bounded(call.detail))
        await end_surely(self._session, detailed, status)
