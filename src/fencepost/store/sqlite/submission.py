"""Storing new jobs that belong together: those that wait for others, and whole flows.

Rows are numbered before they are stored, which the side-car lock makes safe, so that jobs, keys
and dependencies of a whole submission go in with a few statements each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fencepost.core.dependencies import Dependencies, Mode, check_place
from fencepost.core.dependents import Entry, Parent, enter
from fencepost.core.idempotency import Key, OnDuplicate
from fencepost.core.ids import id_text
from fencepost.core.instants import seconds_to_us
from fencepost.core.job import NewJob
from fencepost.core.lifecycle import DEAD, State
from fencepost.core.priority import Priority
from fencepost.errors import DuplicateJobError, UnknownDependencyError
from fencepost.store.plan import Plan, Statement
from fencepost.store.replies import Duplicate, Enqueued, EnqueueReply
from fencepost.store.sqlite import enqueueing
from fencepost.store.sqlite.callbacks import call_back
from fencepost.store.sqlite.catalog import Env, Tally
from fencepost.store.sqlite.enqueueing import TAG, TAKE_KEY, initial_state, new_row
from fencepost.store.sqlite.holders import Holders, find_holders
from fencepost.store.sqlite.parents import Stored, find_parents, link
from fencepost.store.sqlite.values import values
from fencepost.store.states import MODE_NUMBER
from fencepost.store.texts import encode_failure
from fencepost.store.wanted import wanted_ids

LAST = "select coalesce(max(seq), 0) from jobs"
WAITING_COLUMNS = """
flow, node, callback_url, mode, missing, depth, gathers, completed_at, is_dead_letter, failure
"""
INSERT = f"insert into jobs(seq, {enqueueing.COLUMNS}, {WAITING_COLUMNS}) {{values}}"


INSERT_FRESH = f"""
insert into jobs({enqueueing.COLUMNS}, {WAITING_COLUMNS}) values ({",".join("?" * 28)})
returning seq
"""


class Accepted(NamedTuple):
    """What became of one new job: the reply, and the job for which its place stands."""

    reply: EnqueueReply
    stored: Stored


def enqueue(
    env: Env, jobs: Sequence[NewJob], *, atomic: bool, now: int
) -> Plan[list[EnqueueReply]]:
    """Store *jobs*, each unless its key is held and behind what it waits for."""
    if not any(job.after or job.flow or job.node or job.callback_url for job in jobs):
        return (yield from enqueueing.enqueue(env, jobs, atomic=atomic, now=now))
    accepted = yield from accept(env, jobs, atomic=atomic, now=now)
    return [each.reply for each in accepted]


def accept(env: Env, jobs: Sequence[NewJob], *, atomic: bool, now: int) -> Plan[list[Accepted]]:
    """Store *jobs* of any kind; return also the job for which each place stands."""
    ((last,),) = yield Statement(LAST)
    named = {on for job in jobs if job.after for on in job.after.on if isinstance(on, str)}
    batch = _Batch(
        env,
        known=(yield from find_parents(wanted_ids(list(named)))),
        holders=(yield from find_holders(jobs, now)),
        last=last,
        now=now,
    )
    for job in jobs:
        lane = yield from env.catalog.lane_number(job.queue, job.type)
        policy = yield from env.catalog.policy_number(job.policy)
        batch.add(job, lane=lane, policy=policy, atomic=atomic)
    yield from batch.write()
    return batch.accepted


class _Batch:
    """The rows of one submission, gathered before any of them is written."""

    def __init__(
        self, env: Env, *, known: dict[str, Stored], holders: Holders, last: int, now: int
    ) -> None:
        self.accepted: list[Accepted] = []
        self._env = env
        self._known = known
        self._holders = holders
        self._last = last
        self._now = now
        self._tally = Tally()
        self._rows: list[tuple[Any, ...]] = []
        self._edges: list[tuple[int, int, int]] = []
        self._tags: list[tuple[str, str, int]] = []
        self._keys: list[tuple[str, str, int, int | None]] = []

    def add(self, job: NewJob, *, lane: int, policy: int, atomic: bool) -> None:
        """Take in one job more, or raise DependencyError or DuplicateJobError."""
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
            entry = entry_behind(after.mode, job.priority, parents, gathers=after.gathers)
            state = state_of(entry, state)
        self._store(job, entry, parents, state, lane=lane, policy=policy)

    def _parents(self, after: Dependencies) -> list[Stored]:
        own = len(self.accepted)
        found: dict[int, Stored] = {}  # each once: an id, a place and a key may name the same job
        for on in after.on:
            if isinstance(on, int):
                parent = self.accepted[check_place(on, own)].stored
            elif on.lower() in self._known:
                parent = self._known[on.lower()]
            else:
                raise UnknownDependencyError(on)
            found[parent.seq] = parent
        return list(found.values())

    def _refuse(self, job: NewJob, key: Key, holder: Stored, *, atomic: bool) -> None:
        is_rejected = key.on_duplicate is OnDuplicate.REJECT
        job_id = holder.parent.job_id
        if atomic and is_rejected:
            raise DuplicateJobError(type=job.type, key=key.value, existing_id=job_id)
        reply = Duplicate(job_id, job.type, key.value, holder.parent.state, is_rejected)
        self.accepted.append(Accepted(reply, holder))

    def _store(
        self,
        job: NewJob,
        entry: Entry | None,
        parents: Sequence[Stored],
        state: State,
        *,
        lane: int,
        policy: int,
    ) -> None:
        self._last += 1
        seq = self._last
        priority = job.priority if entry is None else entry.priority
        row = new_row(
            self._env,
            job,
            lane=lane,
            policy=policy,
            priority=priority,
            state=state,
            now=self._now,
        )
        columns = (job.flow, job.node, job.callback_url, *waiting_columns(entry, self._now))
        self._rows.append((seq, *row, *columns))
        self._edges += [(seq, place, each.seq) for place, each in enumerate(parents)]
        self._tags += [(name, value, seq) for name, value in job.tags.items()]
        self._tally.move(lane, None, state)
        job_id = id_text(row[0])
        depth, failure = 1, None
        if entry is not None:
            depth = entry.waits.depth
            failure = None if entry.decision is None else entry.decision.failure
        stored = Stored(seq, Parent(job_id, state, priority, depth, failure))
        if job.key is not None:
            self._take_key(job.type, job.key, stored)
        self.accepted.append(Accepted(Enqueued(job_id, job.type, state), stored))

    def _take_key(self, type: str, key: Key, stored: Stored) -> None:
        ends_at = None if key.window is None else self._now + seconds_to_us(key.window)
        self._keys.append((type, key.value, stored.seq, ends_at))
        self._holders.put(type, key.value, stored, ends_at)

    def write(self) -> Plan[None]:
        """Store all that was taken in."""
        for template, rows in ((INSERT, self._rows), (TAG, self._tags), (TAKE_KEY, self._keys)):
            for sql, params in values(template, rows):
                yield Statement(sql, params)
        yield from link(self._edges)
        yield from self._tally.write()
        ended = [each.stored.seq for each in self.accepted if each.reply.state.is_terminal]
        if ended:
            yield from call_back(self._env, ended, self._now)


def entry_behind(
    mode: Mode, priority: Priority, parents: Sequence[Stored], *, gathers: bool
) -> Entry:
    """Return how a job enters that waits for *parents*, or raise DependencyDepthError."""
    return enter(mode, priority, [each.parent for each in parents], gathers=gathers)


def state_of(entry: Entry, otherwise: State) -> State:
    """Return the state in which a job with dependencies is stored."""
    if entry.decision is not None:
        return entry.decision.state
    return State.PENDING if entry.waits.missing else otherwise


NOTHING = (None,) * 7


def waiting_columns(entry: Entry | None, now: int) -> tuple[Any, ...]:
    """Return what WAITING_COLUMNS hold behind flow, node and callback_url."""
    if entry is None:
        return NOTHING
    waits, decision = entry.waits, entry.decision
    head: tuple[Any, ...] = (
        MODE_NUMBER[waits.mode],
        waits.missing,
        waits.depth,
        int(waits.gathers),
    )
    if decision is None:
        return (*head, None, None, None)
    is_dead = 1 if decision.state in DEAD else None
    return (*head, now, is_dead, encode_failure(decision.failure))
