"""What a caller gets back from an action, of an app or of a client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Generic, Protocol, TypeVar

import msgspec

from fencepost.core.access.audit import Action
from fencepost.core.encryption import shown_text
from fencepost.core.events import SentEvent
from fencepost.core.flows.listing import FlowSummary
from fencepost.core.job.job import DeadLetter, Job
from fencepost.core.job.lifecycle import State
from fencepost.errors import JobCancelledError, JobFailedError, StateConflictError

T = TypeVar("T")


class KnownJob(Protocol):
    """What a handle needs of a job; some also have ``duplicate`` and ``differs``."""

    @property
    def id(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def state(self) -> State: ...


class StoredJob(msgspec.Struct, gc=False, frozen=True):
    """A job that was stored, or that its key returned."""

    id: str
    type: str
    state: State
    duplicate: bool = False
    differs: tuple[str, ...] | None = ()


class StoredFlow(msgspec.Struct, frozen=True):
    """A flow, and its jobs by name."""

    id: str
    jobs: Mapping[str, KnownJob]


class StoredEvent(msgspec.Struct, frozen=True):
    """A recorded event, and the jobs of its handlers."""

    id: str
    name: str
    sent_at: datetime
    jobs: Sequence[KnownJob]


class _Entries(msgspec.Struct, Generic[T], frozen=True):
    """A page: some entries, newest first, and the cursor of the next page."""

    def _entries(self) -> Sequence[T]:
        entries: Sequence[T] = getattr(self, self.__struct_fields__[0])  # each has them first
        return entries

    def __iter__(self) -> Iterator[T]:
        return iter(self._entries())

    def __len__(self) -> int:
        return len(self._entries())


class Page(_Entries[T], Generic[T], frozen=True):
    """A page of jobs. Those of a server come without payload and result, which
    ``client.jobs.get(id).refresh()`` returns."""

    jobs: list[T]
    next: str | None = None
    looked: int | None = None
    """How many jobs were read for conditions that no index answers; None if none had to be."""
    unreadable: int = 0
    """How many of those could not be compared: encrypted, or not JSON."""


class BoundedCount(msgspec.Struct, frozen=True):
    """How many jobs meet conditions; unless ``is_exact``, there may be more."""

    count: int
    is_exact: bool = True
    looked: int | None = None
    """How many jobs were read to know it; None if none had to be."""
    unreadable: int = 0
    """How many of those could not be compared: encrypted, or not JSON."""


class EditCount(msgspec.Struct, frozen=True):
    """How many jobs were edited, and how many refused it, by the code of the error."""

    count: int
    refused: dict[str, int] = {}


class FlowList(_Entries[FlowSummary], frozen=True):
    """A page of flows. One with fewer than were asked for may still have a next one."""

    flows: list[FlowSummary]
    next: str | None = None


class DeadLetters(_Entries[DeadLetter], frozen=True):
    """A page of dead letters."""

    letters: list[DeadLetter]
    next: str | None = None


class SentEvents(_Entries[SentEvent], frozen=True):
    """A page of events."""

    events: list[SentEvent]
    next: str | None = None


class AuditLog(_Entries[Action], frozen=True):
    """A page of the audit log."""

    actions: list[Action]
    next: str | None = None


def failure_of_end(job: Job) -> JobCancelledError | JobFailedError:
    """Return the error for a job that ended without success."""
    if job.state is State.CANCELLED:
        return JobCancelledError(job.id)
    failure = job.failure
    return JobFailedError(
        job.id,
        category=failure.category if failure else "system",
        message=shown_text(failure.message) if failure else "no reason stored",
        failure_code=failure.code if failure else None,
    )


def no_result(job: Job) -> StateConflictError:
    """Return the error for a request for the result of a job that has not completed."""
    more = "; wait for it" if not job.state.is_terminal else " and has none"
    return StateConflictError(f"job {job.id} is {job.state}{more}", job_id=job.id, state=job.state)
