-- Record successes; p_groups is [[lease token, "{seq,…}", [result, …] or null], …], by token.
-- Returns null if nothing else happened, or {"lost": [[lease token, seq], …] of those without a
-- valid lease, "moved": dependents, see `count_down`, "deliveries": of webhooks, see `call_back`}.
-- With p_is_joined, in a caller's transaction, only rows of the jobs themselves are locked: notes
-- on their dependents and slots are left for the next claim.
create or replace function fencepost.complete(
  p_now timestamptz, p_groups json, p_is_joined boolean default false
) returns json
language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  g json;
  e fencepost.leases;
  v_parts text[];
  v_lease_token uuid;
  v_seqs bigint[];
  v_results text[];
  v_done bigint[];
  v_lost json[];
  v_count integer;
  v_ended bigint[] := '{}';
begin
  if p_is_joined then
    perform fencepost.hold_jobs(t, p_groups);
  end if;
  for g in select value from json_array_elements(p_groups) loop
    -- Element by element: the operator -> would unescape every string, and some cannot be.
    v_parts := array(select value::text from json_array_elements(g));
    v_lease_token := btrim(v_parts[1], '"')::uuid;
    v_seqs := btrim(v_parts[2], '"')::bigint[];
    v_results := null;
    if v_parts[3] <> 'null' then
      v_results := array(select value::text from json_array_elements(v_parts[3]::json));
    end if;
    for e in select * from fencepost.hold_leases(t, v_lease_token, v_seqs) loop
      v_count := least(cardinality(v_seqs), cardinality(e.seqs));
      if e.seqs[1:v_count] = v_seqs[1:v_count] then
        -- Settled in the order of the claim, which is nearly always the case.
        perform fencepost.complete_first(t, e, v_count, v_results);
        v_ended := v_ended || v_seqs[1:v_count];
        v_seqs := v_seqs[v_count + 1:];
        v_results := v_results[v_count + 1:];
      else
        v_done := fencepost.complete_some(t, e, v_seqs, v_results);
        v_ended := v_ended || v_done;
        select coalesce(array_agg(x.seq order by x.n), '{}'), array_agg(x.result order by x.n)
        into v_seqs, v_results
        from unnest(v_seqs, v_results) with ordinality as x(seq, result, n)
        where x.seq <> all (v_done);
      end if;
    end loop;
    if v_seqs <> '{}' then
      v_lost := v_lost || array(select json_build_array(v_lease_token, x) from unnest(v_seqs) as x);
    end if;
  end loop;
  return fencepost.follow_completion(p_now, v_ended, v_lost, p_is_joined);
end $$;

-- Record the success of the first p_count jobs of a lease.
create or replace function fencepost.complete_first(
  t timestamptz, e fencepost.leases, p_count integer, p_results text[]
) returns void language plpgsql as $$
declare
  v_lease_version constant bigint := fencepost.next_version(0, e.started_at);
begin
  insert into fencepost.done(
    seq, completed_at, started_at, scheduled_at, lease_token, attempt, lease_version, state,
    result_encoding, worker, result)
  select x.seq, t, e.started_at, x.scheduled_at, e.lease_token, coalesce(x.attempt, 1),
    coalesce(x.lease_version, v_lease_version), :COMPLETED, 0, e.worker, coalesce(x.result, 'null')
  from unnest(e.seqs[1:p_count], e.attempts[1:p_count], e.lease_versions[1:p_count],
    e.scheduled_ats[1:p_count], p_results[1:p_count])
    as x(seq, attempt, lease_version, scheduled_at, result);
  if p_count = cardinality(e.seqs) then
    delete from fencepost.leases where lease_token = e.lease_token and part = e.part;
  else
    update fencepost.leases set seqs = e.seqs[p_count + 1:],
      attempts = e.attempts[p_count + 1:], lease_versions = e.lease_versions[p_count + 1:],
      run_ats = e.run_ats[p_count + 1:], scheduled_ats = e.scheduled_ats[p_count + 1:]
    where lease_token = e.lease_token and part = e.part;
  end if;
  insert into fencepost.counters(lane, state, count)
  values (e.lane, :RUNNING, -p_count), (e.lane, :COMPLETED, p_count);
end $$;

-- Record the success of those of p_seqs that a lease holds; returns these.
create or replace function fencepost.complete_some(
  t timestamptz, e fencepost.leases, p_seqs bigint[], p_results text[]
) returns bigint[] language plpgsql as $$
declare
  v_lease_version constant bigint := fencepost.next_version(0, e.started_at);
  v_done bigint[];
  v_count integer;
begin
  with ended as (
    insert into fencepost.done(
      seq, completed_at, started_at, scheduled_at, lease_token, attempt, lease_version, state,
      result_encoding, worker, result)
    select held.seq, t, e.started_at, held.scheduled_at, e.lease_token, coalesce(held.attempt, 1),
      coalesce(held.lease_version, v_lease_version), :COMPLETED, 0, e.worker,
      coalesce(given.result, 'null')
    from unnest(e.seqs, e.attempts, e.lease_versions, e.scheduled_ats)
      as held(seq, attempt, lease_version, scheduled_at)
    join unnest(p_seqs, p_results) as given(seq, result) on given.seq = held.seq
    returning seq
  )
  select coalesce(array_agg(seq), '{}'), count(*) into v_done, v_count from ended;
  if v_count > 0 then
    perform fencepost.shrink(e, v_done);
    insert into fencepost.counters(lane, state, count)
    values (e.lane, :RUNNING, -v_count), (e.lane, :COMPLETED, v_count);
  end if;
  return v_done;
end $$;

-- Release dependents and slots of completed jobs, and store webhook deliveries; returns what
-- `complete` does.
create or replace function fencepost.follow_completion(
  p_now timestamptz, p_ended bigint[], p_lost json[], p_is_joined boolean
) returns json language plpgsql as $$
declare
  v_slots bigint[];
  has_dependents boolean;
  has_callbacks boolean;
  v_moved json;
  v_deliveries json;
begin
  -- By a separate statement, after the locks: it sees dependents that were added before they were
  -- granted.
  select array(select slot from fencepost.keyed_jobs where seq = any (p_ended)),
    exists (select 1 from fencepost.dependencies where parent = any (p_ended)),
    exists (select 1 from fencepost.callbacks where seq = any (p_ended))
  into v_slots, has_dependents, has_callbacks;
  if p_is_joined then
    -- Above read committed, an old snapshot does not show new dependents.
    insert into fencepost.unresolved(seq, has_ended)
    select x, true from unnest(p_ended) as x
    where current_setting('transaction_isolation') <> 'read committed'
      or exists (select 1 from fencepost.dependencies where parent = x);
    insert into fencepost.freed_slots(slot, freed) select x, 1 from unnest(v_slots) as x;
    v_slots := '{}';
  elsif has_dependents then
    v_moved := fencepost.let_go(p_now, p_ended);
  end if;
  if v_slots <> '{}' or v_moved is not null then
    v_moved := fencepost.admit_after(p_now, v_slots, v_moved);
  end if;
  if has_callbacks then
    v_deliveries := fencepost.call_back(p_now, p_ended);
  end if;
  if p_lost is null and v_moved is null and v_deliveries is null then
    return null;
  end if;
  return json_build_object('lost', array_to_json(p_lost), 'moved', v_moved, 'deliveries', v_deliveries);
end $$;

-- Have a webhook sent when a job ends; p_how is [lane, policy, max_attempts, lifetime] of the
-- delivery.
create or replace function fencepost.ask_back(p_seq bigint, p_how json) returns void language plpgsql as $$
begin
  perform fencepost.check_numbers((p_how ->> 0)::integer, (p_how ->> 1)::integer);
  insert into fencepost.callbacks(seq, lane, policy, max_attempts, lifetime)
  values (p_seq, (p_how ->> 0)::integer, (p_how ->> 1)::integer, (p_how ->> 2)::integer,
    (p_how ->> 3)::bigint);
end $$;

-- Store the webhook deliveries of jobs that have ended; returns [[id, lane, state], …], or null.
create or replace function fencepost.call_back(p_now timestamptz, p_ended bigint[]) returns json
language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off as $$
declare
  t timestamptz;
  v_deliveries json;
begin
  perform pg_current_xact_id();
  t := coalesce(p_now, clock_timestamp());
  with deliveries as materialized (
    select nextval('fencepost.seq') as seq, gen_random_uuid() as id, asked.* from (
      select c.lane, c.policy, c.max_attempts, c.lifetime, j.correlation_id, json_build_object(
          'job_id', j.id, 'url', j.callback_url,
          'state',
          (array['completed', 'failed', 'dead_letter', 'cancelled'])[d.state - :COMPLETED + 1],
          'completed_at',
          to_char(d.completed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
          'attempt', d.attempt)::text as payload
      from fencepost.callbacks c
      join fencepost.submissions j on j.seq = any (array[c.seq])
      join fencepost.done d on d.seq = any (array[c.seq])
      where c.seq = any (p_ended) order by c.seq
    ) as asked
  ), stored as (
    insert into fencepost.submissions(
      seq, id, created_at, run_at, expires_at, lane, policy, max_attempts, correlation_id, payload)
    select seq, id, t, t, t + lifetime * interval '1 microsecond', lane, policy, max_attempts,
      correlation_id, payload
    from deliveries
  ), in_line as (
    insert into fencepost.ready(lane, run_at, seq) select lane, t, seq from deliveries
  ), counted as (
    insert into fencepost.counters(lane, state, count)
    select lane, :SCHEDULED, count(*) from deliveries group by lane
  )
  select json_agg(json_build_array(id, lane, :SCHEDULED) order by seq) into v_deliveries
  from deliveries;
  return v_deliveries;
end $$;
