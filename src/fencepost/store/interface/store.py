"""The seam: what every store can do, in batches, with an answer for each job.

Each method returns an operation, which ``run`` or ``run_async`` executes as one transaction. The
store's own clock judges every lease and due time. Errors are of three kinds: a job's own answer in
the reply (surely decided), ``StoreUnavailableError`` (surely not done) and ``UnknownOutcomeError``
(may have been done; repeating with the same token or key is safe and tells what happened).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Protocol, TypeVar

from fencepost.clock import Clock
from fencepost.core.access.audit import Action
from fencepost.core.access.tokens import TokenRecord
from fencepost.core.crypto.keyring import KeyRing
from fencepost.core.events import NewEvent, SentEvent
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Attempt, Dependency, Job, JobRecord, NewJob
from fencepost.core.job.outcome import Settlement
from fencepost.core.job.why import Situation
from fencepost.core.limits.rates import Rate
from fencepost.errors import ConfigurationError
from fencepost.store.interface.crons import CronDefinition, CronFire, CronList, FireReply
from fencepost.store.interface.replies import (
    ActionPage,
    CancelReply,
    Claim,
    DeadLetterPage,
    DiscardReply,
    Dump,
    EditReply,
    EndedPage,
    EnqueueReply,
    EventPage,
    EventReply,
    Fate,
    Finding,
    HeartbeatReply,
    JobPage,
    LoadReply,
    Moved,
    Pruned,
    QueueView,
    ReplayReply,
    RetryReply,
    SaveReply,
    SettleReply,
    SpawnReply,
    Term,
    TypeView,
)
from fencepost.store.interface.requests import (
    Beat,
    ClaimRequest,
    Edit,
    Joined,
    PruneRequest,
    Replay,
    RetryRequest,
    Save,
    Scope,
    Spawn,
    WorkerInfo,
)
from fencepost.store.plan import Operation

T = TypeVar("T")


class Topic(StrEnum):
    """What a listener can be woken by."""

    READY = "ready"
    """Jobs may have become claimable."""
    SETTLED = "settled"
    """Jobs may have become terminal."""


class Listener(Protocol):
    """Waits for news from any process. A wake-up may be lost or spurious; poll beneath it."""

    def wait(self, timeout: float) -> bool:
        """Block until news came (True) or *timeout* seconds passed (False)."""
        ...

    async def wait_async(self, timeout: float) -> bool: ...

    def close(self) -> None: ...


class Store(ABC):
    """Where jobs live."""

    url: str
    clock: Clock
    tidy_interval: ClassVar[float | None] = None
    """How often a leader is to run ``tidy``; None where there is nothing to tidy."""
    keys: KeyRing | None = None
    """What jobs are encrypted with (``store.encrypted``); no engine has any."""

    # Running operations.

    @abstractmethod
    def run(self, operation: Operation[T]) -> T:
        """Execute *operation* in this thread."""

    @abstractmethod
    async def run_async(self, operation: Operation[T]) -> T:
        """Execute *operation* without blocking the event loop."""

    # Running operations in a caller's own transaction, which commits them or does not.

    def run_in(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        """Execute in the transaction of *conn* what *make* makes of the store it is given.

        With *must_be_open*, a connection that commits every statement by itself is refused.
        """
        raise self._joins_nothing()

    async def run_in_async(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        """Do the same on an async connection."""
        raise self._joins_nothing()

    def mark(self) -> Operation[str]:
        """Name the transaction in which this is run, so that ``fates`` knows it."""
        raise self._joins_nothing()

    def fates(self, asked: Sequence[Joined]) -> Operation[list[Fate]]:
        """Tell what became of settlements that were made by ``run_in``; waits for nobody."""
        raise self._joins_nothing()

    def _joins_nothing(self) -> ConfigurationError:
        kind = self.url.partition(":")[0]
        return ConfigurationError(
            f"a job joins transactions of PostgreSQL only; this app's store is {kind}"
        )

    @abstractmethod
    def close(self) -> None:
        """Let go of every resource; a second call does nothing."""

    @abstractmethod
    def listen(self, topic: Topic) -> Listener: ...

    @abstractmethod
    def migrate(self) -> list[str]:
        """Bring the schema up to date; return the names of the migrations that were applied."""

    @abstractmethod
    def pending_migrations(self) -> list[tuple[str, str]]:
        """Return name and SQL of each migration that has not been applied."""

    # The data's way.

    @abstractmethod
    def enqueue(
        self, jobs: Sequence[NewJob], *, atomic: bool = False
    ) -> Operation[list[EnqueueReply]]:
        """Store *jobs*. With *atomic*, a rejected duplicate raises and none is stored.

        A job that is to wait for what cannot be waited for raises DependencyError either way.
        """

    @abstractmethod
    def claim(self, request: ClaimRequest) -> Operation[Claim]:
        """Recover expired leases and promote due jobs (bounded), then lease what is claimable."""

    @abstractmethod
    def heartbeat(self, beats: Sequence[Beat]) -> Operation[list[HeartbeatReply]]:
        """Extend leases that are still valid; an expired one is not revived (C10)."""

    @abstractmethod
    def settle(self, settlements: Sequence[Settlement]) -> Operation[list[SettleReply]]:
        """Record decisions under valid leases."""

    @abstractmethod
    def save(self, saves: Sequence[Save]) -> Operation[list[SaveReply]]:
        """Keep checkpoints and progress under valid leases."""

    @abstractmethod
    def spawn(self, spawns: Sequence[Spawn]) -> Operation[list[SpawnReply]]:
        """Store jobs under valid leases; whoever gathers what the spawning job does waits for them.

        Raises DependencyError, and nothing at all is stored, if one of them is refused.
        """

    # Events.

    @abstractmethod
    def send(self, event: NewEvent, jobs: Sequence[NewJob]) -> Operation[EventReply]:
        """Record *event* and store its handlers' *jobs*, all or none; each is marked as its own.

        A key that is held makes a duplicate, which is told of and recorded; one that asks to be
        refused raises DuplicateJobError, and nothing is stored.
        """

    @abstractmethod
    def events(self, name: str | None, page: PageRequest) -> Operation[EventPage]:
        """Return a page of the records of events (of one name), newest first."""

    @abstractmethod
    def prune_events(self, keep: float, limit: int) -> Operation[int]:
        """Delete records of events sent *keep* seconds ago or longer, at most *limit*; count them.

        The oldest first; jobs are not touched.
        """

    @abstractmethod
    def load_events(self, events: Sequence[SentEvent]) -> Operation[int]:
        """Record events as another store had them, in this order; return how many were new.

        One whose id is known is left alone.
        """

    # Control.

    @abstractmethod
    def cancel(self, job_ids: Sequence[str]) -> Operation[list[CancelReply]]: ...

    @abstractmethod
    def retry(self, requests: Sequence[RetryRequest]) -> Operation[list[RetryReply]]: ...

    @abstractmethod
    def edit(self, edits: Sequence[Edit]) -> Operation[list[EditReply]]: ...

    @abstractmethod
    def replay(self, requests: Sequence[str | Replay]) -> Operation[list[ReplayReply]]:
        """Put a fresh job in the place of each dead letter, in one transaction."""

    @abstractmethod
    def discard(self, job_ids: Sequence[str]) -> Operation[list[DiscardReply]]:
        """Take dead letters off the list without running them."""

    @abstractmethod
    def pause(self, scope: Scope, name: str) -> Operation[None]: ...

    @abstractmethod
    def resume(self, scope: Scope, name: str) -> Operation[None]: ...

    @abstractmethod
    def limit(self, scope: Scope, name: str, max_running: int | None) -> Operation[None]:
        """Bound the running jobs of a queue or (scope APP, any name) of the whole store."""

    @abstractmethod
    def set_rates(self, rates: Mapping[str, Rate | None]) -> Operation[None]:
        """Bound how often jobs of types start; None: not at all.

        One that is as it was changes nothing. A changed one counts what the old one had counted;
        one that is cleared forgets it.
        """

    # Crons.

    @abstractmethod
    def declare_crons(self, crons: Sequence[CronDefinition]) -> Operation[None]:
        """Write crons down. One whose times are as they were keeps its ticks, also past ones.

        One whose times have changed goes on from the tick that is given; a pause is kept.
        """

    @abstractmethod
    def fire(self, fires: Sequence[CronFire]) -> Operation[list[FireReply]]:
        """Enqueue the jobs of each cron that stands as expected, and move it on, in one.

        Repeated after an unknown outcome, it answers NotDue if it was done.
        """

    @abstractmethod
    def crons(self) -> Operation[CronList]:
        """Return all crons, by name, and the time by the store's clock."""

    @abstractmethod
    def pause_cron(self, name: str) -> Operation[bool]:
        """Fire no more ticks of a cron; False if there is none of this name."""

    @abstractmethod
    def resume_cron(self, name: str, next_tick: datetime | None) -> Operation[bool]:
        """Go on with a paused cron from *next_tick*; one that is not paused is left alone.

        False if there is none of this name.
        """

    @abstractmethod
    def forget_cron(self, name: str) -> Operation[bool]:
        """Delete a cron, until an app declares it again; False if there is none."""

    # Tokens, and the log of what was done with them.

    @abstractmethod
    def add_token(self, record: TokenRecord) -> Operation[None]:
        """Keep a token; one that is there already, all the same, is left alone.

        Forgets those that ended TOKEN_KEPT ago. Raises StateConflictError if another token has its
        id, and ConfigurationError if there are TOKENS_MAX.
        """

    @abstractmethod
    def tokens(self) -> Operation[list[TokenRecord]]:
        """Return all tokens, the oldest first, those too that were revoked or have expired."""

    @abstractmethod
    def revoke_token(self, token_id: str) -> Operation[bool]:
        """Make a token good for nothing from now on; False if there is none.

        One that was revoked before stays revoked since then.
        """

    @abstractmethod
    def record_action(self, action: Action) -> Operation[None]:
        """Append to the audit log, at the store's time; one whose id is there is left alone."""

    @abstractmethod
    def actions(self, page: PageRequest) -> Operation[ActionPage]:
        """Return a page of the audit log, newest first."""

    @abstractmethod
    def prune_actions(self, keep: float, limit: int) -> Operation[int]:
        """Delete what was recorded *keep* seconds ago or longer, at most *limit*; count it.

        The oldest first.
        """

    # Upkeep: bounded, idempotent, safe to run twice at once.

    @abstractmethod
    def recover(self, limit: int) -> Operation[list[Moved]]:
        """Take back jobs whose leases ran out; each counts as a failed attempt."""

    @abstractmethod
    def promote(self, limit: int) -> Operation[list[Moved]]:
        """Make due jobs claimable."""

    @abstractmethod
    def expire(self, limit: int) -> Operation[list[Moved]]:
        """Dead-letter live jobs past their lifetime."""

    @abstractmethod
    def prune(self, request: PruneRequest) -> Operation[Pruned]: ...

    def tidy(self) -> Operation[None]:
        """Keep the engine's own books in order; see ``tidy_interval``."""
        raise NotImplementedError

    # Looking.

    @abstractmethod
    def get(self, job_ids: Sequence[str]) -> Operation[list[Job | None]]: ...

    @abstractmethod
    def locate(self, job_ids: Sequence[str]) -> Operation[list[str | None]]:
        """Return the queue of each job, and nothing else of it; None for one that is not there."""

    @abstractmethod
    def find(self, filter: JobFilter, page: PageRequest) -> Operation[JobPage]: ...

    @abstractmethod
    def count(self, filter: JobFilter) -> Operation[int]: ...

    @abstractmethod
    def attempts(self, job_id: str) -> Operation[list[Attempt] | None]:
        """Return the attempts of a job, oldest first; None when there is no such job."""

    @abstractmethod
    def dependencies(
        self, job_ids: Sequence[str], *, with_results: bool = False
    ) -> Operation[list[list[Dependency]]]:
        """Return what each job waits for or waited for, in order; nothing for an unknown one."""

    @abstractmethod
    def dependents(self, job_ids: Sequence[str]) -> Operation[list[list[str]]]:
        """Return the ids of those that wait for each job or waited for it, oldest first."""

    @abstractmethod
    def situation(self, job_id: str) -> Operation[Situation | None]:
        """Return what ``core.why`` needs to explain where a job is."""

    @abstractmethod
    def dead_letters(
        self, type: str | None, page: PageRequest, queues: Sequence[str] | None = None
    ) -> Operation[DeadLetterPage]:
        """Return a page of dead letters (of a type, and of some queues), newest first."""

    @abstractmethod
    def ended(
        self, since: datetime, *, limit: int, after: int | None = None, newest_first: bool = False
    ) -> Operation[EndedPage]:
        """Return jobs that ended at *since* or later, in the order of their end, beyond *after*.

        One may be seen late, at a place that was read before: see ``core.ended``.
        """

    @abstractmethod
    def queues(self) -> Operation[list[QueueView]]: ...

    @abstractmethod
    def types(self) -> Operation[list[TypeView]]: ...

    @abstractmethod
    def app_limit(self) -> Operation[int | None]: ...

    @abstractmethod
    def inspect(self) -> Operation[list[Finding]]:
        """Look for what an operator should know, durability first."""

    # Moving to another store.

    @abstractmethod
    def dump(self, after: int, limit: int) -> Operation[Dump]:
        """Return whole jobs in the order of submission, from position *after* (0 at first) on.

        Pages are bounded in bytes too. A live job that cannot be read raises StateConflictError.
        """

    @abstractmethod
    def load(self, records: Sequence[JobRecord]) -> Operation[list[LoadReply]]:
        """Store jobs as another store had them, in this order; one whose id is known is left alone.

        All or none: a running job raises StateConflictError, and a live one whose key another job
        holds here raises DuplicateJobError.
        """

    @abstractmethod
    def accept_jobs(self, is_accepted: bool) -> Operation[None]:
        """Refuse new jobs from now on, whichever way they come, or accept them again.

        A refused one raises StoreUnavailableError and nothing of its operation is stored. When
        this has returned, every job that was accepted before can be seen. The refusal outlives
        this process, costs nothing while there is none, and leaves the jobs that are there alone.
        """

    # Workers and leading.

    @abstractmethod
    def announce(self, worker: WorkerInfo) -> Operation[None]: ...

    @abstractmethod
    def retire(self, worker_id: str) -> Operation[None]:
        """Forget a worker that has stopped; its leases, if any, are left to run out."""

    @abstractmethod
    def workers(self) -> Operation[list[WorkerInfo]]:
        """Return the workers heard from within WORKER_SILENCE."""

    @abstractmethod
    def lead(self, name: str, worker: str, ttl: float) -> Operation[Term | None]:
        """Take or keep the term called *name*; None while somebody else holds it."""

    @abstractmethod
    def resign(self, name: str, worker: str) -> Operation[None]: ...
