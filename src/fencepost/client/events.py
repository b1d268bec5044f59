"""What can be asked of the events of a server."""

from __future__ import annotations

from typing import Any

import msgspec

from fencepost.actions.backend import StoredEvent
from fencepost.actions.pages import SentEvents
from fencepost.actions.script import Script
from fencepost.client.exchange import EVENTS, ServerActions, get, post, query_of
from fencepost.core.values.payload import encode_json
from fencepost.wire.events import EventPage, Sent, event_of


class RemoteEvents(ServerActions):
    """The events of a server, and the record of them."""

    def send(
        self, name: str, key: str | None, data: dict[str, Any], conn: None = None
    ) -> Script[StoredEvent]:
        """Record an event and a job for each handler that matches, all or none.

        It is not sent again when the answer is lost: its record, at least, would be there twice.
        """
        payload = msgspec.Raw(encode_json(data).data)
        body = {"payload": payload, "key": key, "on_duplicate": "reject"}
        sent = yield from self._session.read(post(EVENTS, name, body=body), Sent)
        return StoredEvent(sent.id, sent.name, sent.sent_at, sent.jobs)

    def find(self, name: str | None, after: str | None, limit: int) -> Script[SentEvents]:
        """Return a page of events."""
        request = get(EVENTS, query=query_of(name=name, after=after, limit=limit))
        page = yield from self._session.read(request, EventPage)
        return SentEvents([event_of(each) for each in page.events], page.next)
