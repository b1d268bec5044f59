-- Lanes with their marks.
create view fencepost.line as
select l.lane, l.queue, l.type, l.priority, coalesce((
  select m.low from fencepost.mark m where m.lane = l.lane order by m.number desc limit 1
), '-infinity') as low
from fencepost.lane l;

-- How many jobs are in which state, in parts to be added up.
create view fencepost.counts as
select lane, state, count from fencepost.tally
union all
select l.lane, s.state, t.count
from fencepost.lane l cross join generate_series(0, 8) as s(state) cross join lateral (
  select x.count from fencepost.total x where x.lane = l.lane and x.state = s.state
  order by x.number desc limit 1
) as t;

create view fencepost.jobs as
select
  j.seq, j.id, l.queue, l.type, l.priority, j.lane, j.policy, j.max_attempts, j.created_at,
  j.expires_at, j.key, j.key_window, j.correlation_id, j.tags, j.replay_of, j.flow, j.node,
  j.mode, coalesce(p.missing, 0) as missing, j.depth, j.gathers, j.own_priority,
  k.key as concurrency_key, j.callback_url, j.submitter,
  coalesce(d.state, w.state, p.state, r.state, e.state)::smallint as state,
  coalesce(d.attempt, w.attempt, p.attempt, r.attempt, e.attempt) as attempt,
  coalesce(d.version, w.version, p.version, r.version, e.version) as version,
  coalesce(w.run_at, p.run_at, r.run_at, e.run_at, j.run_at) as run_at,
  case when d.seq is not null then nullif(coalesce(d.scheduled_at, j.created_at), '-infinity')
    when w.seq is not null then w.scheduled_at
    when p.seq is not null then p.scheduled_at
    else coalesce(r.scheduled_at, e.scheduled_at, j.created_at) end as scheduled_at,
  coalesce(d.started_at, e.started_at, a.started_at) as started_at,
  d.ended_at as completed_at,
  coalesce(d.ended_at, w.since, p.since, r.scheduled_at, e.started_at, j.created_at) as updated_at,
  coalesce(d.worker, e.worker) as worker,
  e.expires_at as lease_expires_at,
  coalesce(d.secret, e.secret) as secret,
  d.is_dead_letter,
  case when d.state = 5 then null else coalesce(d.failure, a.failure) end as failure,
  d.encoding as result_encoding, d.result, d.result_bytes,
  case when s.version = coalesce(d.version, w.version, p.version, r.version, e.version) then s.progress
    end as progress,
  s.encoding as checkpoint_encoding, s.checkpoint, s.checkpoint_bytes,
  j.encoding, j.payload, j.payload_bytes
from fencepost.job j
join fencepost.lane l on l.lane = j.lane
left join fencepost.done d on d.seq = j.seq
left join fencepost.delayed w on w.seq = j.seq
left join (select *, 0 as state from fencepost.pending) p on p.seq = j.seq
left join fencepost.keyed k on k.seq = j.seq
left join lateral (
  select 1 as state, found.* from (
    select * from fencepost.ready x
    where x.lane = j.lane and x.run_at = j.run_at and x.seq = j.seq
      and d.seq is null and w.seq is null and p.seq is null
    union all
    select * from fencepost.ready x
    where x.seq = j.seq and x.scheduled_at is not null
      and d.seq is null and w.seq is null and p.seq is null
  ) as found limit 1
) r on true
left join lateral (
  select 3 as state, x.secret, x.worker, x.started_at, x.expires_at,
    coalesce(x.attempts[n], 1) as attempt,
    -- As `next_version` has it, which is not there yet when this is created.
    coalesce(x.versions[n], greatest((extract(epoch from x.started_at) * 1000000)::bigint, 1))
      as version,
    x.run_ats[n] as run_at, x.scheduled_ats[n] as scheduled_at
  from fencepost.lease x, array_position(x.seqs, j.seq) as n
  where d.seq is null and w.seq is null and p.seq is null and r.seq is null and n is not null
  limit 1
) e on true
left join lateral (
  select
    (select x.started_at from fencepost.attempt x where x.seq = j.seq
     order by x.version desc limit 1) as started_at,
    (select x.failure from fencepost.attempt x where x.seq = j.seq and x.failure is not null
      and x.version > j.reopened_version order by x.version desc limit 1) as failure
  where coalesce(d.version, w.version, p.version, r.version, e.version) > 0
    and d.state is distinct from 5
) a on true
left join fencepost.saved s on s.seq = j.seq;
