"""The store's side: the product's own memory store, and a record of every change in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.core.job.outcome import Settlement
from fencepost.errors import FencepostError
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.interface.replies import LeaseLost
from fencepost.store.interface.settings import Scope, SettingsFacet
from fencepost.store.memory.engine.journal import Journal
from fencepost.store.memory.jobs.record import NOWHERE, IndexPlace, Record
from fencepost.store.memory.jobs.table import JobTable
from fencepost.store.memory.store import MemoryStore
from fencepost.store.plan import Operation
from lab.simulation.clock import SimulatedClock
from lab.simulation.history import Asked, History, Limited, Operated, Paused, Snapshot

UNDER_LEASE = (QueueFacet.settle, QueueFacet.heartbeat, QueueFacet.save, QueueFacet.spawn)


class WatchedJobs(JobTable):
    """Tells of every change, in order, as it is made."""

    def __init__(
        self, journal: Journal, clock: SimulatedClock, on_change: Callable[[Snapshot], None]
    ) -> None:
        super().__init__(journal, clock)
        self._on_change = on_change

    def _file(self, record: Record, new: IndexPlace) -> None:
        super()._file(record, new)
        awaited = tuple(parent.id for parent in self.parents(record))
        self._on_change(snapshot(record, awaited, is_removed=new is NOWHERE))


def snapshot(
    record: Record, awaited: tuple[str, ...] = (), *, is_removed: bool = False
) -> Snapshot:
    """Return what the checker has to know of a job."""
    saved = ""
    if record.checkpoint is not None or record.progress is not None:
        saved = f"{record.checkpoint} {record.progress}"
    return Snapshot(
        record.id,
        record.type,
        record.queue,
        record.state.value,
        record.attempt,
        record.max_attempts,
        record.lease_version,
        record.token,
        record.worker,
        record.lease_expires_at,
        record.settled_token,
        record.key,
        record.holds_key,
        record.expires_at,
        saved,
        is_removed,
        "" if record.waits is None else record.waits.mode.value,
        awaited,
        record.callback_url is not None,
        record.concurrency_key,
        record.policy.max_running_per_key or 0,
    )


class Server:
    """Executes what the network delivers."""

    def __init__(
        self,
        clock: SimulatedClock,
        history: History,
        make: Callable[[SimulatedClock], MemoryStore] = lambda clock: MemoryStore(clock=clock),
    ) -> None:
        self.clock = clock
        self.store = make(clock)
        self._history = history
        self._changes: list[Snapshot] = []
        world = self.store.world
        world.jobs = WatchedJobs(world.journal, clock, self._changes.append)

    def execute(self, operation: Operation[Any], process: str, *, is_late: bool = False) -> Any:
        """Do it, and return or raise what the store does."""
        self._changes.clear()
        now = self.clock.now_us()
        try:
            reply = self.store.run(operation)
        except FencepostError as error:
            self._note(operation, process, is_late, now, None, error.code)
            raise
        self._note(operation, process, is_late, now, reply, "")
        return reply

    def live_count(self) -> int:
        """Return how many jobs have not ended."""
        cells = self.store.world.jobs.counts.cells()
        return sum(number for _, _, state, number in cells if not state.is_terminal)

    def _note(
        self,
        operation: Operation[Any],
        process: str,
        is_late: bool,
        now: int,
        reply: Any,
        error: str,
    ) -> None:
        at = self.clock.monotonic()
        if operation.is_a(SettingsFacet.limit) and not error:
            scope, queue, max_running = operation.given
            self._history.add(Limited(at, "" if scope is Scope.APP else queue, max_running))
        if operation.is_a(SettingsFacet.pause, SettingsFacet.resume) and not error:
            scope, queue = operation.given
            if scope is Scope.QUEUE:
                self._history.add(Paused(at, queue, operation.is_a(SettingsFacet.pause)))
        asked: tuple[Asked, ...] = ()
        if operation.is_a(*UNDER_LEASE) and reply is not None:
            asked = tuple(map(_asked, operation.given[0], reply))
        # What an operation that failed had done was undone; the checker need not see that.
        changes = () if error else tuple(self._changes)
        if asked or changes or error:
            self._history.add(
                Operated(at, now, process, operation.name, is_late, asked, changes, error)
            )


def _asked(request: Any, reply: Any) -> Asked:
    answer = type(reply).__name__
    if isinstance(reply, LeaseLost):
        answer = f"LeaseLost {reply.state}"
    event = request.decision.event.name if isinstance(request, Settlement) else ""
    return Asked(request.job_id, request.token, answer, event)
