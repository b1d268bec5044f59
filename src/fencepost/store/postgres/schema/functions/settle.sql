-- Record successes; p_groups is [[secret, "{seq,…}", [result, …] or null], …], by secret. Returns
-- null if that is all there is to say, or {"lost": [[secret, seq], …] of those that were not held,
-- "moved": of those that waited for them, see `count_down`, "told": of webhooks, see `call_back`}.
-- With p_is_joined, in a transaction of a caller's, nobody's rows are locked but those of the jobs
-- themselves: a note is left for the next claim, of who waits for them and of their slots.
create or replace function fencepost.complete(
  p_now timestamptz, p_groups json, p_is_joined boolean default false
) returns json
language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  g json;
  e fencepost.lease;
  v_parts text[];
  v_secret uuid;
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
    v_secret := btrim(v_parts[1], '"')::uuid;
    v_seqs := btrim(v_parts[2], '"')::bigint[];
    v_results := null;
    if v_parts[3] <> 'null' then
      v_results := array(select value::text from json_array_elements(v_parts[3]::json));
    end if;
    for e in select * from fencepost.hold_leases(t, v_secret, v_seqs) loop
      v_count := least(cardinality(v_seqs), cardinality(e.seqs));
      if e.seqs[1:v_count] = v_seqs[1:v_count] then
        -- As they were claimed, so they end: nearly always.
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
      v_lost := v_lost || array(select json_build_array(v_secret, x) from unnest(v_seqs) as x);
    end if;
  end loop;
  return fencepost.follow_completion(p_now, v_ended, v_lost, p_is_joined);
end $$;

-- Record the success of the first p_count jobs of a lease.
create or replace function fencepost.complete_first(
  t timestamptz, e fencepost.lease, p_count integer, p_results text[]
) returns void language plpgsql as $$
declare
  v_version constant bigint := fencepost.next_version(0, e.started_at);
begin
  insert into fencepost.done(
    seq, ended_at, started_at, scheduled_at, secret, attempt, version, state, encoding, worker,
    result)
  select x.seq, t, e.started_at, x.scheduled_at, e.secret, coalesce(x.attempt, 1),
    coalesce(x.version, v_version), 5, 0, e.worker, coalesce(x.result, 'null')
  from unnest(e.seqs[1:p_count], e.attempts[1:p_count], e.versions[1:p_count],
    e.scheduled_ats[1:p_count], p_results[1:p_count])
    as x(seq, attempt, version, scheduled_at, result);
  if p_count = cardinality(e.seqs) then
    delete from fencepost.lease where secret = e.secret and part = e.part;
  else
    update fencepost.lease set seqs = e.seqs[p_count + 1:],
      attempts = e.attempts[p_count + 1:], versions = e.versions[p_count + 1:],
      run_ats = e.run_ats[p_count + 1:], scheduled_ats = e.scheduled_ats[p_count + 1:]
    where secret = e.secret and part = e.part;
  end if;
  insert into fencepost.tally(lane, state, count)
  values (e.lane, 3, -p_count), (e.lane, 5, p_count);
end $$;

-- Record the success of those of p_seqs that a lease holds; returns these.
create or replace function fencepost.complete_some(
  t timestamptz, e fencepost.lease, p_seqs bigint[], p_results text[]
) returns bigint[] language plpgsql as $$
declare
  v_version constant bigint := fencepost.next_version(0, e.started_at);
  v_done bigint[];
  v_count integer;
begin
  with ended as (
    insert into fencepost.done(
      seq, ended_at, started_at, scheduled_at, secret, attempt, version, state, encoding, worker,
      result)
    select held.seq, t, e.started_at, held.scheduled_at, e.secret, coalesce(held.attempt, 1),
      coalesce(held.version, v_version), 5, 0, e.worker, coalesce(given.result, 'null')
    from unnest(e.seqs, e.attempts, e.versions, e.scheduled_ats)
      as held(seq, attempt, version, scheduled_at)
    join unnest(p_seqs, p_results) as given(seq, result) on given.seq = held.seq
    returning seq
  )
  select coalesce(array_agg(seq), '{}'), count(*) into v_done, v_count from ended;
  if v_count > 0 then
    perform fencepost.shrink(e, v_done);
    insert into fencepost.tally(lane, state, count)
    values (e.lane, 3, -v_count), (e.lane, 5, v_count);
  end if;
  return v_done;
end $$;

-- Do what follows from the success of jobs; returns what `complete` does.
create or replace function fencepost.follow_completion(
  p_now timestamptz, p_ended bigint[], p_lost json[], p_is_joined boolean
) returns json language plpgsql as $$
declare
  v_slots bigint[];
  has_dependents boolean;
  has_callbacks boolean;
  v_moved json;
  v_told json;
begin
  -- By a statement of its own, after the locks: it sees who came to wait before they were had.
  select array(select slot from fencepost.keyed where seq = any (p_ended)),
    exists (select 1 from fencepost.dependency where parent = any (p_ended)),
    exists (select 1 from fencepost.callback where seq = any (p_ended))
  into v_slots, has_dependents, has_callbacks;
  if p_is_joined then
    -- Above read committed, an old snapshot does not show who came to wait since.
    insert into fencepost.unsure(seq, has_ended)
    select x, true from unnest(p_ended) as x
    where current_setting('transaction_isolation') <> 'read committed'
      or exists (select 1 from fencepost.dependency where parent = x);
    insert into fencepost.touched(slot, freed) select x, 1 from unnest(v_slots) as x;
    v_slots := '{}';
  elsif has_dependents then
    v_moved := fencepost.let_go(p_now, p_ended);
  end if;
  if v_slots <> '{}' or v_moved is not null then
    v_moved := fencepost.admit_after(p_now, v_slots, v_moved);
  end if;
  if has_callbacks then
    v_told := fencepost.call_back(p_now, p_ended);
  end if;
  if p_lost is null and v_moved is null and v_told is null then
    return null;
  end if;
  return json_build_object('lost', array_to_json(p_lost), 'moved', v_moved, 'told', v_told);
end $$;
