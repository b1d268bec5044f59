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
-- execution timeout at the most. The jobs come to p_bytes at the most, or are one.
create or replace function fencepost.claim(
  p_now timestamptz, p_worker text, p_secret uuid, p_ttl bigint, p_grace bigint, p_bytes bigint,
  p_known bigint, p_chores integer, p_promote integer, p_lanes integer[], p_priorities integer[],
  p_queues integer[], p_names text[], p_turns integer[], p_turn bigint, p_limit integer,
  p_types text[], p_is_any boolean
) returns text language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  m fencepost.pulse;
  ahead record;
  v_promoted integer := 0;
  v_held integer := 0;
  v_failed text;
  v_limit integer := p_limit;
  v_rooms integer[];
  v_paused integer[];
  v_turns integer[] := p_turns;
  v_order integer[];
  v_shares integer[];
  v_taken integer[];
  v_jobs text := '';
  v_seqs bigint[];
  v_part integer := 1;
  v_bytes bigint := p_bytes;
  v_first bigint;
  v_left integer;
  v_wanted integer;
  v_before integer;
  v_room integer;
  v_popped record;
  v_caps integer[];
  v_spent integer[];
  v_opens_at timestamptz;
  a record;
  p record;
  g record;
  q integer;
  is_merged boolean := false;
  -- So many jobs of a lease fit into a page with the rest of its row.
  v_most constant integer := 400;
begin
  m := fencepost.marks();
  -- One look at everything that could come in between.
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
    end as has_lanes,
    (select min(expires_at) from fencepost.lease
     where expires_at >= m.lease_mark and expires_at <= t) as expires_at,
    (select min(run_at) from fencepost.delayed where run_at >= m.due_mark) as run_at,
    -- In its order, or a plan made while there were few jobs would read them all, for ever.
    p_chores & 1 > 0 and (
      select true from fencepost.job where expires_at >= m.lifetime_mark and expires_at <= t
        and not exists (select 1 from fencepost.done where done.seq = job.seq)
      order by expires_at limit 1
    ) is not null as has_outlived,
    exists (select 1 from fencepost.pause) as has_pauses,
    exists (select 1 from fencepost.max_running) as has_limits,
    exists (select 1 from fencepost.rate) as has_rates,
    exists (select 1 from fencepost.touched) as has_touched,
    p_chores & 4 > 0 and exists (select 1 from fencepost.unsure) as has_unsure
  into ahead;
  if ahead.has_lanes then
    return '{"todo":"lanes"}';
  elsif p_chores & 2 > 0 and ahead.expires_at <= t then
    return '{"todo":"recover"}';
  elsif ahead.has_unsure then
    return '{"todo":"resolve"}';
  elsif ahead.has_outlived then
    return '{"todo":"expire"}';
  end if;
  if p_promote > 0 and (ahead.run_at <= t or ahead.has_touched) then
    begin
      if ahead.run_at <= t then
        select count(*), count(*) filter (where move ->> 3 = '0') into v_promoted, v_held
        from json_array_elements(fencepost.promote(t, p_promote)) as move;
        ahead.run_at := (select min(run_at) from fencepost.delayed where run_at >= m.due_mark);
      end if;
      if ahead.has_touched then
        perform fencepost.admit_noted(p_now);
      end if;
    exception when others then
      v_promoted := 0;
      v_held := 0;
      v_failed := sqlerrm;
    end;
  end if;
  if ahead.has_pauses then
    v_paused := array(
      select x.lane from unnest(p_lanes) as x(lane) where (
        select exists (select 1 from fencepost.pause where scope = 'queue' and name = l.queue)
          or exists (select 1 from fencepost.pause where scope = 'type' and name = l.type)
        from fencepost.lane l where l.lane = x.lane
      )
    );
  end if;
  if v_limit > 0 and ahead.has_limits then
    perform fencepost.lock_limits(p_names);
    v_limit := least(v_limit, fencepost.room(t, 'app', ''));
    v_rooms := array(
      select fencepost.room(t, 'queue', name) from unnest(p_names) with ordinality as x(name, n)
      order by n
    );
  end if;
  if ahead.has_rates then
    select * into a from fencepost.allow(p_now, p_lanes, v_paused);
    t := a.t;
    v_spent := array_fill(0, array[cardinality(p_lanes)]);
    v_paused := v_paused || a.closed;
  end if;
  v_left := greatest(v_limit, 0);
  -- It may have been held up since: a lease has its whole time, and begins after the one before.
  if not ahead.has_rates then
    t := coalesce(p_now, clock_timestamp());
  end if;
  v_first := (extract(epoch from t) * 1000000)::bigint;
  if cardinality(p_lanes) = 1 and cardinality(p_names) = 1 then
    -- Most apps: one type of one queue at one priority.
    v_wanted := least(v_left, coalesce(v_rooms[1], v_left));
    if ahead.has_rates then
      v_wanted := least(v_wanted, a.rooms[a.places[1]]);
    end if;
    v_left := 0;
    while v_wanted > 0 and (v_paused is null or p_lanes[1] <> all (v_paused)) loop
      v_popped := fencepost.pop(
        t, v_first, p_lanes[1], least(v_wanted, v_most), p_worker, p_secret, v_part, p_ttl, p_grace,
        v_bytes);
      exit when v_popped.count = 0;
      v_jobs := v_jobs || case when v_jobs = '' then '[' else ',[' end || p_lanes[1] || ',['
        || v_popped.popped || ']]';
      v_part := v_part + 1000;
      v_spent[1] := v_spent[1] + v_popped.count;
      v_bytes := v_popped.room;
      exit when v_popped.count < v_most or v_bytes = 0;
      v_wanted := v_wanted - v_popped.count;
    end loop;
  end if;
  if v_left > 0 then
    v_taken := array_fill(0, array[cardinality(p_names)]);
    v_shares := v_taken;
    if v_turns is null then
      v_turns := fencepost.open_queues(p_lanes, p_queues, v_paused, p_turn);
      v_order := v_turns;
    end if;
    for turn in 1..cardinality(v_turns) loop
      q := v_turns[turn];
      v_shares[q] := v_shares[q] + v_left / cardinality(v_turns)
        + case when turn <= v_left % cardinality(v_turns) then 1 else 0 end;
    end loop;
  end if;
  -- First everybody's share, then what others left over.
  for round in 1..2 loop
    exit when v_left <= 0;
    for place in 1..coalesce(cardinality(v_order), cardinality(p_names)) loop
      exit when v_left <= 0;
      q := coalesce(v_order[place], place);
      v_room := coalesce(v_rooms[q], v_left + v_taken[q]) - v_taken[q];
      v_wanted := least(case round when 1 then v_shares[q] else v_left end, v_room, v_left);
      continue when v_wanted <= 0 or (round = 2 and v_taken[q] < v_shares[q]);
      for g in
        select array_agg(lane order by n) as lanes, array_agg(n order by n) as numbers
        from unnest(p_lanes, p_priorities, p_queues) with ordinality as x(lane, priority, queue, n)
        where queue = q and (v_paused is null or lane <> all (v_paused))
        group by priority order by priority
      loop
        while v_wanted > 0 loop
          v_before := v_wanted;
          if ahead.has_rates then
            v_caps := fencepost.caps(g.numbers, a.places, a.rooms, v_spent);
          end if;
          for p in select * from fencepost.split(g.lanes, least(v_wanted, v_most), v_caps) loop
            v_popped := fencepost.pop(
              t, v_first, p.lane, p.count, p_worker, p_secret, v_part, p_ttl, p_grace,
              v_bytes);
            if v_popped.room = 0 then  -- that was the last
              v_left := v_popped.count;
              v_wanted := v_popped.count;
            end if;
            v_bytes := v_popped.room;
            exit when v_bytes = 0 and v_popped.count = 0;
            continue when v_popped.count = 0;
            is_merged := is_merged or v_jobs <> '';
            v_jobs := v_jobs || case when v_jobs = '' then '[' else ',[' end || p.lane || ',['
              || v_popped.popped || ']]';
            v_part := v_part + 1000;
            v_wanted := v_wanted - v_popped.count;
            v_left := v_left - v_popped.count;
            v_taken[q] := v_taken[q] + v_popped.count;
            if ahead.has_rates then
              v_room := array_position(p_lanes, p.lane);
              v_spent[v_room] := v_spent[v_room] + v_popped.count;
            end if;
            exit when v_bytes = 0;
          end loop;
          exit when v_before - v_wanted < least(v_before, v_most);
        end loop;
      end loop;
    end loop;
  end loop;
  if ahead.has_rates then
    v_opens_at := fencepost.use(t, p_lanes, a.types, a.rooms, a.moments, a.places, v_spent, a.shut);
  end if;
  if is_merged then
    v_seqs := array(
      select x.seq from fencepost.lease e
      join unnest(p_lanes, p_priorities, p_queues) with ordinality as l(lane, priority, queue, n)
        on l.lane = e.lane
      cross join lateral unnest(e.seqs, e.run_ats) as x(seq, run_at)
      join fencepost.job j on j.seq = x.seq
      where e.secret = p_secret
      order by coalesce(array_position(v_order, l.queue), l.queue), l.priority,
        coalesce(x.run_at, j.run_at), x.seq
    );
  end if;
  -- When the next lease ends, only one who waits is told: beside an old snapshot, the look steps over
  -- all leases that ended early in the last while.
  if v_jobs = '' and ahead.expires_at is null then
    ahead.expires_at := (select min(expires_at) from fencepost.lease where expires_at > t);
  end if;
  return '{"now":' || v_first
    || ',"promoted":' || v_promoted || ',"held":' || v_held || ',"jobs":[' || v_jobs || ']'
    || case when v_failed is null then '' else ',"failed":' || to_json(v_failed) end
    || ',"order":' || coalesce(array_to_json(v_seqs)::text, 'null')
    || ',"wait":' || coalesce(
      extract(epoch from least(ahead.run_at, ahead.expires_at, v_opens_at) - t)::text, 'null')
    || '}';
end $$;

-- The queues that have something to give, in their order but from turn number p_turn on.
create or replace function fencepost.open_queues(
  p_lanes integer[], p_queues integer[], p_paused integer[], p_turn bigint
) returns integer[] language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_bitmapscan = off as $$
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
returns table(lane integer, count integer) language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_bitmapscan = off as $$
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
