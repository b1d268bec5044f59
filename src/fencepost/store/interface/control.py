"""What an operator does to single jobs and dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import msgspec

from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Body, Job
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Priority
from fencepost.core.job.replays import BulkReplay, counted
from fencepost.store.interface.facet import Facet, operation
from fencepost.store.interface.queue import Duplicate, Moved
from fencepost.store.plan import Effect, Operation, Wakes


class RetryRequest(msgspec.Struct, frozen=True):
    """Run a job again by hand: the same job, a new budget of attempts (C36).

    One that has ended begins again; one that waits for its time, for its next attempt or for its
    first, becomes due now or after the delay, within its lifetime (C45).
    """

    job_id: str
    reset_attempts: bool = True
    delay: float = 0.0
    priority: Priority | None = None


class Replay(msgspec.Struct, frozen=True):
    """A dead letter to be replayed; what is not given is the store's own choice, or its copy."""

    job_id: str
    id: bytes | None = None
    """The id of the fresh job."""
    payload: Body | None = None
    """Its payload: one that is encrypted is bound to its job, and cannot be copied."""
    callback_url: str | None = None
    """Where a webhook goes when it has ended: an encrypted one is bound to its job, too."""


def as_replay(request: str | Replay) -> Replay:
    """Return *request*, which may be the bare id of a dead letter."""
    return Replay(request) if isinstance(request, str) else request


class Edit(msgspec.Struct, frozen=True):
    """Change what a user may change (C46); a field that is None is left as it was.

    Tags can change at any time, all else while the job waits. Its type and its queue cannot: they
    decide who may see it, and what holds its key.
    """

    job_id: str
    priority: Priority | None = None
    """Holds from then on, whatever those that it waits for have; see ``Waits.own_priority``."""
    tags: dict[str, str] | None = None
    run_at: datetime | None = None
    """A time that has come means now; one at the end of its lifetime is refused."""
    payload: Body | None = None
    correlation_id: str | None = None
    """Empty: none any more."""
    callback_url: str | None = None
    """Empty: none any more."""

    @property
    def is_for_waiting(self) -> bool:
        """Whether it changes anything that only a job that waits may have changed."""
        others = (self.priority, self.run_at, self.payload, self.correlation_id, self.callback_url)
        return any(each is not None for each in others)


class NotFound(msgspec.Struct, frozen=True):
    """There is no such job, or no such dead letter."""

    job_id: str


class Conflict(msgspec.Struct, frozen=True):
    """The job's state forbids it; nothing changed."""

    job_id: str
    state: State
    failed_dependency: str | None = None
    """Set when it is the state of this other job, for which it would have to wait."""


class TooLate(msgspec.Struct, frozen=True):
    """The job would fall due when its lifetime is over (C48); nothing changed."""

    job_id: str
    expires_at: datetime


class Replayed(msgspec.Struct, frozen=True):
    """The dead letter is gone, and a fresh job stands in its place."""

    dead_id: str
    job_id: str
    type: str
    state: State


class Sealed(msgspec.Struct, frozen=True):
    """The payload is encrypted for the dead job alone; nothing changed."""

    job_id: str


class Discarded(msgspec.Struct, frozen=True):
    """The dead letter is off the list; its job is kept until retention ends it."""

    job_id: str


class Edited(msgspec.Struct, frozen=True):
    """The job is changed."""

    job: Job
    moved: tuple[Moved, ...] = ()
    """That it is in another state now, and who got the slot of its key that it left."""


CancelReply = Moved | NotFound | Conflict
RetryReply = Moved | NotFound | Conflict | Duplicate | TooLate
ReplayReply = Replayed | NotFound | Duplicate | Conflict | Sealed
DiscardReply = Discarded | NotFound
EditReply = Edited | NotFound | Conflict | TooLate


class Selected(msgspec.Struct, frozen=True):
    """The ids of a page of jobs, and the position of the last; None when there are no more."""

    ids: list[str]
    next: int | None = None


class ControlFacet(Facet, abstract=True):
    """What an operator does to single jobs and dead letters."""

    @operation(Effect.READ, has_content=False)
    def select(self, filter: JobFilter, page: PageRequest) -> Operation[Selected]:
        """Return a page of the jobs that ``find`` would return, by their ids alone."""

    @operation(Effect.WRITE, has_content=False)
    def cancel(self, job_ids: Sequence[str]) -> Operation[list[CancelReply]]:
        """Cancel jobs that have not ended; a worker that runs one has lost its lease."""

    @operation(Effect.WRITE, has_content=False, wakes=Wakes.READY)
    def retry(self, requests: Sequence[RetryRequest]) -> Operation[list[RetryReply]]:
        """Run jobs again by hand, each with a new budget of attempts."""

    @operation(Effect.WRITE, has_content=True, wakes=Wakes.READY)
    def edit(self, edits: Sequence[Edit]) -> Operation[list[EditReply]]:
        """Change what a user may change about jobs."""

    @operation(Effect.WRITE, has_content=True, wakes=Wakes.READY)
    def replay(self, requests: Sequence[str | Replay]) -> Operation[list[ReplayReply]]:
        """Put a fresh job in the place of each dead letter, in one transaction."""

    @operation(Effect.WRITE, has_content=False)
    def discard(self, job_ids: Sequence[str]) -> Operation[list[DiscardReply]]:
        """Take dead letters off the list without running them."""


class ReplayList(msgspec.Struct, frozen=True):
    """The replays that are kept, the newest first, and the store's time."""

    now: datetime
    replays: list[BulkReplay]


class Advanced(msgspec.Struct, frozen=True):
    """A replay as it is kept now, and what became of each dead letter."""

    replay: BulkReplay
    replies: list[ReplayReply]


_SKIPPED: dict[type, str] = {
    NotFound: "gone",
    Duplicate: "duplicate",
    Conflict: "dependency",
    Sealed: "sealed",
}


def advanced(replay: BulkReplay, replies: Sequence[ReplayReply]) -> Advanced:
    """Return *replay* with what became of a batch of it."""
    fresh = [reply.job_id for reply in replies if isinstance(reply, Replayed)]
    reasons = Counter(_SKIPPED[type(each)] for each in replies if not isinstance(each, Replayed))
    return Advanced(counted(replay, fresh, reasons), list(replies))


class ReplaysFacet(Facet, abstract=True):
    """Replays of many dead letters; ``core/job/replays.py`` decides how they go on."""

    @operation(Effect.WRITE, has_content=True, name="start_replay")
    def start(self, replay: BulkReplay) -> Operation[BulkReplay]:
        """Keep a replay, which starts now, unless it is there; return it as it is kept.

        Raises StateConflictError if too many are under way.
        """

    @operation(Effect.READ, has_content=True, name="replays")
    def list(self) -> Operation[ReplayList]:
        """Return every replay that is kept."""

    @operation(Effect.WRITE, has_content=True, wakes=Wakes.READY, name="advance_replay")
    def advance(
        self, replay: BulkReplay, requests: Sequence[Replay] = ()
    ) -> Operation[Advanced | None]:
        """Replay dead letters and keep what became of them, both or neither.

        *replay* is the one that is kept, changed, with the next version. Returns None, and does
        nothing, if there is no such replay or if it has another version by now.
        """
