-- Writes under a lease. The one rule (INV-2): the secret names a lease that holds the job and has
-- not run out.

-- The version of a lease that is given out at t to a job whose last one was p_last (C43): never below
-- the clock, so that it rises also if a crash of the server takes back the claim before it.
create or replace function fencepost.next_version(p_last bigint, t timestamptz) returns bigint
language plpgsql stable as $$
begin
  return greatest(p_last + 1, (extract(epoch from t) * 1000000)::bigint);
end $$;

-- Lock the rows of a lease that hold some of p_seqs at t, and return them. Rows that hold none of
-- them are left alone. Whoever had a row in hand may have put some of its jobs into a row of their
-- own, which a look that waited for it cannot see; so what was not found is looked for again, by a
-- later statement, until that finds no more either.
create or replace function fencepost.hold_leases(t timestamptz, p_secret uuid, p_seqs bigint[])
returns setof fencepost.lease language plpgsql as $$
declare
  v_rest bigint[] := p_seqs;
  v_count integer;
  e fencepost.lease;
begin
  -- What was claimed from one lane and ends as it was claimed, which is nearly everything.
  select * into e from fencepost.lease
  where secret = p_secret and part = 1 and expires_at > t and seqs = p_seqs for update;
  if found then
    return next e;
    return;
  end if;
  loop
    for e in
      select * from fencepost.lease where secret = p_secret and expires_at > t
        and exists (select 1 from unnest(seqs) as x where (x in (select unnest(v_rest))) is true)
      order by part for update
    loop
      return next e;
      v_count := least(cardinality(v_rest), cardinality(e.seqs));
      if e.seqs[1:v_count] = v_rest[1:v_count] then
        v_rest := v_rest[v_count + 1:];
      else
        v_rest := array(
          select x.seq from unnest(v_rest) with ordinality as x(seq, n)
          where x.seq not in (select unnest(e.seqs)) order by x.n
        );
      end if;
    end loop;
    exit when v_rest = '{}' or not exists (
      select 1 from fencepost.lease where secret = p_secret and expires_at > t
        and exists (select 1 from unnest(seqs) as x where (x in (select unnest(v_rest))) is true)
    );
  end loop;
end $$;

-- Lock the rows of job of those that p_groups names, see `complete`, and that seem to be held at t, by
-- number: no job ends by its age that may have ended in a transaction of a caller's. Before their
-- leases, as whoever ends jobs by their age does.
create or replace function fencepost.hold_jobs(t timestamptz, p_groups json) returns void language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  g json;
  v_parts text[];
  v_held bigint[] := '{}';
begin
  for g in select value from json_array_elements(p_groups) loop
    v_parts := array(select value::text from json_array_elements(g));
    v_held := v_held || array(
      select x.seq from fencepost.lease e cross join lateral unnest(e.seqs) as x(seq)
      where e.secret = btrim(v_parts[1], '"')::uuid and e.expires_at > t
        and (x.seq in (select unnest(btrim(v_parts[2], '"')::bigint[]))) is true
    );
  end loop;
  perform 1 from fencepost.job where seq = any (v_held) order by seq for no key update;
end $$;

-- Lock what a settlement of several kinds is about, before each kind is recorded by itself: all its
-- leases, by secret, then all that waits behind p_failed or for p_completed. p_groups is
-- [[secret, "{seq,…}"], …], by secret.
create or replace function fencepost.hold_all(
  p_now timestamptz, p_groups json, p_is_joined boolean, p_failed bigint[], p_completed bigint[]
) returns void language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  h record;
begin
  if p_is_joined then
    perform fencepost.hold_jobs(t, p_groups);
  end if;
  for h in
    select (value ->> 0)::uuid as secret, (value ->> 1)::bigint[] as seqs
    from json_array_elements(p_groups)
  loop
    perform 1 from fencepost.hold_leases(t, h.secret, h.seqs);
  end loop;
  -- By a statement of its own, after the locks: it sees who came to wait before they were had.
  if not p_is_joined and p_failed || p_completed <> '{}' then
    perform fencepost.lock_behind(
      p_failed, array(select child from fencepost.dependency where parent = any (p_completed)));
  end if;
end $$;

-- Take jobs out of a lease, and the lease away with the last.
create or replace function fencepost.shrink(e fencepost.lease, p_seqs bigint[]) returns void
language plpgsql as $$
declare
  kept record;
begin
  select array_agg(x.seq) as seqs, array_agg(x.attempt) as attempts,
    array_agg(x.version) as versions, array_agg(x.run_at) as run_ats,
    array_agg(x.scheduled_at) as scheduled_ats
  into kept
  from unnest(e.seqs, e.attempts, e.versions, e.run_ats, e.scheduled_ats)
    as x(seq, attempt, version, run_at, scheduled_at)
  where x.seq <> all (p_seqs);
  if kept.seqs is null then
    delete from fencepost.lease where secret = e.secret and part = e.part;
  else
    update fencepost.lease set seqs = kept.seqs,
      attempts = case when e.attempts is not null then kept.attempts end,
      versions = case when e.attempts is not null then kept.versions end,
      run_ats = case when e.attempts is not null then kept.run_ats end,
      scheduled_ats = case when e.attempts is not null then kept.scheduled_ats end
    where secret = e.secret and part = e.part;
  end if;
end $$;

-- Put some jobs of a lease into a part of their own, and return that. Whoever waits for the row of
-- the lease meanwhile has to look again, see `hold_leases`.
create or replace function fencepost.part(e fencepost.lease, p_seqs bigint[]) returns fencepost.lease
language plpgsql as $$
declare
  v_part fencepost.lease;
begin
  insert into fencepost.lease
  select e.secret, nextval('fencepost.part'), e.lane,
    e.started_at, e.expires_at, e.worker, array_agg(x.seq order by x.n),
    case when e.attempts is not null then array_agg(x.attempt order by x.n) end,
    case when e.attempts is not null then array_agg(x.version order by x.n) end,
    case when e.attempts is not null then array_agg(x.run_at order by x.n) end,
    case when e.attempts is not null then array_agg(x.scheduled_at order by x.n) end,
    e.ttl, e.deadline
  from unnest(e.seqs, e.attempts, e.versions, e.run_ats, e.scheduled_ats) with ordinality
    as x(seq, attempt, version, run_at, scheduled_at, n)
  where x.seq = any (p_seqs)
  returning * into v_part;
  perform fencepost.shrink(e, p_seqs);
  return v_part;
end $$;

-- Put jobs into a part of their leases each, so that whoever locks that locks no other job;
-- p_groups is [[secret, "{seq,…}"], …], by secret.
create or replace function fencepost.isolate(p_now timestamptz, p_groups json) returns void
language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  h record;
  e fencepost.lease;
  v_seq bigint;
begin
  for h in
    select (value ->> 0)::uuid as secret, (value ->> 1)::bigint[] as seqs
    from json_array_elements(p_groups)
  loop
    for e in select * from fencepost.hold_leases(t, h.secret, h.seqs) loop
      foreach v_seq in array array(select x from unnest(e.seqs) as x where x = any (h.seqs)) loop
        exit when cardinality(e.seqs) = 1;
        perform fencepost.part(e, array[v_seq]);
        select * into e from fencepost.lease where secret = e.secret and part = e.part;
      end loop;
    end loop;
  end loop;
end $$;

-- Extend leases, none past its deadline; p_beats is [[secret, ttl or null, "{seq,…}"], …]. Returns [[beat, seq, expiry], …] of those
-- that were held. Jobs of a lease that are not named keep their expiry, in a part of their own.
create or replace function fencepost.heartbeat(p_now timestamptz, p_beats json) returns json
language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  b record;
  e fencepost.lease;
  v_named bigint[];
  v_expires_at timestamptz;
  v_extended json[] := '{}';
begin
  for b in
    select n, (value ->> 0)::uuid as secret, (value ->> 1)::bigint as ttl,
      (value ->> 2)::bigint[] as seqs
    from json_array_elements(p_beats) with ordinality as x(value, n)
  loop
    for e in select * from fencepost.hold_leases(t, b.secret, b.seqs) loop
      v_named := array(
        select x.seq from unnest(e.seqs) with ordinality as x(seq, n)
        where x.seq = any (b.seqs) order by x.n
      );
      v_expires_at := greatest(e.expires_at,
        least(t + coalesce(b.ttl, e.ttl) * interval '1 microsecond', e.deadline));
      if v_expires_at > e.expires_at then
        if cardinality(v_named) < cardinality(e.seqs) then
          e := fencepost.part(e, v_named);
        end if;
        update fencepost.lease set expires_at = v_expires_at
        where secret = e.secret and part = e.part;
      end if;
      v_extended := v_extended || (
        select array_agg(json_build_array(
          b.n, x, (extract(epoch from v_expires_at) * 1000000)::bigint))
        from unnest(v_named) as x
      );
    end loop;
  end loop;
  return array_to_json(v_extended);
end $$;

-- Keep what a handler asks to keep; false if it does not hold the job.
create or replace function fencepost.save(
  p_now timestamptz, p_secret uuid, p_seq bigint, p_progress text, p_encoding smallint,
  p_checkpoint text, p_checkpoint_bytes bytea
) returns boolean language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  e fencepost.lease;
  v_version bigint;
begin
  select * into e from fencepost.hold_leases(t, p_secret, array[p_seq]);
  if not found then
    return false;
  end if;
  v_version := coalesce(
    e.versions[array_position(e.seqs, p_seq)], fencepost.next_version(0, e.started_at));
  insert into fencepost.saved as s(
    seq, version, progress, encoding, checkpoint, checkpoint_bytes)
  values (p_seq, v_version, p_progress, p_encoding, p_checkpoint, p_checkpoint_bytes)
  on conflict (seq) do update set
    version = excluded.version,
    progress = coalesce(excluded.progress,
      case when s.version = excluded.version then s.progress end),
    encoding = coalesce(excluded.encoding, s.encoding),
    checkpoint = case when excluded.encoding is null then s.checkpoint
      else excluded.checkpoint end,
    checkpoint_bytes = case when excluded.encoding is null then s.checkpoint_bytes
      else excluded.checkpoint_bytes end;
  return true;
end $$;
