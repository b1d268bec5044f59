"""The way of a job through a worker: stored, claimed, kept, settled."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from fencepost.core.bounds import LEASE_TTL_DEFAULT
from fencepost.core.job.job import Body, ClaimedJob, NewJob, Progress
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement
from fencepost.store.interface.facet import Facet, operation
from fencepost.store.interface.replies import Duplicate, Enqueued, EnqueueReply, LeaseLost, Moved
from fencepost.store.plan import Effect, Operation, Wakes


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


class Saved(msgspec.Struct, gc=False, frozen=True):
    """The checkpoint or the progress is stored."""

    job_id: str


class Spawned(msgspec.Struct, frozen=True):
    """The jobs are stored, or were by an earlier attempt; a reply each."""

    job_id: str
    replies: tuple[Enqueued | Duplicate, ...]
    followed: tuple[Moved, ...] = ()
    """What became of jobs that gather: what was spawned may have ended already."""


HeartbeatReply = Extended | LeaseLost
SettleReply = Settled | AlreadySettled | LeaseLost
SaveReply = Saved | LeaseLost
SpawnReply = Spawned | LeaseLost


class QueueFacet(Facet, abstract=True):
    """The way of a job through a worker: stored, claimed, kept, settled."""

    @operation(Effect.WRITE, has_content=True, wakes=Wakes.READY, jobs_at=0)
    def enqueue(
        self, jobs: Sequence[NewJob], *, atomic: bool = False
    ) -> Operation[list[EnqueueReply]]:
        """Store *jobs*. With *atomic*, a rejected duplicate raises and none is stored.

        A job that is to wait for what cannot be waited for raises DependencyError either way.
        """

    @operation(Effect.LEASE, has_content=True)
    def claim(self, request: ClaimRequest) -> Operation[Claim]:
        """Recover expired leases and promote due jobs (bounded), then lease what is claimable."""

    @operation(Effect.LEASE, has_content=False)
    def heartbeat(self, beats: Sequence[Beat]) -> Operation[list[HeartbeatReply]]:
        """Extend leases that are still valid; an expired one is not revived (C10)."""

    @operation(Effect.WRITE, has_content=True)
    def settle(self, settlements: Sequence[Settlement]) -> Operation[list[SettleReply]]:
        """Record decisions under valid leases."""

    @operation(Effect.WRITE, has_content=True)
    def save(self, saves: Sequence[Save]) -> Operation[list[SaveReply]]:
        """Keep checkpoints and progress under valid leases."""

    @operation(Effect.WRITE, has_content=True, wakes=Wakes.READY)
    def spawn(self, spawns: Sequence[Spawn]) -> Operation[list[SpawnReply]]:
        """Store jobs under valid leases; jobs that gather the parent's children wait for these too.

        Raises DependencyError, and nothing at all is stored, if one of them is refused.
        """
