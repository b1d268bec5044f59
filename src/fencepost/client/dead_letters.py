"""``client.dead_letters``: jobs that ended in failure, until somebody has dealt with them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fencepost.client.exchange import Request, Script, get, path, post, query_of
from fencepost.client.job import (
    AsyncJobHandle,
    JobHandle,
    async_handle,
    handle,
    naming_existing,
    naming_existing_async,
)
from fencepost.client.session import Session
from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.core.job.job import DeadLetter
from fencepost.core.values.ids import id_bytes
from fencepost.wire.jobs import Accepted

DEAD_LETTERS = "/v1/dead-letters"


class DeadLetters(msgspec.Struct, frozen=True, rename={"letters": "dead_letters"}):
    """Some dead letters, the most recent first, and the cursor of the page after."""

    letters: list[DeadLetter]
    next: str | None = None

    def __iter__(self) -> Iterator[DeadLetter]:
        return iter(self.letters)

    def __len__(self) -> int:
        return len(self.letters)


def list_page(
    session: Session, type: str | None, after: str | None, limit: int
) -> Script[DeadLetters]:
    """Return a page of dead letters."""
    query = query_of(type=type, after=after, limit=limit)
    return (yield from session.read(get(DEAD_LETTERS, query=query), DeadLetters))


def replay(session: Session, job_id: str) -> Script[Accepted]:
    """Replace a dead letter by a fresh job, or raise; the record stays unless it is stored."""
    id_bytes(job_id)
    return (yield from session.read(post(DEAD_LETTERS, job_id, "replay"), Accepted))


def replay_all(session: Session, type: str | None, limit: int | None) -> Script[int]:
    """Replay every dead letter (of a type), at most *limit*; return how many were."""
    request = post(DEAD_LETTERS, "replay", body={"type": type, "limit": limit})
    return (yield from session.read(request, int, "count"))


def discard(session: Session, job_id: str) -> Script[None]:
    """Take a dead letter off the list, or raise JobNotFoundError."""
    id_bytes(job_id)
    yield from session.ask(Request("DELETE", path(DEAD_LETTERS, job_id)))


class DeadLetterList:
    """The dead letters of a server; ``client.aio.dead_letters`` has the same, awaited."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(
        self, *, type: str | None = None, after: str | None = None, limit: int = PAGE_DEFAULT
    ) -> DeadLetters:
        """Return a page of dead letters, the most recent first."""
        return self._session.run(list_page(self._session, type, after, limit))

    def replay(self, id: str) -> JobHandle:
        """Submit a dead letter afresh: a new job with its payload, and the record removed."""
        with naming_existing(self._session):
            return handle(self._session, self._session.run(replay(self._session, id)))

    def replay_all(self, *, type: str | None = None, limit: int | None = None) -> int:
        """Replay every dead letter (of a type), at most *limit*; return how many were."""
        return self._session.run(replay_all(self._session, type, limit))

    def discard(self, id: str) -> None:
        """Take a dead letter off the list; its job is kept until retention ends it."""
        self._session.run(discard(self._session, id))


class AsyncDeadLetterList:
    """The awaited face of DeadLetterList."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def list(
        self, *, type: str | None = None, after: str | None = None, limit: int = PAGE_DEFAULT
    ) -> DeadLetters:
        """Return a page of dead letters, the most recent first."""
        return await self._session.run_async(list_page(self._session, type, after, limit))

    async def replay(self, id: str) -> AsyncJobHandle:
        """Submit a dead letter afresh: a new job with its payload, and the record removed."""
        async with naming_existing_async(self._session):
            return async_handle(
                self._session, await self._session.run_async(replay(self._session, id))
            )

    async def replay_all(self, *, type: str | None = None, limit: int | None = None) -> int:
        """Replay every dead letter (of a type), at most *limit*; return how many were."""
        return await self._session.run_async(replay_all(self._session, type, limit))

    async def discard(self, id: str) -> None:
        """Take a dead letter off the list; its job is kept until retention ends it."""
        await self._session.run_async(discard(self._session, id))
