"""A run of a job on its own store, from submission to end: with a crash at one point, or with none.

The store passes a point wherever the handler uses it, and counts the jobs that it submits.
Collections that a test's fakes write to are put back before each run and compared after it.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import types
from collections import Counter
from collections.abc import (
    Callable,
    Coroutine,
    Generator,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence,
)
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from fencepost.clock import Clock
from fencepost.core.bounds import CLAIM_MAX, WORKER_LEASE_TTL_DEFAULT, WORKER_TIMEOUT_GRACE
from fencepost.core.display import shown
from fencepost.core.job.job import ClaimedJob, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.task import Task
from fencepost.core.values.payload import decode
from fencepost.generators import delegate
from fencepost.store.interface.joins import JoinsFacet
from fencepost.store.interface.queue import (
    ClaimRequest,
    Enqueued,
    EnqueueReply,
    QueueFacet,
    Spawned,
)
from fencepost.store.interface.records.events import EventReply
from fencepost.store.interface.store import Store
from fencepost.store.plan import Effect, Operation
from fencepost.testing.clock import FakeClock
from fencepost.testing.idempotency.effects import (
    SUBMIT,
    Counts,
    Place,
    Watch,
    call_text,
    variables_of,
)
from fencepost.testing.idempotency.trail import Crash, Trail
from fencepost.testing.runner import Turns, actions_of, conclude, handler_call
from fencepost.testing.store import BorrowedStore, lend
from fencepost.worker.run.context import ContextActions

if TYPE_CHECKING:
    from fencepost.actions.session import Session

T = TypeVar("T")

ATTEMPTS_MAX = 50
"""Attempts of one run; a handler that snoozes for longer is not followed further."""
CLAIMS_MAX = 1_000
LEFTOVER_TIMEOUT = 5.0
WORKER = "check"
STATE = "the state"
COLLECTIONS = (MutableSequence, MutableMapping, MutableSet)


class EffectRecord:
    """A collection that effects are written to."""

    def __init__(self, collection: Any, name: str) -> None:
        self.name = name
        self._collection = collection
        self._before = copy.copy(collection)

    def put_back(self) -> None:
        """Restore what it held before the check began."""
        self._collection.clear()
        if isinstance(self._collection, MutableSequence):
            self._collection.extend(self._before)
        elif isinstance(self._collection, MutableMapping):
            self._collection.update(self._before)
        else:
            self._collection |= self._before

    @property
    def is_list(self) -> bool:
        """True if each item is an effect; other collections are only compared as a whole."""
        return isinstance(self._collection, MutableSequence)

    def counts(self) -> Counter[str]:
        """Return the texts of the items that were added, and how often."""
        now, before = (Counter(map(shown, items)) for items in (self._collection, self._before))
        return Counter({f"{text} in {self.name}": n for text, n in (now - before).items()})

    def contents(self) -> Any:
        """Return a copy of what it holds now."""
        return copy.deepcopy(self._collection)


def record(collection: Any, number: int, handler: Callable[..., Any]) -> EffectRecord:
    """Return a record of *collection*, under the name by which the handler knows it, if it does."""
    known = dict(getattr(inspect.unwrap(handler), "__globals__", {}))
    known |= {name: value for name, _, value in variables_of(handler)}
    name = next((name for name, each in known.items() if each is collection), None)
    return EffectRecord(collection, name or f"effects[{number}]")


class WatchedStore(BorrowedStore):
    """A memory store that passes two points with every operation of the handler.

    One before it, and one after it took effect. An operation in the caller's transaction has no
    point after it: a crash there rolls it back, as a crash before does.
    """

    def __init__(self, *, clock: Clock, trail: Trail, watch: Watch) -> None:
        super().__init__(clock=clock)
        self._trail = trail
        self._watch = watch

    def run(self, operation: Operation[T]) -> T:
        if self._trail.is_idle:
            return super().run(operation)
        name = _name_of(operation)
        self._trail.reach(f"before {name}")
        result = super().run(operation)
        self._note(operation, result)
        if operation.effect is not Effect.READ:
            self._trail.reach(f"after {name}")
        return result

    def run_in(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        operation = make(self)
        if not self._trail.is_idle:
            self._trail.reach(f"before {_name_of(operation)}")
        result = super().run(operation)
        self._note(operation, result)
        return result

    async def run_in_async(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        return self.run_in(conn, make, must_be_open=must_be_open)

    def _note(self, operation: Operation[Any], result: Any) -> None:
        """Count the jobs that were stored; a submission whose key is held stores none."""
        if self._trail.is_idle:
            return
        if operation.is_a(QueueFacet.spawn):
            for spawn, reply in zip(operation.given[0], result, strict=True):
                if isinstance(reply, Spawned):
                    self._note_stored(spawn.jobs, reply.replies)
        elif submitted := operation.new_jobs:
            self._note_stored(submitted, result.jobs if isinstance(result, EventReply) else result)

    def _note_stored(self, jobs: Sequence[NewJob], replies: Sequence[EnqueueReply]) -> None:
        for new, reply in zip(jobs, replies, strict=True):
            if isinstance(reply, Enqueued):
                self._watch.note(SUBMIT, _submission_text(new))


def _name_of(operation: Operation[Any]) -> str:
    """Return an operation's name in the words of a handler."""
    if operation.is_a(QueueFacet.enqueue):
        return SUBMIT
    if operation.is_a(QueueFacet.save):
        (save,) = operation.given[0]
        return "progress" if save.checkpoint is None else "checkpoint"
    if operation.is_a(QueueFacet.settle, JoinsFacet.mark):
        return "complete_in"
    return operation.name


def _submission_text(new: NewJob) -> str:
    payload = decode(new.payload)
    named = payload if isinstance(payload, dict) else {}
    return call_text(f"{SUBMIT} {new.type}", () if named is payload else (payload,), named)


class Seen(msgspec.Struct, frozen=True):
    """What can be seen at the end of a run."""

    counts: Counts
    states: dict[str, Any]
    """The value of each collection, and of ``state()``."""
    failure: str | None = None
    """Why the job did not complete; None if it did."""


class Watched(msgspec.Struct, frozen=True):
    """What is compared between runs, and how it is put back before each."""

    places: Sequence[Place] = ()
    records: Sequence[EffectRecord] = ()
    state: Callable[[], Any] | None = None
    setup: Callable[[], object] | None = None

    def put_back(self) -> None:
        for record in self.records:
            record.put_back()
        if self.setup is not None:
            self.setup()

    def seen(self, watch: Watch, failure: str | None) -> Seen:
        """Return what can be seen at the end of a run."""
        counts = {name: +counter for name, counter in watch.counts.items()}
        counts |= {r.name: r.counts() for r in self.records if r.is_list}
        states = {r.name: r.contents() for r in self.records if not r.is_list}
        if self.state is not None:
            states[STATE] = copy.deepcopy(self.state())
        return Seen(counts, states, failure)


class Scenario:
    """Runs one job from its submission to its end, as often as needed."""

    def __init__(self, session: Session, task: Task, new: NewJob, watched: Watched) -> None:
        self._session = session
        self._task = task
        # One attempt more than its policy allows: the one that crashes.
        policy = msgspec.structs.replace(
            new.policy, max_attempts=new.policy.max_attempts + 1, on_system=True
        )
        # Without dependencies: those are in another store.
        self._new = msgspec.structs.replace(
            new, policy=policy, delay=0.0, run_at=None, after=None, flow=None, node=None
        )
        self._watched = watched
        self.error: BaseException | None = None
        """What the handler raised last."""

    def run(self, trail: Trail) -> Turns[Seen]:
        """Run once, along *trail*; return what can be seen at the end."""
        self._watched.put_back()
        self.error = None
        watch = Watch(trail)
        clock = FakeClock()  # a fresh one: equal ids and times in every run
        store = WatchedStore(clock=clock, trail=trail, watch=watch)
        with lend(self._session, store), watch.watching(self._watched.places):
            (reply,) = store.run(store.queue.enqueue([self._new]))
            for _ in range(ATTEMPTS_MAX):
                job = _claim(store, clock, reply.job_id, self._new.type)
                if job is None:
                    break
                actions = actions_of(store, job, self._session.tasks)
                trail.begin()
                ended = yield _Attempt(self._task, actions, trail)
                if trail.end():
                    clock.advance(job.lease_ttl)  # until the lease of the crashed attempt expires
                else:
                    self.error = ended.error
                    conclude(actions, ended, self._session.tasks)
            failure = _failure(store, reply.job_id)
        return self._watched.seen(watch, failure)


def _claim(store: WatchedStore, clock: FakeClock, job_id: str, type: str) -> ClaimedJob | None:
    """Claim the one job, moving time on until it falls due; None once it has ended.

    Jobs of its type that it submitted may be claimed with it; they are ignored.
    """
    request = ClaimRequest(
        worker=WORKER,
        limit=CLAIM_MAX,
        types=frozenset([type]),
        lease_ttl=WORKER_LEASE_TTL_DEFAULT,
        timeout_grace=WORKER_TIMEOUT_GRACE,
    )
    for _ in range(CLAIMS_MAX):
        claim = store.run(store.queue.claim(request))
        own = next((job for job in claim.jobs if job.id == job_id), None)
        (job,) = store.run(store.reader.get([job_id]))
        if own is not None or job is None or job.state.is_terminal or claim.wait is None:
            return own
        clock.advance(max(claim.wait, 1e-6))
    return None


def _failure(store: WatchedStore, job_id: str) -> str | None:
    (job,) = store.run(store.reader.get([job_id]))
    if job is None or job.state is State.COMPLETED:
        return None
    if job.failure is None:
        return f"it is {job.state} after {ATTEMPTS_MAX} attempts"
    name = (job.failure.exception or job.failure.category).rpartition(".")[2]
    return f"{name}: {job.failure.message}"


class _Attempt:
    """Calls the handler along a trail; after a crash its return value is meaningless."""

    def __init__(self, task: Task, actions: ContextActions, trail: Trail) -> None:
        self._task = task
        self._actions = actions
        self._trail = trail

    def __call__(self) -> Any:
        call = handler_call(self._task, self._actions)
        try:
            value = call()
            if asyncio.iscoroutine(value):
                return self._follow(value)
            self._trail.reach("after its end")
            return value
        except Crash:
            return None

    async def _follow(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        others = asyncio.all_tasks()
        self._trail.follow(coroutine)
        try:
            value = await _stepped(coroutine, self._trail)
            self._trail.reach("after its end")
            return value
        except Crash:
            return None
        finally:
            if self._trail.is_dead:
                await _end(asyncio.all_tasks() - others)


@types.coroutine
def _stepped(coroutine: Coroutine[Any, Any, Any], trail: Trail) -> Generator[Any, Any, Any]:
    """Await *coroutine*; each time before it goes on after a wait is a point."""

    def wait(waits_for: Any) -> Generator[Any, Any, None]:
        was_dead = trail.is_dead
        yield waits_for
        # If a task beside it has crashed, what it awaited may be about to raise.
        if was_dead or not trail.is_dead:
            trail.reach("after an await")

    return (yield from delegate(coroutine, wait))


async def _end(tasks: set[asyncio.Task[Any]]) -> None:
    """Cancel the tasks that the handler started: they would die with its process."""
    for task in tasks:
        task.cancel()
    if tasks:
        done, _ = await asyncio.wait(tasks, timeout=LEFTOVER_TIMEOUT)
        for task in done:
            if not task.cancelled():
                task.exception()  # marks it as retrieved, so that asyncio does not log it
