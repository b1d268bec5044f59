"""An app on a borrowed store: in memory, with a clock that stands still, and given back after."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from fencepost.core.job.lifecycle import State
from fencepost.store.interface.facet import BoundFacet
from fencepost.store.interface.joins import Fate, Joined, JoinsFacet
from fencepost.store.interface.listener import Listener, Topic
from fencepost.store.interface.store import Store
from fencepost.store.memory.facets import bound
from fencepost.store.memory.jobs import read
from fencepost.store.memory.store import MemoryStore
from fencepost.store.memory.world import MemoryWorld
from fencepost.store.plan import Operation
from fencepost.testing.clock import FakeClock

if TYPE_CHECKING:
    from fencepost.actions.session import Session
    from fencepost.app import App

T = TypeVar("T")

NOBODY_RUNS = (
    "this would wait for ever: nothing runs jobs here but drain(); call it before you ask for a "
    "result"
)


@contextmanager
def memory_store(app: App, *, clock: FakeClock | None = None) -> Iterator[FakeClock]:
    """Put *app* on an empty store in memory until the block ends; yield its clock.

    The app's own store is neither opened nor touched meanwhile, by whatever name it is reached:
    the app, its tasks, handles made before.
    """
    used = clock or FakeClock()
    with lend(app.session, BorrowedStore(clock=used)):
        yield used


@contextmanager
def lend(session: Session, store: Store) -> Iterator[None]:
    """Have a session, and all that shares it, use *store* until the block ends."""
    lent = {
        "url": store.url,  # which a child forked by a test would open
        "clock": store.clock,
        "_store": store,
        "_pid": os.getpid(),
        "_is_closed": False,
        "_submitter": None,
    }
    own = {name: getattr(session, name) for name in lent}
    try:
        _set(session, lent)
        yield
    finally:
        _set(session, own)
        store.close()


def _set(session: Session, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(session, name, value)


def _mark(world: MemoryWorld) -> str:
    return "joined"


def _fates(world: MemoryWorld, asked: Sequence[Joined]) -> list[Fate]:
    jobs = read.get(world, [each.job_id for each in asked])
    return [Fate.SETTLED if job and job.state is State.COMPLETED else Fate.UNDONE for job in jobs]


class BorrowedStore(MemoryStore):
    """A memory store for code under test, whose tests run its jobs themselves.

    What joins a caller's transaction is done at once; a rollback does not take it back.
    """

    def listen(self, topic: Topic) -> Listener:
        super().listen(topic).close()  # it refuses to when the store is closed
        return NoListener()

    def run_in(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        return self.run(make(self))

    async def run_in_async(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        return self.run(make(self))

    def _joins(self) -> JoinsFacet:
        return BorrowedJoins(self.world)


class BorrowedJoins(BoundFacet[MemoryWorld], JoinsFacet):
    """Says of what was done at once that it is settled."""

    mark = bound(_mark)
    fates = bound(_fates)


class NoListener:
    """Says that nobody is going to ring, where a real one would wait in vain."""

    def wait(self, timeout: float) -> bool:
        return _nobody(timeout)

    async def wait_async(self, timeout: float) -> bool:
        return _nobody(timeout)

    def close(self) -> None:
        """There is nothing to let go of."""


def _nobody(timeout: float) -> bool:
    """Return at once if only the past is asked about."""
    if timeout > 0:
        _refuse()
    return False


def _refuse() -> NoReturn:
    raise RuntimeError(NOBODY_RUNS)
