"""Jobs that arrive from another store, judged by what has become here of those they wait for."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec.structs import replace

from fencepost.core.flows.dependents import Parent, judge, propagated
from fencepost.core.job.job import Job, JobRecord
from fencepost.core.job.lifecycle import DEAD, Event, State, advance
from fencepost.core.values.ids import wanted_ids
from fencepost.core.values.instants import from_us
from fencepost.errors import UnknownDependencyError
from fencepost.store.plan import Plan
from fencepost.store.sqlite.flows.parents import Stored, find_parents

Edge = tuple[int, int, int]


class Arrivals:
    """Records by the rows that they are to have, with what they wait for: here, or among them."""

    def __init__(self, records: dict[int, JobRecord], known: dict[str, Stored], now: int) -> None:
        self.edges: list[Edge] = []
        self.ended: list[int] = []
        """The rows of those that ended only now, on account of others."""
        self._rows = {record.job.id: seq for seq, record in records.items()}
        self._known = known
        self._now = from_us(now)
        self.records = dict(records)
        self._judged: set[int] = set()
        for seq in records:
            self._judge(seq)

    def _judge(self, seq: int) -> Stored:
        """Have a job do what the states of those that it waits for say, them first."""
        if seq not in self._judged:
            self._judged.add(seq)
            record = self.records[seq]
            parents = list(self._parents(record))
            self.edges += [(seq, place, each.seq) for place, each in enumerate(parents)]
            if _is_waiting(record):
                judged = _judged(record, [each.parent for each in parents], self._now)
                self.records[seq] = judged
                self.ended += [seq] if judged.job.state.is_terminal else []
        return Stored(seq, _as_parent(self.records[seq].job))

    def _parents(self, record: JobRecord) -> Iterable[Stored]:
        for job_id in record.dependencies:
            if job_id in self._rows:
                yield self._judge(self._rows[job_id])
            elif job_id in self._known:
                yield self._known[job_id]
            elif _is_waiting(record):
                raise UnknownDependencyError(job_id)


def arriving(records: dict[int, JobRecord], now: int) -> Plan[Arrivals]:
    """Return *records* as they are to be stored, or raise UnknownDependencyError."""
    named = {job_id for record in records.values() for job_id in record.dependencies}
    known = yield from find_parents(wanted_ids(list(named)))
    return Arrivals(records, known, now)


def _is_waiting(record: JobRecord) -> bool:
    """Tell whether the job waits for others, and not only for a slot of its key."""
    return record.job.state is State.PENDING and not record.job.is_held


def _as_parent(job: Job) -> Parent:
    depth = 1 if job.waits is None else job.waits.depth
    return Parent(job.id, job.state, job.priority, depth, job.failure)


def _judged(record: JobRecord, parents: list[Parent], now: datetime) -> JobRecord:
    job = record.job
    assert job.waits is not None
    missing, doom = judge(job.waits.mode, [parent.state for parent in parents])
    if doom is not None:
        culprit = parents[doom]
        decision = propagated(culprit.state, culprit.failure, culprit.job_id)
        ended = replace(
            job,
            state=decision.state,
            failure=decision.failure,
            completed_at=now,
            updated_at=now,
        )
        return replace(record, job=ended, is_dead_letter=decision.state in DEAD)
    waits = replace(job.waits, missing=missing)
    if missing:
        return replace(record, job=replace(job, waits=waits))
    return replace(record, job=_let_go(replace(job, waits=waits), now))


def _let_go(job: Job, now: datetime) -> Job:
    state = advance(State.PENDING, Event.READY if job.run_at <= now else Event.DELAY)
    return replace(
        job,
        state=state,
        run_at=max(job.run_at, now),
        updated_at=now,
        scheduled_at=now if state is State.SCHEDULED else job.scheduled_at,
    )
