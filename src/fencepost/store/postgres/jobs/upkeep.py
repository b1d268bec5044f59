"""What keeps jobs moving when nobody does: recover, expire, promote, prune, tidy.

All are bounded, and all are safe to run twice at once: whoever comes second passes over what the
first has locked. Claims run the first three inline, so that correctness never depends on a leader
(S2-12).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fencepost.core.bounds import LANE_IDLE, PRUNE_SCAN
from fencepost.core.job.job import AttemptOutcome, Category, Failure
from fencepost.core.job.lease import run_out
from fencepost.core.job.lifecycle import TERMINAL, Event, advance
from fencepost.core.job.outcome import Decision, decide
from fencepost.core.job.policy import DEFAULT_POLICY, Policy
from fencepost.core.values.instants import seconds_to_us
from fencepost.core.webhooks.delivery import DELIVERY_TYPE
from fencepost.store.interface.replies import Moved
from fencepost.store.interface.upkeep import Pruned, PruneRequest
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.flows.dependents import end
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.finish import LIFT, LIFT_EXPIRED, Ending, Standing, lifted
from fencepost.store.sql.codes import BY_NUMBER, NUMBER

# Locked, so that nobody can reopen one with a new lifetime before it is lifted. The subquery is one
# that cannot become a join: the few jobs past the mark are looked up, and `done` is never scanned.
# The time is one too: a clock that is asked for each row bounds no index, and all of `job` would be
# read.
OUTLIVED = """
select seq from fencepost.job
where expires_at >= (select lifetime_mark from fencepost.marks())
  and expires_at <= (select coalesce(%s::timestamptz, clock_timestamp()))
  and (select done.state from fencepost.done where done.seq = job.seq) is null
order by expires_at, seq limit %s for no key update skip locked
"""
PROMOTE = """
select moved ->> 0, (moved ->> 1)::integer, (moved ->> 2)::integer, (moved ->> 3)::integer
from json_array_elements(
  fencepost.promote(coalesce(%s::timestamptz, clock_timestamp()), %s)
) with ordinality as due(moved, place)
order by place
"""
FIRST_AFTER = """
select seq, (select max(seq) from fencepost.job),
  created_at + %s::bigint * interval '1 microsecond' <= coalesce(%s::timestamptz, clock_timestamp())
from fencepost.job where seq > %s::bigint order by seq limit 1
"""
# By place, so that a job that is reopened or discarded meanwhile is passed over. Deleted first: a
# row of done is what everybody locks who does something to a terminal job, or is to wait for one.
# What somebody who has not ended waited for is kept: its result may be asked for.
PRUNE_DONE = """
with given as (
  select coalesce(%s::timestamptz, clock_timestamp()) as now
), kept as (
  select type, state, now - keep * interval '1 microsecond' as until
  from given, unnest(%s::text[], %s::smallint[], %s::bigint[]) as kept(type, state, keep)
), lanes as (
  select lane.lane, rule.type from fencepost.lane
  left join unnest(%s::text[]) as rule(type) on rule.type = lane.type
)
delete from fencepost.done where ctid = any (array(
  select done.ctid from fencepost.done
  join fencepost.job on job.seq = done.seq
  join lanes on lanes.lane = job.lane
  join kept on kept.state = done.state and done.ended_at <= kept.until
    and kept.type is not distinct from lanes.type
  where done.seq between %s::bigint and %s::bigint and (job.key is null or not exists (
    select 1 from fencepost.idempotency as held
    where held.type = (select type from fencepost.lane where lane.lane = job.lane)
      and held.key = job.key and held.seq = job.seq
      and held.window_ends_at > (select now from given)
  )) and not exists (
    select 1 from fencepost.dependency where dependency.parent = done.seq
      and not exists (select 1 from fencepost.done as child where child.seq = dependency.child)
  )
  order by done.seq limit %s for update of done skip locked
)) returning seq, state
"""
# By (type, key), which is indexed; a key that has passed on to another job stays with it.
PRUNE_REST = """
with ended as (
  select * from unnest(%s::bigint[], %s::smallint[]) as ended(seq, state)
), gone as (
  delete from fencepost.job where seq = any (%s::bigint[]) returning seq, lane, key
), attempts as (
  delete from fencepost.attempt where seq = any (%s::bigint[])
), saves as (
  delete from fencepost.saved where seq = any (%s::bigint[])
), links as (
  delete from fencepost.dependency where parent = any (%s::bigint[]) or child = any (%s::bigint[])
), callbacks as (
  delete from fencepost.callback where seq = any (%s::bigint[])
), keys as (
  delete from fencepost.idempotency as held using gone join fencepost.lane on lane.lane = gone.lane
  where held.type = lane.type and held.key = gone.key and held.seq = gone.seq
)
insert into fencepost.tally(lane, state, count)
select gone.lane, ended.state, -count(*) from gone join ended on ended.seq = gone.seq
group by gone.lane, ended.state
"""
PRUNE_KEYED = "delete from fencepost.keyed where seq = any (%s::bigint[]) returning slot"
# Nobody needs a slot whose jobs are all gone; one that somebody has in hand is not looked at.
PRUNE_SLOTS = """
delete from fencepost.slot where slot = any (array(
  select slot.slot from fencepost.slot where slot.slot = any (%s::bigint[]) and slot.active = 0
    and not exists (select 1 from fencepost.keyed where keyed.slot = slot.slot)
    and not exists (select 1 from fencepost.touched where touched.slot = slot.slot)
  for update skip locked
))
"""
PRUNE_LANES = "select fencepost.prune_lanes(%s, %s, %s)"
TIDY = "select fencepost.tidy(%s, %s)"

LIFETIME_EXCEEDED = Failure(Category.TIMEOUT, "lifetime exceeded", code="lifetime_exceeded")


class _Judged(NamedTuple):
    attempt: int
    max_attempts: int
    policy: Policy


def recover(env: Env, limit: int) -> Plan[list[Moved]]:
    """Take back up to *limit* jobs whose leases ran out; each counts as a failed attempt."""
    jobs = lifted((yield Statement(LIFT_EXPIRED, (env.now, max(limit, 0)))))
    policies = yield from env.catalog.policies({job.policy for job in jobs})
    endings = []
    for job in jobs:
        judged = _judged(job, policies)
        outcome = run_out(judged.policy, is_overdue=bool(job.is_overdue))
        endings.append(Ending(job, decide(judged, outcome, env.rng)))
    return (yield from _end(env, endings))


def _judged(job: Standing, policies: dict[int, Policy]) -> _Judged:
    policy = policies.get(job.policy, DEFAULT_POLICY)
    return _Judged(job.attempt, job.max_attempts, policy)


def expire(env: Env, limit: int) -> Plan[list[Moved]]:
    """Dead-letter up to *limit* live jobs past their lifetime."""
    rows = yield Statement(OUTLIVED, (env.now, max(limit, 0)))
    if not rows:
        return []
    places = {seq: place for place, (seq,) in enumerate(rows)}
    jobs = lifted((yield Statement(LIFT, (list(places),))))
    endings = []
    for job in sorted(jobs, key=lambda job: places[job.seq]):
        state = advance(job.state, Event.EXPIRE)
        decision = Decision(Event.EXPIRE, state, AttemptOutcome.FAILED, failure=LIFETIME_EXCEEDED)
        endings.append(Ending(job, decision))
    return (yield from _end(env, endings))


def _end(env: Env, endings: Sequence[Ending]) -> Plan[list[Moved]]:
    if not endings:
        return []
    lanes = yield from env.catalog.lanes({ending.job.lane for ending in endings})
    followed = yield from end(env, endings)
    moved = []
    for job, decision, _ in endings:
        type_ = lanes[job.lane].type
        moved.append(Moved(job.job_id, type_, decision.state, job.state, followed))
        followed = ()
    return moved


def promote(env: Env, limit: int) -> Plan[list[Moved]]:
    """Make up to *limit* due jobs claimable, as far as their concurrency keys allow."""
    rows = yield Statement(PROMOTE, (env.now, max(limit, 0)), alone=True)
    lanes = yield from env.catalog.lanes({row[1] for row in rows})
    moved = []
    for job_id, lane, number, state in rows:
        moved.append(Moved(job_id, lanes[lane].type, BY_NUMBER[state], BY_NUMBER[number]))
    return moved


def prune(env: Env, request: PruneRequest) -> Plan[Pruned]:
    """Delete terminal jobs that have been kept long enough.

    A pass begins with the lanes that have had no jobs for long. It goes through jobs in the order
    of submission, a bounded stretch at a time, and ends at the first that is too young to have been
    kept long enough: no index is kept for it, and a backlog of young jobs costs nothing.
    """
    if request.limit <= 0:
        return Pruned(0, request.after)
    if request.after == 0:
        # First of all: what follows the fence of a lane is known by this transaction's number.
        yield Statement(PRUNE_LANES, (env.now, seconds_to_us(LANE_IDLE), DELIVERY_TYPE))
    if request.shortest is None:
        return Pruned(0, None)
    params: tuple[Any, ...] = (seconds_to_us(request.shortest), env.now, request.after)
    rows = yield Statement(FIRST_AFTER, params)
    if not rows or not rows[0][2]:
        return Pruned(0, None)
    start, last, _ = rows[0]
    end_ = start + PRUNE_SCAN - 1
    kept = list(_kept(request))
    columns = [list(column) for column in zip(*kept, strict=True)] or [[], [], []]
    params = (env.now, *columns, list(request.keep_by_type), start, end_, request.limit)
    ended = yield Statement(PRUNE_DONE, params)
    seqs = [seq for seq, _ in ended]
    if seqs:
        yield Statement(PRUNE_REST, (seqs, [number for _, number in ended], *[seqs] * 6))
        slots = {slot for (slot,) in (yield Statement(PRUNE_KEYED, (seqs,)))}
        if slots:
            yield Statement(PRUNE_SLOTS, (sorted(slots),))
    if len(seqs) == request.limit:
        return Pruned(len(seqs), max(seqs))
    return Pruned(len(seqs), end_ if end_ < last else None)


def _kept(request: PruneRequest) -> Iterator[tuple[str | None, int, int]]:
    """Yield type, state and time of every rule; None is all types that have none of their own."""
    rules = [(None, request.keep), *request.keep_by_type.items()]
    for type_, keep in rules:
        for state, seconds in keep.items():
            if state in TERMINAL:
                yield type_, NUMBER[state], seconds_to_us(seconds)


def tidy(env: Env) -> Plan[None]:
    """Tidy; now and then thoroughly."""
    is_thorough = env.rounds.begin()
    seconds = yield from tidy_once(env, is_thorough)
    if is_thorough:
        env.rounds.note(seconds)


def tidy_once(env: Env, is_thorough: bool) -> Plan[float]:
    """Add the counts up, and move the marks below which nobody need look.

    Return how many seconds that took.
    """
    begun = env.clock.monotonic()
    # Not alone: it must not hold marks while others share its transaction.
    yield Statement(TIDY, (env.now, is_thorough))
    return env.clock.monotonic() - begun
