"""Chores: recover, expire, promote, prune, tidy.

All are bounded, and safe to run twice at once: the second skips what the first has locked. Claims
run the first three inline, so that correctness never depends on a leader (S2-12).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import ceil
from typing import Any

from fencepost.core.bounds import LANE_IDLE, PRUNE_SCAN
from fencepost.core.job.lifecycle import TERMINAL
from fencepost.core.job.outcome import expired
from fencepost.core.job.policy import DEFAULT_POLICY
from fencepost.core.values.times import seconds_to_us
from fencepost.core.webhooks.delivery import DELIVERY_TYPE
from fencepost.store.interface.queue import Moved
from fencepost.store.interface.upkeep import Pruned, PruneRequest
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.flows.dependents import end
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.finish import (
    DETACH,
    DETACH_EXPIRED,
    DetachedEnding,
    DetachedJob,
    detached,
)
from fencepost.store.postgres.jobs.lease import make_token, token_mark
from fencepost.store.sql.codec import BY_NUMBER, NUMBER
from fencepost.store.sql.endings import Ending, lease_ended, moved

# Locked, so that none can be reopened with a new lifetime before it is detached. The subquery is
# one that cannot become a join: the few jobs past the mark are looked up, and `done` is never
# scanned. The time is a subquery too: a clock that is read for each row bounds no index, and all of
# `submissions` would be read.
OUTLIVED = """
select seq from fencepost.submissions
where expires_at >= (select lifetime_mark from fencepost.newest_marks())
  and expires_at <= (select coalesce(%s::timestamptz, clock_timestamp()))
  and (select done.state from fencepost.done where done.seq = submissions.seq) is null
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
select seq, (select max(seq) from fencepost.submissions),
  created_at + %s::bigint * interval '1 microsecond' <= coalesce(%s::timestamptz, clock_timestamp())
from fencepost.submissions where seq > %s::bigint order by seq limit 1
"""
# By ctid, so that a job that is reopened or discarded meanwhile is skipped. Deleted first: whatever
# changes a terminal job, or comes to depend on one, locks its row of done. A job with a dependent
# that has not ended is kept: its result may be read.
PRUNE_DONE = """
with given as (
  select coalesce(%s::timestamptz, clock_timestamp()) as now
), kept as (
  select type, state, now - keep * interval '1 microsecond' as until
  from given, unnest(%s::text[], %s::smallint[], %s::bigint[]) as kept(type, state, keep)
), ruled as (
  select lanes.lane, rule.type from fencepost.lanes
  left join unnest(%s::text[]) as rule(type) on rule.type = lanes.type
)
delete from fencepost.done where ctid = any (array(
  select done.ctid from fencepost.done
  join fencepost.submissions on submissions.seq = done.seq
  join ruled on ruled.lane = submissions.lane
  join kept on kept.state = done.state and done.completed_at <= kept.until
    and kept.type is not distinct from ruled.type
  where done.seq between %s::bigint and %s::bigint and (submissions.key is null or not exists (
    select 1 from fencepost.idempotency as held
    where held.type = (select type from fencepost.lanes where lanes.lane = submissions.lane)
      and held.key = submissions.key and held.seq = submissions.seq
      and held.key_ends_at > (select now from given)
  )) and not exists (
    select 1 from fencepost.dependencies where dependencies.parent = done.seq
      and not exists (select 1 from fencepost.done as child where child.seq = dependencies.child)
  )
  order by done.seq limit %s for update of done skip locked
)) returning seq, state
"""
# By (type, key), which is indexed; a key that another job has taken over stays with it.
PRUNE_REST = """
with ended as (
  select * from unnest(%s::bigint[], %s::smallint[]) as ended(seq, state)
), gone as (
  delete from fencepost.submissions j where seq = any (%s::bigint[]) returning seq, lane, key
), attempts as (
  delete from fencepost.attempts where seq = any (%s::bigint[])
), saves as (
  delete from fencepost.saved where seq = any (%s::bigint[])
), links as (
  delete from fencepost.dependencies where parent = any (%s::bigint[]) or child = any (%s::bigint[])
), callbacks as (
  delete from fencepost.callbacks where seq = any (%s::bigint[])
), keys as (
  delete from fencepost.idempotency as held using gone
  join fencepost.lanes on lanes.lane = gone.lane
  where held.type = lanes.type and held.key = gone.key and held.seq = gone.seq
), pruned as (
  insert into fencepost.pruned as known(queue, type, state, count)
  select lanes.queue, lanes.type, ended.state, count(*)
  from gone join ended on ended.seq = gone.seq join fencepost.lanes on lanes.lane = gone.lane
  group by lanes.queue, lanes.type, ended.state
  on conflict (queue, type, state) do update set count = known.count + excluded.count
)
insert into fencepost.counters(lane, state, count)
select gone.lane, ended.state, -count(*) from gone join ended on ended.seq = gone.seq
group by gone.lane, ended.state
"""
PRUNE_KEYED = "delete from fencepost.keyed_jobs where seq = any (%s::bigint[]) returning slot"
# A slot whose jobs are all gone is not needed; one that another transaction has locked is skipped.
PRUNE_SLOTS = """
delete from fencepost.slots where slot = any (array(
  select slots.slot from fencepost.slots where slots.slot = any (%s::bigint[]) and slots.active = 0
    and not exists (select 1 from fencepost.keyed_jobs where keyed_jobs.slot = slots.slot)
    and not exists (select 1 from fencepost.freed_slots where freed_slots.slot = slots.slot)
  for update skip locked
))
"""
PRUNE_LANES = "select fencepost.prune_lanes(%s, %s, %s)"
FORGET_PRUNED = """
delete from fencepost.pruned where not exists (
  select from fencepost.lanes where lanes.queue = pruned.queue and lanes.type = pruned.type
)
"""
TIDY = "select fencepost.tidy(%s, %s)"

TIDY_INTERVAL = 0.5
THOROUGH_EVERY = 20
"""One round of tidying in this many looks below the marks, or fewer."""
THOROUGH_SHARE = 0.01
"""Of the time, at most: beside an old snapshot, each thorough round takes longer."""
THOROUGH_EVERY_MAX = 1_200


class TidyRounds:
    """Counts down to the next thorough round of tidying in a process."""

    def __init__(self) -> None:
        self._left = THOROUGH_EVERY

    def begin(self) -> bool:
        """Count a round; return whether it is to be thorough."""
        self._left -= 1
        return self._left <= 0

    def note(self, seconds: float) -> None:
        """Schedule the next thorough round after one that took *seconds*."""
        every = ceil(seconds / THOROUGH_SHARE / TIDY_INTERVAL)
        self._left = min(max(every, THOROUGH_EVERY), THOROUGH_EVERY_MAX)


def recover(env: Env, limit: int, unstarted: Collection[str] = ()) -> Plan[list[Moved]]:
    """Take back up to *limit* jobs whose leases ran out; each that started is a failed attempt."""
    jobs = detached((yield Statement(DETACH_EXPIRED, (env.now, max(limit, 0)))))
    policies = yield from env.catalog.policies({job.policy for job in jobs})
    endings = []
    for job in jobs:
        decision = lease_ended(
            job,
            policies.get(job.policy, DEFAULT_POLICY),
            env.rng,
            is_overdue=bool(job.is_overdue),
            has_started=_token_of(job) not in unstarted,
        )
        endings.append(Ending(job, decision))
    return (yield from _end(env, endings))


def _token_of(job: DetachedJob) -> str:
    mark = token_mark(job.lane, (job.lease_token or "").replace("-", ""))
    return make_token(job.seq, mark, job.job_id)


def expire(env: Env, limit: int) -> Plan[list[Moved]]:
    """Dead-letter up to *limit* live jobs past their lifetime."""
    rows = yield Statement(OUTLIVED, (env.now, max(limit, 0)))
    if not rows:
        return []
    places = {seq: place for place, (seq,) in enumerate(rows)}
    jobs = detached((yield Statement(DETACH, (list(places),))))
    jobs.sort(key=lambda job: places[job.seq])
    return (yield from _end(env, [Ending(job, expired(job.state)) for job in jobs]))


def _end(env: Env, endings: Sequence[DetachedEnding]) -> Plan[list[Moved]]:
    if not endings:
        return []
    return (yield from moved(env, endings, (yield from end(env, endings))))


def promote(env: Env, limit: int) -> Plan[list[Moved]]:
    """Make up to *limit* due jobs claimable, as far as their concurrency keys allow."""
    rows = yield Statement(PROMOTE, (env.now, max(limit, 0)), alone=True)
    lanes = yield from env.catalog.lanes({row[1] for row in rows})
    return [
        Moved(job_id, lanes[lane].type, BY_NUMBER[state], BY_NUMBER[number])
        for job_id, lane, number, state in rows
    ]


def prune(env: Env, request: PruneRequest) -> Plan[Pruned]:
    """Delete terminal jobs that have been kept long enough.

    A pass begins with the lanes that have had no jobs for long. It reads jobs in the order of
    submission, a bounded stretch at a time, and ends at the first that is too young: this needs no
    index, and a backlog of young jobs costs nothing.
    """
    if request.limit <= 0:
        return Pruned(0, request.after)
    if request.after == 0:
        # Before anything is written: the fence of a lane is this transaction's number.
        yield Statement(PRUNE_LANES, (env.now, seconds_to_us(LANE_IDLE), DELIVERY_TYPE))
        yield Statement(FORGET_PRUNED)
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
    """Yield type, state and time of every rule; type None is for types without a rule."""
    rules = [(None, request.keep), *request.keep_by_type.items()]
    for type_, keep in rules:
        for state, seconds in keep.items():
            if state in TERMINAL:
                yield type_, NUMBER[state], seconds_to_us(seconds)


def tidy(env: Env) -> Plan[None]:
    """Tidy; sometimes thoroughly."""
    is_thorough = env.rounds.begin()
    seconds = yield from tidy_once(env, is_thorough)
    if is_thorough:
        env.rounds.note(seconds)


def tidy_once(env: Env, is_thorough: bool) -> Plan[float]:
    """Add up the counts and move the marks; return how many seconds that took."""
    begun = env.clock.monotonic()
    # Not alone: it must not hold the marks while other operations share its transaction.
    yield Statement(TIDY, (env.now, is_thorough))
    return env.clock.monotonic() - begun
