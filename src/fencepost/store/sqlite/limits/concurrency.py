"""Concurrency keys: admission to their slots, at the end of every plan that moves such jobs.

A job that has a key becomes claimable only here. Other code leaves it PENDING, missing nothing, and
passes its row to ``admit``, as it does with the row of a job that frees a slot. The side-car lock
lets one transaction run at a time, so that the count of active jobs is still true when it is used.
A store without keys is not queried.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fencepost.core.job.job import JobRecord
from fencepost.core.job.lifecycle import State, first_state
from fencepost.core.job.policy import DEFAULT_POLICY, Policy
from fencepost.core.limits.concurrency import limit_of
from fencepost.core.values.names import id_of_digits
from fencepost.store.interface.queue import Moved
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codec import PENDING, RUNNING, SCHEDULED
from fencepost.store.sql.records.transfer import held_up
from fencepost.store.sqlite.jobs.catalog import Env, JobCounters
from fencepost.store.sqlite.jobs.rows import numbers_json, values

FIND_SLOT = "select slot from slots where type = ? and concurrency_key = ?"
MAKE_SLOT = "insert into slots(type, concurrency_key) values (?, ?) returning slot"
ACTIVE = f"""
select count(*) from slots cross join jobs indexed by jobs_slot
on jobs.slot = slots.slot and jobs.state in ({SCHEDULED}, {RUNNING})
where slots.type = ? and slots.concurrency_key = ?
"""
HEADS = 2
HELD = f"jobs.state = {PENDING} and jobs.missing = 0"
# For each key of the given rows with waiting jobs: the number of active jobs, and the first two
# that wait, which is enough unless several slots are free. In one row, see settle.LOCATE.
CANDIDATES = f"""
select json_group_array(json_array(slot, active, json(heads))) from (
  select slot, (
    select count(*) from jobs indexed by jobs_slot
    where jobs.slot = freed.slot and jobs.state in ({SCHEDULED}, {RUNNING})
  ) as active, (
    select json_group_array(json_array(seq, lower(hex(id)), lane, policy)) from (
      select seq, id, lane, policy from jobs indexed by jobs_slot
      where jobs.slot = freed.slot and {HELD}
      order by priority, run_at, seq limit 2
    )
  ) as heads
  from ({{source}}) as freed
) where heads <> '[]'
"""
OF_ROWS = CANDIDATES.format(
    source="""
    select distinct slot from jobs
    where exists (select 1 from slots) and seq in (select value from json_each(?))
      and slot is not null
"""
)
OF_NOTES = CANDIDATES.format(source="select slot from freed_slots")
NOTE = "insert into freed_slots(slot) {values} on conflict do nothing"
FORGET = "delete from freed_slots"
HAS_NOTES = "select exists (select 1 from freed_slots)"
NEXT = f"""
select seq, lower(hex(id)), lane, policy from jobs indexed by jobs_slot
where slot = ? and {HELD} order by priority, run_at, seq limit ?
"""
ADMIT = f"""
update jobs
set state = {SCHEDULED}, run_at = ?, scheduled_at = ?, updated_at = ?
where seq in (select value from json_each(?))
"""


class _Next(msgspec.Struct, gc=False, array_like=True):
    """A job that waits for a slot, in its order."""

    seq: int
    digits: str
    lane: int
    policy: int


class _Slot(msgspec.Struct, gc=False, array_like=True):
    """A key with jobs that wait for its slots."""

    number: int
    active: int
    heads: list[_Next]


_slots = msgspec.json.Decoder(list[_Slot])


def slot_number(type: str, key: str) -> Plan[int]:
    """Return the number of a key, created if it is new."""
    rows = yield Statement(FIND_SLOT, (type, key))
    if not rows:
        rows = yield Statement(MAKE_SLOT, (type, key))
    return int(rows[0][0])


def active(type: str, key: str | None) -> Plan[int]:
    """Return how many jobs of a key are claimable or running."""
    if key is None:
        return 0
    ((count,),) = yield Statement(ACTIVE, (type, key))
    return int(count)


class Arriving:
    """The keys of jobs that are loaded from another store, and how many of each are active."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, str], int] = {}
        self._active: dict[tuple[str, str], int] = {}

    def number(self, type: str, key: str) -> Plan[int]:
        """Return the number of a key, created if it is new."""
        scope = (type, key)
        if scope not in self.numbers:
            self.numbers[scope] = yield from slot_number(type, key)
        return self.numbers[scope]

    def placed(self, record: JobRecord) -> Plan[JobRecord]:
        """Return *record*, which keeps its slot if there is a free one here."""
        job = record.job
        if job.concurrency_key is None or job.state is not State.SCHEDULED:
            return record
        scope = (job.type, job.concurrency_key)
        if scope not in self._active:
            self._active[scope] = yield from active(*scope)
        if self._active[scope] >= limit_of(job.policy):
            return held_up(record)
        self._active[scope] += 1
        return record


def admit(
    env: Env, seqs: Iterable[int], now: int, counters: JobCounters
) -> Plan[tuple[Moved, ...]]:
    """Give the free slots of the keys of rows *seqs* to waiting jobs, in their order."""
    numbers = numbers_json(list(seqs))
    if numbers == "[]":
        return ()
    ((text,),) = yield Statement(OF_ROWS, (numbers,))
    return (yield from _admit(env, text, now, counters))


def admit_noted(env: Env, now: int, counters: JobCounters) -> Plan[tuple[Moved, ...]]:
    """Do the same for the keys that ``note`` has recorded."""
    ((has_notes,),) = yield Statement(HAS_NOTES)
    if not has_notes:
        return ()
    ((text,),) = yield Statement(OF_NOTES)
    yield Statement(FORGET)
    return (yield from _admit(env, text, now, counters))


def note(slots: Iterable[int]) -> Plan[None]:
    """Record keys, so that the next claim admits jobs to their slots."""
    for sql, params in values(NOTE, [(slot,) for slot in sorted(set(slots))]):
        yield Statement(sql, params)


def _admit(env: Env, text: str, now: int, counters: JobCounters) -> Plan[tuple[Moved, ...]]:
    entering: list[_Next] = []
    for slot in _slots.decode(text):
        entering += yield from _entering(env, slot)
    if not entering:
        return ()
    yield Statement(ADMIT, (now, now, now, numbers_json([each.seq for each in entering])))
    lanes = yield from env.catalog.lanes({each.lane for each in entering})
    state = first_state(is_due=True)
    for each in entering:
        counters.move(each.lane, State.PENDING, state)
    return tuple(
        Moved(id_of_digits(each.digits), lanes[each.lane].type, state, State.PENDING)
        for each in entering
    )


def _entering(env: Env, slot: _Slot) -> Plan[list[_Next]]:
    """Return the jobs to admit: from the first on, while its limit allows one more."""
    rows, asked = slot.heads, HEADS
    while True:
        policies = yield from env.catalog.policies({row.policy for row in rows})
        for place, row in enumerate(rows):
            if slot.active + place >= _limit(policies, row.policy):
                return rows[:place]
        if len(rows) < asked:
            return rows
        # All of them are admitted, and there may be more: read as many as the last one allows.
        asked = max(_limit(policies, rows[-1].policy) - slot.active, len(rows)) + 1
        rows = [_Next(*row) for row in (yield Statement(NEXT, (slot.number, asked)))]


def _limit(policies: dict[int, Policy], number: int) -> int:
    return limit_of(policies.get(number, DEFAULT_POLICY))
