-- A table is joined by `seq = any (array[x.seq])`, here and in the other files, so that its rows are
-- looked up one by one. By `seq = x.seq`, a plan that was made while the table had few rows would
-- read all of it for each of the jobs that are looked up, however many it has by then. Where an index
-- has all columns that are read, only `lateral (… offset 0)` does the same.

-- Release the dependents of p_ended, all of which have completed.
create or replace function fencepost.let_go(p_now timestamptz, p_ended bigint[]) returns json language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off as $$
declare
  v_children bigint[];
  v_counts integer[];
begin
  select array_agg(child), array_agg(count) into v_children, v_counts from (
    select child, count(*)::integer as count from fencepost.dependencies
    where parent = any (p_ended) group by child
  ) as waiting;
  return fencepost.count_down(p_now, v_children, v_counts);
end $$;

-- Reduce how many others each job waits for, and release those that wait for none any more. Returns
-- [[id, lane, state], …] of these, or null. A job that waits for any of several has one missing. A
-- job with a concurrency key then waits for its slot: [id, lane, :PENDING, slot], for the caller to
-- admit.
create or replace function fencepost.count_down(
  p_now timestamptz, p_seqs bigint[], p_counts integer[]
) returns json language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off as $$
declare
  t timestamptz;
  v_moved json;
begin
  -- In one order for all transactions; the counts are read by a later statement.
  perform 1 from fencepost.pending where seq = any (p_seqs) and slot is null
  order by seq for update;
  if not found then
    return null;
  end if;
  t := coalesce(p_now, clock_timestamp());
  with fewer as materialized (
    select * from unnest(p_seqs, p_counts) as x(seq, count)
  ), counted_down as (
    update fencepost.pending p set missing = p.missing - fewer.count
    from fewer where p.seq = any (array[fewer.seq]) and p.slot is null and p.missing > fewer.count
  ), met as materialized (
    select p.seq, p.run_at, p.scheduled_at, p.lane, p.attempt, p.lease_version, k.slot
    from fewer join fencepost.pending p on p.seq = any (array[fewer.seq])
    left join fencepost.keyed_jobs k on k.seq = any (array[p.seq])
    where p.slot is null and p.missing <= fewer.count
  ), moved as materialized (
    select met.*, greatest(met.run_at, t) as due,
      case when met.run_at > t then :DELAYED when met.slot is not null then :PENDING
        else :SCHEDULED end as state
    from met
  ), gone as (
    delete from fencepost.pending p using moved
    where p.seq = any (array[moved.seq]) and moved.state > :PENDING
  ), held_up as (
    update fencepost.pending p
    set missing = 0, run_at = moved.due, updated_at = t, slot = moved.slot,
      priority = coalesce(lanes.priority, 2)
    from moved left join fencepost.lanes on lanes.lane = moved.lane
    where p.seq = any (array[moved.seq]) and moved.state = :PENDING
  ), in_line as (
    insert into fencepost.ready(run_at, seq, scheduled_at, lane, attempt, lease_version)
    select due, seq, t, lane, attempt, lease_version from moved where state = :SCHEDULED
  ), waiting as (
    insert into fencepost.delayed(
      seq, run_at, updated_at, scheduled_at, lane, attempt, lease_version, state)
    select seq, due, t, scheduled_at, lane, attempt, lease_version, state
    from moved where state = :DELAYED
  ), counted as (
    insert into fencepost.counters(lane, state, count)
    select lane, :PENDING, -count(*) from moved where state > :PENDING group by lane
    union all
    select lane, state, count(*) from moved where state > :PENDING group by lane, state
  )
  select json_agg(
    case when moved.state > :PENDING then json_build_array(j.id, moved.lane, moved.state)
    else json_build_array(j.id, moved.lane, moved.state, moved.slot) end order by moved.seq)
  into v_moved from moved join fencepost.submissions j on j.seq = any (array[moved.seq]);
  return v_moved;
end $$;

-- Lock those of p_seqs that wait for others or for a key, and all that wait behind any of p_ended,
-- in the one order of their numbers: level by level, two transactions that end jobs of one graph
-- could deadlock.
create or replace function fencepost.lock_behind(p_ended bigint[], p_seqs bigint[] default '{}')
returns void language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off as $$
begin
  perform 1 from fencepost.pending where seq = any (array(
    with recursive behind(seq) as (
      select d.child from fencepost.dependencies d cross join lateral (
        select 1 from fencepost.pending where seq = d.child offset 0
      ) as p
      where d.parent = any (p_ended)
      union
      select d.child from behind cross join lateral (
        select child from fencepost.dependencies where parent = behind.seq offset 0
      ) as d cross join lateral (
        select 1 from fencepost.pending where seq = d.child offset 0
      ) as p
    )
    select behind.seq from behind union select unnest(p_seqs)
  )) order by seq for update;
end $$;

-- Find jobs and keep them in their tables until this transaction ends: a transaction that ends one
-- of them then sees its dependents. A claim or a settlement may move a job between two looks, so
-- that a job that was not found is looked for again. Not returned: jobs that do not exist and,
-- unless p_waits, jobs that another transaction has locked. Leases come first and pending last,
-- which is also the order in which a settlement locks them; so only the first look waits, see
-- `detach`. The jobs of p_pending are to be changed: their rows of pending are locked for update,
-- after their rows of submissions.
create or replace function fencepost.hold_parents(
  p_seqs bigint[], p_waits boolean default true, p_pending bigint[] default '{}'
) returns setof fencepost.parent
language plpgsql set jit = off set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off as $$
declare
  v_rest bigint[] := p_seqs;
  v_found bigint[];
  v_parent fencepost.parent;
begin
  if p_pending <> '{}' then
    perform 1 from fencepost.submissions where seq = any (p_pending) order by seq for no key update;
  end if;
  for round in 1..case when p_waits then 20 else 1 end loop
    v_rest := array(
      select x from unnest(v_rest) as x
      where exists (select 1 from fencepost.submissions where seq = x)
    );
    exit when v_rest = '{}' and (round > 1 or p_pending = '{}');
    if round > 1 then
      perform pg_sleep(0.001 * round);
    end if;
    v_found := '{}';
    for v_parent in select * from fencepost.share_done(v_rest, p_waits and round = 1) loop
      v_found := v_found || v_parent.seq;
      return next v_parent;
    end loop;
    v_rest := array(select x from unnest(v_rest) as x where x not in (select unnest(v_found)));
    exit when v_rest = '{}' and (round > 1 or p_pending = '{}');
    if p_waits and round = 1 then
      perform fencepost.await_parents(v_rest, p_pending);
    end if;
    v_found := '{}';
    for v_parent in select * from fencepost.share_live(v_rest) loop
      v_found := v_found || v_parent.seq;
      return next v_parent;
    end loop;
    v_rest := array(select x from unnest(v_rest) as x where x not in (select unnest(v_found)));
  end loop;
  if p_waits and v_rest <> '{}' then
    raise exception 'jobs move on at every look' using errcode = '40001';
  end if;
end $$;

-- Hold those of p_seqs that have ended; with p_waits, also those that others have locked.
create or replace function fencepost.share_done(p_seqs bigint[], p_waits boolean)
returns setof fencepost.parent language plpgsql as $$
begin
  if p_waits then
    perform 1 from fencepost.done where seq = any (p_seqs) order by seq for share;
  end if;
  return query
  select j.id, j.seq, d.state, l.priority, coalesce(j.depth, 1::smallint),
    case when d.state > :COMPLETED then d.failure end
  from (
    select seq, state, failure from fencepost.done where seq = any (p_seqs)
    order by seq for share skip locked
  ) as d
  join fencepost.submissions j on j.seq = any (array[d.seq])
  join fencepost.lanes l on l.lane = j.lane;
end $$;

-- Wait for transactions that have locked live jobs among p_seqs, and hold these. What p_pending
-- names is locked for update.
create or replace function fencepost.await_parents(p_seqs bigint[], p_pending bigint[])
returns void language plpgsql as $$
begin
  perform 1 from fencepost.leases l
  where exists (select 1 from unnest(l.seqs) as x where (x in (select unnest(p_seqs))) is true)
  order by l.lease_token, l.part for share;
  perform 1 from fencepost.submissions j cross join lateral (
    select 1 from fencepost.ready
    where lane = j.lane and run_at = j.run_at and seq = j.seq and scheduled_at is null
    limit 1 for share
  ) as r
  where j.seq = any (p_seqs);
  perform 1 from fencepost.ready r where r.seq = any (p_seqs) and r.scheduled_at is not null
  order by r.seq for share;
  perform 1 from fencepost.delayed where seq = any (p_seqs) order by seq for share;
  if p_pending = '{}' then
    perform 1 from fencepost.pending where seq = any (p_seqs) order by seq for share;
  else
    perform 1 from fencepost.pending where seq = any (p_seqs || p_pending)
    order by seq for update;
  end if;
end $$;

-- Hold those of p_seqs that are live and that no other transaction has locked.
create or replace function fencepost.share_live(p_seqs bigint[])
returns setof fencepost.parent language plpgsql as $$
begin
  return query
  with held as materialized (
    select unnest(e.seqs) as seq, :RUNNING as state from (
      select l.seqs from fencepost.leases l where exists (
        select 1 from unnest(l.seqs) as x where (x in (select unnest(p_seqs))) is true)
      order by l.lease_token, l.part for share skip locked
    ) as e
    union all
    select r.seq, :SCHEDULED from fencepost.submissions j cross join lateral (
      select seq from fencepost.ready
      where lane = j.lane and run_at = j.run_at and seq = j.seq and scheduled_at is null
      limit 1 for share skip locked
    ) as r
    where j.seq = any (p_seqs)
    union all
    select * from (
      select r.seq, :SCHEDULED from fencepost.ready r
      where r.seq = any (p_seqs) and r.scheduled_at is not null order by r.seq for share skip locked
    ) as again
    union all
    select * from (
      select seq, state from fencepost.delayed where seq = any (p_seqs)
      order by seq for share skip locked
    ) as waiting
    union all
    select * from (
      select seq, :PENDING from fencepost.pending where seq = any (p_seqs)
      order by seq for share skip locked
    ) as held_up
  )
  select j.id, j.seq, held.state::smallint, l.priority, coalesce(j.depth, 1::smallint), null::text
  from held join fencepost.submissions j on j.seq = any (array[held.seq])
  join fencepost.lanes l on l.lane = j.lane
  where (held.seq in (select unnest(p_seqs))) is true;
end $$;
