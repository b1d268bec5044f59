"""The seam: what every store can do, in batches, with an answer for each job.

The operations stand on facets, a file each: ``store.queue.claim(request)`` makes one, and ``run``
or ``run_async`` executes it as one transaction. The store's own clock judges every lease and due
time. Errors are of three kinds: a job's own answer in the reply (surely decided),
``StoreUnavailableError`` (surely not done) and ``UnknownOutcomeError`` (may have been done;
repeating with the same token or key is safe and tells what happened).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from fencepost.clock import Clock
from fencepost.core.crypto.keyring import KeyRing
from fencepost.store.interface.access import AccessFacet
from fencepost.store.interface.audit import AuditFacet
from fencepost.store.interface.cluster import ClusterFacet
from fencepost.store.interface.control import ControlFacet
from fencepost.store.interface.crons import CronsFacet
from fencepost.store.interface.events import EventsFacet
from fencepost.store.interface.joins import JoinsFacet, joins_nothing
from fencepost.store.interface.listener import Listener, Topic
from fencepost.store.interface.overview import OverviewFacet
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.interface.reader import ReaderFacet
from fencepost.store.interface.settings import SettingsFacet
from fencepost.store.interface.transfer import TransferFacet
from fencepost.store.interface.upkeep import UpkeepFacet
from fencepost.store.plan import Operation

T = TypeVar("T")


class Facets(NamedTuple):
    """The operations of a store, by subject."""

    queue: QueueFacet
    control: ControlFacet
    reader: ReaderFacet
    settings: SettingsFacet
    upkeep: UpkeepFacet
    crons: CronsFacet
    access: AccessFacet
    audit: AuditFacet
    cluster: ClusterFacet
    overview: OverviewFacet
    events: EventsFacet
    transfer: TransferFacet
    joins: JoinsFacet


class Store(ABC):
    """Where jobs live."""

    url: str
    clock: Clock
    tidy_interval: float | None = None
    """How often a leader is to run ``upkeep.tidy``; None where there is nothing to tidy."""
    keys: KeyRing | None = None
    """What jobs are encrypted with (``store.encrypted``); no engine has any."""

    def __init__(self, facets: Facets) -> None:
        self.facets = facets
        self.queue = facets.queue
        self.control = facets.control
        self.reader = facets.reader
        self.settings = facets.settings
        self.upkeep = facets.upkeep
        self.crons = facets.crons
        self.access = facets.access
        self.audit = facets.audit
        self.cluster = facets.cluster
        self.overview = facets.overview
        self.events = facets.events
        self.transfer = facets.transfer
        self.joins = facets.joins

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
        raise joins_nothing(self.url)

    async def run_in_async(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        """Do the same on an async connection."""
        raise joins_nothing(self.url)

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
