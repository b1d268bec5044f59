"""A context for tests that call a handler as the function it is."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from fencepost.core.bounds import KEY_WINDOW_DEFAULT
from fencepost.core.events import NewEvent, check_event_name
from fencepost.core.flows.spawn import Keyed
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import NewJob
from fencepost.core.job.policy import DEFAULT_POLICY
from fencepost.core.values.names import DEFAULT_QUEUE
from fencepost.core.values.payload import encode
from fencepost.store.interface.queue import ClaimRequest, SaveReply, SettleReply, SpawnReply
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation
from fencepost.testing.clock import FakeClock
from fencepost.testing.lending import BorrowedStore
from fencepost.worker import Context
from fencepost.worker.run.context import CancelReason


class FakeContext(Context):
    """A real context, of a job in a memory store of its own, that remembers what it was told."""

    __slots__ = ("checkpoints", "completions", "progresses", "spawned")

    def __init__(
        self,
        *,
        type: str = "test",
        queue: str = DEFAULT_QUEUE,
        attempt: int = 1,
        max_attempts: int = DEFAULT_POLICY.max_attempts,
        last_checkpoint: Any = None,
        idempotency_key: str | None = None,
        correlation_id: str | None = None,
        tags: Mapping[str, str] | None = None,
        event: str | None = None,
        dependency_results: Mapping[str, Any] | None = None,
        cancel_reason: CancelReason | None = None,
        clock: FakeClock | None = None,
    ) -> None:
        store = BorrowedStore(clock=clock or FakeClock())
        new = NewJob(
            type=type,
            queue=queue,
            key=None if idempotency_key is None else Key(idempotency_key, KEY_WINDOW_DEFAULT),
            correlation_id=correlation_id,
            tags=dict(tags or {}),
        )
        if event is None:
            store.run(store.queue.enqueue([new]))
        else:
            store.run(store.events.send(NewEvent(check_event_name(event)), [new]))
        (claimed,) = store.run(store.queue.claim(ClaimRequest(worker="test", limit=1))).jobs
        job = msgspec.structs.replace(
            claimed,
            attempt=attempt,
            max_attempts=max_attempts,
            checkpoint=None if last_checkpoint is None else encode(last_checkpoint),
            lease=msgspec.structs.replace(claimed.lease, version=attempt),
            last_version=attempt - 1,
        )
        super().__init__(job, store, store.clock.monotonic())
        self.checkpoints: list[Any] = []
        """What was given to ``checkpoint``, in order."""
        self.progresses: list[tuple[float, str]] = []
        """What was given to ``progress``, in order."""
        self.completions: list[Any] = []
        """The results that were given to ``complete_in``, in order."""
        self.spawned: list[NewJob] = []
        """The jobs that were given to ``spawn``, in order."""
        self._results = MappingProxyType(dict(dependency_results or {}))
        if cancel_reason is not None:
            self.interrupt(cancel_reason)

    # Both faces of a context come by here.

    def _checkpoint(self, value: Any) -> Operation[list[SaveReply]]:
        operation = super()._checkpoint(value)
        self.checkpoints.append(value)
        return operation

    def _progress(self, fraction: float, message: str) -> Operation[list[SaveReply]]:
        operation = super()._progress(fraction, message)
        self.progresses.append((fraction, message))
        return operation

    def _spawn(self, new: Keyed) -> Operation[list[SpawnReply]]:
        self.spawned.extend(new.jobs)
        return super()._spawn(new)

    def _completion(self, result: Any) -> Any:
        complete = super()._completion(result)

        def remember(store: Store) -> Operation[list[SettleReply]]:
            self.completions.append(result)
            return complete(store)

        return remember
