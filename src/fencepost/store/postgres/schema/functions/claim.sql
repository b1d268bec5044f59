-- One answer to a claim, as JSON: {"todo": …} when something else must come first, or
-- {"now": …, "jobs": [[lane, [job, …]], …], "order": [seq, …] or null, "promoted": n, "held": n, "wait": …}.
-- p_lanes are the lanes to serve, by queue and then by priority; p_queues says which queue each
-- belongs to, and p_names names the queues. p_turns is a row of turns, which is dealt over and over,
-- or its beginning if no more can be dealt; null for a turn a queue that has claimable jobs, in
-- the order of p_names and from turn number p_turn on. p_types are the types to serve, null for all;
-- with p_is_any all queues are, else those of p_names. p_known is the sum of the numbers of the lanes
-- of these that the caller knows, or null if it has just looked: no other lanes are looked at, however
-- many there are. p_chores is what the caller can still do: 4 resolve,
-- 2 recover, 1 expire, or the sum of some. With p_promote 0, it leaves alone what is due and the notes
-- on slots; "failed" says why that was not possible. A lease lasts p_grace longer than its job's
-- execution timeout at the most. The jobs come to p_bytes at the most, or are one. Its steps stand below,
-- and in pop.sql.
create or replace function fencepost.claim(
  p_now timestamptz, p_worker text, p_secret uuid, p_ttl bigint, p_grace bigint, p_bytes bigint,
  p_known bigint, p_chores integer, p_promote integer, p_lanes integer[], p_priorities integer[],
  p_queues integer[], p_names text[], p_turns integer[], p_turn bigint, p_limit integer,
  p_types text[], p_is_any boolean
) returns text language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  ahead fencepost.claim_outlook;
  due record;
  taken fencepost.claimed_jobs;
  v_terms fencepost.lease_terms;
  v_bounds fencepost.claim_bounds;
  v_opens_at timestamptz;
  v_promoted text := '"promoted":0,"held":0';
begin
  ahead := fencepost.look_ahead(t, p_known, p_chores, p_names, p_types, p_is_any);
  if ahead.todo is not null then
    return '{"todo":"' || ahead.todo || '"}';
  end if;
  if p_promote > 0 and (ahead.run_at <= t or ahead.has_touched) then
    due := fencepost.promote_ahead(
      p_now, t, p_promote, ahead.run_at, ahead.due_mark, ahead.has_touched);
    ahead.run_at := due.run_at;
    v_promoted := due.promoted;
  end if;
  v_bounds.most := p_limit;
  if ahead.has_pauses or ahead.has_limits or ahead.has_rates then
    v_bounds := fencepost.bounds(
      p_now, t, p_limit, p_lanes, p_names, ahead.has_pauses, ahead.has_limits, ahead.has_rates);
  end if;
  -- It may have been held up since: a lease has its whole time, and begins after the one before.
  t := coalesce(v_bounds.t, p_now, clock_timestamp());
  v_terms := row(t, (extract(epoch from t) * 1000000)::bigint, p_worker, p_secret, p_ttl, p_grace);
  if cardinality(p_lanes) = 1 and cardinality(p_names) = 1 then
    -- Most apps: one type of one queue at one priority.
    taken := fencepost.pop_lane(v_terms, v_bounds, p_lanes[1], p_bytes);
  else
    taken := fencepost.pop_lanes(
      v_terms, v_bounds, p_bytes, p_lanes, p_priorities, p_queues, cardinality(p_names), p_turns,
      p_turn);
  end if;
  if ahead.has_rates then
    v_opens_at := fencepost.use(t, p_lanes, v_bounds, taken.spent);
  end if;
  -- Only a claim that found nothing looks for the end of the next lease: beside an old snapshot, the
  -- look steps over all leases that ended early in the last while.
  if taken.jobs is null and ahead.expires_at is null then
    ahead.expires_at := (select min(expires_at) from fencepost.lease where expires_at > t);
  end if;
  return '{"now":' || v_terms.first_version || ',' || v_promoted
    || ',"jobs":[' || coalesce(taken.jobs, '') || ']'
    || ',"order":' || coalesce(array_to_json(taken.seqs)::text, 'null')
    || ',"wait":' || coalesce(
      extract(epoch from least(ahead.run_at, ahead.expires_at, v_opens_at) - t)::text, 'null')
    || '}';
end $$;

-- One look at everything that could come in between.
create or replace function fencepost.look_ahead(
  t timestamptz, p_known bigint, p_chores integer, p_names text[], p_types text[],
  p_is_any boolean
) returns fencepost.claim_outlook language plpgsql as $$
declare
  m fencepost.pulse;
  ahead fencepost.claim_outlook;
begin
  -- As `marks` does it, without the cost of the call.
  select * into m from fencepost.pulse order by number desc limit 1;
  if not found then
    m := fencepost.marks();
  end if;
  select
    p_known <> case
      when p_types is null and p_is_any then (select coalesce(sum(lane), 0) from fencepost.lane)
      when p_types is null then (
        select coalesce(sum(lane), 0) from fencepost.lane where queue = any (p_names))
      when p_is_any then (
        select coalesce(sum(lane), 0) from fencepost.lane where type = any (p_types))
      else (
        select coalesce(sum(lane), 0) from fencepost.lane
        where queue = any (p_names) and type = any (p_types))
    end,
    (select min(expires_at) from fencepost.lease
     where expires_at >= m.lease_mark and expires_at <= t),
    (select min(run_at) from fencepost.delayed where run_at >= m.due_mark),
    -- In its order, or a plan made while there were few jobs would read them all, for ever.
    p_chores & 1 > 0 and (
      select true from fencepost.job where expires_at >= m.lifetime_mark and expires_at <= t
        and not exists (select 1 from fencepost.done where done.seq = job.seq)
      order by expires_at limit 1
    ) is not null,
    exists (select 1 from fencepost.pause),
    exists (select 1 from fencepost.max_running),
    exists (select 1 from fencepost.rate),
    exists (select 1 from fencepost.touched),
    p_chores & 4 > 0 and exists (select 1 from fencepost.unsure),
    m.due_mark
  into ahead;
  ahead.todo := case when ahead.has_lanes then 'lanes'
    when p_chores & 2 > 0 and ahead.expires_at <= t then 'recover'
    when ahead.has_unsure then 'resolve'
    when ahead.has_outlived then 'expire' end;
  return ahead;
end $$;

-- Make due jobs claimable before a claim, and look at the notes on slots; `promoted` is what the
-- answer of the claim says of it, and `run_at` is when the next is due. What fails there is undone,
-- and keeps nobody from claiming.
create or replace function fencepost.promote_ahead(
  p_now timestamptz, t timestamptz, p_limit integer, p_run_at timestamptz,
  p_due_mark timestamptz, p_has_touched boolean, out promoted text, out run_at timestamptz
) language plpgsql as $$
declare
  v_count integer := 0;
  v_held integer := 0;
  v_failed text;
begin
  run_at := p_run_at;
  begin
    if p_run_at <= t then
      select count(*), count(*) filter (where move ->> 3 = '0') into v_count, v_held
      from json_array_elements(fencepost.promote(t, p_limit)) as move;
      run_at := (select min(d.run_at) from fencepost.delayed d where d.run_at >= p_due_mark);
    end if;
    if p_has_touched then
      perform fencepost.admit_noted(p_now);
    end if;
  exception when others then
    v_count := 0;
    v_held := 0;
    v_failed := sqlerrm;
  end;
  promoted := '"promoted":' || v_count || ',"held":' || v_held
    || case when v_failed is null then '' else ',"failed":' || to_json(v_failed) end;
end $$;

-- What a claim may take from these lanes: those that are paused or `closed`, see `allow`, are left out,
-- and so are jobs for which there is no room.
create or replace function fencepost.bounds(
  p_now timestamptz, t timestamptz, p_limit integer, p_lanes integer[], p_names text[],
  p_has_pauses boolean, p_has_limits boolean, p_has_rates boolean
) returns fencepost.claim_bounds language plpgsql as $$
declare
  b fencepost.claim_bounds;
  a record;
begin
  b.most := p_limit;
  b.paused := '{}';
  if p_has_pauses then
    b.paused := array(
      select x.lane from unnest(p_lanes) as x(lane) where (
        select exists (select 1 from fencepost.pause where scope = 'queue' and name = l.queue)
          or exists (select 1 from fencepost.pause where scope = 'type' and name = l.type)
        from fencepost.lane l where l.lane = x.lane
      )
    );
  end if;
  if p_limit > 0 and p_has_limits then
    perform fencepost.lock_limits(p_names);
    b.most := least(p_limit, fencepost.room(t, 'app', ''));
    b.rooms := array(
      select fencepost.room(t, 'queue', name) from unnest(p_names) with ordinality as x(name, n)
      order by n
    );
  end if;
  if p_has_rates then
    a := fencepost.allow(p_now, p_lanes, b.paused);
    b.t := a.t;
    b.types := a.types;
    b.type_rooms := a.rooms;
    b.moments := a.moments;
    b.places := a.places;
    b.shut := b.paused;
    b.paused := b.paused || a.closed;
  end if;
  return b;
end $$;

-- The queues that have something to give, in their order but from turn number p_turn on.
create or replace function fencepost.open_queues(
  p_lanes integer[], p_queues integer[], p_paused integer[], p_turn bigint
) returns integer[] language plpgsql as $$
declare
  v_open integer[];
  v_start integer;
begin
  v_open := array(
    select distinct x.queue from unnest(p_lanes, p_queues) as x(lane, queue)
    join fencepost.line l on l.lane = x.lane
    cross join lateral (
      select 1 from fencepost.ready r
      where r.lane = l.lane and r.run_at >= l.low order by r.run_at, r.seq limit 1
    ) as first
    where p_paused is null or x.lane <> all (p_paused)
    order by x.queue
  );
  v_start := p_turn % greatest(cardinality(v_open), 1);
  return v_open[v_start + 1:] || v_open[:v_start];
end $$;

-- How many of the first p_limit jobs, by due time, stand in each of several lanes, if no more than
-- p_caps says are taken from each; null is no cap.
create or replace function fencepost.split(p_lanes integer[], p_limit integer, p_caps integer[])
returns table(lane integer, count integer) language plpgsql as $$
begin
  if cardinality(p_lanes) = 1 then
    return query select p_lanes[1], least(p_limit, p_caps[1])
    where least(p_limit, p_caps[1]) > 0;
    return;
  end if;
  -- The lane of the first comes first: a claim may be full before it has gone through all.
  return query
  select first.lane, count(*)::integer from (
    select l.lane, line.run_at, line.seq from unnest(p_lanes) with ordinality as x(lane, n)
    join fencepost.line l on l.lane = x.lane
    cross join lateral (
      select r.run_at, r.seq from fencepost.ready r
      where r.lane = l.lane and r.run_at >= l.low
      order by r.run_at, r.seq limit least(p_limit, p_caps[x.n])
    ) as line
    order by line.run_at, line.seq limit p_limit
  ) as first group by first.lane order by min(first.run_at), min(first.seq);
end $$;
