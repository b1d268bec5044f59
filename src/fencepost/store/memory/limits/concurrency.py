"""Letting jobs with a concurrency key into line: at the end of every operation that moves any."""

from __future__ import annotations

from collections.abc import Iterator

from fencepost.core.job.lifecycle import Event, State, advance
from fencepost.core.limits.concurrency import limit_of
from fencepost.store.interface.replies import Moved
from fencepost.store.memory.jobs.record import Changes, Record
from fencepost.store.memory.jobs.table import JobTable
from fencepost.store.memory.limits.slots import Scope


def hold(record: Record) -> None:
    """Have a job that is not stored yet wait for a slot of its key, if it has one."""
    if record.concurrency_key is not None and record.state is State.SCHEDULED:
        record.state, record.scheduled_at = State.PENDING, None


def has_room(jobs: JobTable, record: Record) -> bool:
    """Tell whether the job could take a slot of its key now, or has none."""
    key = record.concurrency_key
    return key is None or jobs.slots.active((record.type, key)) < limit_of(record.policy)


def held(record: Record, changes: Changes, event: Event) -> Changes:
    """Return *changes*; if they make a job SCHEDULED that has a key, with *event* instead.

    Whether it gets a slot at once is decided by ``admit``, as for all who wait.
    """
    if record.concurrency_key is None or changes.get("state") is not State.SCHEDULED:
        return changes
    changes["state"] = advance(record.state, event)
    changes.pop("scheduled_at", None)
    return changes


def admit(jobs: JobTable, now: int) -> list[Moved]:
    """Give free slots to those who wait for them, in their order; they join the end of the line."""
    return [
        Moved(record.id, record.type, record.state, State.PENDING)
        for scope in jobs.slots.touched()
        for record in _admit(jobs, scope, now)
    ]


def _admit(jobs: JobTable, scope: Scope, now: int) -> Iterator[Record]:
    while (entry := jobs.slots.first(scope)) is not None:
        record = jobs.roll[entry[-1]]
        if jobs.slots.active(scope) >= limit_of(record.policy):
            return
        state = advance(record.state, Event.READY)
        jobs.change(record, state=state, run_at=now, scheduled_at=now, updated_at=now)
        yield record
