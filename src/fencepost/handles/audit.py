"""``app.audit``: the log of what operators did."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fencepost.actions.script import Script
from fencepost.actions.session import Session
from fencepost.core.access.audit import Action
from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.core.filter import ACTIONS, encode_cursor, make_page
from fencepost.store.interface.audit import ActionPage


class AuditLog(msgspec.Struct, frozen=True):
    """Some of the log, newest first, and the cursor of the page after; iterates over actions."""

    actions: list[Action]
    next: str | None = None

    def __iter__(self) -> Iterator[Action]:
        return iter(self.actions)

    def __len__(self) -> int:
        return len(self.actions)


def list_page(session: Session, after: str | None, limit: int) -> Script[AuditLog]:
    """Return a page of the log."""
    page: ActionPage = yield session.store.audit.list(
        make_page(limit=limit, after=after, of=ACTIONS)
    )
    following = None if page.next is None else encode_cursor(page.next, ACTIONS)
    return AuditLog(page.actions, following)


class Audit:
    """The audit log of a store; ``app.aio.audit`` has the same methods, awaited."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self, *, after: str | None = None, limit: int = PAGE_DEFAULT) -> AuditLog:
        """Return a page of what was done, by whom and how it ended, newest first."""
        return self._session.run(list_page(self._session, after, limit))


class AsyncAudit:
    """The awaited face of Audit."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def list(self, *, after: str | None = None, limit: int = PAGE_DEFAULT) -> AuditLog:
        """Return a page of what was done, by whom and how it ended, newest first."""
        return await self._session.run_async(list_page(self._session, after, limit))
