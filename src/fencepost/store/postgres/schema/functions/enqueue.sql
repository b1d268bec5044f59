-- Jobs that differ in nothing but id and payload; returns the state in which they are stored.
create or replace function fencepost.enqueue(
  p_now timestamptz, p_lane integer, p_policy integer, p_max_attempts integer, p_delay bigint,
  p_run_at timestamptz, p_lifetime bigint, p_ids uuid[], p_payloads json, p_submitter text
) returns smallint language plpgsql
set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t timestamptz;
  due timestamptz;
  v_state smallint;
  v_expires_at timestamptz;
begin
  perform fencepost.check_numbers(p_lane, p_policy);
  -- The transaction has its number before it reads the clock: `tidy` relies on it.
  perform pg_current_xact_id();
  t := coalesce(p_now, clock_timestamp());
  due := greatest(coalesce(p_run_at, t + p_delay * interval '1 microsecond'), t);
  v_state := case when due <= t then 1 else 2 end;
  v_expires_at := t + p_lifetime * interval '1 microsecond';
  if v_state = 1 then
    with j as (
      insert into fencepost.job(
        seq, id, created_at, run_at, expires_at, lane, policy, max_attempts, payload, submitter)
      select nextval('fencepost.seq'), x.id, t, due, v_expires_at, p_lane, p_policy,
        p_max_attempts, x.payload::text, p_submitter
      from rows from (unnest(p_ids), json_array_elements(p_payloads)) as x(id, payload)
      returning seq
    )
    insert into fencepost.ready(lane, run_at, seq) select p_lane, due, j.seq from j;
  else
    with j as (
      insert into fencepost.job(
        seq, id, created_at, run_at, expires_at, lane, policy, max_attempts, payload, submitter)
      select nextval('fencepost.seq'), x.id, t, due, v_expires_at, p_lane, p_policy,
        p_max_attempts, x.payload::text, p_submitter
      from rows from (unnest(p_ids), json_array_elements(p_payloads)) as x(id, payload)
      returning seq
    )
    insert into fencepost.delayed(seq, run_at, since, lane, attempt, version, state)
    select j.seq, due, t, p_lane, 0, 0, 2 from j;
  end if;
  insert into fencepost.tally(lane, state, count) values (p_lane, v_state, cardinality(p_ids));
  perform fencepost.note_order(p_now, t);
  return v_state;
end $$;

-- Jobs with a key, tags, a correlation id or a binary payload, one after another. For each returns
-- [state, null], or [state of the holder, id of the holder] if its key is held. One with a
-- concurrency key is held up; with p_admits, it is let in if there is a slot for it.
create or replace function fencepost.enqueue_each(p_now timestamptz, p_jobs json, p_admits boolean)
returns json language plpgsql set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t timestamptz;
  due timestamptz;
  j fencepost.new_job;
  k fencepost.numbered_jobs;
  v_seq bigint;
  v_state smallint;
  v_replies json[] := '{}';
  v_stored bigint[] := '{}';
  v_lane integer;
  v_policy integer;
  is_held boolean := false;
begin
  perform pg_current_xact_id();
  t := coalesce(p_now, clock_timestamp());
  if json_array_length(p_jobs) > 1 then
    k := fencepost.number_each(t, p_jobs);
  end if;
  for j in select * from json_populate_recordset(null::fencepost.new_job, p_jobs) loop
    if (j.lane, j.policy) is distinct from (v_lane, v_policy) then
      perform fencepost.check_numbers(j.lane, j.policy);
      v_lane := j.lane;
      v_policy := j.policy;
    end if;
    v_seq := coalesce(k.seqs[cardinality(v_replies) + 1], nextval('fencepost.seq'));
    if j.key is not null and not coalesce(k.taken[cardinality(v_replies) + 1],
      fencepost.take_key(t, j.type, j.key, v_seq, j.key_window)) then
      v_replies := v_replies || fencepost.holder(j.type, j.key);
      continue;
    end if;
    due := greatest(coalesce(j.run_at, t + j.delay * interval '1 microsecond'), t);
    v_state := case when j.missing > 0 then 0 when due > t then 2
      when j.slot is not null then 0 else 1 end;
    insert into fencepost.job(
      seq, id, created_at, run_at, expires_at, lane, policy, max_attempts, key, key_window,
      correlation_id, tags, replay_of, encoding, payload, payload_bytes, flow, node, mode, depth,
      gathers, callback_url, own_priority, submitter)
    values (v_seq, j.id, t, due, t + j.lifetime * interval '1 microsecond', j.lane, j.policy,
      j.max_attempts, j.key, j.key_window, j.correlation_id, j.tags, j.replay_of, j.encoding,
      j.payload, decode(j.payload_hex, 'hex'), j.flow, j.node, j.mode, j.depth, j.gathers,
      j.callback_url, j.own_priority, j.submitter);
    if v_state = 1 then
      insert into fencepost.ready(lane, run_at, seq) values (j.lane, due, v_seq);
    end if;
    if v_state <> 1 or j.callback is not null or j.slot is not null then
      perform fencepost.enqueue_waiting(v_seq, t, due, v_state, j);
      is_held := is_held or v_state = 0;
    end if;
    insert into fencepost.tally(lane, state, count) values (j.lane, v_state, 1);
    v_replies := v_replies || json_build_array(v_state, null);
    v_stored[cardinality(v_replies)] := v_seq;
  end loop;
  perform fencepost.note_order(p_now, t);
  return array_to_json(case when p_admits and is_held
    then fencepost.admit_new(p_now, v_stored, v_replies) else v_replies end);
end $$;

-- Give numbers to several jobs, and keys to those that ask for one. Numbers are in the order of the
-- jobs, keys are taken in the one order in which everybody takes them.
create or replace function fencepost.number_each(t timestamptz, p_jobs json)
returns fencepost.numbered_jobs language plpgsql as $$
declare
  j record;
  k fencepost.numbered_jobs;
  v_count constant integer := json_array_length(p_jobs);
begin
  k.seqs := array(select nextval('fencepost.seq') from generate_series(1, v_count));
  k.taken := array_fill(false, array[v_count]);
  for j in
    select x.n, x.value ->> 'type' as type, x.value ->> 'key' as key,
      (x.value ->> 'key_window')::bigint as key_window
    from json_array_elements(p_jobs) with ordinality as x(value, n)
    where x.value ->> 'key' is not null
    order by (x.value ->> 'type') collate "C", (x.value ->> 'key') collate "C", x.n
  loop
    k.taken[j.n] := fencepost.take_key(t, j.type, j.key, k.seqs[j.n], j.key_window);
  end loop;
  return k;
end $$;

-- Store what few jobs have: what is to be called back, a concurrency key, and something to wait for.
create or replace function fencepost.enqueue_waiting(
  p_seq bigint, t timestamptz, due timestamptz, p_state smallint, j fencepost.new_job
) returns void language plpgsql as $$
begin
  if j.callback is not null then
    perform fencepost.ask_back(p_seq, j.callback);
  end if;
  if j.slot is not null then
    insert into fencepost.keyed(seq, slot, max_running, key)
    values (p_seq, j.slot, j.max_running, j.concurrency_key);
  end if;
  if p_state = 0 and coalesce(j.missing, 0) = 0 then
    insert into fencepost.pending(
      seq, run_at, since, lane, attempt, version, mode, missing, slot, priority)
    values (p_seq, due, t, j.lane, 0, 0, j.mode, 0, j.slot, coalesce(
      j.priority, (select lane.priority from fencepost.lane where lane.lane = j.lane)));
  elsif p_state = 0 then
    insert into fencepost.pending(seq, run_at, since, lane, attempt, version, mode, missing)
    values (p_seq, due, t, j.lane, 0, 0, j.mode, j.missing);
  elsif p_state = 2 then
    insert into fencepost.delayed(seq, run_at, since, lane, attempt, version, state)
    values (p_seq, due, t, j.lane, 0, 0, 2);
  end if;
end $$;

-- Let in those of p_stored, the numbers of new jobs in the order of p_replies, for which there is a slot;
-- returns the replies as they are then.
create or replace function fencepost.admit_new(
  p_now timestamptz, p_stored bigint[], p_replies json[]
) returns json[] language plpgsql as $$
declare
  v_replies json[] := p_replies;
  v_seq bigint;
begin
  for v_seq in
    select a.seq from fencepost.admit(p_now, array(
      select p.slot from fencepost.pending p where p.seq = any (p_stored) and p.slot is not null
      order by p.seq
    ), null) as a
  loop
    if v_seq = any (p_stored) then
      v_replies[array_position(p_stored, v_seq)] := json_build_array(1, null);
    end if;
  end loop;
  return v_replies;
end $$;

-- Jobs of flows and jobs that wait for others, whose numbers, keys and places among each other are
-- settled: `ended` and `failure` are set for one that has ended with what it was to wait for.
-- Returns the states in which they are stored.
create or replace function fencepost.enqueue_graph(p_now timestamptz, p_jobs json)
returns smallint[] language plpgsql set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t timestamptz;
  v_states smallint[];
  v_checked bigint;
  v_last bigint;
begin
  perform pg_current_xact_id();
  t := coalesce(p_now, clock_timestamp());
  with placed as materialized (
    select x.*, y.due, coalesce(x.ended, case when x.missing > 0 then 0 when y.due > t then 2
      when x.slot is not null then 0 else 1 end)::smallint as state
    from json_populate_recordset(null::fencepost.new_job, p_jobs) as x
    cross join greatest(coalesce(x.run_at, t + x.delay * interval '1 microsecond'), t) as y(due)
  ), stored as (
    insert into fencepost.job(
      seq, id, created_at, run_at, expires_at, lane, policy, max_attempts, key, key_window,
      correlation_id, tags, encoding, payload, payload_bytes, flow, node, mode, depth, gathers,
      callback_url, own_priority, submitter)
    select seq, id, t, due, t + lifetime * interval '1 microsecond', lane, policy, max_attempts,
      key, key_window, correlation_id, tags, encoding, payload, decode(payload_hex, 'hex'), flow,
      node, mode, depth, gathers, callback_url, own_priority, submitter
    from placed
  ), named as (
    insert into fencepost.keyed(seq, slot, max_running, key)
    select seq, slot, max_running, concurrency_key from placed where slot is not null
  ), asked as (
    select fencepost.ask_back(seq, callback) from placed where callback is not null
  ), linked as (
    insert into fencepost.dependency(parent, child, place)
    select x.parent, placed.seq, x.place
    from placed cross join lateral unnest(placed.parents) with ordinality as x(parent, place)
  ), held_up as (
    insert into fencepost.pending(
      seq, run_at, since, lane, attempt, version, mode, missing, slot, priority)
    select seq, due, t, placed.lane, 0, 0, mode, coalesce(missing, 0),
      case when coalesce(missing, 0) = 0 then slot end,
      case when coalesce(missing, 0) = 0 then placed.priority end
    from placed where state = 0
  ), in_line as (
    insert into fencepost.ready(lane, run_at, seq) select lane, due, seq from placed where state = 1
  ), waiting as (
    insert into fencepost.delayed(seq, run_at, since, lane, attempt, version, state)
    select seq, due, t, lane, 0, 0, 2 from placed where state = 2
  ), over as (
    insert into fencepost.done(
      seq, ended_at, scheduled_at, attempt, version, state, is_dead_letter, failure)
    select seq, t, '-infinity', 0, 0, state, is_dead_letter, failure from placed where state >= 5
  ), counted as (
    insert into fencepost.tally(lane, state, count)
    select lane, state, count(*) from placed group by lane, state
  )
  select array_agg(state order by seq), max(seq), (select count(*) from asked) + (
    select count(*) from (select distinct lane, policy from placed) as x
    cross join lateral fencepost.check_numbers(x.lane, x.policy) as checked
  ) into v_states, v_last, v_checked from placed;
  perform fencepost.note_order_after(p_now, v_last, t);
  return v_states;
end $$;
