"""Storing new jobs that depend on each other: flows, dependencies, keys and callbacks.

Rows are numbered before they are stored, which the side-car lock makes safe, so that jobs, keys
and dependencies of a whole submission take a few statements each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from fencepost.core.flows.dependencies import Dependencies, check_places
from fencepost.core.flows.dependents import Entry, Parent, enter
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import DEAD, State
from fencepost.core.job.timeouts import check_due
from fencepost.core.values.names import id_text, wanted_ids
from fencepost.core.values.payload import differences
from fencepost.core.values.times import seconds_to_us
from fencepost.errors import UnknownDependencyError
from fencepost.store.interface.queue import Duplicate, Enqueued, EnqueueReply
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codec import MODE_NUMBER, encode_failure
from fencepost.store.sql.endings import Stored
from fencepost.store.sqlite.flows.dependents import find_parents, link
from fencepost.store.sqlite.jobs import enqueue as enqueueing
from fencepost.store.sqlite.jobs.catalog import Env, JobCounters
from fencepost.store.sqlite.jobs.enqueue import (
    TAG,
    TAKE_KEY,
    Holders,
    Holding,
    call_back,
    find_holders,
    initial_state,
    new_row,
)
from fencepost.store.sqlite.jobs.rows import values
from fencepost.store.sqlite.jobs.search import note_clock
from fencepost.store.sqlite.limits.concurrency import admit, slot_number

LAST = "select coalesce(max(seq), 0) from jobs"
WAITING_COLUMNS = """
flow, node, callback_url, mode, missing, depth, gathers, own_priority, completed_at, is_dead_letter,
failure, slot
"""
INSERT = f"insert into jobs(seq, {enqueueing.COLUMNS}, {WAITING_COLUMNS}) {{values}}"


INSERT_FRESH = f"""
insert into jobs({enqueueing.COLUMNS}, {WAITING_COLUMNS}) values ({",".join("?" * 31)})
returning seq
"""


class PlacedJob(NamedTuple):
    """The reply for one new job, and the job that its place in the submission refers to."""

    reply: EnqueueReply
    stored: Stored


def enqueue(env: Env, jobs: Sequence[NewJob], *, atomic: bool = False) -> Plan[list[EnqueueReply]]:
    """Store *jobs*, each unless its key is held."""
    return enqueue_at(env, jobs, atomic=atomic, now=env.clock.now_us())


def enqueue_at(
    env: Env, jobs: Sequence[NewJob], *, atomic: bool, now: int
) -> Plan[list[EnqueueReply]]:
    """Do the same as of *now*."""
    if not any(_is_particular(job) for job in jobs):
        _check_times(jobs, now)
        return (yield from enqueueing.enqueue(env, jobs, atomic=atomic, now=now))
    accepted = yield from accept(env, jobs, atomic=atomic, now=now)
    return [each.reply for each in accepted]


def _check_times(jobs: Sequence[NewJob], now: int) -> None:
    """Raise InvalidJobError if one of *jobs* falls due when its lifetime is over (C48)."""
    for job in jobs:
        check_due(job, now)


def _is_particular(job: NewJob) -> bool:
    """Return whether it needs more than a plain row: dependencies, a flow, a key, a callback."""
    return bool(job.after or job.flow or job.node or job.callback_url or job.concurrency_key)


def accept(env: Env, jobs: Sequence[NewJob], *, atomic: bool, now: int) -> Plan[list[PlacedJob]]:
    """Store *jobs* of any kind; return also the job that each place refers to."""
    check_places(job.after for job in jobs)
    _check_times(jobs, now)
    yield from note_clock(env, now)
    ((last,),) = yield Statement(LAST)
    named = {on for job in jobs if job.after for on in job.after.on if isinstance(on, str)}
    batch = _Batch(
        env,
        known=(yield from find_parents(wanted_ids(list(named)))),
        holders=(yield from find_holders(jobs, now)),
        last=last,
        now=now,
    )
    slots: dict[tuple[str, str], int] = {}
    for job in jobs:
        lane = yield from env.catalog.lane_number(job.queue, job.type)
        policy = yield from env.catalog.policy_number(job.policy)
        slot = None
        if job.concurrency_key is not None:
            scope = (job.type, job.concurrency_key)
            slot = slots.get(scope)
            if slot is None:
                slot = slots[scope] = yield from slot_number(*scope)
        batch.add(job, lane=lane, policy=policy, slot=slot, atomic=atomic)
    return (yield from batch.write())


class _Batch:
    """The rows of one submission, collected before any is written."""

    def __init__(
        self, env: Env, *, known: dict[str, Stored], holders: Holders, last: int, now: int
    ) -> None:
        self.accepted: list[PlacedJob] = []
        self._env = env
        self._known = known
        self._holders = holders
        self._last = last
        self._now = now
        self._counters = JobCounters()
        self._rows: list[tuple[Any, ...]] = []
        self._edges: list[tuple[int, int, int]] = []
        self._tags: list[tuple[str, str, int]] = []
        self._keys: list[tuple[str, str, int, int | None]] = []
        self._held: list[int] = []

    def add(self, job: NewJob, *, lane: int, policy: int, slot: int | None, atomic: bool) -> None:
        """Add a job, or raise DependencyError or DuplicateJobError."""
        parents = self._parents(job.after) if job.after is not None else []
        if job.key is not None:
            holder = self._holders.get(job.type, job.key.value)
            if holder is not None:
                self._refuse(job, job.key, holder, atomic=atomic)
                return
        entry = None
        state = initial_state(job, self._now)
        if job.after is not None and parents:
            after = job.after
            behind = [each.parent for each in parents]
            entry = enter(after.mode, job.priority, behind, gathers=after.gathers)
            if entry.decision is not None:
                state = entry.decision.state
            elif entry.waits.missing:
                state = State.PENDING
        state = held_back(state, slot)
        self._store(job, entry, parents, state, lane=lane, policy=policy, slot=slot)

    def _parents(self, after: Dependencies) -> list[Stored]:
        found: dict[int, Stored] = {}  # each once: an id, a place and a key may name the same job
        for on in after.on:
            if isinstance(on, int):
                parent = self.accepted[on].stored
            elif on.lower() in self._known:
                parent = self._known[on.lower()]
            else:
                raise UnknownDependencyError(on)
            found[parent.seq] = parent
        return list(found.values())

    def _refuse(self, job: NewJob, key: Key, holding: Holding, *, atomic: bool) -> None:
        holder = holding.job
        is_rejected = key.refuses(holding.queue)
        job_id = holder.parent.job_id
        differs = differences(holding.payload, job.payload)
        reply = Duplicate(job_id, job.type, key.value, holder.parent.state, is_rejected, differs)
        if atomic and is_rejected:
            raise reply.error
        self.accepted.append(PlacedJob(reply, holder))

    def _store(
        self,
        job: NewJob,
        entry: Entry | None,
        parents: Sequence[Stored],
        state: State,
        *,
        lane: int,
        policy: int,
        slot: int | None,
    ) -> None:
        self._last += 1
        seq = self._last
        priority = job.priority if entry is None else entry.priority
        row = new_row(
            job.id or self._env.clock.new_id(),
            job,
            lane=lane,
            policy=policy,
            priority=priority,
            state=state,
            now=self._now,
        )
        waiting = waiting_columns(entry, self._now, slot=slot)
        self._rows.append((seq, *row, job.flow, job.node, job.callback_url, *waiting))
        if slot is not None and state is State.PENDING:
            self._held.append(seq)
        self._edges += [(seq, place, each.seq) for place, each in enumerate(parents)]
        self._tags += [(name, value, seq) for name, value in job.tags.items()]
        self._counters.move(lane, None, state)
        job_id = id_text(row[0])
        depth, failure = 1, None
        if entry is not None:
            depth = entry.waits.depth
            failure = None if entry.decision is None else entry.decision.failure
        stored = Stored(seq, Parent(job_id, state, priority, depth, failure))
        if job.key is not None:
            self._take_key(job, job.key, stored)
        self.accepted.append(PlacedJob(Enqueued(job_id, job.type, state), stored))

    def _take_key(self, job: NewJob, key: Key, stored: Stored) -> None:
        ends_at = None if key.window is None else self._now + seconds_to_us(key.window)
        self._keys.append((job.type, key.value, stored.seq, ends_at))
        self._holders.put(job.type, key.value, Holding(stored, job.queue, ends_at, job.payload))

    def write(self) -> Plan[list[PlacedJob]]:
        """Write all rows; return the outcome of each job."""
        for template, rows in ((INSERT, self._rows), (TAG, self._tags), (TAKE_KEY, self._keys)):
            for sql, params in values(template, rows):
                yield Statement(sql, params)
        yield from link(self._edges)
        admitted = yield from admit(self._env, self._held, self._now, self._counters)
        yield from self._counters.write()
        ended = [
            each.stored.seq
            for each in self.accepted
            if isinstance(each.reply, Enqueued) and each.reply.state.is_terminal
        ]
        if ended:
            yield from call_back(self._env, ended, self._now)
        entered = {moved.job_id: moved.state for moved in admitted}
        return [_entered(each, entered) for each in self.accepted] if entered else self.accepted


def _entered(accepted: PlacedJob, entered: dict[str, State]) -> PlacedJob:
    """Return the outcome of a job that may have got a slot of its key."""
    state = entered.get(accepted.reply.job_id)
    return (
        accepted if state is None else accepted._replace(reply=replace(accepted.reply, state=state))
    )


def held_back(state: State, slot: int | None) -> State:
    """Return the state in which a job is stored; with a key, it first waits for a slot."""
    return State.PENDING if slot is not None and state is State.SCHEDULED else state


NOTHING = (None,) * 9


def waiting_columns(entry: Entry | None, now: int, *, slot: int | None = None) -> tuple[Any, ...]:
    """Return the values of WAITING_COLUMNS after flow, node and callback_url."""
    if entry is None:
        return NOTHING if slot is None else (None, 0, *(None,) * 6, slot)
    waits, decision = entry.waits, entry.decision
    head: tuple[Any, ...] = (
        MODE_NUMBER[waits.mode],
        waits.missing,
        waits.depth,
        int(waits.gathers),
        None if waits.own_priority is None else int(waits.own_priority),
    )
    if decision is None:
        return (*head, None, None, None, slot)
    is_dead = 1 if decision.state in DEAD else None
    return (*head, now, is_dead, encode_failure(decision.failure), slot)
