-- Claim jobs. Returns JSON: {"todo": …} if something else must be done first, or {"now": …, "jobs":
-- [[lane, [job, …]], …], "order": [seq, …] or null, "promoted": n, "held": n, "wait": …, "plain":
-- …}; "failed" is why promoting failed. The steps follow below and in pop.sql.
create or replace function fencepost.claim(
  p_now timestamptz, r fencepost.claim_request, s fencepost.served_lanes
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
  ahead := fencepost.look_ahead(t, r, s);
  if ahead.todo is not null then
    return '{"todo":"' || ahead.todo || '"}';
  end if;
  if r.promote > 0 and (ahead.run_at <= t or ahead.has_touched) then
    due := fencepost.promote_ahead(p_now, t, r.promote, ahead);
    ahead.run_at := due.run_at;
    v_promoted := due.promoted;
  end if;
  v_bounds.most := r.most;
  if ahead.has_pauses or ahead.has_limits or ahead.has_type_limits then
    v_bounds := fencepost.bounds(p_now, t, r.most, s, ahead);
  end if;
  -- This may have waited for locks: a lease has its whole time, and begins after the one before.
  t := coalesce(v_bounds.t, p_now, clock_timestamp());
  v_terms := fencepost.terms(p_now, t, r);
  taken := fencepost.pop_served(v_terms, v_bounds, r, s);
  if ahead.has_type_limits then
    v_opens_at := fencepost.use(t, s.lanes, v_bounds, taken.spent);
  end if;
  -- Only a claim that found nothing looks for the end of the next lease: beside an old snapshot,
  -- the look skips all leases that recently ended early.
  if taken.jobs is null and ahead.expires_at is null then
    ahead.expires_at := (select min(expires_at) from fencepost.leases where expires_at > t);
  end if;
  return '{"now":' || v_terms.first_version || ',' || v_promoted
    || ',"jobs":[' || coalesce(taken.jobs, '') || ']'
    || ',"order":' || coalesce(array_to_json(taken.seqs)::text, 'null')
    || ',"wait":' || coalesce(
      extract(epoch from least(ahead.run_at, ahead.expires_at, v_opens_at) - t)::text, 'null')
    || ',"plain":' || (not (ahead.has_pauses or ahead.has_limits or ahead.has_type_limits))::text
    || '}';
end $$;

-- Claim jobs shortly after a claim that looked at everything and found neither pauses nor limits:
-- hand out what is next in line, and look again only if nothing is. p_after is the last job of the
-- claim before, 0 if it came from several lanes: in one lane, a claim begins behind it and does not
-- have to skip the dead rows of all that were taken since the mark was moved.
create or replace function fencepost.claim_after(
  p_now timestamptz, r fencepost.claim_request, s fencepost.served_lanes, p_after bigint
) returns text language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off as $$
declare
  v_terms constant fencepost.lease_terms :=
    fencepost.terms(p_now, coalesce(p_now, clock_timestamp()), r);
  v_bounds fencepost.claim_bounds;
  taken fencepost.claimed_jobs;
  v_popped fencepost.popped_jobs;
begin
  if p_after > 0 and cardinality(s.lanes) = 1 and r.most between 1 and 400 then
    v_popped := fencepost.pop_from(v_terms, s.lanes[1], r.most, 1, r.bytes,
      (select run_at from fencepost.submissions where seq = p_after), p_after);
    taken.jobs := v_popped.popped;
  else
    v_bounds.most := r.most;
    taken := fencepost.pop_served(v_terms, v_bounds, r, s);
  end if;
  if taken.jobs is null then
    return fencepost.claim(p_now, r, s);
  end if;
  return '{"now":' || v_terms.first_version || ',"plain":true,"jobs":[' || taken.jobs || ']'
    || ',"order":' || coalesce(array_to_json(taken.seqs)::text, 'null') || '}';
end $$;

-- What the leases of one claim share, if they begin at t.
create or replace function fencepost.terms(
  p_now timestamptz, t timestamptz, r fencepost.claim_request
) returns fencepost.lease_terms language plpgsql as $$
begin
  return row(t, (extract(epoch from t) * 1000000)::bigint, r.worker, r.lease_token, r.lease_ttl,
    r.timeout_grace, p_now);
end $$;

-- One look at everything that could have to be done before a claim.
create or replace function fencepost.look_ahead(
  t timestamptz, r fencepost.claim_request, s fencepost.served_lanes
) returns fencepost.claim_outlook language plpgsql as $$
declare
  m fencepost.marks;
  ahead fencepost.claim_outlook;
begin
  -- As `newest_marks` does it, without the cost of the call.
  select * into m from fencepost.marks order by number desc limit 1;
  if not found then
    m := fencepost.newest_marks();
  end if;
  select
    r.known <> case
      when s.types is null and s.is_any then (select coalesce(sum(lane), 0) from fencepost.lanes)
      when s.types is null then (
        select coalesce(sum(lane), 0) from fencepost.lanes where queue = any (s.names))
      when s.is_any then (
        select coalesce(sum(lane), 0) from fencepost.lanes where type = any (s.types))
      else (
        select coalesce(sum(lane), 0) from fencepost.lanes
        where queue = any (s.names) and type = any (s.types))
    end,
    (select min(expires_at) from fencepost.leases
     where expires_at >= m.lease_mark and expires_at <= t),
    (select min(run_at) from fencepost.delayed where run_at >= m.due_mark),
    -- In its order, or a plan made while there were few jobs would always read all of them.
    r.chores & 1 > 0 and (
      select true from fencepost.submissions where expires_at >= m.lifetime_mark and expires_at <= t
        and not exists (select 1 from fencepost.done where done.seq = submissions.seq)
      order by expires_at limit 1
    ) is not null,
    exists (select 1 from fencepost.pauses),
    exists (select 1 from fencepost.limits),
    exists (select 1 from fencepost.type_limits),
    exists (select 1 from fencepost.freed_slots),
    r.chores & 4 > 0 and exists (select 1 from fencepost.unresolved),
    m.due_mark
  into ahead;
  ahead.todo := case when ahead.has_lanes then 'lanes'
    when r.chores & 2 > 0 and ahead.expires_at <= t then 'recover'
    when ahead.has_unsure then 'resolve'
    when ahead.has_outlived then 'expire' end;
  return ahead;
end $$;

-- Make due jobs claimable before a claim, and admit jobs to slots with notes; `promoted` is the
-- part of the claim's answer about it, and `run_at` is when the next job is due. A failure is
-- rolled back and does not fail the claim.
create or replace function fencepost.promote_ahead(
  p_now timestamptz, t timestamptz, p_limit integer, ahead fencepost.claim_outlook,
  out promoted text, out run_at timestamptz
) language plpgsql as $$
declare
  v_count integer := 0;
  v_held integer := 0;
  v_failed text;
begin
  run_at := ahead.run_at;
  begin
    if ahead.run_at <= t then
      select count(*), count(*) filter (where (move ->> 3)::smallint = :PENDING)
      into v_count, v_held from json_array_elements(fencepost.promote(t, p_limit)) as move;
      run_at := (select min(d.run_at) from fencepost.delayed d where d.run_at >= ahead.due_mark);
    end if;
    if ahead.has_touched then
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

-- What a claim may take from these lanes: not from lanes that are paused or `closed`, see `allow`,
-- and no more jobs than there is room for.
create or replace function fencepost.bounds(
  p_now timestamptz, t timestamptz, p_limit integer, s fencepost.served_lanes,
  ahead fencepost.claim_outlook
) returns fencepost.claim_bounds language plpgsql as $$
declare
  b fencepost.claim_bounds;
  a record;
begin
  b.most := p_limit;
  b.paused := '{}';
  if ahead.has_pauses then
    b.paused := array(
      select x.lane from unnest(s.lanes) as x(lane) where (
        select exists (select 1 from fencepost.pauses where scope = 'queue' and name = l.queue)
          or exists (select 1 from fencepost.pauses where scope = 'type' and name = l.type)
        from fencepost.lanes l where l.lane = x.lane
      )
    );
  end if;
  if p_limit > 0 and ahead.has_limits then
    perform fencepost.lock_limits(s.names);
    b.most := least(p_limit, fencepost.room(t, 'app', ''));
    b.rooms := array(
      select fencepost.room(t, 'queue', name) from unnest(s.names) with ordinality as x(name, n)
      order by n
    );
  end if;
  if ahead.has_type_limits then
    a := fencepost.allow(p_now, s.lanes, b.paused);
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

-- The queues that have claimable jobs, in their order but starting with turn number p_turn.
create or replace function fencepost.open_queues(
  s fencepost.served_lanes, p_paused integer[], p_turn bigint
) returns integer[] language plpgsql as $$
declare
  v_open integer[];
  v_start integer;
begin
  v_open := array(
    select distinct x.queue from unnest(s.lanes, s.queues) as x(lane, queue)
    join fencepost.marked_lanes l on l.lane = x.lane
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
  -- The lane of the first job comes first: a claim may be full before it has read all lanes.
  return query
  select first.lane, count(*)::integer from (
    select l.lane, line.run_at, line.seq from unnest(p_lanes) with ordinality as x(lane, n)
    join fencepost.marked_lanes l on l.lane = x.lane
    cross join lateral (
      select r.run_at, r.seq from fencepost.ready r
      where r.lane = l.lane and r.run_at >= l.low
      order by r.run_at, r.seq limit least(p_limit, p_caps[x.n])
    ) as line
    order by line.run_at, line.seq limit p_limit
  ) as first group by first.lane order by min(first.run_at), min(first.seq);
end $$;
