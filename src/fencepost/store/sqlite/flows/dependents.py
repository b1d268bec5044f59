"""Jobs that others wait for, and dependents: unblocked or ended when those have ended.

All code that ends jobs ends them through here, and their dependents follow in the same transaction:
level by level, with a few statements per level. A store without dependencies is not queried.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fencepost.core.flows.dependents import MET
from fencepost.core.job.lifecycle import Event, State, first_state
from fencepost.core.job.outcome import Decision
from fencepost.store.interface.queue import Moved
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codec import DELAYED, PENDING, SCHEDULED
from fencepost.store.sql.endings import Ended, Ending, Stored, count_ended, ended_of, moved
from fencepost.store.sqlite.jobs.catalog import Env, JobCounters
from fencepost.store.sqlite.jobs.enqueue import call_back
from fencepost.store.sqlite.jobs.finish import LiveEnding, LiveRow, complete, end
from fencepost.store.sqlite.jobs.rows import PARENT_COLUMNS, numbers_json, stored, values
from fencepost.store.sqlite.limits.concurrency import admit

BY_ID = f"select {PARENT_COLUMNS} from jobs where id in ({{values}})"
OF_CHILD = f"""
select {PARENT_COLUMNS} from dependencies join jobs on jobs.seq = dependencies.parent
where dependencies.child = ? order by dependencies.place
"""
LINK = "insert into dependencies(child, place, parent) {values}"
# In the order in which the jobs ended; in one row of JSON, see settle.LOCATE.
LIVE_ROW = """
json_array(
  seq, lower(hex(id)), lane, state, attempt, max_attempts, policy, run_at, expires_at, lease_version
)
"""
WAITING = f"""
select json_group_array(json_array(parent, mode, missing, slot, {LIVE_ROW})) from (
  select dependencies.parent, jobs.*
  from json_each(?) as ended
  cross join dependencies indexed by dependencies_parent on dependencies.parent = ended.value
  cross join jobs on jobs.seq = dependencies.child
  where exists (select 1 from dependencies) and jobs.state = {PENDING} and jobs.missing > 0
  order by ended.key, jobs.seq
)
"""
NAMED = f"""
select json_group_array(json_array(0, mode, missing, slot, {LIVE_ROW}))
from (select * from jobs where seq in (select value from json_each(?)) order by seq)
"""
COUNT_DOWN = """
with counted(seq, missing) as ({values})
update jobs set missing = counted.missing from counted where jobs.seq = counted.seq
"""
UNBLOCK = f"""
update jobs
set state = {SCHEDULED}, missing = 0, run_at = ?, scheduled_at = ?, updated_at = ?
where seq in (select value from json_each(?))
"""
# A job with a concurrency key stays PENDING until it has a slot.
UNBLOCK_TO_KEY = """
update jobs set missing = 0, run_at = ?, updated_at = ?
where seq in (select value from json_each(?))
"""
UNBLOCK_LATER = f"""
update jobs set state = {DELAYED}, missing = 0, updated_at = ?
where seq in (select value from json_each(?))
"""


class _Waiting(msgspec.Struct, gc=False, array_like=True):
    """A PENDING job, and one of the jobs that it waits for."""

    parent: int
    mode: int
    missing: int
    slot: int | None
    job: LiveRow


_waiting = msgspec.json.Decoder(list[_Waiting])


def end_all(
    env: Env, endings: Sequence[LiveEnding], now: int, counters: JobCounters
) -> Plan[tuple[Moved, ...]]:
    """Write *endings*; return the moves of dependents that are not among them."""
    successes = [each for each in endings if each.decision.event is Event.SUCCEED]
    others = [each for each in endings if each.decision.event is not Event.SUCCEED]
    yield from complete(successes, now, counters)
    yield from end(others, now, counters)
    left = [each.job.seq for each in endings if each.decision.event is not Event.RELEASE]
    return (yield from follow(env, ended_of(endings), left, now, counters))


def follow(
    env: Env, ended: Mapping[int, Ended], left: Iterable[int], now: int, counters: JobCounters
) -> Plan[tuple[Moved, ...]]:
    """Unblock or end the jobs that waited for the rows *ended*, and their dependents in turn.

    Then admit jobs to the slots of the keys of all these, and of the rows *left*.
    """
    followed: list[Moved] = []
    freed = list(left)
    while ended:  # each level ends jobs that had not ended, so there is a last one
        followed += yield from call_back(env, list(ended), now)
        ((text,),) = yield Statement(WAITING, (numbers_json(list(ended)),))
        waiting = _waiting.decode(text)
        if not waiting:
            break
        rows = [(each.job.seq, each.mode, each.missing, each.parent) for each in waiting]
        missing, failing = count_ended(rows, ended)
        unblocked = [seq for seq, left in missing.items() if left == MET]
        for sql, params in values(COUNT_DOWN, [row for row in missing.items() if row[1]]):
            yield Statement(sql, params)
        level = _Level(waiting, {**dict.fromkeys(unblocked), **failing}, now)
        followed += yield from level.write(env, counters)
        freed += level.held
        ended = ended_of(level.endings)
    admitted = yield from admit(env, freed, now, counters)
    return (*followed, *admitted)


def end_waiting(
    env: Env, decisions: Mapping[int, Decision | None], now: int, counters: JobCounters
) -> Plan[tuple[Moved, ...]]:
    """End waiting jobs as decided, with their dependents; None unblocks a job."""
    ((text,),) = yield Statement(NAMED, (numbers_json(list(decisions)),))
    level = _Level(_waiting.decode(text), decisions, now)
    moves = yield from level.write(env, counters)
    followed = yield from follow(env, ended_of(level.endings), level.held, now, counters)
    return (*moves, *followed)


class _Level:
    """Jobs that waited for those which have just ended; those without a decision are unblocked."""

    def __init__(
        self, waiting: Sequence[_Waiting], decisions: Mapping[int, Decision | None], now: int
    ) -> None:
        jobs = {each.job.seq: each for each in waiting}
        self.endings: list[LiveEnding] = []
        self.held: list[int] = []
        """Rows that were unblocked, and wait for a slot of their concurrency key."""
        self._unblocked: dict[int, _Waiting] = {}
        self._now = now
        for seq, decision in decisions.items():
            if decision is None:
                self._unblocked[seq] = jobs[seq]
            else:
                self.endings.append(Ending(jobs[seq].job, decision))

    def write(self, env: Env, counters: JobCounters) -> Plan[list[Moved]]:
        """Write what was decided; return the moves."""
        now, unblocked = self._now, self._unblocked
        yield from end(self.endings, now, counters)
        due = [seq for seq, each in unblocked.items() if each.job.run_at <= now]
        self.held = [seq for seq in due if unblocked[seq].slot is not None]
        ready = [seq for seq in due if unblocked[seq].slot is None]
        later = [seq for seq, each in unblocked.items() if each.job.run_at > now]
        if ready:
            yield Statement(UNBLOCK, (now, now, now, numbers_json(ready)))
        if self.held:
            yield Statement(UNBLOCK_TO_KEY, (now, now, numbers_json(self.held)))
        if later:
            yield Statement(UNBLOCK_LATER, (now, numbers_json(later)))
        moves = yield from moved(env, self.endings)
        lanes = yield from env.catalog.lanes({each.job.lane for each in unblocked.values()})
        for seq in (*ready, *later):
            job = unblocked[seq].job
            state = first_state(is_due=job.run_at <= now)
            counters.move(job.lane, State.PENDING, state)
            moves.append(Moved(job.job_id, lanes[job.lane].type, state, State.PENDING))
        return moves


def find_parents(ids: Iterable[bytes]) -> Plan[dict[str, Stored]]:
    """Return the stored jobs of *ids*, by id as text."""
    found: dict[str, Stored] = {}
    for sql, params in values(BY_ID, [(id_,) for id_ in ids]):
        for row in (yield Statement(sql, params)):
            each = stored(row)
            found[each.parent.job_id] = each
    return found


def parents_of(seq: int) -> Plan[list[Stored]]:
    """Return what the job in row *seq* waits for or waited for, in order."""
    return [stored(row) for row in (yield Statement(OF_CHILD, (seq,)))]


def link(edges: list[tuple[int, int, int]]) -> Plan[None]:
    """Store dependencies: child, place among its dependencies, parent."""
    for sql, params in values(LINK, edges):
        yield Statement(sql, params)
