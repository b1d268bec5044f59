"""A store for tests: in memory, with a clock that stands still; and what was submitted to it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from fencepost.core.bounds import PAGE_MAX
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Job
from fencepost.core.job.lifecycle import State
from fencepost.core.job.task import Task
from fencepost.store.interface.facet import BoundFacet
from fencepost.store.interface.joins import Fate, Joined, JoinsFacet
from fencepost.store.interface.store import Listener, Store, Topic
from fencepost.store.memory.store import MemoryStore
from fencepost.store.plan import Operation, Plan
from fencepost.store.sqlite.facets import bound
from fencepost.store.sqlite.jobs.catalog import Env
from fencepost.store.sqlite.jobs.read import READER
from fencepost.testing.clock import FakeClock

if TYPE_CHECKING:
    from fencepost.actions.session import Session
    from fencepost.app import App, TaskHandle

T = TypeVar("T")

NO_WORKER = (
    "this would wait for ever: only drain() runs jobs here; call it before you wait for a result"
)


@contextmanager
def memory_store(app: App, *, clock: FakeClock | None = None) -> Iterator[FakeClock]:
    """Put *app* on an empty store in memory until the block ends; yield its clock.

    Meanwhile the app's own store is neither opened nor touched, whether through the app, its tasks
    or handles made before.
    """
    used = clock or FakeClock()
    with lend(app.session, BorrowedStore(clock=used)):
        yield used


@contextmanager
def lend(session: Session, store: Store) -> Iterator[None]:
    """Let a session, and all that shares it, use *store* until the block ends."""
    lent = {
        "url": store.url,  # a child forked by a test would open it
        "clock": store.clock,
        "_store": store,
        "_pid": os.getpid(),
        "_is_closed": False,
        "_submitter": None,
    }
    own = {name: getattr(session, name) for name in lent}
    try:
        vars(session).update(lent)
        yield
    finally:
        vars(session).update(own)
        store.close()


def _mark(env: Env) -> Plan[str]:
    yield from ()
    return "joined"


def _fates(env: Env, asked: Sequence[Joined]) -> Plan[list[Fate]]:
    jobs = yield from READER.get(env, [each.job_id for each in asked])
    return [Fate.SETTLED if job and job.state is State.COMPLETED else Fate.UNDONE for job in jobs]


class BorrowedStore(MemoryStore):
    """A memory store for code under test, whose tests run its jobs themselves.

    An operation in a caller's transaction is done at once; a rollback does not undo it.
    """

    def listen(self, topic: Topic) -> Listener:
        super().listen(topic).close()  # raises if the store is closed
        return NoListener()

    def run_in(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        return self.run(make(self))

    async def run_in_async(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        return self.run(make(self))

    def _joins(self, env: Env) -> JoinsFacet:
        return BorrowedJoins(env)


class BorrowedJoins(BoundFacet[Env], JoinsFacet):
    """Reports a job as settled once it has completed, since nothing waits for a commit."""

    mark = bound(_mark)
    fates = bound(_fates)


class NoListener:
    """Raises where a real listener would wait in vain: no worker will ever send a notification."""

    def wait(self, timeout: float) -> bool:
        if timeout > 0:
            raise RuntimeError(NO_WORKER)
        return False

    async def wait_async(self, timeout: float) -> bool:
        return self.wait(timeout)

    def close(self) -> None:
        pass


def submitted(task: TaskHandle[..., Any]) -> list[dict[str, Any]]:
    """Return the arguments, by name, of every job of *task* that is stored, oldest first."""
    session = task._session
    store = session.store
    jobs: list[Job] = []
    after: int | None = None
    while True:
        page = store.run(store.reader.find(JobFilter(type=task.type), PageRequest(PAGE_MAX, after)))
        jobs += page.jobs
        after = page.next
        if after is None:
            return [_arguments(session.tasks[task.type], job) for job in reversed(jobs)]


def _arguments(task: Task, job: Job) -> dict[str, Any]:
    args, kwargs = task.signature.decode(job.payload_body)
    bound = inspect.Signature(task.signature.parameters).bind(*args, **kwargs)
    return dict(bound.arguments)
