"""What a handler is told about its job, and what it can say back while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Literal

from fencepost.core.bounds import PROGRESS_MESSAGE_LENGTH_MAX
from fencepost.core.events import EventInfo, event_of
from fencepost.core.flows.dependents import results_of
from fencepost.core.flows.graph import Stage
from fencepost.core.flows.spawn import Keyed, Numbers, arranged, keyed
from fencepost.core.job.job import ClaimedJob, Dependency, Lease, Progress
from fencepost.core.job.outcome import Succeeded, decide, settlement_of
from fencepost.core.job.task import Task
from fencepost.core.values.payload import decode, encode, encode_result
from fencepost.errors import ConfigurationError, StaleLeaseError
from fencepost.observe import names
from fencepost.observe.log import RESERVED, log
from fencepost.store.interface.joins import Joined
from fencepost.store.interface.queue import Save, SaveReply, Settled, SettleReply, Spawn, SpawnReply
from fencepost.store.interface.replies import LeaseLost
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation

CancelReason = Literal["cancelled", "lease_lost", "timeout", "shutdown"]

NO_TASKS: Mapping[str, Task] = MappingProxyType({})


class Context:
    """The attempt that a handler is running. Handlers get one by a parameter of this type."""

    __slots__ = (
        "_cancel_reason",
        "_deadline",
        "_dependencies",
        "_job",
        "_lease",
        "_marks",
        "_numbers",
        "_results",
        "_started_at",
        "_store",
        "_tasks",
    )

    def __init__(
        self,
        job: ClaimedJob,
        store: Store,
        started_at: float,
        dependencies: Sequence[Dependency] = (),
        tasks: Mapping[str, Task] = NO_TASKS,
    ) -> None:
        self._job = job
        self._store = store
        self._started_at = started_at
        self._lease = job.lease
        self._cancel_reason: CancelReason | None = None
        self._marks: tuple[str, ...] = ()
        self._deadline: datetime | None = None
        self._dependencies = dependencies
        self._tasks = tasks
        self._results: Mapping[str, Any] | None = None
        self._numbers: Numbers | None = None

    # What there is to know.

    @property
    def job_id(self) -> str:
        return self._job.id

    @property
    def type(self) -> str:
        return self._job.type

    @property
    def queue(self) -> str:
        return self._job.queue

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._job.attempt

    @property
    def max_attempts(self) -> int:
        return self._job.max_attempts

    @property
    def attempt_id(self) -> str:
        return self._job.attempt_id

    @property
    def previous_attempt_id(self) -> str | None:
        return self._job.previous_attempt_id

    @property
    def idempotency_key(self) -> str | None:
        return self._job.key

    @property
    def correlation_id(self) -> str | None:
        return self._job.correlation_id

    @property
    def tags(self) -> dict[str, str]:
        return dict(self._job.tags)

    @property
    def event(self) -> EventInfo | None:
        """Name and id of the event for which this job was made; None if it was submitted."""
        return event_of(self._job.tags, self._job.correlation_id)

    @property
    def lease(self) -> Lease:
        """Token, version and expiry; the expiry moves on with every heartbeat."""
        return self._lease

    @property
    def deadline(self) -> datetime:
        """When the execution timeout ends this attempt."""
        if self._deadline is None:
            clock = self._store.clock
            left = self._started_at + self._job.policy.timeout - clock.monotonic()
            self._deadline = clock.now() + timedelta(seconds=left)
        return self._deadline

    @property
    def cancelled(self) -> bool:
        """True once this attempt should stop; a ``def`` handler looks at it between steps."""
        return self._cancel_reason is not None

    @property
    def cancel_reason(self) -> CancelReason | None:
        return self._cancel_reason

    @property
    def last_checkpoint(self) -> Any:
        """What an earlier attempt saved with ``checkpoint``, or None."""
        return None if self._job.checkpoint is None else decode(self._job.checkpoint)

    @property
    def dependency_results(self) -> Mapping[str, Any]:
        """What those returned that this job waited for, as far as they completed, in order.

        By the name of the node in the flow, or by the job's id; it cannot be written to.
        """
        if self._results is None:
            self._results = results_of(self._dependencies, self._tasks)
        return self._results

    # What a handler can say.

    def checkpoint(self, value: Any) -> None:
        """Save *value* for the next attempt; raise StaleLeaseError if the lease is lost."""
        self._check(self._store.run(self._checkpoint(value)))

    def progress(self, fraction: float, message: str = "") -> None:
        """Say how far the work has come, from 0 to 1; raise StaleLeaseError like ``checkpoint``."""
        self._check(self._store.run(self._progress(fraction, message)))

    def spawn(self, *jobs: Stage) -> list[str]:
        """Store new jobs under this lease, or none, and return their ids.

        Give prepared jobs, or graphs of them. What an earlier attempt has spawned is found again
        instead of spawned twice. A ``fan_in`` behind this job waits for them as well. Raises
        StaleLeaseError if the lease is lost; repeat it after an UnknownOutcomeError.
        """
        if not jobs:
            return []
        new = self._keyed(jobs)
        try:
            return self._spawned(self._store.run(self._spawn(new)))
        except BaseException:
            self._forget(new)
            raise

    def complete_in(self, conn: Any, result: Any = None) -> None:
        """Complete the job in the open transaction of *conn*: with the handler's writes or not.

        Make it the last thing before the commit: until then nobody can cancel the job, and those
        that wait for it wait. Raises StaleLeaseError if the lease is lost; roll back then.
        """
        complete = self._completion(result)
        self.note_mark(self._store.run_in(conn, _mark, must_be_open=True))
        self._check_settled(self._store.run_in(conn, complete, must_be_open=True))

    def log(self, message: str, **fields: Any) -> None:
        """Write a log event that carries the job's ids; a field of the same name gets a ``_``."""
        own: dict[str, Any] = {
            "message": message,
            "id": self.job_id,
            "type": self.type,
            "attempt": self.attempt,
            "correlation_id": self.correlation_id,
        }
        taken = own.keys() | RESERVED
        theirs = {f"{name}_" if name in taken else name: fields[name] for name in fields}
        log(names.HANDLER_LOG, **own, **theirs)

    @property
    def aio(self) -> AsyncContext:
        """The methods that write, awaited."""
        return AsyncContext(self)

    # For the worker.

    @property
    def dependencies(self) -> Sequence[Dependency]:
        """What the job waited for, as far as it was loaded."""
        return self._dependencies

    def extend(self, expires_at: datetime) -> None:
        """Note that a heartbeat moved the expiry."""
        self._lease = Lease(self._lease.token, self._lease.version, expires_at)

    def interrupt(self, reason: CancelReason) -> None:
        """Note that this attempt should stop; the first reason stays."""
        if self._cancel_reason is None:
            self._cancel_reason = reason

    @property
    def has_joined(self) -> bool:
        """True once the handler has, or may have, completed the job in a transaction of its own."""
        return bool(self._marks)

    @property
    def joined(self) -> Joined:
        """What to ask the store by about those transactions."""
        return Joined(self.job_id, self._lease.token, self._marks)

    def note_mark(self, mark: str) -> None:
        """Note that the transaction of this name is about to complete the job."""
        if mark not in self._marks:
            self._marks = (*self._marks, mark)

    def _completion(self, result: Any) -> Callable[[Store], Operation[list[SettleReply]]]:
        decision = decide(self._job, Succeeded(encode_result(result)), self._store.clock.rng)
        settlement = settlement_of(self._job, decision)
        return lambda store: store.queue.settle([settlement])

    def _check_settled(self, replies: list[SettleReply]) -> None:
        # Settled before is no success either: what the handler wrote this time must not stay.
        if not isinstance(replies[0], Settled):
            raise StaleLeaseError(self.job_id)

    def _checkpoint(self, value: Any) -> Operation[list[SaveReply]]:
        return self._save(checkpoint=encode(value))

    def _progress(self, fraction: float, message: str) -> Operation[list[SaveReply]]:
        if not 0 <= fraction <= 1:
            raise ConfigurationError(f"progress must lie between 0 and 1, got {fraction!r}")
        shown = str(message)[:PROGRESS_MESSAGE_LENGTH_MAX]
        return self._save(progress=Progress(float(fraction), shown))

    def _save(self, **fields: Any) -> Operation[list[SaveReply]]:
        return self._store.queue.save(
            [Save(self.job_id, self._lease.token, job=self._job, **fields)]
        )

    def _keyed(self, stages: Sequence[Stage]) -> Keyed:
        if self._numbers is None:
            self._numbers = Numbers()
        return keyed(self._job, arranged(stages), self._numbers)

    def _spawn(self, new: Keyed) -> Operation[list[SpawnReply]]:
        return self._store.queue.spawn([Spawn(self.job_id, self._lease.token, new.jobs)])

    def _spawned(self, replies: list[SpawnReply]) -> list[str]:
        reply = replies[0]
        if isinstance(reply, LeaseLost):
            raise StaleLeaseError(self.job_id)
        return [each.job_id for each in reply.replies]

    def _forget(self, new: Keyed) -> None:
        """Have a repeat use the same keys: the spawn may have been stored all the same."""
        if self._numbers is not None:
            self._numbers.give_back(new.taken)

    def _check(self, replies: list[SaveReply]) -> None:
        if isinstance(replies[0], LeaseLost):
            raise StaleLeaseError(self.job_id)


class AsyncContext:
    """The awaited face of Context's writes."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def checkpoint(self, value: Any) -> None:
        """Save *value* for the next attempt; raise StaleLeaseError if the lease is lost."""
        context = self._context
        context._check(await context._store.run_async(context._checkpoint(value)))

    async def progress(self, fraction: float, message: str = "") -> None:
        """Say how far the work has come, from 0 to 1; raise StaleLeaseError like ``checkpoint``."""
        context = self._context
        context._check(await context._store.run_async(context._progress(fraction, message)))

    async def spawn(self, *jobs: Stage) -> list[str]:
        """Store new jobs under this lease, or none, and return their ids.

        Give prepared jobs, or graphs of them. What an earlier attempt has spawned is found again
        instead of spawned twice. A ``fan_in`` behind this job waits for them as well. Raises
        StaleLeaseError if the lease is lost; repeat it after an UnknownOutcomeError.
        """
        if not jobs:
            return []
        context = self._context
        new = context._keyed(jobs)
        try:
            return context._spawned(await context._store.run_async(context._spawn(new)))
        except BaseException:
            context._forget(new)
            raise

    async def complete_in(self, conn: Any, result: Any = None) -> None:
        """Complete the job in the open transaction of *conn*: with the handler's writes or not.

        Make it the last thing before the commit: until then nobody can cancel the job, and those
        that wait for it wait. Raises StaleLeaseError if the lease is lost; roll back then.
        """
        context = self._context
        store = context._store
        complete = context._completion(result)
        context.note_mark(await store.run_in_async(conn, _mark, must_be_open=True))
        context._check_settled(await store.run_in_async(conn, complete, must_be_open=True))


def _mark(store: Store) -> Operation[str]:
    return store.joins.mark()
