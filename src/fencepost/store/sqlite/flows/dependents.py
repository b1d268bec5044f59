"""Those who wait: let go, or ended, when what they wait for has ended.

Everything that ends a job ends it through here, and whoever waited follows in the same transaction:
level by level, a few statements each, however many jobs stand on it. Nothing is asked of a store
that has no dependencies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from fencepost.core.flows.dependents import propagated, step
from fencepost.core.job.job import Failure
from fencepost.core.job.lifecycle import Event, State, advance
from fencepost.core.job.outcome import Decision
from fencepost.core.values.ids import id_of_digits
from fencepost.store.interface.replies import Moved
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codes import MODES, NUMBER, PENDING
from fencepost.store.sqlite.engine.values import values
from fencepost.store.sqlite.jobs.catalog import Env, Tally, numbers_json
from fencepost.store.sqlite.jobs.finish import Ending, Standing, complete, end
from fencepost.store.sqlite.limits.concurrency import admit
from fencepost.store.sqlite.records.webhooks import call_back

# In the order in which the jobs ended; in one row of JSON, see settling.LOCATE.
WAITING = f"""
select json_group_array(json_array(
  parent, seq, digits, lane, mode, missing, run_at, attempt, max_attempts, policy, expires_at,
  lease_version, slot
)) from (
  select dependencies.parent, jobs.*, lower(hex(jobs.id)) as digits
  from json_each(?) as ended
  cross join dependencies indexed by dependencies_parent on dependencies.parent = ended.value
  cross join jobs on jobs.seq = dependencies.child
  where exists (select 1 from dependencies) and jobs.state = {PENDING} and jobs.missing > 0
  order by ended.key, jobs.seq
)
"""
NAMED = """
select json_group_array(json_array(
  0, seq, lower(hex(id)), lane, mode, missing, run_at, attempt, max_attempts, policy, expires_at,
  lease_version, slot
)) from (select * from jobs where seq in (select value from json_each(?)) order by seq)
"""
COUNT_DOWN = """
with counted(seq, missing) as ({values})
update jobs set missing = counted.missing from counted where jobs.seq = counted.seq
"""
LET_GO = f"""
update jobs
set state = {NUMBER[State.SCHEDULED]}, missing = 0, run_at = ?, scheduled_at = ?, updated_at = ?
where seq in (select value from json_each(?))
"""
# One that has a concurrency key stays PENDING until it has a slot.
LET_GO_TO_KEY = """
update jobs set missing = 0, run_at = ?, updated_at = ?
where seq in (select value from json_each(?))
"""
LET_GO_LATER = f"""
update jobs set state = {NUMBER[State.DELAYED]}, missing = 0, updated_at = ?
where seq in (select value from json_each(?))
"""


class Ended(NamedTuple):
    """How a job ended that others may have waited for."""

    state: State
    job_id: str = ""
    failure: Failure | None = None


class _Waiting(msgspec.Struct, gc=False, array_like=True):
    """A PENDING job, and one of those that it waits for."""

    parent: int
    seq: int
    digits: str
    lane: int
    mode: int
    missing: int
    run_at: int
    attempt: int
    max_attempts: int
    policy: int
    expires_at: int
    lease_version: int
    slot: int | None


_waiting = msgspec.json.Decoder(list[_Waiting])


def end_all(env: Env, endings: Sequence[Ending], now: int, tally: Tally) -> Plan[tuple[Moved, ...]]:
    """Write *endings*; return what became of those that waited and are not among them."""
    successes = [each for each in endings if each.decision.event is Event.SUCCEED]
    others = [each for each in endings if each.decision.event is not Event.SUCCEED]
    yield from complete(successes, now, tally)
    yield from end(others, now, tally)
    left = [each.job.seq for each in endings if each.decision.event is not Event.RELEASE]
    return (yield from follow(env, _terminal(endings), left, now, tally))


def _terminal(endings: Iterable[Ending]) -> dict[int, Ended]:
    return {
        job.seq: Ended(decision.state, job.job_id, decision.failure)
        for job, decision, _ in endings
        if decision.state.is_terminal
    }


def moved(
    env: Env, endings: Sequence[Ending], followed: tuple[Moved, ...] = ()
) -> Plan[list[Moved]]:
    """Return what *endings* did; the first tells what became of all who waited."""
    lanes = yield from env.catalog.lanes({ending.job.lane for ending in endings})
    moves = [
        Moved(e.job.job_id, lanes[e.job.lane].type, e.decision.state, e.job.state) for e in endings
    ]
    if followed:
        moves[0] = replace(moves[0], followed=followed)
    return moves


def follow(
    env: Env, ended: Mapping[int, Ended], left: Iterable[int], now: int, tally: Tally
) -> Plan[tuple[Moved, ...]]:
    """Let go, or end, the jobs that waited for those in the rows *ended*, and those behind them.

    Then give away the slots of the keys of those, and of the rows that *left* being under way.
    """
    followed: list[Moved] = []
    touched = list(left)
    while ended:  # each level ends jobs that had not ended, so there is a last one
        followed += yield from call_back(env, list(ended), now)
        ((text,),) = yield Statement(WAITING, (numbers_json(list(ended)),))
        waiting = _waiting.decode(text)
        if not waiting:
            break
        level = _Level(now)
        for each in waiting:
            level.count(each, ended[each.parent])
        followed += yield from level.write(env, tally)
        touched += level.held
        ended = _terminal(level.doomed.values())
    admitted = yield from admit(env, touched, now, tally)
    return (*followed, *admitted)


def end_waiting(
    env: Env, decisions: Mapping[int, Decision | None], now: int, tally: Tally
) -> Plan[tuple[Moved, ...]]:
    """End jobs that wait for others as was decided, and those behind them, or let them go."""
    ((text,),) = yield Statement(NAMED, (numbers_json(list(decisions)),))
    level = _Level(now)
    for each in _waiting.decode(text):
        level.decide(each, decisions[each.seq])
    moves = yield from level.write(env, tally)
    ended = _terminal(level.doomed.values())
    followed = yield from follow(env, ended, level.held, now, tally)
    return (*moves, *followed)


class _Level:
    """Jobs that waited for those which have just ended, and what becomes of them."""

    def __init__(self, now: int) -> None:
        self.doomed: dict[int, Ending] = {}
        self.held: list[int] = []
        """Rows that were let go, and wait for a slot of their concurrency key."""
        self._now = now
        self._missing: dict[int, int] = {}
        self._let_go: dict[int, _Waiting] = {}

    def count(self, job: _Waiting, ended: Ended) -> None:
        """Count one of its dependencies as ended, unless it waits no more."""
        seq = job.seq
        if seq in self.doomed or seq in self._let_go:
            return
        missing = self._missing.get(seq, job.missing)
        missing, doom = step(MODES[job.mode], missing, ended.state)
        if doom is not None:
            self.decide(job, propagated(ended.state, ended.failure, ended.job_id))
        elif missing == 0:
            self.decide(job, None)
        self._missing[seq] = missing

    def decide(self, job: _Waiting, decision: Decision | None) -> None:
        """Have a job end as *decision* says; None lets it go."""
        if decision is None:
            self._let_go[job.seq] = job
        else:
            self.doomed[job.seq] = Ending(_standing(job), decision)

    def write(self, env: Env, tally: Tally) -> Plan[list[Moved]]:
        """Write what was counted; return who moved."""
        now = self._now
        endings = list(self.doomed.values())
        yield from end(endings, now, tally)
        gone = self.doomed.keys() | self._let_go.keys()
        counted = [row for row in self._missing.items() if row[0] not in gone]
        for sql, params in values(COUNT_DOWN, counted):
            yield Statement(sql, params)
        due = [seq for seq, job in self._let_go.items() if job.run_at <= now]
        self.held = [seq for seq in due if self._let_go[seq].slot is not None]
        ready = [seq for seq in due if self._let_go[seq].slot is None]
        later = [seq for seq, job in self._let_go.items() if job.run_at > now]
        if ready:
            yield Statement(LET_GO, (now, now, now, numbers_json(ready)))
        if self.held:
            yield Statement(LET_GO_TO_KEY, (now, now, numbers_json(self.held)))
        if later:
            yield Statement(LET_GO_LATER, (now, numbers_json(later)))
        moves = yield from moved(env, endings)
        lanes = yield from env.catalog.lanes({job.lane for job in self._let_go.values()})
        for seq in (*ready, *later):
            job = self._let_go[seq]
            state = advance(State.PENDING, Event.READY if job.run_at <= now else Event.DELAY)
            tally.move(job.lane, State.PENDING, state)
            type_ = lanes[job.lane].type
            moves.append(Moved(id_of_digits(job.digits), type_, state, State.PENDING))
        return moves


def _standing(job: _Waiting) -> Standing:
    return Standing(
        seq=job.seq,
        digits=job.digits,
        lane=job.lane,
        number=PENDING,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        policy=job.policy,
        run_at=job.run_at,
        expires_at=job.expires_at,
        lease_version=job.lease_version,
        lease_token=None,
        lease_expires_at=None,
        settled_token=None,
        worker=None,
        started_at=None,
        lease_ttl=None,
        timeout_grace=None,
    )
