"""The seam: what every store can do, in batches, with an answer for each job.

The operations stand on facets, a file each: ``store.queue.claim(request)`` makes one, and ``run``
or ``run_async`` executes it as one transaction. The store's own clock judges every lease and due
time. Errors are of three kinds: a job's own answer in the reply (surely decided),
``StoreUnavailableError`` (surely not done) and ``UnknownOutcomeError`` (may have been done;
repeating with the same token or key is safe and says what happened).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from fencepost.clock import Clock
from fencepost.core.encryption import KeyRing
from fencepost.core.filter import JOBS, Listing
from fencepost.core.job.job import NewJob
from fencepost.errors import ForkedStoreError, StoreUnavailableError
from fencepost.store.interface.control import ControlFacet, ReplaysFacet
from fencepost.store.interface.joins import JoinsFacet, joins_nothing
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.interface.reader import ReaderFacet
from fencepost.store.interface.records.access import AccessFacet, AuditFacet
from fencepost.store.interface.records.cluster import ClusterFacet
from fencepost.store.interface.records.crons import CronsFacet
from fencepost.store.interface.records.events import EventsFacet
from fencepost.store.interface.records.overview import OverviewFacet
from fencepost.store.interface.records.refusals import RefusalsFacet
from fencepost.store.interface.records.series import SeriesFacet
from fencepost.store.interface.records.transfer import TransferFacet
from fencepost.store.interface.settings import SettingsFacet
from fencepost.store.interface.upkeep import UpkeepFacet
from fencepost.store.plan import Operation

T = TypeVar("T")


class Topic(StrEnum):
    """What a listener can be woken by."""

    READY = "ready"
    """Jobs may have become claimable."""
    SETTLED = "settled"
    """Jobs may have become terminal."""


class Listener(Protocol):
    """Waits for notifications from any process. One may be lost or spurious: poll as well."""

    def wait(self, timeout: float) -> bool:
        """Block until a notification came (True) or *timeout* seconds passed (False)."""
        ...

    async def wait_async(self, timeout: float) -> bool: ...

    def close(self) -> None: ...


@dataclass(eq=False)
class Facets:
    """The operations of a store, by subject."""

    queue: QueueFacet
    control: ControlFacet
    replays: ReplaysFacet
    reader: ReaderFacet
    settings: SettingsFacet
    upkeep: UpkeepFacet
    crons: CronsFacet
    access: AccessFacet
    audit: AuditFacet
    cluster: ClusterFacet
    overview: OverviewFacet
    series: SeriesFacet
    refusals: RefusalsFacet
    events: EventsFacet
    transfer: TransferFacet
    joins: JoinsFacet


def check_open(pid: int, *, is_closed: bool) -> None:
    """Raise if a store is closed, or was opened before a fork by process *pid*."""
    if os.getpid() != pid:
        raise ForkedStoreError
    if is_closed:
        raise StoreUnavailableError("this store has been closed")


class Store(Facets, ABC):
    """Where jobs live. Its facets are attributes of it."""

    url: str
    clock: Clock
    tidy_interval: float | None = None
    """How often the leader runs ``upkeep.tidy``; None where there is nothing to tidy."""
    hands_over: bool = False
    """Whether threads of the store run what is awaited by the ``meanwhile`` of an operation: the
    first step of ``run_async`` hands it to them, in whichever task. Such a store calls it before
    it waits for the answer to an operation that it runs in the caller's thread."""
    jobs_listing: Listing = JOBS
    """The cursors of its searches."""
    keys: KeyRing | None = None
    """Jobs are encrypted with these (``store.wrappers.encrypted``); no engine has any."""

    def __init__(self, facets: Facets) -> None:
        self.facets = facets
        super().__init__(**vars(facets))

    @abstractmethod
    def run(self, operation: Operation[T]) -> T:
        """Execute *operation* in this thread."""

    @abstractmethod
    async def run_async(self, operation: Operation[T]) -> T:
        """Execute *operation* without blocking the event loop."""

    def run_in(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        """Execute the operation that *make* returns, in the transaction of *conn*.

        With *must_be_open*, a connection that commits every statement by itself is refused.
        """
        raise joins_nothing(self.url)

    async def run_in_async(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        """Do the same on an async connection."""
        raise joins_nothing(self.url)

    def new_ids(self, jobs: Sequence[NewJob]) -> list[bytes]:
        """Return ids for *jobs*, for a wrapper that has to know them beforehand."""
        return self.clock.new_ids(len(jobs))

    @abstractmethod
    def close(self) -> None:
        """Close every resource; a second call does nothing."""

    @abstractmethod
    def listen(self, topic: Topic) -> Listener: ...

    @abstractmethod
    def migrate(self) -> list[str]:
        """Bring the schema up to date; return the names of the migrations that were applied."""

    @abstractmethod
    def pending_migrations(self) -> list[tuple[str, str]]:
        """Return name and SQL of each migration that has not been applied."""


class WrappedStore(Store):
    """A store around another one. It passes on all but the operations; a wrapper overrides more."""

    def __init__(self, store: Store, facets: Facets) -> None:
        super().__init__(facets)
        self._store = store

    @property
    def url(self) -> str:  # type: ignore[override]  # read-only
        return self._store.url

    @property
    def clock(self) -> Clock:  # type: ignore[override]  # read-only
        return self._store.clock

    @property
    def tidy_interval(self) -> float | None:  # type: ignore[override]  # read-only
        return self._store.tidy_interval

    @property
    def hands_over(self) -> bool:  # type: ignore[override]  # read-only
        return self._store.hands_over

    @property
    def jobs_listing(self) -> Listing:  # type: ignore[override]  # read-only
        return self._store.jobs_listing

    @property
    def keys(self) -> KeyRing | None:  # type: ignore[override]  # read-only
        return self._store.keys

    def run(self, operation: Operation[T]) -> T:
        return self._store.run(operation)

    async def run_async(self, operation: Operation[T]) -> T:
        return await self._store.run_async(operation)

    def run_in(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        return self._store.run_in(conn, make, must_be_open=must_be_open)

    async def run_in_async(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        return await self._store.run_in_async(conn, make, must_be_open=must_be_open)

    def new_ids(self, jobs: Sequence[NewJob]) -> list[bytes]:
        return self._store.new_ids(jobs)

    def close(self) -> None:
        self._store.close()

    def listen(self, topic: Topic) -> Listener:
        return self._store.listen(topic)

    def migrate(self) -> list[str]:
        return self._store.migrate()

    def pending_migrations(self) -> list[tuple[str, str]]:
        return self._store.pending_migrations()
