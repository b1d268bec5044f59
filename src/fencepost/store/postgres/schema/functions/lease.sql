-- Writes under a lease. The one rule (INV-2): the lease token names a lease that holds the job and
-- has not expired.

-- The version of a lease granted at t to a job whose last version was p_last (C43): never below the
-- clock, so that it rises even if a crash of the server takes back the claim before.
create or replace function fencepost.next_version(p_last bigint, t timestamptz) returns bigint
language plpgsql stable as $$
begin
  return greatest(p_last + 1, (extract(epoch from t) * 1000000)::bigint);
end $$;

-- Lock the rows of a lease that hold some of p_seqs at t, and return them. Other rows are not
-- locked. The transaction that had locked a row may have moved some of its jobs to a new row, which
-- a look that waited for the lock cannot see. So jobs that were not found are looked for again, by
-- later statements, until no more are found.
create or replace function fencepost.hold_leases(t timestamptz, p_lease_token uuid, p_seqs bigint[])
returns setof fencepost.leases language plpgsql as $$
declare
  v_rest bigint[] := p_seqs;
  v_count integer;
  e fencepost.leases;
begin
  -- Jobs claimed together from one lane and settled together, which is nearly always the case.
  select * into e from fencepost.leases
  where lease_token = p_lease_token and part = 1 and expires_at > t and seqs = p_seqs for update;
  if found then
    return next e;
    return;
  end if;
  loop
    for e in
      select * from fencepost.leases where lease_token = p_lease_token and expires_at > t
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
      select 1 from fencepost.leases where lease_token = p_lease_token and expires_at > t
        and exists (select 1 from unnest(seqs) as x where (x in (select unnest(v_rest))) is true)
    );
  end loop;
end $$;

-- Lock the rows of submissions of jobs in p_groups, see `complete`, that seem to be leased at t, in
-- the order of their numbers: so no job expires that a caller's transaction may have completed.
-- They are locked before their leases, as expiring does.
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
      select x.seq from fencepost.leases e cross join lateral unnest(e.seqs) as x(seq)
      where e.lease_token = btrim(v_parts[1], '"')::uuid and e.expires_at > t
        and (x.seq in (select unnest(btrim(v_parts[2], '"')::bigint[]))) is true
    );
  end loop;
  perform 1 from fencepost.submissions where seq = any (v_held) order by seq for no key update;
end $$;

-- Lock everything that a settlement of several kinds touches, before each kind is recorded: all its
-- leases, by token, then all jobs behind p_failed and all dependents of p_completed. p_groups is
-- [[lease token, "{seq,…}"], …], by token.
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
    select (value ->> 0)::uuid as lease_token, (value ->> 1)::bigint[] as seqs
    from json_array_elements(p_groups)
  loop
    perform 1 from fencepost.hold_leases(t, h.lease_token, h.seqs);
  end loop;
  -- By a separate statement, after the locks: it sees dependents that were added before they were
  -- granted.
  if not p_is_joined and p_failed || p_completed <> '{}' then
    perform fencepost.lock_behind(
      p_failed, array(select child from fencepost.dependencies where parent = any (p_completed)));
  end if;
end $$;

-- Remove jobs from a lease, and the lease with its last job.
create or replace function fencepost.shrink(e fencepost.leases, p_seqs bigint[]) returns void
language plpgsql as $$
declare
  kept record;
begin
  select array_agg(x.seq) as seqs, array_agg(x.attempt) as attempts,
    array_agg(x.lease_version) as lease_versions, array_agg(x.run_at) as run_ats,
    array_agg(x.scheduled_at) as scheduled_ats
  into kept
  from unnest(e.seqs, e.attempts, e.lease_versions, e.run_ats, e.scheduled_ats)
    as x(seq, attempt, lease_version, run_at, scheduled_at)
  where x.seq <> all (p_seqs);
  if kept.seqs is null then
    delete from fencepost.leases where lease_token = e.lease_token and part = e.part;
  else
    update fencepost.leases set seqs = kept.seqs,
      attempts = case when e.attempts is not null then kept.attempts end,
      lease_versions = case when e.attempts is not null then kept.lease_versions end,
      run_ats = case when e.attempts is not null then kept.run_ats end,
      scheduled_ats = case when e.attempts is not null then kept.scheduled_ats end
    where lease_token = e.lease_token and part = e.part;
  end if;
end $$;

-- Move some jobs of a lease to a new part, and return that. Transactions that wait for the row of
-- the lease meanwhile have to look again, see `hold_leases`.
create or replace function fencepost.part(e fencepost.leases, p_seqs bigint[]) 
returns fencepost.leases language plpgsql as $$
declare
  v_part fencepost.leases;
begin
  insert into fencepost.leases
  select e.lease_token, nextval('fencepost.part'), e.lane,
    e.started_at, e.expires_at, e.worker, array_agg(x.seq order by x.n),
    case when e.attempts is not null then array_agg(x.attempt order by x.n) end,
    case when e.attempts is not null then array_agg(x.lease_version order by x.n) end,
    case when e.attempts is not null then array_agg(x.run_at order by x.n) end,
    case when e.attempts is not null then array_agg(x.scheduled_at order by x.n) end,
    e.lease_ttl, e.deadline
  from unnest(e.seqs, e.attempts, e.lease_versions, e.run_ats, e.scheduled_ats) with ordinality
    as x(seq, attempt, lease_version, run_at, scheduled_at, n)
  where x.seq = any (p_seqs)
  returning * into v_part;
  perform fencepost.shrink(e, p_seqs);
  return v_part;
end $$;

-- Give each job its own part of its lease, so that locking it locks no other job; p_groups is
-- [[lease token, "{seq,…}"], …], by token.
create or replace function fencepost.isolate(p_now timestamptz, p_groups json) returns void
language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  h record;
  e fencepost.leases;
  v_seq bigint;
begin
  for h in
    select (value ->> 0)::uuid as lease_token, (value ->> 1)::bigint[] as seqs
    from json_array_elements(p_groups)
  loop
    for e in select * from fencepost.hold_leases(t, h.lease_token, h.seqs) loop
      foreach v_seq in array array(select x from unnest(e.seqs) as x where x = any (h.seqs)) loop
        exit when cardinality(e.seqs) = 1;
        perform fencepost.part(e, array[v_seq]);
        select * into e from fencepost.leases where lease_token = e.lease_token and part = e.part;
      end loop;
    end loop;
  end loop;
end $$;

-- Extend leases, none past its deadline; p_beats is [[lease token, ttl or null, "{seq,…}"], …].
-- Returns [[beat, seq, expiry], …] of valid leases. Jobs of a lease that are not named keep their
-- expiry, in another part.
create or replace function fencepost.heartbeat(p_now timestamptz, p_beats json) returns json
language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  b record;
  e fencepost.leases;
  v_named bigint[];
  v_expires_at timestamptz;
  v_extended json[] := '{}';
begin
  for b in
    select n, (value ->> 0)::uuid as lease_token, (value ->> 1)::bigint as ttl,
      (value ->> 2)::bigint[] as seqs
    from json_array_elements(p_beats) with ordinality as x(value, n)
  loop
    for e in select * from fencepost.hold_leases(t, b.lease_token, b.seqs) loop
      v_named := array(
        select x.seq from unnest(e.seqs) with ordinality as x(seq, n)
        where x.seq = any (b.seqs) order by x.n
      );
      v_expires_at := greatest(e.expires_at,
        least(t + coalesce(b.ttl, e.lease_ttl) * interval '1 microsecond', e.deadline));
      if v_expires_at > e.expires_at then
        if cardinality(v_named) < cardinality(e.seqs) then
          e := fencepost.part(e, v_named);
        end if;
        update fencepost.leases set expires_at = v_expires_at
        where lease_token = e.lease_token and part = e.part;
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

-- Save progress and checkpoint of a handler; false if it does not hold the job.
create or replace function fencepost.save(
  p_now timestamptz, p_lease_token uuid, p_seq bigint, p_progress text,
  p_checkpoint_encoding smallint, p_checkpoint text, p_checkpoint_bytes bytea
) returns boolean language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  e fencepost.leases;
  v_lease_version bigint;
begin
  select * into e from fencepost.hold_leases(t, p_lease_token, array[p_seq]);
  if not found then
    return false;
  end if;
  v_lease_version := coalesce(
    e.lease_versions[array_position(e.seqs, p_seq)], fencepost.next_version(0, e.started_at));
  -- Its time is written here, where the clock is. It is an object with a fraction at least.
  p_progress := left(p_progress, -1) || ',"at":"'
    || to_char(t at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '"}';
  insert into fencepost.saved as s(
    seq, lease_version, progress, checkpoint_encoding, checkpoint, checkpoint_bytes)
  values (p_seq, v_lease_version, p_progress, p_checkpoint_encoding, p_checkpoint,
    p_checkpoint_bytes)
  on conflict (seq) do update set
    lease_version = excluded.lease_version,
    progress = coalesce(excluded.progress,
      case when s.lease_version = excluded.lease_version then s.progress end),
    checkpoint_encoding = coalesce(excluded.checkpoint_encoding, s.checkpoint_encoding),
    checkpoint = case when excluded.checkpoint_encoding is null then s.checkpoint
      else excluded.checkpoint end,
    checkpoint_bytes = case when excluded.checkpoint_encoding is null then s.checkpoint_bytes
      else excluded.checkpoint_bytes end;
  return true;
end $$;
