"""Upkeep: recover, expire, promote, prune.

Each is bounded and safe to run twice at once: it runs in one transaction, and reads only rows that
still need it. Claims run the first three inline, so that correctness never depends on a leader
(S2-12).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from fencepost.core.bounds import LANE_IDLE, PRUNE_SCAN
from fencepost.core.job.lifecycle import LIVE, promoted
from fencepost.core.job.outcome import expired
from fencepost.core.job.policy import DEFAULT_POLICY, Policy
from fencepost.core.job.timeouts import deadline
from fencepost.core.values.names import id_text
from fencepost.core.values.times import seconds_to_us
from fencepost.store.interface.queue import Moved, with_admitted
from fencepost.store.interface.upkeep import Pruned, PruneRequest
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codec import (
    BY_NUMBER,
    DELAYED,
    PENDING,
    RETRYING,
    RUNNING,
    SCHEDULED,
    LaneNames,
)
from fencepost.store.sql.endings import Ending, lease_ended, moved
from fencepost.store.sqlite.flows.dependents import end_all
from fencepost.store.sqlite.jobs.catalog import Env, JobCounters
from fencepost.store.sqlite.jobs.finish import LIVE_COLUMNS, LiveEnding, LiveRow, live_row
from fencepost.store.sqlite.jobs.lease import make_token
from fencepost.store.sqlite.jobs.rows import numbers_json
from fencepost.store.sqlite.jobs.search import note_deletion
from fencepost.store.sqlite.limits.concurrency import admit, admit_noted

EXPIRED_LEASES = f"""
select {LIVE_COLUMNS} from jobs indexed by jobs_lease
where state = {RUNNING} and lease_expires_at <= ? order by lease_expires_at, seq limit ?
"""
OUTLIVED = f"""
select {LIVE_COLUMNS} from jobs indexed by jobs_lifetime
where completed_at is null and expires_at <= ? order by expires_at, seq limit ?
"""
DUE = f"""
select seq, id, lane, state, slot from jobs indexed by jobs_due
where state in ({DELAYED}, {RETRYING}) and run_at <= ? order by run_at, seq limit ?
"""
PROMOTE = f"""
update jobs set state = {SCHEDULED}, scheduled_at = ?, updated_at = ?
where seq in (select value from json_each(?))
"""
HOLD = f"""
update jobs set state = {PENDING}, missing = 0, updated_at = ?
where seq in (select value from json_each(?))
"""
FIRST_AFTER = "select seq, created_at from jobs where seq > ? order by seq limit 1"
LAST = "select max(seq) from jobs"
ENDED_BETWEEN = """
select seq, lane, state, completed_at, key from jobs
where seq between ? and ? and completed_at is not null order by seq
"""
HELD_KEYS = """
select idempotency.seq from jobs
join lanes on lanes.lane = jobs.lane
join idempotency on idempotency.type = lanes.type and idempotency.key = jobs.key
where jobs.seq in (select value from json_each(?)) and idempotency.seq = jobs.seq
  and idempotency.key_ends_at > ?
"""
# A dependent that has not ended may read the results of its dependencies.
NEEDED = """
select dependencies.parent from json_each(?) as old
cross join dependencies indexed by dependencies_parent on dependencies.parent = old.value
cross join jobs on jobs.seq = dependencies.child
where exists (select 1 from dependencies) and jobs.completed_at is null
"""
PRUNES = (
    "delete from dependencies where child in (select value from json_each(?))",
    "delete from dependencies where parent in (select value from json_each(?))",
    "delete from attempts where seq in (select value from json_each(?))",
    """
    delete from tags where (name, value, seq) in (
      select tag.key, tag.value, jobs.seq from jobs, json_each(jobs.tags) as tag
      where jobs.seq in (select value from json_each(?)) and json_valid(jobs.tags)
    )
    """,
    # By (type, key), which is indexed; a key that another job has taken stays.
    """
    delete from idempotency where (type, key, seq) in (
      select lanes.type, jobs.key, jobs.seq from jobs join lanes on lanes.lane = jobs.lane
      where jobs.seq in (select value from json_each(?)) and jobs.key is not null
    )
    """,
    """
    with pruned as (select value as seq from json_each(?))
    delete from slots where slot in (
      select slot from jobs where seq in (select seq from pruned) and slot is not null
    ) and not exists (
      select 1 from jobs as other indexed by jobs_slot where other.slot = slots.slot
        and other.seq not in (select seq from pruned)
    )
    """,
    "delete from jobs where seq in (select value from json_each(?))",
)

COUNT_PRUNED = """
insert into pruned(queue, type, state, count) values (?, ?, ?, ?)
on conflict(queue, type, state) do update set count = count + excluded.count
"""
HAS_JOBS = "exists (select 1 from jobs indexed by jobs_lane where jobs.lane = lanes.lane)"
IDLE_LANES = f"select lane from lanes where idle_at <= ? and not {HAS_JOBS}"
PRUNE_LANES = (
    "delete from counters where lane in (select value from json_each(?))",
    """
    delete from pruned where (queue, type) in (
      select queue, type from lanes where lane in (select value from json_each(?))
    )
    """,
    "delete from lanes where lane in (select value from json_each(?))",
)
USED_LANES = f"update lanes set idle_at = null where idle_at is not null and {HAS_JOBS}"
UNUSED_LANES = f"update lanes set idle_at = ? where idle_at is null and not {HAS_JOBS}"


def recover(
    env: Env, limit: int, unstarted: Collection[str] = (), *, now: int | None = None
) -> Plan[list[Moved]]:
    """Recover up to *limit* jobs whose leases expired; each that started is a failed attempt."""
    now = env.clock.now_us() if now is None else now
    rows = yield Statement(EXPIRED_LEASES, (now, max(limit, 0)))
    jobs = [live_row(row) for row in rows]
    policies = yield from env.catalog.policies({job.policy for job in jobs})
    endings = []
    for job in jobs:
        policy = policies.get(job.policy, DEFAULT_POLICY)
        decision = lease_ended(
            job,
            policy,
            env.rng,
            is_overdue=_is_overdue(job, policy),
            has_started=make_token(job.seq, job.lane, job.lease_token or "") not in unstarted,
        )
        endings.append(Ending(job, decision))
    return (yield from _end(env, endings, now))


def _is_overdue(job: LiveRow, policy: Policy) -> bool:
    """Return whether an expired lease lasted until its deadline."""
    assert job.lease_expires_at is not None and job.started_at is not None
    return job.lease_expires_at >= deadline(policy, job.started_at, job.timeout_grace or 0)


def expire(env: Env, limit: int, now: int | None = None) -> Plan[list[Moved]]:
    """Dead-letter up to *limit* live jobs past their lifetime."""
    now = env.clock.now_us() if now is None else now
    rows = yield Statement(OUTLIVED, (now, max(limit, 0)))
    endings = [Ending(job, expired(job.state)) for job in map(live_row, rows)]
    return (yield from _end(env, endings, now))


def _end(env: Env, endings: Sequence[LiveEnding], now: int) -> Plan[list[Moved]]:
    if not endings:
        return []
    counters = JobCounters()
    followed = yield from end_all(env, endings, now, counters)
    yield from counters.write()
    return (yield from moved(env, endings, followed))


def promote(env: Env, limit: int, now: int | None = None) -> Plan[list[Moved]]:
    """Make up to *limit* due jobs claimable, as far as their concurrency keys allow."""
    now = env.clock.now_us() if now is None else now
    rows = yield Statement(DUE, (now, max(limit, 0)))
    counters = JobCounters()
    noted = yield from admit_noted(env, now, counters)
    if not rows:
        yield from counters.write()
        return []
    lanes = yield from env.catalog.lanes({row[2] for row in rows})
    ready = [row[0] for row in rows if row[4] is None]
    held = [row[0] for row in rows if row[4] is not None]
    if ready:
        yield Statement(PROMOTE, (now, now, numbers_json(ready)))
    if held:
        yield Statement(HOLD, (now, numbers_json(held)))
    moved = []
    for _, id_, lane, number, slot in rows:
        was = BY_NUMBER[number]
        state = promoted(was, has_key=slot is not None)
        counters.move(lane, was, state)
        moved.append(Moved(id_text(id_), lanes[lane].type, state, was))
    admitted = yield from admit(env, held, now, counters)
    yield from counters.write()
    return with_admitted(moved, (*noted, *admitted))


def prune(env: Env, request: PruneRequest) -> Plan[Pruned]:
    """Delete terminal jobs whose retention has ended.

    A pass begins with lanes that have been empty for long. It reads jobs in the order of
    submission, a bounded range at a time, and ends at the first that is younger than every
    retention: so it needs no index, and a backlog of young jobs costs nothing.
    """
    if request.limit <= 0:
        return Pruned(0, request.after)
    now = env.clock.now_us()
    if request.after == 0:
        yield from _prune_lanes(env, now)
    rows = yield Statement(FIRST_AFTER, (request.after,))
    shortest = request.shortest
    if not rows or shortest is None or rows[0][1] + seconds_to_us(shortest) > now:
        return Pruned(0, None)
    start = rows[0][0]
    end_ = start + PRUNE_SCAN - 1
    ended = yield Statement(ENDED_BETWEEN, (start, end_))
    lanes = yield from env.catalog.lanes({row[1] for row in ended})
    candidates = [row for row in ended if _is_old(row, lanes[row[1]].type, request, now)]
    held = yield from _held([row[0] for row in candidates if row[4] is not None], now)
    needed = {row[0] for row in (yield Statement(NEEDED, (_seqs(candidates),)))}
    kept = held | needed
    chosen = [row for row in candidates if row[0] not in kept][: request.limit]
    ((last,),) = yield Statement(LAST)
    yield from _delete(chosen, lanes)
    if len(chosen) == request.limit:
        return Pruned(len(chosen), chosen[-1][0])
    return Pruned(len(chosen), end_ if end_ < last else None)


def _prune_lanes(env: Env, now: int) -> Plan[None]:
    rows = yield Statement(IDLE_LANES, (now - seconds_to_us(LANE_IDLE),))
    if rows:
        numbers = numbers_json([number for (number,) in rows])
        for sql in PRUNE_LANES:
            yield Statement(sql, (numbers,))
        env.catalog.forget()
    yield Statement(USED_LANES)
    yield Statement(UNUSED_LANES, (now,))


def _is_old(row: Row, type: str, request: PruneRequest, now: int) -> bool:
    _, _, number, completed_at, _ = row
    state = BY_NUMBER[number]
    keep = request.keep_by_type.get(type, request.keep).get(state)
    if state in LIVE or keep is None or completed_at is None:
        return False
    return bool(completed_at + seconds_to_us(keep) <= now)


def _seqs(rows: Sequence[Row]) -> str:
    return numbers_json([row[0] for row in rows])


def _held(seqs: list[int], now: int) -> Plan[set[int]]:
    if not seqs:
        return set()
    rows = yield Statement(HELD_KEYS, (numbers_json(seqs), now))
    return {row[0] for row in rows}


def _delete(rows: Sequence[Row], lanes: Mapping[int, LaneNames]) -> Plan[None]:
    if not rows:
        return
    seqs = _seqs(rows)
    for sql in PRUNES:
        yield Statement(sql, (seqs,))
    yield from note_deletion()
    counters = JobCounters()
    for (lane, number), count in Counter((row[1], row[2]) for row in rows).items():
        counters.move(lane, BY_NUMBER[number], None, count)
        yield Statement(COUNT_PRUNED, (lanes[lane].queue, lanes[lane].type, number, count))
    yield from counters.write()


def tidy(env: Env) -> Plan[None]:
    """Do nothing: SQLite needs no tidying."""
    yield from ()
