"""``app.dead_letters``: jobs that ended in failure, by type, until somebody has dealt with them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from fencepost.actions.jobs import held_up
from fencepost.actions.script import Script
from fencepost.actions.session import Session
from fencepost.core.bounds import PAGE_DEFAULT, PAGE_MAX
from fencepost.core.crypto.envelope import unreadable
from fencepost.core.filter import DEAD_LETTERS, PageRequest, encode_cursor, make_page
from fencepost.core.job.job import DeadLetter
from fencepost.core.values.names import check_type
from fencepost.errors import (
    DuplicateJobError,
    FencepostError,
    JobNotFoundError,
)
from fencepost.handles.job import (
    AsyncJobHandle,
    JobHandle,
    naming_existing,
    naming_existing_async,
)
from fencepost.store.interface.control import Replayed, ReplayReply, Sealed
from fencepost.store.interface.reader import DeadLetterPage
from fencepost.store.interface.replies import Conflict, Duplicate, NotFound


class DeadLetters(msgspec.Struct, frozen=True):
    """Some dead letters, the most recent first, and the cursor of the page after."""

    letters: list[DeadLetter]
    next: str | None = None

    def __iter__(self) -> Iterator[DeadLetter]:
        return iter(self.letters)

    def __len__(self) -> int:
        return len(self.letters)


def list_page(
    session: Session,
    type: str | None,
    after: str | None,
    limit: int,
    *,
    queues: Collection[str] | None = None,
) -> Script[DeadLetters]:
    """Return a page of dead letters (in *queues*)."""
    wanted = None if type is None else check_type(type)
    asked = make_page(limit=limit, after=after, of=DEAD_LETTERS)
    among = None if queues is None else sorted(queues)
    page: DeadLetterPage = yield session.store.reader.dead_letters(wanted, asked, among)
    following = None if page.next is None else encode_cursor(page.next, DEAD_LETTERS)
    return DeadLetters(page.letters, following)


def replay(session: Session, job_id: str) -> Script[Replayed]:
    """Replace a dead letter by a fresh job, or raise; the record stays unless it is stored."""
    replies: list[ReplayReply] = yield session.store.control.replay([job_id])
    match replies[0]:
        case Sealed():
            raise (yield from _why_sealed(session, job_id))
        case Replayed() as replayed:
            return replayed
        case Duplicate(existing_id, type_, key):
            raise DuplicateJobError(type=type_, key=key, existing_id=existing_id)
        case Conflict() as conflict:
            (job,) = yield session.store.reader.get([job_id])
            raise held_up(job_id, conflict, None if job is None else job.flow)
        case NotFound():
            raise JobNotFoundError(job_id)


def _why_sealed(session: Session, job_id: str) -> Script[FencepostError]:
    (job,) = yield session.store.reader.get([job_id])
    return JobNotFoundError(job_id) if job is None else unreadable(job.payload, session.store.keys)


def replay_all(session: Session, type: str | None, limit: int | None) -> Script[int]:
    """Replay every dead letter (of a type), at most *limit*; return how many were.

    One whose key is held by another job, that waits for a dead one, or that cannot be decrypted
    stays on the list.
    """
    wanted = None if type is None else check_type(type)
    total = 0
    position: int | None = None
    while limit is None or total < limit:
        size = PAGE_MAX if limit is None else min(PAGE_MAX, limit - total)
        page: DeadLetterPage = yield session.store.reader.dead_letters(
            wanted, PageRequest(size, position)
        )
        if page.letters:
            replies = yield session.store.control.replay([letter.job_id for letter in page.letters])
            total += sum(isinstance(reply, Replayed) for reply in replies)
        position = page.next
        if position is None:
            break
    return total


def discard(session: Session, job_id: str) -> Script[None]:
    """Take a dead letter off the list, or raise JobNotFoundError."""
    (reply,) = yield session.store.control.discard([job_id])
    if isinstance(reply, NotFound):
        raise JobNotFoundError(job_id)


class DeadLetterList:
    """The dead letters of an app; ``app.aio.dead_letters`` has the same methods, awaited."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(
        self, *, type: str | None = None, after: str | None = None, limit: int = PAGE_DEFAULT
    ) -> DeadLetters:
        """Return a page of dead letters, the most recent first."""
        return self._session.run(list_page(self._session, type, after, limit))

    def replay(self, id: str) -> JobHandle[Any]:
        """Submit a dead letter afresh: a new job with its payload, and the record removed."""
        with naming_existing(self._session):
            reply = self._session.run(replay(self._session, id))
        return JobHandle(self._session, reply.job_id, reply.type, reply.state)

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

    async def replay(self, id: str) -> AsyncJobHandle[Any]:
        """Submit a dead letter afresh: a new job with its payload, and the record removed."""
        async with naming_existing_async(self._session):
            reply = await self._session.run_async(replay(self._session, id))
        return AsyncJobHandle(self._session, reply.job_id, reply.type, reply.state)

    async def replay_all(self, *, type: str | None = None, limit: int | None = None) -> int:
        """Replay every dead letter (of a type), at most *limit*; return how many were."""
        return await self._session.run_async(replay_all(self._session, type, limit))

    async def discard(self, id: str) -> None:
        """Take a dead letter off the list; its job is kept until retention ends it."""
        await self._session.run_async(discard(self._session, id))
