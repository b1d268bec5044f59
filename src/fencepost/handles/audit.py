"""``app.audit``: the log of what operators did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.actions.pages import AuditLog
from fencepost.core.bounds import PAGE_DEFAULT

if TYPE_CHECKING:
    from fencepost.actions.session import Session


class Audit:
    """The audit log of a store; ``app.aio.audit`` has the same methods, awaited."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self, *, after: str | None = None, limit: int = PAGE_DEFAULT) -> AuditLog:
        """Return a page of what was done, by whom and how it ended, newest first."""
        return self._session.run(self._session.actions.audit.find(after, limit))


class AsyncAudit:
    """The awaited face of Audit."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def list(self, *, after: str | None = None, limit: int = PAGE_DEFAULT) -> AuditLog:
        """Return a page of what was done, by whom and how it ended, newest first."""
        return await self._session.run_async(self._session.actions.audit.find(after, limit))
