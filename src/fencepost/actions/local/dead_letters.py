"""Dead letters of an app's store: jobs that failed, until they are replayed or discarded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from fencepost.actions.backend import Script
from fencepost.actions.local.jobs import blocked_by
from fencepost.actions.local.steps import StoreActions
from fencepost.actions.replies import DeadLetters, StoredJob
from fencepost.core.bounds import PAGE_MAX, REPLAY_BATCH
from fencepost.core.encryption import unreadable
from fencepost.core.filter import DEAD_LETTERS, PageRequest, encode_cursor, make_page
from fencepost.core.job.job import Job
from fencepost.core.values.names import check_type
from fencepost.core.values.payload import check_size, with_fields
from fencepost.errors import DuplicateJobError, FencepostError, JobNotFoundError
from fencepost.store.interface.control import (
    Conflict,
    NotFound,
    Replay,
    Replayed,
    ReplayReply,
    Sealed,
)
from fencepost.store.interface.queue import Duplicate
from fencepost.store.interface.reader import DeadLetterPage


class LocalDeadLetters(StoreActions):
    """The dead letters of an app's store."""

    def find(
        self,
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
        page: DeadLetterPage = yield self._store.reader.dead_letters(wanted, asked, among)
        following = None if page.next is None else encode_cursor(page.next, DEAD_LETTERS)
        return DeadLetters(page.letters, following)

    def replay(self, job_id: str) -> Script[StoredJob]:
        """Replace a dead letter by a new job, or raise; it stays unless the job is stored."""
        replies: list[ReplayReply] = yield self._store.control.replay([job_id])
        match replies[0]:
            case Sealed():
                raise (yield from self._why_sealed(job_id))
            case Replayed() as replayed:
                return StoredJob(replayed.job_id, replayed.type, replayed.state)
            case Duplicate(existing_id, type_, key):
                raise DuplicateJobError(type=type_, key=key, existing_id=existing_id)
            case Conflict() as conflict:
                (job,) = yield self._store.reader.get([job_id])
                raise blocked_by(job_id, conflict, None if job is None else job.flow)
            case NotFound():
                raise JobNotFoundError(job_id)

    def _why_sealed(self, job_id: str) -> Script[FencepostError]:
        (job,) = yield self._store.reader.get([job_id])
        return (
            JobNotFoundError(job_id)
            if job is None
            else unreadable(job.payload_body, self._store.keys)
        )

    def replay_all(self, type: str | None, limit: int | None) -> Script[int]:
        """Replay every dead letter (of a type), at most *limit*; return how many were.

        One stays on the list if another job holds its key, if it waits for a dead letter, or if it
        cannot be decrypted.
        """
        wanted = None if type is None else check_type(type)
        total = 0
        position: int | None = None
        while limit is None or total < limit:
            size = PAGE_MAX if limit is None else min(PAGE_MAX, limit - total)
            page: DeadLetterPage = yield self._store.reader.dead_letters(
                wanted, PageRequest(size, position)
            )
            if page.letters:
                replies = yield self._store.control.replay(
                    [letter.job_id for letter in page.letters]
                )
                total += sum(isinstance(reply, Replayed) for reply in replies)
            position = page.next
            if position is None:
                break
        return total

    def replay_some(self, job_ids: Sequence[str], patch: Mapping[str, msgspec.Raw]) -> Script[int]:
        """Replay these dead letters, with *patch* in their payloads; return how many were.

        A batch is one transaction. If this is cut off, those before are replayed, and a repeat goes
        on with the others: what was replayed is no dead letter any more.
        """
        total = 0
        for start in range(0, len(job_ids), REPLAY_BATCH):
            ids = job_ids[start : start + REPLAY_BATCH]
            some: Sequence[str | Replay] = ids
            if patch:
                jobs: list[Job | None] = yield self._store.reader.get(ids)
                some = list(self._patched(jobs, patch))
            replies: list[ReplayReply] = yield self._store.control.replay(some)
            total += sum(isinstance(reply, Replayed) for reply in replies)
        return total

    def _patched(
        self, jobs: Sequence[Job | None], patch: Mapping[str, msgspec.Raw]
    ) -> Iterator[Replay]:
        for job in jobs:
            body = None if job is None else with_fields(job.payload_body, patch)
            if job is not None and body is not None:
                yield Replay(job.id, payload=check_size(body, self._session.max_payload))

    def discard(self, job_id: str) -> Script[None]:
        """Remove a dead letter from the list, or raise JobNotFoundError."""
        (reply,) = yield self._store.control.discard([job_id])
        if isinstance(reply, NotFound):
            raise JobNotFoundError(job_id)
