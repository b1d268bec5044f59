-- Lanes with their marks.
create view fencepost.marked_lanes as
select l.lane, l.queue, l.type, l.priority, coalesce((
  select m.low from fencepost.lane_marks m where m.lane = l.lane order by m.number desc limit 1
), '-infinity') as low
from fencepost.lanes l;

-- How many jobs are in which state, as parts to be summed.
create view fencepost.counts as
select lane, state, count from fencepost.counters
union all
select l.lane, s.state, t.count
from fencepost.lanes l cross join generate_series(:PENDING, :CANCELLED) as s(state)
cross join lateral (
  select x.count from fencepost.counter_totals x where x.lane = l.lane and x.state = s.state
  order by x.number desc limit 1
) as t;

create view fencepost.jobs as
select
  j.seq, j.id, l.queue, l.type, l.priority, j.lane, j.policy, j.max_attempts, j.created_at,
  j.expires_at, j.key, j.key_window, j.correlation_id, j.tags, j.replay_of, j.flow, j.node,
  j.mode, coalesce(p.missing, 0) as missing, j.depth, j.gathers, j.own_priority,
  k.concurrency_key, j.callback_url, j.submitter,
  coalesce(d.state, w.state, p.state, r.state, e.state)::smallint as state,
  coalesce(d.attempt, w.attempt, p.attempt, r.attempt, e.attempt) as attempt,
  v.lease_version,
  coalesce(w.run_at, p.run_at, r.run_at, e.run_at, j.run_at) as run_at,
  case when d.seq is not null then nullif(coalesce(d.scheduled_at, j.created_at), '-infinity')
    when w.seq is not null then w.scheduled_at
    when p.seq is not null then p.scheduled_at
    else coalesce(r.scheduled_at, e.scheduled_at, j.created_at) end as scheduled_at,
  coalesce(d.started_at, e.started_at, a.started_at) as started_at,
  d.completed_at,
  coalesce(d.completed_at, w.updated_at, p.updated_at, r.scheduled_at, e.started_at, j.created_at)
    as updated_at,
  coalesce(d.worker, e.worker) as worker,
  e.expires_at as lease_expires_at,
  coalesce(d.lease_token, e.lease_token) as lease_token,
  d.is_dead_letter,
  case when d.state = :COMPLETED then null else coalesce(d.failure, a.failure) end as failure,
  d.result_encoding, d.result, d.result_bytes,
  case when s.lease_version = v.lease_version then s.progress end as progress,
  s.checkpoint_encoding, s.checkpoint, s.checkpoint_bytes,
  j.payload_encoding, j.payload, j.payload_bytes
from fencepost.submissions j
join fencepost.lanes l on l.lane = j.lane
left join fencepost.done d on d.seq = j.seq
left join fencepost.delayed w on w.seq = j.seq
left join (select *, :PENDING as state from fencepost.pending) p on p.seq = j.seq
left join fencepost.keyed_jobs k on k.seq = j.seq
left join lateral (
  select :SCHEDULED as state, found.* from (
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
  select :RUNNING as state, x.lease_token, x.worker, x.started_at, x.expires_at,
    coalesce(x.attempts[n], 1) as attempt,
    -- As in `next_version`, which does not exist yet when this is created.
    coalesce(x.lease_versions[n], greatest((extract(epoch from x.started_at) * 1000000)::bigint, 1))
      as lease_version,
    x.run_ats[n] as run_at, x.scheduled_ats[n] as scheduled_at
  from fencepost.leases x, array_position(x.seqs, j.seq) as n
  where d.seq is null and w.seq is null and p.seq is null and r.seq is null and n is not null
  limit 1
) e on true
cross join lateral (
  select coalesce(d.lease_version, w.lease_version, p.lease_version, r.lease_version, e.lease_version)
    as lease_version
) v
left join lateral (
  select
    (select x.started_at from fencepost.attempts x where x.seq = j.seq
     order by x.lease_version desc limit 1) as started_at,
    (select x.failure from fencepost.attempts x where x.seq = j.seq and x.failure is not null
      and x.lease_version > j.reopened_version order by x.lease_version desc limit 1) as failure
  where v.lease_version > 0 and d.state is distinct from :COMPLETED
) a on true
left join fencepost.saved s on s.seq = j.seq;
