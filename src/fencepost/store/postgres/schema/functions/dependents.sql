-- Let go of jobs that waited for p_ended, all of which have completed.
create or replace function fencepost.let_go(p_now timestamptz, p_ended bigint[]) returns json language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off as $$
declare
  v_children bigint[];
  v_counts integer[];
begin
  select array_agg(child), array_agg(count) into v_children, v_counts from (
    select child, count(*)::integer as count from fencepost.dependency
    where parent = any (p_ended) group by child
  ) as waiting;
  return fencepost.count_down(p_now, v_children, v_counts);
end $$;

-- Have jobs wait for so many fewer, and let go of those that wait for none any more. Returns
-- [[id, lane, state], …] of these, or null. One that waits for any one of several misses one. One
-- that has a concurrency key waits for that instead: [id, lane, 0, slot], for the caller to admit.
create or replace function fencepost.count_down(
  p_now timestamptz, p_seqs bigint[], p_counts integer[]
) returns json language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off as $$
declare
  t timestamptz;
  v_moved json;
begin
  -- In one order, whoever does it; the counts are those of a later statement.
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
    from fewer where p.seq = fewer.seq and p.slot is null and p.missing > fewer.count
  ), met as materialized (
    select p.seq, p.run_at, p.scheduled_at, p.lane, p.attempt, p.version, k.slot
    from fewer join fencepost.pending p on p.seq = fewer.seq
    left join fencepost.keyed k on k.seq = p.seq
    where p.slot is null and p.missing <= fewer.count
  ), moved as materialized (
    select met.*, greatest(met.run_at, t) as due,
      case when met.run_at > t then 2 when met.slot is not null then 0 else 1 end as state
    from met
  ), gone as (
    delete from fencepost.pending p using moved where p.seq = moved.seq and moved.state > 0
  ), held_up as (
    update fencepost.pending p
    set missing = 0, run_at = moved.due, since = t, slot = moved.slot,
      priority = coalesce(lane.priority, 2)
    from moved left join fencepost.lane on lane.lane = moved.lane
    where p.seq = moved.seq and moved.state = 0
  ), in_line as (
    insert into fencepost.ready(run_at, seq, scheduled_at, lane, attempt, version)
    select due, seq, t, lane, attempt, version from moved where state = 1
  ), waiting as (
    insert into fencepost.delayed(
      seq, run_at, since, scheduled_at, lane, attempt, version, state)
    select seq, due, t, scheduled_at, lane, attempt, version, 2 from moved where state = 2
  ), counted as (
    insert into fencepost.tally(lane, state, count)
    select lane, 0, -count(*) from moved where state > 0 group by lane
    union all
    select lane, state, count(*) from moved where state > 0 group by lane, state
  )
  select json_agg(case when moved.state > 0 then json_build_array(job.id, moved.lane, moved.state)
    else json_build_array(job.id, moved.lane, 0, moved.slot) end order by moved.seq)
  into v_moved from moved join fencepost.job on job.seq = moved.seq;
  return v_moved;
end $$;

-- Lock those of p_seqs that wait for others or for a key, and all that wait behind any of p_ended,
-- in the one order of their numbers: level by level, two that end jobs of one graph could come upon
-- each other's.
create or replace function fencepost.lock_behind(p_ended bigint[], p_seqs bigint[] default '{}')
returns void language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off as $$
begin
  perform 1 from fencepost.pending where seq = any (array(
    with recursive behind(seq) as (
      select d.child from fencepost.dependency d join fencepost.pending p on p.seq = d.child
      where d.parent = any (p_ended)
      union
      select d.child from behind join fencepost.dependency d on d.parent = behind.seq
      join fencepost.pending p on p.seq = d.child
    )
    select behind.seq from behind union select unnest(p_seqs)
  )) order by seq for update;
end $$;

-- Find jobs and keep them where they stand until this transaction is over: whoever ends one then
-- sees who waits for it. A claim or a settlement may move one between two looks, so that what was
-- not found is looked for again. Not returned: what does not exist and, unless p_waits, what
-- somebody has in hand. Leases come first and pending last, which is also the order in which a
-- settlement locks them; so only the first look waits, see `lift`. What p_pending names is to be
-- changed: those rows of pending are locked for update, with their rows of job first.
create or replace function fencepost.hold_parents(
  p_seqs bigint[], p_waits boolean default true, p_pending bigint[] default '{}'
) returns setof fencepost.parent
language plpgsql set jit = off set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off as $$
declare
  v_rest bigint[] := p_seqs;
  v_waits boolean;
  v_states smallint[];
  v_found bigint[];
  v_more bigint[];
  v_ended fencepost.parent;
  v_delayed record;
begin
  if p_pending <> '{}' then
    perform 1 from fencepost.job where seq = any (p_pending) order by seq for no key update;
  end if;
  for round in 1..case when p_waits then 20 else 1 end loop
    v_waits := p_waits and round = 1;
    v_rest := array(
      select x from unnest(v_rest) as x where exists (select 1 from fencepost.job where seq = x)
    );
    exit when v_rest = '{}' and (round > 1 or p_pending = '{}');
    if round > 1 then
      perform pg_sleep(0.001 * round);
    end if;
    v_found := '{}';
    for v_ended in select * from fencepost.share_done(v_rest, v_waits) loop
      v_found := v_found || v_ended.seq;
      return next v_ended;
    end loop;
    v_rest := array(select x from unnest(v_rest) as x where x not in (select unnest(v_found)));
    exit when v_rest = '{}' and (round > 1 or p_pending = '{}');
    v_found := fencepost.share_leases(v_rest, v_waits);
    v_states := array_fill(3::smallint, array[cardinality(v_found)]);
    v_more := fencepost.share_ready(v_rest, v_waits);
    v_found := v_found || v_more;
    v_states := v_states || array_fill(1::smallint, array[cardinality(v_more)]);
    for v_delayed in select * from fencepost.share_delayed(v_rest, v_waits) loop
      v_found := v_found || v_delayed.seq;
      v_states := v_states || v_delayed.state;
    end loop;
    v_more := fencepost.share_pending(v_rest, v_waits, p_pending);
    v_found := v_found || v_more;
    v_states := v_states || array_fill(0::smallint, array[cardinality(v_more)]);
    return query
    select j.id, j.seq, x.state, l.priority, coalesce(j.depth, 1::smallint), null::text
    from unnest(v_found, v_states) as x(seq, state)
    join fencepost.job j on j.seq = x.seq join fencepost.lane l on l.lane = j.lane;
    v_rest := array(select x from unnest(v_rest) as x where x not in (select unnest(v_found)));
  end loop;
  if p_waits and v_rest <> '{}' then
    raise exception 'jobs move on at every look' using errcode = '40001';
  end if;
end $$;

-- Hold those of p_seqs that have ended. This and the next four are steps of `hold_parents`: with
-- p_waits, they first wait for those who have the rows in hand.
create or replace function fencepost.share_done(p_seqs bigint[], p_waits boolean)
returns setof fencepost.parent language plpgsql as $$
begin
  if p_waits then
    perform 1 from fencepost.done where seq = any (p_seqs) order by seq for share;
  end if;
  return query
  select j.id, j.seq, d.state, l.priority, coalesce(j.depth, 1::smallint),
    case when d.state > 5 then d.failure end
  from (
    select seq, state, failure from fencepost.done where seq = any (p_seqs)
    order by seq for share skip locked
  ) as d
  join fencepost.job j on j.seq = d.seq join fencepost.lane l on l.lane = j.lane;
end $$;

-- Hold the leases of those of p_seqs that run; returns these.
create or replace function fencepost.share_leases(p_seqs bigint[], p_waits boolean)
returns bigint[] language plpgsql as $$
begin
  if p_waits then
    perform 1 from fencepost.lease l
    where exists (select 1 from unnest(l.seqs) as x where (x in (select unnest(p_seqs))) is true)
    order by l.secret, l.part for share;
  end if;
  return array(
    select x from (
      select l.seqs from fencepost.lease l where exists (
        select 1 from unnest(l.seqs) as x where (x in (select unnest(p_seqs))) is true)
      order by l.secret, l.part for share skip locked
    ) as held cross join lateral unnest(held.seqs) as x
    where (x in (select unnest(p_seqs))) is true
  );
end $$;

-- Hold those of p_seqs that are in line; returns these.
create or replace function fencepost.share_ready(p_seqs bigint[], p_waits boolean)
returns bigint[] language plpgsql as $$
begin
  if p_waits then
    perform 1 from fencepost.job j cross join lateral (
      select 1 from fencepost.ready
      where lane = j.lane and run_at = j.run_at and seq = j.seq and scheduled_at is null
      limit 1 for share
    ) as r
    where j.seq = any (p_seqs);
    perform 1 from fencepost.ready r where r.seq = any (p_seqs) and r.scheduled_at is not null
    order by r.seq for share;
  end if;
  return array(
    select r.seq from fencepost.job j cross join lateral (
      select seq from fencepost.ready
      where lane = j.lane and run_at = j.run_at and seq = j.seq and scheduled_at is null
      limit 1 for share skip locked
    ) as r
    where j.seq = any (p_seqs)
  ) || array(
    select r.seq from fencepost.ready r where r.seq = any (p_seqs) and r.scheduled_at is not null
    order by r.seq for share skip locked
  );
end $$;

-- Hold those of p_seqs that wait for their time.
create or replace function fencepost.share_delayed(p_seqs bigint[], p_waits boolean)
returns table(seq bigint, state smallint) language plpgsql as $$
begin
  if p_waits then
    perform 1 from fencepost.delayed d where d.seq = any (p_seqs) order by d.seq for share;
  end if;
  return query
  select d.seq, d.state from fencepost.delayed d where d.seq = any (p_seqs)
  order by d.seq for share skip locked;
end $$;

-- Hold those of p_seqs that wait for others, or for a key; returns these. What p_pending names is
-- locked for update.
create or replace function fencepost.share_pending(
  p_seqs bigint[], p_waits boolean, p_pending bigint[]
) returns bigint[] language plpgsql as $$
begin
  if p_waits and p_pending = '{}' then
    perform 1 from fencepost.pending where seq = any (p_seqs) order by seq for share;
  elsif p_waits then
    perform 1 from fencepost.pending where seq = any (p_seqs || p_pending)
    order by seq for update;
  end if;
  return array(
    select seq from fencepost.pending where seq = any (p_seqs) order by seq for share skip locked
  );
end $$;
