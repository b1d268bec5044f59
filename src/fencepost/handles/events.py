"""``app.events``: the record of what was sent, and of the jobs it came to."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fencepost.actions.script import Script
from fencepost.actions.session import Session
from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.core.events import SentEvent, check_event_name
from fencepost.core.filter import EVENTS, encode_cursor, make_page
from fencepost.store.interface.events import EventPage


class SentEvents(msgspec.Struct, frozen=True):
    """Some events, newest first, and the cursor of the page after; iterates over its events."""

    events: list[SentEvent]
    next: str | None = None

    def __iter__(self) -> Iterator[SentEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)


def find(session: Session, name: str | None, after: str | None, limit: int) -> Script[SentEvents]:
    """Return a page of events."""
    wanted = None if name is None else check_event_name(name)
    asked = make_page(limit=limit, after=after, of=EVENTS)
    page: EventPage = yield session.store.events.list(wanted, asked)
    following = None if page.next is None else encode_cursor(page.next, EVENTS)
    return SentEvents(page.events, following)


class Events:
    """The events sent by an app; ``app.aio.events`` has the same methods, awaited."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def find(
        self, *, name: str | None = None, after: str | None = None, limit: int = PAGE_DEFAULT
    ) -> SentEvents:
        """Return a page of the events that were sent (of one full name), newest first."""
        return self._session.run(find(self._session, name, after, limit))


class AsyncEvents:
    """The awaited face of Events."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def find(
        self, *, name: str | None = None, after: str | None = None, limit: int = PAGE_DEFAULT
    ) -> SentEvents:
        """Return a page of the events that were sent (of one full name), newest first."""
        return await self._session.run_async(find(self._session, name, after, limit))
