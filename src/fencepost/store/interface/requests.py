"""What a store can be asked."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from fencepost.core.bounds import LEASE_TTL_DEFAULT
from fencepost.core.job.job import Body, ClaimedJob, NewJob, Progress
from fencepost.core.job.lifecycle import State
from fencepost.core.job.priority import Priority
from fencepost.core.stats.overview import WorkerInfo as WorkerInfo


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """As many jobs as there are free slots, under leases of this worker."""

    worker: str
    limit: int
    queues: dict[str, int] | None = None
    """Weights by queue; None means every queue, in equal turns."""
    types: frozenset[str] | None = None
    """The types that this worker knows; None means any."""
    own_types: bool = True
    """Whether any type may also be one of Fencepost's own."""
    turn: int = 0
    """How many turns this worker has dealt before, see ``core.weights``."""
    lease_ttl: float = LEASE_TTL_DEFAULT
    timeout_grace: float = 0.0
    """How much longer than a job's execution timeout its lease may last (C44); more than nothing
    for a worker that interrupts its handlers by itself and has yet to record that."""


class Beat(msgspec.Struct, gc=False, frozen=True):
    """One lease to extend, by *lease_ttl* from now, but not past its deadline (C44)."""

    job_id: str
    token: str
    lease_ttl: float | None = None
    """In seconds; None is what the claim, or the job itself, asked for."""


class Save(msgspec.Struct, gc=False, frozen=True):
    """What a handler wants kept while it runs; a field that is None is left as it was."""

    job_id: str
    token: str
    checkpoint: Body | None = None
    progress: Progress | None = None
    job: ClaimedJob | None = None
    """The job as it was claimed, if it is at hand, see ``Settlement``."""


class Spawn(msgspec.Struct, frozen=True):
    """New jobs that a running one wants stored, under its lease or not at all.

    Each has a key, by which a later attempt finds what an earlier one has spawned.
    """

    job_id: str
    token: str
    jobs: tuple[NewJob, ...]


class Joined(msgspec.Struct, gc=False, frozen=True):
    """A job that its handler settled in a transaction of its own, or in several, one by one."""

    job_id: str
    token: str
    marks: tuple[str, ...]
    """What ``mark`` called those transactions."""


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


class Scope(StrEnum):
    """What can be paused or limited."""

    APP = "app"
    QUEUE = "queue"
    TYPE = "type"


class PruneRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Delete terminal jobs that have been kept long enough, looking from *after* on."""

    keep: dict[State, float]
    """Seconds to keep each terminal state; a state that is missing is kept."""
    keep_by_type: dict[str, dict[State, float]] = {}
    """The same for the jobs of some types, in the place of ``keep``."""
    after: int = 0
    limit: int

    @property
    def shortest(self) -> float | None:
        """The shortest that any job is kept; None if all are kept."""
        kept = [self.keep, *self.keep_by_type.values()]
        return min((seconds for keep in kept for seconds in keep.values()), default=None)
