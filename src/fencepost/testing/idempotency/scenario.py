"""One life of a job on a store of its own: with a crash at one point, or without any."""

from __future__ import annotations

import asyncio
import copy
import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from fencepost.core.bounds import CLAIM_MAX, WORKER_LEASE_TTL_DEFAULT, WORKER_TIMEOUT_GRACE
from fencepost.core.job.job import ClaimedJob, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.task import Task
from fencepost.store.interface.queue import ClaimRequest
from fencepost.testing.attempting import Turns, arguments, conclude, context_of
from fencepost.testing.clock import FakeClock
from fencepost.testing.idempotency.effects import Place, Watch
from fencepost.testing.idempotency.records import EffectRecord
from fencepost.testing.idempotency.report import Seen
from fencepost.testing.idempotency.trail import Crash, Trail
from fencepost.testing.idempotency.watched_store import WatchedStore
from fencepost.testing.lending import lend
from fencepost.worker import Context

if TYPE_CHECKING:
    from fencepost.actions.session import Session

ATTEMPTS_MAX = 50
"""Attempts of one life; a handler that snoozes for longer is not looked at further."""
CLAIMS_MAX = 1_000
LEFTOVER_PATIENCE = 5.0
WORKER = "check"
STATE = "the state"


class World(msgspec.Struct, frozen=True):
    """What is looked at, and how it is put back before a job begins its life."""

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
        """Return what there is to see at the end of a job's life."""
        counts = {name: +counter for name, counter in watch.counts.items()}
        counts |= {r.name: r.counts() for r in self.records if r.is_list}
        states = {r.name: r.contents() for r in self.records if not r.is_list}
        if self.state is not None:
            states[STATE] = copy.deepcopy(self.state())
        return Seen(counts, states, failure)


class Life:
    """A job from its submission to its end."""

    def __init__(self, session: Session, task: Task, new: NewJob, world: World) -> None:
        self._session = session
        self._task = task
        # One attempt more than it is given: the one that crashes.
        policy = msgspec.structs.replace(
            new.policy, max_attempts=new.policy.max_attempts + 1, on_system=True
        )
        # It waits for nobody: what it would wait for is in another store.
        self._new = msgspec.structs.replace(
            new, policy=policy, delay=0.0, run_at=None, after=None, flow=None, node=None
        )
        self._world = world
        self.error: BaseException | None = None
        """What the handler raised last."""

    def live(self, trail: Trail) -> Turns[Seen]:
        """Live once, along *trail*; return what could be seen at the end."""
        self._world.put_back()
        self.error = None
        watch = Watch(trail)
        clock = FakeClock()  # a fresh one: equal ids and times in every life
        store = WatchedStore(clock=clock, trail=trail, watch=watch)
        with lend(self._session, store), watch.watching(self._world.places):
            (reply,) = store.run(store.queue.enqueue([self._new]))
            for _ in range(ATTEMPTS_MAX):
                job = _claim(store, clock, reply.job_id, self._new.type)
                if job is None:
                    break
                context = context_of(store, job, self._session.tasks)
                trail.begin()
                ended = yield _Attempt(self._task, job, context, trail)
                if trail.end():
                    clock.advance(job.lease_ttl)  # nobody heartbeats for the dead
                else:
                    self.error = ended.error
                    conclude(store, job, context, ended)
            failure = _failure(store, reply.job_id)
        return self._world.seen(watch, failure)


def _claim(store: WatchedStore, clock: FakeClock, job_id: str, type: str) -> ClaimedJob | None:
    """Claim the one job, moving time on until it falls due; None once it has ended.

    Jobs of its type that it has submitted itself may be claimed with it. They are left to rest.
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
    """Calls the handler along a trail; what it returns after a crash means nothing."""

    def __init__(self, task: Task, job: ClaimedJob, context: Context, trail: Trail) -> None:
        self._task = task
        self._job = job
        self._context = context
        self._trail = trail

    def __call__(self) -> Any:
        args, kwargs = arguments(self._task, self._job, self._context)
        try:
            value = self._task.function(*args, **kwargs)
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
    """Await *coroutine*; each time that it is about to go on after a wait is a point."""
    error: BaseException | None = None
    while True:
        try:
            waits_for = coroutine.send(None) if error is None else coroutine.throw(error)
        except StopIteration as stop:
            return stop.value
        error = None
        was_dead = trail.is_dead
        try:
            yield waits_for
            # If a task beside it has crashed, what it awaited may be about to tell it so.
            if was_dead or not trail.is_dead:
                trail.reach("after an await")
        except BaseException as raised:  # noqa: BLE001 - a crash or a cancellation is the coroutine's
            error = raised


async def _end(tasks: set[asyncio.Task[Any]]) -> None:
    """End what the handler had started beside itself: it dies with its process."""
    for task in tasks:
        task.cancel()
    if tasks:
        done, _ = await asyncio.wait(tasks, timeout=LEFTOVER_PATIENCE)
        for task in done:
            if not task.cancelled():
                task.exception()  # nobody else will ask
