"""What a store answers, job by job."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from fencepost.core.access.audit import Action
from fencepost.core.events import SentEvent
from fencepost.core.job.job import ClaimedJob, DeadLetter, Job, JobRecord
from fencepost.core.job.lifecycle import State
from fencepost.core.stats.ended import EndedJob
from fencepost.core.stats.overview import QueueView as QueueView
from fencepost.core.stats.overview import TypeView as TypeView


class Enqueued(msgspec.Struct, gc=False, frozen=True):
    """The job is stored."""

    job_id: str
    type: str
    state: State


class Duplicate(msgspec.Struct, gc=False, frozen=True):
    """The key is held by another job; nothing was stored."""

    job_id: str
    """The job that holds the key."""
    type: str
    key: str
    state: State
    is_rejected: bool
    """True when the submission asked to be refused rather than given the existing job."""


class Moved(msgspec.Struct, gc=False, frozen=True):
    """The job is now in *state*."""

    job_id: str
    type: str
    state: State
    was: State
    followed: tuple[Moved, ...] = ()
    """What became of jobs that waited for it, or for its slot; of a batch, any one tells all."""


class Claim(msgspec.Struct, frozen=True):
    """Jobs under new leases, what the claim did on its way, and when to come again."""

    jobs: list[ClaimedJob] = []
    recovered: list[Moved] = []
    """Expired leases that were taken back first."""
    followed: list[Moved] = []
    """Jobs that waited for others, and were let go or have ended since a caller's commit."""
    expired: list[Moved] = []
    """Jobs that had outlived their lifetime."""
    promoted: int = 0
    """Jobs whose time had come."""
    held: int = 0
    """How many of them are held up by their key all the same."""
    corrupt: list[Moved] = []
    """Jobs whose stored form could not be read; they have failed."""
    wait: float | None = None
    """Seconds until a delayed job falls due, a lease runs out or a rate lets a job start; None
    when nothing is to come. For one who was given no job: beside jobs it may leave leases out."""


class Extended(msgspec.Struct, gc=False, frozen=True):
    """The lease now lasts until *expires_at*."""

    job_id: str
    expires_at: datetime


class LeaseLost(msgspec.Struct, gc=False, frozen=True):
    """The token does not own the job: it expired, was taken over, or the job was cancelled."""

    job_id: str
    state: State | None = None
    """The job's present state; None when there is no such job."""


class Settled(msgspec.Struct, gc=False, frozen=True):
    """The decision is recorded."""

    job_id: str
    type: str
    state: State
    followed: tuple[Moved, ...] = ()
    """What became of jobs that waited for it, or for its slot; of a batch, any one tells all."""


class AlreadySettled(msgspec.Struct, gc=False, frozen=True):
    """This token's decision had been recorded before: a repeat after an unknown outcome."""

    job_id: str
    state: State


class Fate(StrEnum):
    """What became of a settlement in a caller's transaction."""

    SETTLED = "settled"
    """It was committed."""
    OPEN = "open"
    """The transaction goes on; until it ends, nobody else can take or settle the job."""
    UNDONE = "undone"
    """It was rolled back: the job stands as if it had never been made."""


class Saved(msgspec.Struct, gc=False, frozen=True):
    """The checkpoint or the progress is stored."""

    job_id: str


class Spawned(msgspec.Struct, frozen=True):
    """The jobs are stored, or were by an earlier attempt; a reply each."""

    job_id: str
    replies: tuple[Enqueued | Duplicate, ...]
    followed: tuple[Moved, ...] = ()
    """What became of jobs that gather: what was spawned may have ended already."""


class NotFound(msgspec.Struct, frozen=True):
    """There is no such job, or no such dead letter."""

    job_id: str


class Conflict(msgspec.Struct, frozen=True):
    """The job's state forbids it; nothing changed."""

    job_id: str
    state: State
    culprit: str | None = None
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


class Pruned(msgspec.Struct, frozen=True):
    """How many jobs were deleted, and from where to look on; None when all has been seen."""

    count: int
    next: int | None


class JobPage(msgspec.Struct, frozen=True):
    """Jobs, newest first, and the position of the last; None when there are no more."""

    jobs: list[Job]
    next: int | None = None


class Dump(msgspec.Struct, frozen=True):
    """Whole jobs, oldest first, and the position of the last."""

    records: list[JobRecord]
    last: int
    """Where the next page begins; what was asked for when there is nothing more."""


class Loaded(msgspec.Struct, gc=False, frozen=True):
    """The record is stored as it was given."""

    job_id: str


class Present(msgspec.Struct, gc=False, frozen=True):
    """A job of this id is there already; it was left as it is."""

    job_id: str


class DeadLetterPage(msgspec.Struct, frozen=True):
    """Dead letters, newest first."""

    letters: list[DeadLetter]
    next: int | None = None


class EndedPage(msgspec.Struct, frozen=True):
    """Jobs in the order of their end, and the position of the last; None when there are no more."""

    jobs: list[EndedJob]
    next: int | None = None


class EventReply(msgspec.Struct, frozen=True):
    """The event is recorded, and so are the jobs of its handlers, in the order they were given."""

    event: SentEvent
    jobs: list[EnqueueReply]
    """What became of each handler's job; a duplicate is told of, and is in the record too."""


class EventPage(msgspec.Struct, frozen=True):
    """Records of events, newest first, and the position of the last; None when there is no more."""

    events: list[SentEvent]
    next: int | None = None


class ActionPage(msgspec.Struct, frozen=True):
    """Some of the audit log, newest first, and the position of the last; None when that is all."""

    actions: list[Action]
    next: int | None = None


class Term(msgspec.Struct, frozen=True):
    """Leadership for a while."""

    name: str
    worker: str
    expires_at: datetime


class Finding(msgspec.Struct, frozen=True):
    """One thing that a look at a store found: ``ok``, ``note``, ``warn`` or ``fail``."""

    level: str
    code: str
    text: str


EnqueueReply = Enqueued | Duplicate
SpawnReply = Spawned | LeaseLost
HeartbeatReply = Extended | LeaseLost
SettleReply = Settled | AlreadySettled | LeaseLost
SaveReply = Saved | LeaseLost
CancelReply = Moved | NotFound | Conflict
RetryReply = Moved | NotFound | Conflict | Duplicate | TooLate
ReplayReply = Replayed | NotFound | Duplicate | Conflict | Sealed
DiscardReply = Discarded | NotFound
EditReply = Edited | NotFound | Conflict | TooLate
LoadReply = Loaded | Present
