"""What a handler knows about its job, and what it can write while it runs.

``Context`` and its awaited face are all that the author of a handler sees. They hold one private
value, ``ContextActions``, whose writes are scripts: both faces drive the same. What the worker has
to know of an attempt is in its ``AttemptState``.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from fencepost.core.bounds import PROGRESS_MESSAGE_LENGTH_MAX
from fencepost.core.events import EventInfo, event_of
from fencepost.core.flows.dependents import results_of
from fencepost.core.flows.graph import Stage, arrange, side_by_side
from fencepost.core.flows.spawn import Numbers, keyed
from fencepost.core.hooks import Hooks
from fencepost.core.job.job import ClaimedJob, Dependency, Lease, NewJob, Progress
from fencepost.core.job.outcome import Succeeded, decide, settlement_of
from fencepost.core.job.task import Task
from fencepost.core.values.payload import decode, encode, encode_result
from fencepost.errors import ConfigurationError, StaleLeaseError
from fencepost.generators import drive, drive_async
from fencepost.observe import names
from fencepost.observe.log import RESERVED, known, write
from fencepost.store.interface.joins import Joined
from fencepost.store.interface.queue import LeaseLost, Save, Settled, Spawn
from fencepost.store.interface.store import Store

if TYPE_CHECKING:
    from fencepost.observe.tracing import Tracing

T = TypeVar("T")

ContextScript = Generator[Any, Any, T]
"""Yields operations of the store, and is sent their replies."""
CancelReason = Literal["cancelled", "lease_lost", "timeout", "shutdown"]

NO_TASKS: Mapping[str, Task] = MappingProxyType({})


class AttemptState(msgspec.Struct, eq=False):
    """What the worker and the context share of an attempt that has begun."""

    job: ClaimedJob
    lease: Lease
    """Its expiry moves on with every heartbeat."""
    started_at: float
    """On the monotonic clock."""
    dependencies: Sequence[Dependency] = ()
    """What the job waited for, if its handler can read it."""
    cancel_reason: CancelReason | None = None
    """Why the handler should stop; the first reason stays."""
    marks: tuple[str, ...] = ()
    """The transactions in which the handler has completed the job, or may have."""
    timeout: float = math.inf
    """If it has less time than the job allows: in a batch, the shortest timeout counts."""

    @property
    def joined(self) -> Joined:
        """What the store needs to look up those transactions."""
        return Joined(self.job.id, self.lease.token, self.marks)

    def note_mark(self, mark: str) -> None:
        """Note that the transaction of this name is about to complete the job."""
        if mark not in self.marks:
            self.marks = (*self.marks, mark)


class Context:
    """The attempt that a handler is running. Handlers get one by a parameter of this type."""

    __slots__ = ("_actions",)

    def __init__(self, actions: ContextActions) -> None:
        self._actions = actions

    @property
    def job_id(self) -> str:
        return self._actions.job.id

    @property
    def type(self) -> str:
        return self._actions.job.type

    @property
    def queue(self) -> str:
        return self._actions.job.queue

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._actions.job.attempt

    @property
    def max_attempts(self) -> int:
        return self._actions.job.max_attempts

    @property
    def attempt_id(self) -> str:
        return self._actions.job.attempt_id

    @property
    def previous_attempt_id(self) -> str | None:
        return self._actions.job.previous_attempt_id

    @property
    def idempotency_key(self) -> str | None:
        return self._actions.job.key

    @property
    def correlation_id(self) -> str | None:
        return self._actions.job.correlation_id

    @property
    def tags(self) -> dict[str, str]:
        return dict(self._actions.job.tags)

    @property
    def event(self) -> EventInfo | None:
        """Name and id of the event for which this job was made; None if it was submitted."""
        return event_of(self._actions.job.tags, self._actions.job.correlation_id)

    @property
    def lease(self) -> Lease:
        """Token, version and expiry; the expiry moves on with every heartbeat."""
        return self._actions.state.lease

    @property
    def state(self) -> Any:
        """What the app's lifespan has yielded in this process; None without one."""
        return self._actions.shared

    @property
    def deadline(self) -> datetime:
        """When the execution timeout ends this attempt."""
        return self._actions.deadline()

    @property
    def cancelled(self) -> bool:
        """True once this attempt should stop; a ``def`` handler looks at it between steps."""
        return self._actions.state.cancel_reason is not None

    @property
    def cancel_reason(self) -> CancelReason | None:
        return self._actions.state.cancel_reason

    @property
    def last_checkpoint(self) -> Any:
        """What an earlier attempt saved with ``checkpoint``, or None."""
        checkpoint = self._actions.job.checkpoint
        return None if checkpoint is None else decode(checkpoint)

    @property
    def dependency_results(self) -> Mapping[str, Any]:
        """The results of the completed jobs that this one waited for, in order; read-only.

        By the name of the node in the flow, or by the job's id.
        """
        return self._actions.results()

    def checkpoint(self, value: Any) -> None:
        """Save *value* for the next attempt; raise StaleLeaseError if the lease is lost."""
        drive(self._actions.checkpoint(value), self._actions.store.run)

    def progress(self, fraction: float, message: str = "") -> None:
        """Save how far the work has come, from 0 to 1; raise StaleLeaseError as above."""
        drive(self._actions.progress(fraction, message), self._actions.store.run)

    def spawn(self, *jobs: Stage) -> list[str]:
        """Store new jobs under this lease, or none, and return their ids.

        Give prepared jobs, or graphs of them. What an earlier attempt has spawned is found again
        instead of spawned twice. A ``fan_in`` behind this job waits for them as well. Raises
        StaleLeaseError if the lease is lost; repeat it after an UnknownOutcomeError.
        """
        return drive(self._actions.spawn(jobs), self._actions.store.run)

    def complete_in(self, conn: Any, result: Any = None) -> None:
        """Complete the job in the open transaction of *conn*: with the handler's writes or not.

        Make it the last thing before the commit: until then the job cannot be cancelled, and
        jobs that depend on it wait. Raises StaleLeaseError if the lease is lost; roll back then.
        """
        join = partial(self._actions.store.run_in, conn, must_be_open=True)
        drive(self._actions.complete(result), join)

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
        write(names.HANDLER_LOG, known(own) | theirs, level=logging.INFO)

    @property
    def aio(self) -> AsyncContext:
        """The methods that write, awaited."""
        return AsyncContext(self._actions)


@dataclass(frozen=True, slots=True)
class BatchJob(Generic[T]):
    """One job of a batch: a handler with ``batch=`` takes a list of them."""

    payload: T
    ctx: Context

    @property
    def id(self) -> str:
        return self.ctx.job_id

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self.ctx.attempt


class AsyncContext:
    """The awaited face of Context's writes."""

    __slots__ = ("_actions",)

    def __init__(self, actions: ContextActions) -> None:
        self._actions = actions

    async def checkpoint(self, value: Any) -> None:
        """Save *value* for the next attempt; raise StaleLeaseError if the lease is lost."""
        await drive_async(self._actions.checkpoint(value), self._actions.store.run_async)

    async def progress(self, fraction: float, message: str = "") -> None:
        """Save how far the work has come, from 0 to 1; raise StaleLeaseError as above."""
        await drive_async(self._actions.progress(fraction, message), self._actions.store.run_async)

    async def spawn(self, *jobs: Stage) -> list[str]:
        """Store new jobs under this lease, or none, and return their ids; see ``Context.spawn``."""
        return await drive_async(self._actions.spawn(jobs), self._actions.store.run_async)

    async def complete_in(self, conn: Any, result: Any = None) -> None:
        """Complete the job in the open transaction of *conn*; see ``Context.complete_in``."""
        join = partial(self._actions.store.run_in_async, conn, must_be_open=True)
        await drive_async(self._actions.complete(result), join)


class ContextActions:
    """What a context can do: the scripts of its writes, and what is read only once."""

    def __init__(
        self,
        state: AttemptState,
        store: Store,
        tasks: Mapping[str, Task] = NO_TASKS,
        *,
        hooks: Hooks | None = None,
        shared: Any = None,
        tracing: Tracing | None = None,
        trace_tags: Mapping[str, str] | None = None,
    ) -> None:
        """In a child process, *trace_tags* take the place of *tracing*: the span is elsewhere."""
        self._tracing = tracing
        self._trace_tags = trace_tags or {}
        self.shared = shared
        """What the lifespan of the worker has yielded."""
        self._hooks = hooks
        self.state = state
        self.job = state.job
        self.store = store
        self._tasks = tasks
        self._deadline: datetime | None = None
        self._results: Mapping[str, Any] | None = None
        self._numbers: Numbers | None = None

    def deadline(self) -> datetime:
        """Return when the execution timeout ends the attempt: the same time whenever asked."""
        if self._deadline is None:
            clock = self.store.clock
            timeout = min(self.job.policy.timeout, self.state.timeout)
            left = self.state.started_at + timeout - clock.monotonic()
            self._deadline = clock.now() + timedelta(seconds=left)
        return self._deadline

    def results(self) -> Mapping[str, Any]:
        if self._results is None:
            self._results = results_of(self.state.dependencies, self._tasks)
        return self._results

    def checkpoint(self, value: Any) -> ContextScript[None]:
        return self._save(checkpoint=encode(value))

    def progress(self, fraction: float, message: str) -> ContextScript[None]:
        if not 0 <= fraction <= 1:
            raise ConfigurationError(f"progress must lie between 0 and 1, got {fraction!r}")
        shown = str(message)[:PROGRESS_MESSAGE_LENGTH_MAX]
        return self._save(progress=Progress(fraction=float(fraction), message=shown))

    def _save(self, **fields: Any) -> ContextScript[None]:
        save = Save(self.job.id, self.state.lease.token, job=self.job, **fields)
        (reply,) = yield self.store.queue.save([save])
        if isinstance(reply, LeaseLost):
            raise StaleLeaseError(self.job.id)

    def spawn(self, stages: Sequence[Stage]) -> ContextScript[list[str]]:
        if not stages:
            return []
        numbers = self._numbers = self._numbers or Numbers()
        new = keyed(self.job, arrange(side_by_side(stages)), numbers)
        try:
            jobs = new.jobs
            if self._hooks is not None and self._hooks.on_submit:
                jobs = tuple(self._hooks.submitting([*jobs]))
            with self._tracing.submitting(jobs) if self._tracing else nullcontext() as sending:
                carrying = self._tagged(jobs) if sending is None else sending.jobs
                spawn = Spawn(self.job.id, self.state.lease.token, tuple(carrying))
                (reply,) = yield self.store.queue.spawn([spawn])
                if isinstance(reply, LeaseLost):
                    raise StaleLeaseError(self.job.id)
        except BaseException:
            # A repeat uses the same keys: the spawn may have been stored all the same.
            numbers.give_back(new.taken)
            raise
        return [each.job_id for each in reply.replies]

    def _tagged(self, jobs: Sequence[NewJob]) -> Sequence[NewJob]:
        tags = self._trace_tags
        return [replace(job, tags={**job.tags, **tags}) for job in jobs] if tags else jobs

    def complete(self, result: Any) -> ContextScript[None]:
        """Yield functions from a store to its operation, to run them in a transaction."""
        decision = decide(self.job, Succeeded(encode_result(result)), self.store.clock.rng)
        settlement = settlement_of(self.job, decision)
        self.state.note_mark((yield lambda store: store.joins.mark()))
        (reply,) = yield lambda store: store.queue.settle([settlement])
        # An earlier settlement is not a success either: what the handler wrote this time must go.
        if not isinstance(reply, Settled):
            raise StaleLeaseError(self.job.id)
