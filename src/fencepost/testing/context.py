"""A context for tests that call a handler directly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from fencepost.core.bounds import KEY_WINDOW_DEFAULT
from fencepost.core.events import NewEvent, check_event_name
from fencepost.core.flows.graph import Stage, arrange, side_by_side
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import NewJob
from fencepost.core.job.policy import DEFAULT_POLICY
from fencepost.core.values.names import DEFAULT_QUEUE
from fencepost.core.values.payload import encode
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.interface.store import Store
from fencepost.testing.clock import FakeClock
from fencepost.testing.store import BorrowedStore
from fencepost.worker import Context
from fencepost.worker.run.context import AttemptState, CancelReason, ContextActions, ContextScript


class FakeContext(Context):
    """A real context, of a job in its own memory store, that records every call."""

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
        state = AttemptState(job, job.lease, store.clock.monotonic(), cancel_reason=cancel_reason)
        recorded = RecordingActions(state, store, dependency_results or {})
        super().__init__(recorded)
        self.checkpoints = recorded.checkpoints
        """What was given to ``checkpoint``, in order."""
        self.progresses = recorded.progresses
        """What was given to ``progress``, in order."""
        self.completions = recorded.completions
        """The results that were given to ``complete_in``, in order."""
        self.spawned = recorded.spawned
        """The jobs that were given to ``spawn``, in order."""


class RecordingActions(ContextActions):
    """Records what both faces of a context are given."""

    def __init__(
        self, state: AttemptState, store: Store, dependency_results: Mapping[str, Any]
    ) -> None:
        super().__init__(state, store)
        self._dependency_results = MappingProxyType(dict(dependency_results))
        self.checkpoints: list[Any] = []
        self.progresses: list[tuple[float, str]] = []
        self.completions: list[Any] = []
        self.spawned: list[NewJob] = []

    def results(self) -> Mapping[str, Any]:
        return self._dependency_results

    def checkpoint(self, value: Any) -> ContextScript[None]:
        yield from super().checkpoint(value)
        self.checkpoints.append(value)

    def progress(self, fraction: float, message: str) -> ContextScript[None]:
        yield from super().progress(fraction, message)
        self.progresses.append((fraction, message))

    def spawn(self, stages: Sequence[Stage]) -> ContextScript[list[str]]:
        ids = yield from super().spawn(stages)
        self.spawned.extend(arrange(side_by_side(stages)) if stages else ())
        return ids

    def complete(self, result: Any) -> ContextScript[None]:
        yield from super().complete(result)
        self.completions.append(result)
