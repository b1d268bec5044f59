"""What can be asked of the dead letters of a server."""

from __future__ import annotations

from fencepost.actions.pages import DeadLetters
from fencepost.actions.script import Script
from fencepost.client.exchange import (
    DEAD_LETTERS,
    Request,
    ServerActions,
    get,
    path,
    post,
    query_of,
)
from fencepost.core.values.ids import id_bytes
from fencepost.wire.dead_letters import DeadLetterPage
from fencepost.wire.jobs import Accepted


class RemoteDeadLetters(ServerActions):
    """The dead letters of a server."""

    def find(self, type: str | None, after: str | None, limit: int) -> Script[DeadLetters]:
        """Return a page of dead letters."""
        request = get(DEAD_LETTERS, query=query_of(type=type, after=after, limit=limit))
        page = yield from self._session.read(request, DeadLetterPage)
        return DeadLetters(page.dead_letters, page.next)

    def replay(self, job_id: str) -> Script[Accepted]:
        """Replace a dead letter by a fresh job, or raise; the record stays unless it is stored."""
        id_bytes(job_id)
        return self._session.read(post(DEAD_LETTERS, job_id, "replay"), Accepted)

    def replay_all(self, type: str | None, limit: int | None) -> Script[int]:
        """Replay every dead letter (of a type), at most *limit*; return how many were."""
        request = post(DEAD_LETTERS, "replay", body={"type": type, "limit": limit})
        return self._session.read(request, int, "count")

    def discard(self, job_id: str) -> Script[None]:
        """Take a dead letter off the list, or raise JobNotFoundError."""
        id_bytes(job_id)
        yield from self._session.ask(Request("DELETE", path(DEAD_LETTERS, job_id)))
