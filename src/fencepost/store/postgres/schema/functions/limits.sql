-- Make claims under the limit of the app or of one of these queues wait for each other. Later
-- statements count everything that was committed meanwhile. A limit that was set again during the
-- wait is waited for, too.
create or replace function fencepost.lock_limits(p_queues text[]) returns void language plpgsql as $$
declare
  v_locked integer;
begin
  loop
    perform 1 from fencepost.limits
    where scope = 'app' or (scope = 'queue' and name = any (p_queues))
    order by scope collate "C", name collate "C" for no key update;
    get diagnostics v_locked = row_count;
    exit when v_locked = (
      select count(*) from fencepost.limits
      where scope = 'app' or (scope = 'queue' and name = any (p_queues)));
  end loop;
end $$;

-- How many more jobs may run; null if there is no such limit.
create or replace function fencepost.room(t timestamptz, p_scope text, p_name text) returns integer
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_max integer;
  v_running integer;
begin
  select max_running into v_max from fencepost.limits where scope = p_scope and name = p_name;
  if not found then
    return null;
  end if;
  select coalesce(sum(cardinality(leases.seqs)), 0) into v_running from fencepost.leases
  where leases.expires_at > t and (p_scope = 'app' or leases.lane = any (array(
    select lanes.lane from fencepost.lanes where lanes.queue = p_name)));
  return greatest(v_max - v_running, 0);
end $$;

-- Make transactions that start jobs of these types, or change their limits, wait for each other.
create or replace function fencepost.lock_types(p_types text[]) returns void language plpgsql as $$
declare
  v_locked integer;
begin
  loop
    perform 1 from fencepost.type_limits where type = any (p_types)
    order by type collate "C" for no key update;
    get diagnostics v_locked = row_count;
    exit when v_locked = (select count(*) from fencepost.type_limits where type = any (p_types));
  end loop;
end $$;

-- What a claim may start. `types` are those with limits and claimable jobs, `rooms` how many of
-- each may start (null: any number), `moments` the times at which starts are recorded (null: they
-- are not). `places` is the index of each lane's type in these, null if it has none. Nothing may be
-- taken from `closed` lanes; those of p_paused are left out anyway. The clock is read under the
-- lock: a claim that gets it later counts at a later time.
create or replace function fencepost.allow(
  p_now timestamptz, p_lanes integer[], p_paused integer[],
  out t timestamptz, out types text[], out rooms integer[], out moments bigint[],
  out places integer[], out closed integer[]
) language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_bitmapscan = off as $$
declare
  v_now bigint;
  v_is_ahead boolean;
begin
  types := array(
    select distinct l.type from unnest(p_lanes) as x(lane)
    join fencepost.marked_lanes l on l.lane = x.lane
    join fencepost.type_limits on type_limits.type = l.type
    cross join lateral (
      select 1 from fencepost.ready r
      where r.lane = l.lane and r.run_at >= l.low order by r.run_at, r.seq limit 1
    ) as first
    where x.lane <> all (p_paused) order by l.type
  );
  perform fencepost.lock_types(types);
  t := coalesce(p_now, clock_timestamp());
  v_now := (extract(epoch from t) * 1000000)::bigint;
  for look in 1..2 loop
    select array_agg(
        case when r.rate_count is not null then greatest(r.rate_count - used.count, 0) end
        order by x.n),
      array_agg((v_now + r.grain_us - 1) / r.grain_us * r.grain_us order by x.n),
      bool_or(used.newest > (v_now + r.grain_us - 1) / r.grain_us * r.grain_us)
    into rooms, moments, v_is_ahead
    from unnest(types) with ordinality as x(type, n)
    left join fencepost.type_limits r on r.type = x.type
    left join lateral (
      select coalesce(sum(u.count), 0)::integer as count, max(u.at) as newest
      from fencepost.rate_uses u
      where u.type = r.type and u.at > v_now - r.window_us
    ) as used on true;
    exit when v_is_ahead is not true;
    perform fencepost.set_uses_back(types, moments);
  end loop;
  -- A type whose first job came only now was not locked: it is left to the next claim.
  select array_agg(array_position(types, l.type) order by x.n),
    coalesce(array_agg(x.lane) filter (
      where rooms[array_position(types, l.type)] = 0
        or (r.type is not null and l.type <> all (types))
    ), '{}')
  into places, closed
  from unnest(p_lanes) with ordinality as x(lane, n)
  join fencepost.lanes l on l.lane = x.lane
  left join fencepost.type_limits r on r.type = l.type;
end $$;

-- The clock was set back: move the uses of each type back by as much as its newest is ahead of its
-- moment, see core/limits/rates.py. The caller holds the locks of the types.
create or replace function fencepost.set_uses_back(p_types text[], p_moments bigint[]) returns void
language plpgsql as $$
declare
  v_type text;
  v_ahead bigint;
  v_ats bigint[];
  v_counts integer[];
begin
  for place in 1..cardinality(p_types) loop
    v_type := p_types[place];
    select max(at) - p_moments[place], array_agg(at), array_agg(count)
    into v_ahead, v_ats, v_counts from fencepost.rate_uses where type = v_type;
    continue when v_ahead is null or v_ahead <= 0;
    -- In two statements: moved one by one, they would meet those that have not been moved yet.
    delete from fencepost.rate_uses where type = v_type;
    insert into fencepost.rate_uses(type, at, count)
    select v_type, x.at - v_ahead, x.count from unnest(v_ats, v_counts) as x(at, count);
  end loop;
end $$;

-- How many more may be taken from each of some lanes, see `allow`; p_spent is what was, by lane.
create or replace function fencepost.caps(
  p_numbers bigint[], p_places integer[], p_rooms integer[], p_spent integer[]
) returns integer[] language sql immutable as $$
  select array_agg(p_rooms[p_places[n]] - (
    select sum(s.spent) from unnest(p_places, p_spent) as s(place, spent)
    where s.place = p_places[n]
  )::integer order by number)
  from unnest(p_numbers) with ordinality as x(n, number)
$$;

-- Record what a claim has started, see `allow`. Returns when more may start, if there are jobs in
-- these lanes that may not start now.
create or replace function fencepost.use(
  t timestamptz, p_lanes integer[], b fencepost.claim_bounds, p_spent integer[]
) returns timestamptz language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_bitmapscan = off as $$
declare
  v_now bigint := (extract(epoch from t) * 1000000)::bigint;
  v_full text[];
begin
  insert into fencepost.rate_uses as u(type, at, count)
  select b.types[x.place], b.moments[x.place], sum(x.spent)
  from unnest(b.places, p_spent) as x(place, spent)
  where x.spent > 0 and b.moments[x.place] is not null group by x.place
  on conflict (type, at) do update set count = u.count + excluded.count;
  v_full := array(
    select x.type from unnest(b.types, b.type_rooms) with ordinality as x(type, room, place)
    where x.room <= (
      select coalesce(sum(s.spent), 0) from unnest(b.places, p_spent) as s(place, spent)
      where s.place = x.place
    )
  );
  if v_full = '{}' then
    return null;
  end if;
  return (
    select 'epoch'::timestamptz
      + min(fencepost.rate_opens_at(x.type, v_now)) * interval '1 microsecond'
    from (
      select distinct l.type from unnest(p_lanes) as given(lane)
      join fencepost.marked_lanes l on l.lane = given.lane
      cross join lateral (
        select 1 from fencepost.ready r
        where r.lane = l.lane and r.run_at >= l.low order by r.run_at, r.seq limit 1
      ) as first
      where l.type = any (v_full) and l.lane <> all (b.shut)
    ) as x
  );
end $$;

-- When a job of the type can start, in microseconds of 1970; null if one can now.
create or replace function fencepost.rate_opens_at(p_type text, p_now bigint) returns bigint
language sql stable as $$
  select u.at + u.window_us from (
    select seen.at, seen.window_us, seen.allowed, sum(seen.count) over () as used,
      sum(seen.count) over (order by seen.at) as aged
    from (
      select r.window_us, r.rate_count as allowed, rate_uses.count, rate_uses.at - greatest(
        max(rate_uses.at) over () - (p_now + r.grain_us - 1) / r.grain_us * r.grain_us, 0) as at
      from fencepost.type_limits r join fencepost.rate_uses on rate_uses.type = r.type
      where r.type = p_type and rate_uses.at > p_now - r.window_us
    ) as seen where seen.at > p_now - seen.window_us
  ) as u where u.used >= u.allowed and u.used - u.aged < u.allowed order by u.at limit 1
$$;

-- How far the limits of a type are used up, as JSON of core/limits/type_limits.py.
create or replace function fencepost.type_usage(p_now timestamptz, p_type text) returns json
language sql stable as $$
  select json_build_object('rate_opens_at', 'epoch'::timestamptz + interval '1 microsecond'
    * fencepost.rate_opens_at(p_type, (extract(epoch from p_now) * 1000000)::bigint))
$$;

-- Set all limits of types, p_limits is [{"type", "limits"}, …], or clear those without any. What is
-- unchanged is left alone; a changed rate keeps the uses of the old one.
create or replace function fencepost.limit_types(p_now timestamptz, p_limits json) returns void
language plpgsql as $$
declare
  v_types text[] := array(
    select g.type from json_to_recordset(p_limits) as g(type text, limits jsonb)
    left join fencepost.type_limits r on r.type = g.type
    where g.limits is distinct from r.limits
  );
  v_now bigint;
begin
  if v_types = '{}' then
    return;
  end if;
  perform fencepost.lock_types(v_types);
  v_now := (extract(epoch from coalesce(p_now, clock_timestamp())) * 1000000)::bigint;
  delete from fencepost.rate_uses u using fencepost.type_limits r
  where u.type = any (v_types) and r.type = u.type and u.at <= v_now - r.window_us;
  insert into fencepost.type_limits(type, limits)
  select g.type, g.limits from json_to_recordset(p_limits) as g(type text, limits jsonb)
  where g.type = any (v_types) and g.limits is not null
  on conflict (type) do update set limits = excluded.limits;
  delete from fencepost.type_limits where type in (
    select g.type from json_to_recordset(p_limits) as g(type text, limits jsonb)
    where g.type = any (v_types) and g.limits is null);
  delete from fencepost.rate_uses u where u.type = any (v_types) and not exists (
    select 1 from fencepost.type_limits r where r.type = u.type and r.rate_count is not null);
end $$;
