"""A store under test, in one colour: shorthands that read like the sentences of the tests."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from fencepost.core.bounds import PAGE_MAX
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import (
    Attempt,
    Body,
    Category,
    ClaimedJob,
    DeadLetter,
    Failure,
    Job,
    NewJob,
)
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import (
    Failed,
    Outcome,
    Released,
    Settlement,
    Snoozed,
    Succeeded,
    decide,
)
from fencepost.core.job.policy import Policy
from fencepost.core.values.times import Duration
from fencepost.store.interface.control import CancelReply, RetryRequest
from fencepost.store.interface.queue import (
    Beat,
    Claim,
    ClaimRequest,
    Enqueued,
    EnqueueReply,
    HeartbeatReply,
    Save,
    SaveReply,
    SettleReply,
)
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation
from fencepost.testing.clock import FakeClock

T = TypeVar("T")
Run = Callable[[Operation[Any]], Awaitable[Any]]
Script = Callable[[Store, Run], Coroutine[Any, Any, T]]
"""Something that a worker might do, written once for both colours."""
MakeStore = Callable[[FakeClock], Store]

INSTANT = timedelta(microseconds=1)
TTL = 30.0
"""The length of the leases that ``Harness.claim`` asks for."""
PAGES_MAX = 100
"""Far more than any test fills; a store whose pages go round must fail, not hang."""
DONE = Body(b'"done"')
ONE_ATTEMPT = Policy(max_attempts=1)
TROUBLE = Failure(Category.TEMPORARY, "trouble", code="503", exception="pkg.Trouble", traceback="…")
LIFETIME_EXCEEDED = Failure(Category.TIMEOUT, "lifetime exceeded", code="lifetime_exceeded")
NOBODY = "7f1cbd3e-6e8d-4f0a-9c55-0d2b8a1e4c11"
"""A well-formed id that no job has."""

REACHABLE = tuple(state for state in State if state is not State.PENDING)
"""The states that a job without dependencies can be in."""
LIVE = tuple(state for state in REACHABLE if not state.is_terminal)
TERMINAL = tuple(state for state in REACHABLE if state.is_terminal)
DEAD = (State.FAILED, State.DEAD_LETTER)


class Colour(StrEnum):
    """How operations are run."""

    SYNC = "sync"
    ASYNC = "async"


def job(type: str = "mail", **fields: Any) -> NewJob:
    """Return a job to enqueue."""
    return NewJob(type=type, **fields)


def with_token(claimed: ClaimedJob, token: str) -> ClaimedJob:
    """Return *claimed* as somebody would hold it who has another token."""
    return msgspec.structs.replace(
        claimed, lease=msgspec.structs.replace(claimed.lease, token=token)
    )


def ids(jobs: Sequence[ClaimedJob] | Sequence[Job]) -> list[str]:
    return [each.id for each in jobs]


class Harness:
    """A store, its clock, and the colour in which its operations are run."""

    def __init__(self, make_store: MakeStore, *, colour: Colour, is_durable: bool) -> None:
        self.clock = FakeClock()
        self.colour = colour
        self.is_durable = is_durable
        self._make_store = make_store
        self._stores: list[Store] = []
        self._runner = asyncio.Runner()
        self.store = self.open()

    # Opening and closing.

    def open(self) -> Store:
        """Open a store on the same data, beside those that are open already."""
        store = self._make_store(self.clock)
        self._stores.append(store)
        return store

    def reopen(self, *, is_clean: bool = True) -> None:
        """Go on with a new store object; unless *is_clean*, the old one is just abandoned."""
        if is_clean:
            self.store.close()
        self.store = self.open()

    def peers(self, count: int) -> list[Store]:
        """Return *count* stores on the same data; an ephemeral store is its own only peer."""
        if not self.is_durable:
            return [self.store] * count
        return [self.store, *(self.open() for _ in range(count - 1))]

    def close(self) -> None:
        for store in self._stores:
            store.close()
        self._runner.close()

    # Running.

    def run(self, operation: Operation[T]) -> T:
        """Execute *operation* in this harness's colour."""
        if self.colour is Colour.SYNC:
            return self.store.run(operation)
        return self.wait(self.store.run_async(operation))

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Drive *coroutine* on the harness's own event loop."""
        return self._runner.run(coroutine)

    def race(
        self, asks: Sequence[Callable[[Store], Operation[T]]], stores: Sequence[Store] = ()
    ) -> list[T]:
        """Ask everything at once, spread over *stores*; answer in the order of the questions."""
        return self.race_scripts([_just(ask) for ask in asks], stores)

    def race_scripts(self, scripts: Sequence[Script[T]], stores: Sequence[Store] = ()) -> list[T]:
        """Run *scripts* at once: sync, a thread for each; async, a task for each on one loop."""
        entries = list(zip(scripts, itertools.cycle(stores or [self.store]), strict=False))
        if self.colour is Colour.SYNC:
            return _race_threads(entries)
        return self.wait(_race_tasks(entries))

    # Time.

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def advance(self, duration: Duration) -> datetime:
        """Move the clock on and return the new time."""
        self.clock.advance(duration)
        return self.now

    def advance_to(self, instant: datetime) -> None:
        self.clock.advance(instant - self.now)

    # The data's way.

    def enqueue(self, *jobs: NewJob, atomic: bool = False) -> list[EnqueueReply]:
        return self.run(self.store.queue.enqueue(jobs, atomic=atomic))

    def submit(self, type: str = "mail", **fields: Any) -> str:
        """Enqueue one job, see it stored, and return its id."""
        [reply] = self.enqueue(job(type, **fields))
        assert isinstance(reply, Enqueued)
        return reply.job_id

    def submit_many(self, count: int, type: str = "mail", **fields: Any) -> list[str]:
        """Enqueue *count* equal jobs in one batch and return their ids."""
        replies = self.enqueue(*[job(type, **fields)] * count)
        assert all(isinstance(reply, Enqueued) for reply in replies)
        return [reply.job_id for reply in replies if isinstance(reply, Enqueued)]

    def submit_all(self, *jobs: NewJob) -> list[str]:
        """Enqueue several jobs in one batch, see them stored, and return their ids."""
        replies = self.enqueue(*jobs)
        assert all(isinstance(reply, Enqueued) for reply in replies)
        return [reply.job_id for reply in replies if isinstance(reply, Enqueued)]

    def claim(self, limit: int = 10, worker: str = "w1", **fields: Any) -> Claim:
        request = ClaimRequest(worker=worker, limit=limit, **{"lease_ttl": TTL, **fields})
        return self.run(self.store.queue.claim(request))

    def take(self, worker: str = "w1", **fields: Any) -> ClaimedJob:
        """Claim one job, and see that there was one."""
        [claimed] = self.claim(1, worker, **fields).jobs
        return claimed

    def succeed_all(self, jobs: Sequence[ClaimedJob]) -> list[SettleReply]:
        """Settle all of *jobs* as successes, in one batch."""
        return self.run(self.store.queue.settle([self.success(each) for each in jobs]))

    def success(self, claimed: ClaimedJob) -> Settlement:
        """Return what settles *claimed* as a success."""
        decision = decide(claimed, Succeeded(DONE), self.clock.rng)
        return Settlement(claimed.id, claimed.lease.token, decision)

    def settle(self, claimed: ClaimedJob, outcome: Outcome) -> SettleReply:
        """Settle *claimed* under its lease with what ``core/job/outcome.py`` decides."""
        decision = decide(claimed, outcome, self.clock.rng)
        settlement = Settlement(claimed.id, claimed.lease.token, decision)
        [reply] = self.run(self.store.queue.settle([settlement]))
        return reply

    def succeed(self, claimed: ClaimedJob, result: Body = DONE) -> SettleReply:
        return self.settle(claimed, Succeeded(result))

    def fail(
        self, claimed: ClaimedJob, failure: Failure = TROUBLE, retry_after: float | None = None
    ) -> SettleReply:
        return self.settle(claimed, Failed(failure, retry_after))

    def reject(self, claimed: ClaimedJob) -> SettleReply:
        """Fail *claimed* for good."""
        return self.fail(claimed, Failure(Category.PERMANENT, "no such user", code="404"))

    def snooze(self, claimed: ClaimedJob, delay: float) -> SettleReply:
        return self.settle(claimed, Snoozed(delay))

    def release(self, claimed: ClaimedJob) -> SettleReply:
        return self.settle(claimed, Released())

    def heartbeat(self, claimed: ClaimedJob, lease_ttl: float = TTL) -> HeartbeatReply:
        beat = Beat(claimed.id, claimed.lease.token, lease_ttl)
        [reply] = self.run(self.store.queue.heartbeat([beat]))
        return reply

    def save(self, claimed: ClaimedJob, **fields: Any) -> SaveReply:
        [reply] = self.run(self.store.queue.save([Save(claimed.id, claimed.lease.token, **fields)]))
        return reply

    # Control.

    def cancel(self, job_id: str) -> CancelReply:
        [reply] = self.run(self.store.control.cancel([job_id]))
        return reply

    def retry(self, job_id: str, **fields: Any) -> Any:
        [reply] = self.run(self.store.control.retry([RetryRequest(job_id, **fields)]))
        return reply

    def replay(self, job_id: str) -> Any:
        [reply] = self.run(self.store.control.replay([job_id]))
        return reply

    # Looking.

    def get(self, job_id: str) -> Job:
        """Return a job, and see that there is one."""
        [found] = self.run(self.store.reader.get([job_id]))
        assert found is not None
        return found

    def state(self, job_id: str) -> State:
        return self.get(job_id).state

    def attempts(self, job_id: str) -> list[Attempt]:
        """Return the attempts of a job, and see that there is one."""
        attempts = self.run(self.store.reader.attempts(job_id))
        assert attempts is not None
        return attempts

    def find(self, **conditions: Any) -> list[Job]:
        """Return every job that meets the conditions, read page by page, newest first."""
        jobs: list[Job] = []
        after: int | None = None
        for _ in range(PAGES_MAX):
            page = self.run(
                self.store.reader.find(JobFilter(**conditions), PageRequest(PAGE_MAX, after))
            )
            jobs += page.jobs
            after = page.next
            if after is None:
                return jobs
        raise AssertionError("the pages do not come to an end")

    def letters(self, type: str | None = None) -> list[DeadLetter]:
        return self.run(self.store.reader.dead_letters(type, PageRequest(PAGE_MAX))).letters

    def snapshot(self) -> dict[str, Any]:
        """Return all that can be seen, to tell whether anything has changed."""
        jobs = self.find()
        return {
            "jobs": jobs,
            "attempts": [self.attempts(each.id) for each in jobs],
            "letters": self.letters(),
            "queues": self.run(self.store.overview.queues()),
            "types": self.run(self.store.overview.types()),
        }

    # Getting somewhere.

    def job_in(self, state: State, **fields: Any) -> str:
        """Submit a job and bring it into *state*; nothing of its type may be in line before it."""
        if state is State.DELAYED:
            fields = {"delay": 60.0, **fields}
        if state is State.DEAD_LETTER:
            fields = {"policy": ONE_ATTEMPT, **fields}
        job_id = self.submit(**fields)
        if state in (State.SCHEDULED, State.DELAYED):
            return job_id
        if state is State.CANCELLED:
            self.cancel(job_id)
            return job_id
        claimed = self.take(types=frozenset({fields.get("type", "mail")}))
        assert claimed.id == job_id
        self._bring(claimed, state)
        assert self.state(job_id) is state
        return job_id

    def _bring(self, claimed: ClaimedJob, state: State) -> None:
        match state:
            case State.COMPLETED:
                self.succeed(claimed)
            case State.FAILED:
                self.reject(claimed)
            case State.RETRYING | State.DEAD_LETTER:
                self.fail(claimed)


def _just(ask: Callable[[Store], Operation[T]]) -> Script[T]:
    async def script(store: Store, run: Run) -> T:
        result: T = await run(ask(store))
        return result

    return script


def _race_threads(entries: list[tuple[Script[T], Store]]) -> list[T]:
    start = threading.Barrier(len(entries))
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def drive(number: int, script: Script[T], store: Store) -> None:
        async def run(operation: Operation[Any]) -> Any:
            return store.run(operation)

        try:
            start.wait()
            results[number] = asyncio.run(script(store, run))
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            errors.append(error)

    threads = [
        threading.Thread(target=drive, args=(number, script, store), daemon=True)
        for number, (script, store) in enumerate(entries)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60.0)
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(entries))]


async def _race_tasks(entries: list[tuple[Script[T], Store]]) -> list[T]:
    runs = (script(store, store.run_async) for script, store in entries)
    return list(await asyncio.gather(*runs))
