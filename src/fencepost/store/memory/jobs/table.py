"""All jobs and the indexes over them, which move together or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Unpack

from fencepost.clock import Clock
from fencepost.core.job.idempotency import is_held
from fencepost.core.job.job import Attempt
from fencepost.core.job.lifecycle import State
from fencepost.errors import StoreUnavailableError
from fencepost.store.interface.listener import Topic
from fencepost.store.memory.engine.journal import Journal
from fencepost.store.memory.engine.line import Entry, Line
from fencepost.store.memory.engine.numbered import Roll
from fencepost.store.memory.jobs.catalog import Pairs
from fencepost.store.memory.jobs.counts import Counts
from fencepost.store.memory.jobs.lanes import Lanes
from fencepost.store.memory.jobs.record import NOWHERE, Changes, IndexPlace, Record, place_of
from fencepost.store.memory.limits.slots import Scope, Slots
from fencepost.store.sql.transfer import NOT_ACCEPTED


class JobTable:
    """The jobs. Every change goes through here: it is journalled, and the indexes follow it."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self.clock = clock
        self.roll: Roll[Record] = Roll()
        """In the order of submission."""
        self.dead: Roll[Record] = Roll()
        """The dead-letter list, in the order of death."""
        self.lanes = Lanes()
        self.due = Line()
        self.leases = Line()
        self.lifetimes = Line()
        self.counts = Counts()
        self.slots = Slots()
        self.pairs = Pairs(journal)
        self._by_id: dict[str, Record] = {}
        self._by_key: dict[tuple[str, str], Record] = {}
        self._parents: dict[int, list[Record]] = {}
        """What each job that has dependencies waits for or waited for, in order."""
        self._children: dict[int, list[Record]] = {}
        self._journal = journal
        self._last_seq = 0
        self._last_death = 0
        self.is_accepting = True

    # Looking.

    def get(self, job_id: str) -> Record | None:
        """Return the job, or None; text that is no id is a job that does not exist."""
        return self._by_id.get(job_id.lower()) if isinstance(job_id, str) else None

    def holder(self, type: str, key: str, now: int) -> Record | None:
        """Return the job to which the key belongs at *now*."""
        record = self._by_key.get((type, key))
        if record is None:
            return None
        is_live = not record.state.is_terminal
        held = is_held(is_live=is_live, window_ends_us=record.key_ends_at, now_us=now)
        return record if held else None

    def parents(self, record: Record) -> list[Record]:
        """Return what *record* waits for or waited for, in order."""
        return self._parents.get(record.seq, [])

    def children(self, record: Record) -> list[Record]:
        """Return who waits for *record* or waited for it, oldest first."""
        return sorted(self._children.get(record.seq, []), key=lambda child: child.seq)

    def oldest(self, queue: str) -> int | None:
        """Return since when the claimable job of *queue* has been due that has been for longest."""
        lanes = self.lanes.open(queue, None, ()).values()
        return min((self.roll[seq].run_at for lane in lanes for seq in lane), default=None)

    def next_seq(self) -> int:
        """Return a higher number than any before; an undone operation leaves a gap."""
        self._last_seq += 1
        return self._last_seq

    def next_death(self) -> int:
        """Return the next number on the dead-letter list."""
        self._last_death += 1
        return self._last_death

    # Changing.

    def add(self, record: Record) -> None:
        """Store a new job. If it has a key, it takes it from whoever had it."""
        if not self.is_accepting:
            raise StoreUnavailableError(f"memory://: {NOT_ACCEPTED}")
        if record.id in self._by_id:
            raise StoreUnavailableError(f"the clock gave out id {record.id} twice; try again")
        if record.holds_key:
            self.vacate_key(record)
        self.pairs.learn(record.queue, record.type)
        self._enter(record)
        self._journal.note(partial(self._strike, record))

    def link(self, child: Record, parent: Record) -> None:
        """Note that *child* waits for *parent*."""
        self._parents.setdefault(child.seq, []).append(parent)
        self._children.setdefault(parent.seq, []).append(child)
        self._journal.note(partial(self._unlink, child, parent))

    def _unlink(self, child: Record, parent: Record) -> None:
        self._parents[child.seq].remove(parent)
        self._children[parent.seq].remove(child)

    def unlink_all(self, record: Record) -> None:
        """Forget who waited for *record*, and what it waited for."""
        pairs = [(record, parent) for parent in self.parents(record)]
        pairs += [(child, record) for child in self.children(record)]
        for child, parent in pairs:
            self._unlink(child, parent)
            self._journal.note(partial(self._relink, child, parent))

    def _relink(self, child: Record, parent: Record) -> None:
        self._parents[child.seq].append(parent)
        self._children[parent.seq].append(child)

    def remove(self, record: Record) -> None:
        """Delete a job and everything of it."""
        self.unlink_all(record)
        self._strike(record)
        self._journal.note(partial(self._enter, record))

    def change(self, record: Record, **changes: Unpack[Changes]) -> None:
        """Set the fields given."""
        before = {name: getattr(record, name) for name in changes}
        self._journal.note(partial(self._set, record, before))
        self._set(record, changes)

    def end_attempt(self, record: Record, attempt: Attempt) -> None:
        """Add an attempt to those that have ended."""
        record.past.append(attempt)
        self._journal.note(record.past.pop)

    def vacate_key(self, taker: Record) -> None:
        """Make room for *taker* to hold its key."""
        assert taker.key is not None
        previous = self._by_key.get((taker.type, taker.key))
        if previous is not None and previous is not taker:
            self.change(previous, holds_key=False, key_ends_at=None)

    # Keeping the indexes.

    def _enter(self, record: Record) -> None:
        self._by_id[record.id] = record
        self.roll.add(record.seq, record)
        self.pairs.count(record.queue, record.type, +1)
        self._file(record, place_of(record))

    def _strike(self, record: Record) -> None:
        del self._by_id[record.id]
        self.roll.remove(record.seq)
        self.pairs.count(record.queue, record.type, -1)
        self._file(record, NOWHERE)

    def _set(self, record: Record, changes: Mapping[str, object]) -> None:
        for name, value in changes.items():
            setattr(record, name, value)
        self._file(record, place_of(record))

    def _file(self, record: Record, new: IndexPlace) -> None:
        """Move *record* to its new place, touching only the indexes in which it moves."""
        old, record.place = record.place, new
        if new.state is not old.state:
            self._count(record, old.state, new.state)
        if new.lane != old.lane:
            self._change_lane(record, old.lane, new.lane)
        _move(self.due, old.due, new.due)
        _move(self.leases, old.lease, new.lease)
        _move(self.lifetimes, old.lifetime, new.lifetime)
        if new.dead_number != old.dead_number:
            self._change_death(record, old.dead_number, new.dead_number)
        if new.holds_key != old.holds_key:
            self._change_key(record, new.holds_key)
        if record.concurrency_key is not None:
            self._change_slot((record.type, record.concurrency_key), old, new)

    def _count(self, record: Record, old: State | None, new: State | None) -> None:
        if old is not None:
            self.counts.add(record.queue, record.type, old, -1)
        if new is not None:
            self.counts.add(record.queue, record.type, new, +1)
            if new.is_terminal:
                self._journal.announce(Topic.SETTLED)

    def _change_lane(self, record: Record, old: Entry | None, new: Entry | None) -> None:
        if old is not None:
            self.lanes.leave(record.queue, record.type, old)
        if new is not None:
            self.lanes.join(record.queue, record.type, new)
            self._journal.announce(Topic.READY)

    def _change_death(self, record: Record, old: int | None, new: int | None) -> None:
        if old is not None:
            self.dead.remove(old)
        if new is not None:
            self.dead.add(new, record)

    def _change_key(self, record: Record, holds: bool) -> None:
        assert record.key is not None
        if holds:
            self._by_key[record.type, record.key] = record
        else:
            del self._by_key[record.type, record.key]

    def _change_slot(self, scope: Scope, old: IndexPlace, new: IndexPlace) -> None:
        if new.is_active != old.is_active:
            self.slots.take(scope, 1 if new.is_active else -1)
        if new.held != old.held:
            if old.held is not None:
                self.slots.leave(scope, old.held)
            if new.held is not None:
                self.slots.join(scope, new.held)


def _move(line: Line, old: Entry | None, new: Entry | None) -> None:
    if old == new:
        return
    if old is not None:
        line.leave(old)
    if new is not None:
        line.join(new)
