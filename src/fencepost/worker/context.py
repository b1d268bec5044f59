"""What a handler is told about its job, and what it can say back while it runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from fencepost.core.instants import from_us, seconds_to_us
from fencepost.core.job import ClaimedJob, Lease, Progress
from fencepost.core.limits import PROGRESS_MESSAGE_LENGTH_MAX
from fencepost.core.payload import decode, encode
from fencepost.errors import ConfigurationError, StaleLeaseError
from fencepost.observe import names
from fencepost.observe.log import RESERVED, log
from fencepost.store.plan import Operation
from fencepost.store.protocol import Store
from fencepost.store.replies import LeaseLost, SaveReply
from fencepost.store.requests import Save

CancelReason = Literal["cancelled", "lease_lost", "timeout", "shutdown"]


class Context:
    """The attempt that a handler is running. Handlers get one by a parameter of this type."""

    __slots__ = ("_cancel_reason", "_job", "_lease", "_started_us", "_store")

    def __init__(self, job: ClaimedJob, store: Store, started_us: int) -> None:
        self._job = job
        self._store = store
        self._started_us = started_us
        self._lease = job.lease
        self._cancel_reason: CancelReason | None = None

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
    def lease(self) -> Lease:
        """Token, version and expiry; the expiry moves on with every heartbeat."""
        return self._lease

    @property
    def deadline(self) -> datetime:
        """When the execution timeout ends this attempt."""
        return from_us(self._started_us + seconds_to_us(self._job.policy.timeout))

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

    # What a handler can say.

    def checkpoint(self, value: Any) -> None:
        """Save *value* for the next attempt; raise StaleLeaseError if the lease is lost."""
        self._check(self._store.run(self._checkpoint(value)))

    def progress(self, fraction: float, message: str = "") -> None:
        """Say how far the work has come, from 0 to 1; raise StaleLeaseError like ``checkpoint``."""
        self._check(self._store.run(self._progress(fraction, message)))

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

    def extend(self, expires_at: datetime) -> None:
        """Note that a heartbeat moved the expiry."""
        self._lease = Lease(self._lease.token, self._lease.version, expires_at)

    def interrupt(self, reason: CancelReason) -> None:
        """Note that this attempt should stop; the first reason stays."""
        if self._cancel_reason is None:
            self._cancel_reason = reason

    def _checkpoint(self, value: Any) -> Operation[list[SaveReply]]:
        return self._save(checkpoint=encode(value))

    def _progress(self, fraction: float, message: str) -> Operation[list[SaveReply]]:
        if not 0 <= fraction <= 1:
            raise ConfigurationError(f"progress must lie between 0 and 1, got {fraction!r}")
        shown = str(message)[:PROGRESS_MESSAGE_LENGTH_MAX]
        return self._save(progress=Progress(float(fraction), shown))

    def _save(self, **fields: Any) -> Operation[list[SaveReply]]:
        return self._store.save([Save(self.job_id, self._lease.token, **fields)])

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
