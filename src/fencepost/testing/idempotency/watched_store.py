"""A memory store whose every use by a handler is a place to crash, and which counts new jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fencepost.clock import Clock
from fencepost.core.display import shown
from fencepost.core.job.job import NewJob
from fencepost.core.values.payload import decode
from fencepost.store.interface.events import EventReply
from fencepost.store.interface.joins import JoinsFacet
from fencepost.store.interface.queue import QueueFacet, Spawned
from fencepost.store.interface.replies import Enqueued, EnqueueReply
from fencepost.store.interface.store import Store
from fencepost.store.plan import Effect, Operation
from fencepost.testing.idempotency.effects import SUBMIT, Watch
from fencepost.testing.idempotency.trail import Trail
from fencepost.testing.lending import BorrowedStore

T = TypeVar("T")


class WatchedStore(BorrowedStore):
    """Passes two points with every operation of the handler: before it, and after it took effect.

    What joins a transaction has no point after it: a crash there takes it back, as one before does.
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
        """Count the jobs that were stored; a key that was held stored none."""
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
    if not isinstance(payload, dict):
        return f"{SUBMIT} {new.type}({shown(payload)})"
    words = ", ".join(f"{name}={shown(value)}" for name, value in payload.items())
    return f"{SUBMIT} {new.type}({words})"
