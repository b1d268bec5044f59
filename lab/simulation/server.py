"""The store's side: the product's own memory store, and a record of every change in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from fencepost.core.job.outcome import Settlement
from fencepost.core.job.policy import decode_policy
from fencepost.core.values.names import id_text
from fencepost.errors import FencepostError
from fencepost.store.interface.queue import LeaseLost, QueueFacet
from fencepost.store.interface.settings import Scope, SettingsFacet
from fencepost.store.memory.store import MemoryStore
from fencepost.store.plan import Operation
from fencepost.store.sql.codec import BY_NUMBER, MODES
from fencepost.store.sqlite.jobs.lease import make_token
from lab.simulation.clock import SimulatedClock
from lab.simulation.history import Asked, History, Limited, Operated, Paused, Snapshot

UNDER_LEASE = (QueueFacet.settle, QueueFacet.heartbeat, QueueFacet.save, QueueFacet.spawn)


# Each change of a job's row is noted as it is made, so that several within one operation are kept
# apart. The notes belong to the transaction: what is undone is not noted.
COLUMNS = """
seq, id, lane, policy, slot, state, attempt, max_attempts, lease_version, lease_token, worker,
lease_expires_at, settled_token, key, expires_at, checkpoint, progress, mode, callback_url
"""
TRIGGER = """
create temp trigger note_{event} after {event} on jobs begin
  insert into notes select {values}, {is_removed}; end
"""
NOTED = f"""
select {COLUMNS.replace("policy", "policies.body").replace("slot", "concurrency_key")}, is_removed,
  lanes.type, queue
from notes join lanes using (lane) join policies using (policy) left join slots using (slot)
order by notes.rowid
"""
AWAITED = """
select jobs.id from dependencies join jobs on jobs.seq = dependencies.parent
where dependencies.child = ? order by dependencies.place
"""
LIVE_COUNT = "select count(*) from jobs where completed_at is null"


class WatchedJobs:
    """Tells of every change in a store's table of jobs, in order."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute(f"create temp table notes({COLUMNS}, is_removed)")
        for event, row in (("insert", "new"), ("update", "new"), ("delete", "old")):
            values = ", ".join(f"{row}.{column.strip()}" for column in COLUMNS.split(","))
            is_removed = int(event == "delete")
            connection.execute(TRIGGER.format(event=event, values=values, is_removed=is_removed))

    def take(self) -> tuple[Snapshot, ...]:
        """Return what has changed since it was last asked."""
        rows = self._connection.execute(NOTED).fetchall()
        if rows:
            self._connection.execute("delete from notes")
        return tuple(map(self._snapshot, rows))

    def live_count(self) -> int:
        """Return how many jobs have not ended."""
        ((count,),) = self._connection.execute(LIVE_COUNT)
        return int(count)

    def _snapshot(self, row: tuple[Any, ...]) -> Snapshot:
        (
            seq, id_, lane, policy, concurrency_key, state, attempt, max_attempts, lease_version,
            lease_token, worker, lease_expires_at, settled_token, key, expires_at, checkpoint,
            progress, mode, callback_url, is_removed, type_, queue,
        ) = row  # fmt: skip
        awaited = self._connection.execute(AWAITED, (seq,)) if mode is not None else ()
        return Snapshot(
            id_text(id_),
            type_,
            queue,
            BY_NUMBER[state].value,
            attempt,
            max_attempts,
            lease_version,
            None if lease_token is None else make_token(seq, lane, lease_token),
            worker,
            lease_expires_at,
            None if settled_token is None else make_token(seq, lane, settled_token),
            key,
            expires_at,
            "" if checkpoint is None and progress is None else f"{checkpoint!r} {progress}",
            bool(is_removed),
            "" if mode is None else MODES[mode].value,
            tuple(id_text(parent) for (parent,) in awaited),
            callback_url is not None,
            concurrency_key,
            decode_policy(policy).max_running_per_key or 0,
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
        self._jobs = WatchedJobs(self.store.connection)

    def execute(self, operation: Operation[Any], process: str, *, is_late: bool = False) -> Any:
        """Do it, and return or raise what the store does."""
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
        return self._jobs.live_count()

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
        changes = self._jobs.take()
        if operation.is_a(QueueFacet.claim):
            changes = _leases_whole(changes)
        if asked or changes or error:
            self._history.add(
                Operated(at, now, process, operation.name, is_late, asked, changes, error)
            )


def _leases_whole(changes: tuple[Snapshot, ...]) -> tuple[Snapshot, ...]:
    """Make one change of a lease that its claim has shortened to the end of the job's timeout."""
    return tuple({(each.job_id, each.state, each.version): each for each in changes}.values())


def _asked(request: Any, reply: Any) -> Asked:
    answer = type(reply).__name__
    if isinstance(reply, LeaseLost):
        answer = f"LeaseLost {reply.state}"
    event = request.decision.event.name if isinstance(request, Settlement) else ""
    return Asked(request.job_id, request.token, answer, event)
