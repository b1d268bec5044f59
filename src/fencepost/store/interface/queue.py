"""The way of a job through a worker: stored, claimed, kept, settled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from fencepost.core.bounds import LEASE_TTL_DEFAULT
from fencepost.core.job.job import Body, ClaimedJob, NewJob, Progress
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement
from fencepost.errors import DuplicateJobError
from fencepost.store.interface.facet import Facet, operation
from fencepost.store.plan import Effect, Operation, Wakes

Reply = TypeVar("Reply")
T = TypeVar("T")


class Enqueued(msgspec.Struct, gc=False, frozen=True):
    """The job is stored."""

    job_id: str
    type: str
    state: State


class Duplicate(msgspec.Struct, gc=False, frozen=True):
    """Another job holds the key; nothing was stored."""

    job_id: str
    """The job that holds the key."""
    type: str
    key: str
    state: State
    is_rejected: bool
    """True when the submission asked to be refused rather than given the existing job."""
    differs: tuple[str, ...] | None = ()
    """Where its payload differs from the one submitted, see ``payload.differences``."""

    @property
    def error(self) -> DuplicateJobError:
        """What a caller that asked to be refused gets."""
        return DuplicateJobError(
            type=self.type, key=self.key, existing_id=self.job_id, differs=self.differs
        )


class Moved(msgspec.Struct, gc=False, frozen=True):
    """The job is now in *state*. Facets that change the state of jobs reply with it."""

    job_id: str
    type: str
    state: State
    was: State
    followed: tuple[Moved, ...] = ()
    """Jobs that waited for it or for its slot, and moved. One reply lists those of its batch."""


class LeaseLost(msgspec.Struct, gc=False, frozen=True):
    """The token does not own the job: it expired, was taken over, or the job was cancelled."""

    job_id: str
    state: State | None = None
    """The job's present state; None when there is no such job."""


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for as many jobs as there are free slots, under leases of this worker."""

    worker: str
    limit: int
    queues: dict[str, int] | None = None
    """Weights by queue; None means every queue, in equal turns."""
    types: frozenset[str] | None = None
    """The types that this worker knows; None means any."""
    own_types: bool = True
    """Whether any type may also be one of Fencepost's own."""
    turn: int = 0
    """How many turns this worker has had before, see ``core.limits.weights``."""
    lease_ttl: float = LEASE_TTL_DEFAULT
    timeout_grace: float = 0.0
    """How much longer than a job's execution timeout its lease may last (C44): a worker that
    interrupts handlers itself needs some time to record that."""
    after: int | None = None
    """The ``place`` of this worker's last claim, if a claim has looked at everything less than
    LOOK_INTERVAL ago. A store may then hand out what is next in line, and looks at everything only
    if nothing is."""


class Beat(msgspec.Struct, gc=False, frozen=True):
    """One lease to extend, by *lease_ttl* from now, but not past its deadline (C44)."""

    job_id: str
    token: str
    lease_ttl: float | None = None
    """In seconds; None is what the claim, or the job itself, asked for."""
    version: int | None = None
    """Of the lease, if it is known: for the record, should it be refused."""


class Save(msgspec.Struct, gc=False, frozen=True):
    """What a handler saves while it runs; a field that is None is left as it was."""

    job_id: str
    token: str
    checkpoint: Body | None = None
    progress: Progress | None = None
    job: ClaimedJob | None = None
    """The job as it was claimed, if the caller has it, see ``Settlement``."""


class Spawn(msgspec.Struct, frozen=True):
    """New jobs of a running one, stored under its lease or not at all.

    Each has a key, by which a later attempt finds what an earlier one has spawned.
    """

    job_id: str
    token: str
    jobs: tuple[NewJob, ...]


class Claim(msgspec.Struct, frozen=True):
    """Jobs under new leases, what else the claim did, and when to claim again."""

    jobs: list[ClaimedJob] = []
    recovered: list[Moved] = []
    """Expired leases that were taken back first."""
    followed: list[Moved] = []
    """Jobs that waited for others, and were released or ended since a caller's commit."""
    expired: list[Moved] = []
    """Jobs that had outlived their lifetime."""
    promoted: int = 0
    """Jobs whose time had come."""
    held: int = 0
    """How many of them are still blocked by their concurrency key."""
    corrupt: list[Moved] = []
    """Jobs whose stored form could not be read; they have failed."""
    wait: float | None = None
    """Seconds until a delayed job falls due, a lease expires or a rate lets a job start; None if
    nothing will. Beside jobs it may leave leases out: it is for claims that got none."""
    place: int | None = None
    """Where in its line it has ended, if it found neither pauses nor limits, see ``ClaimRequest``;
    for the store alone."""
    is_short: bool = False
    """Whether it found more jobs, which only the limit of the app keeps from starting; for the
    store alone."""
    is_unsure: bool = False
    """Whether a part of the store did not answer, and may have leased jobs that are not here."""


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
    """Jobs that waited for it or for its slot, and moved. One reply lists those of its batch."""


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
    """Jobs that gather and moved: what was spawned may have ended already."""


class WorkerLease(msgspec.Struct, gc=False, frozen=True):
    """A job that is running, the token of its lease, and its worker."""

    job_id: str
    token: str
    worker: str


EnqueueReply = Enqueued | Duplicate
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

    @operation(Effect.READ, has_content=False)
    def held(self, workers: Sequence[str]) -> Operation[list[WorkerLease]]:
        """Return the leases that workers hold, for one that knows that these have died.

        Also those of claims whose replies never reached them.
        """


def with_admitted(replies: Sequence[Reply], admitted: Sequence[Moved]) -> list[Reply]:
    """Return the *replies* to a batch, which also report the jobs that it admitted to slots.

    The own reply of such a job gets its new state; the first reply lists the others.
    """
    answers = list(replies)
    if not admitted:
        return answers
    entered = {each.job_id: each for each in admitted}
    first: int | None = None
    for place, reply in enumerate(answers):
        if isinstance(reply, (Moved, Settled)):
            first = place if first is None else first
            own = entered.pop(reply.job_id, None)
            if own is not None:
                answers[place] = replace(reply, state=own.state)
    reporter = None if first is None else answers[first]
    if first is not None and entered and isinstance(reporter, (Moved, Settled)):
        answers[first] = replace(reporter, followed=(*reporter.followed, *entered.values()))
    return answers


def settled_in_order(replies: Iterable[SettleReply]) -> list[SettleReply]:
    """Return *replies* as if each settlement had been made after the one before it.

    Stores write a batch first and then look at the jobs whose settlements they refused. One that
    is settled further on in the batch was still running when it was refused.
    """
    answers = list(replies)
    settled_later: set[str] = set()
    for index in range(len(answers) - 1, -1, -1):
        reply = answers[index]
        if isinstance(reply, Settled):
            settled_later.add(reply.job_id.lower())
        elif reply.job_id.lower() in settled_later:
            answers[index] = replace(reply, state=State.RUNNING)
    return answers


def portions(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield *items* in their order, no more than *size* at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
