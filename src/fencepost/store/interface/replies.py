"""Replies that several facets share."""

from __future__ import annotations

from datetime import datetime

import msgspec

from fencepost.core.job.lifecycle import State


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


EnqueueReply = Enqueued | Duplicate


class Moved(msgspec.Struct, gc=False, frozen=True):
    """The job is now in *state*."""

    job_id: str
    type: str
    state: State
    was: State
    followed: tuple[Moved, ...] = ()
    """What became of jobs that waited for it, or for its slot; of a batch, any one tells all."""


class LeaseLost(msgspec.Struct, gc=False, frozen=True):
    """The token does not own the job: it expired, was taken over, or the job was cancelled."""

    job_id: str
    state: State | None = None
    """The job's present state; None when there is no such job."""


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
