-- Store jobs that differ only in id and payload; returns their state.
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
  v_state := case when due <= t then :SCHEDULED else :DELAYED end;
  v_expires_at := t + p_lifetime * interval '1 microsecond';
  if v_state = :SCHEDULED then
    with j as (
      insert into fencepost.submissions(
        seq, id, created_at, run_at, expires_at, lane, policy, max_attempts, payload, submitter)
      select nextval('fencepost.seq'), x.id, t, due, v_expires_at, p_lane, p_policy,
        p_max_attempts, x.payload::text, p_submitter
      from rows from (unnest(p_ids), json_array_elements(p_payloads)) as x(id, payload)
      returning seq
    )
    insert into fencepost.ready(lane, run_at, seq) select p_lane, due, j.seq from j;
  else
    with j as (
      insert into fencepost.submissions(
        seq, id, created_at, run_at, expires_at, lane, policy, max_attempts, payload, submitter)
      select nextval('fencepost.seq'), x.id, t, due, v_expires_at, p_lane, p_policy,
        p_max_attempts, x.payload::text, p_submitter
      from rows from (unnest(p_ids), json_array_elements(p_payloads)) as x(id, payload)
      returning seq
    )
    insert into fencepost.delayed(seq, run_at, updated_at, lane, attempt, lease_version, state)
    select j.seq, due, t, p_lane, 0, 0, :DELAYED from j;
  end if;
  insert into fencepost.counters(lane, state, count) values (p_lane, v_state, cardinality(p_ids));
  perform fencepost.note_order(p_now, t);
  return v_state;
end $$;

-- Store jobs with a key, tags, a correlation id or a binary payload, one after another. Returns
-- [state, null] for each, or what `holder_of` says if its key is held. A job with a concurrency key
-- is blocked; with p_admits, it becomes ready if there is a slot for it.
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
      v_replies := v_replies || fencepost.holder_of(j);
      continue;
    end if;
    due := greatest(coalesce(j.run_at, t + j.delay * interval '1 microsecond'), t);
    v_state := case when j.missing > 0 then :PENDING when due > t then :DELAYED
      when j.slot is not null then :PENDING else :SCHEDULED end;
    insert into fencepost.submissions(
      seq, id, created_at, run_at, expires_at, lane, policy, max_attempts, key, key_window,
      correlation_id, tags, replay_of, payload_encoding, payload, payload_bytes, flow, node, mode,
      depth, gathers, callback_url, own_priority, submitter)
    values (v_seq, j.id, t, due, t + j.lifetime * interval '1 microsecond', j.lane, j.policy,
      j.max_attempts, j.key, j.key_window, j.correlation_id, j.tags, j.replay_of,
      j.payload_encoding, j.payload, decode(j.payload_hex, 'hex'), j.flow, j.node, j.mode,
      j.depth, j.gathers, j.callback_url, j.own_priority, j.submitter);
    if v_state = :SCHEDULED then
      insert into fencepost.ready(lane, run_at, seq) values (j.lane, due, v_seq);
    end if;
    if v_state <> :SCHEDULED or j.callback is not null or j.slot is not null then
      perform fencepost.enqueue_waiting(v_seq, t, due, v_state, j);
      is_held := is_held or v_state = :PENDING;
    end if;
    insert into fencepost.counters(lane, state, count) values (j.lane, v_state, 1);
    v_replies := v_replies || json_build_array(v_state, null);
    v_stored[cardinality(v_replies)] := v_seq;
  end loop;
  perform fencepost.note_order(p_now, t);
  return array_to_json(case when p_admits and is_held
    then fencepost.admit_new(p_now, v_stored, v_replies) else v_replies end);
end $$;

-- Give numbers to several jobs, and keys to those that ask for one. Numbers follow the order of the
-- jobs; keys are taken in the one order that all transactions use.
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

-- Store what few jobs have: a webhook, a concurrency key, something to wait for.
create or replace function fencepost.enqueue_waiting(
  p_seq bigint, t timestamptz, due timestamptz, p_state smallint, j fencepost.new_job
) returns void language plpgsql as $$
declare
  is_held constant boolean := coalesce(j.missing, 0) = 0;
begin
  if j.callback is not null then
    perform fencepost.ask_back(p_seq, j.callback);
  end if;
  if j.slot is not null then
    insert into fencepost.keyed_jobs(seq, slot, max_running, concurrency_key)
    values (p_seq, j.slot, j.max_running, j.concurrency_key);
  end if;
  if p_state = :PENDING then
    insert into fencepost.pending(
      seq, run_at, updated_at, lane, attempt, lease_version, mode, missing, slot, priority)
    values (p_seq, due, t, j.lane, 0, 0, j.mode, coalesce(j.missing, 0),
      case when is_held then j.slot end, case when is_held then coalesce(j.priority, (
        select lanes.priority from fencepost.lanes where lanes.lane = j.lane)) end);
  elsif p_state = :DELAYED then
    insert into fencepost.delayed(seq, run_at, updated_at, lane, attempt, lease_version, state)
    values (p_seq, due, t, j.lane, 0, 0, :DELAYED);
  end if;
end $$;

-- Admit those of p_stored, the numbers of new jobs in the order of p_replies, for which there is a
-- slot; returns the replies with their new states.
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
      v_replies[array_position(p_stored, v_seq)] := json_build_array(:SCHEDULED, null);
    end if;
  end loop;
  return v_replies;
end $$;

-- Store jobs of flows and jobs that depend on others, whose numbers, keys and dependencies are
-- known: `ended` and `failure` are set for a job that ends because of a failed dependency. Returns
-- the states of the jobs.
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
    select x.*, y.due, coalesce(x.ended, case
      when x.missing > 0 then :PENDING when y.due > t then :DELAYED
      when x.slot is not null then :PENDING else :SCHEDULED end)::smallint as state
    from json_populate_recordset(null::fencepost.new_job, p_jobs) as x
    cross join greatest(coalesce(x.run_at, t + x.delay * interval '1 microsecond'), t) as y(due)
  ), stored as (
    insert into fencepost.submissions(
      seq, id, created_at, run_at, expires_at, lane, policy, max_attempts, key, key_window,
      correlation_id, tags, payload_encoding, payload, payload_bytes, flow, node, mode, depth,
      gathers, callback_url, own_priority, submitter)
    select seq, id, t, due, t + lifetime * interval '1 microsecond', lane, policy, max_attempts,
      key, key_window, correlation_id, tags, payload_encoding, payload, decode(payload_hex, 'hex'),
      flow, node, mode, depth, gathers, callback_url, own_priority, submitter from placed
  ), named as (
    insert into fencepost.keyed_jobs(seq, slot, max_running, concurrency_key)
    select seq, slot, max_running, concurrency_key from placed where slot is not null
  ), asked as (
    select fencepost.ask_back(seq, callback) from placed where callback is not null
  ), linked as (
    insert into fencepost.dependencies(parent, child, place)
    select x.parent, seq, x.place from placed, unnest(parents) with ordinality as x(parent, place)
  ), held_up as (
    insert into fencepost.pending(
      seq, run_at, updated_at, lane, attempt, lease_version, mode, missing, slot, priority)
    select seq, due, t, placed.lane, 0, 0, mode, coalesce(missing, 0),
      case when coalesce(missing, 0) = 0 then slot end,
      case when coalesce(missing, 0) = 0 then placed.priority end
    from placed where state = :PENDING
  ), in_line as (
    insert into fencepost.ready(lane, run_at, seq)
    select lane, due, seq from placed where state = :SCHEDULED
  ), waiting as (
    insert into fencepost.delayed(seq, run_at, updated_at, lane, attempt, lease_version, state)
    select seq, due, t, lane, 0, 0, :DELAYED from placed where state = :DELAYED
  ), over as (
    insert into fencepost.done(seq, completed_at, scheduled_at, attempt, lease_version, state,
      is_dead_letter, failure) select seq, t, '-infinity', 0, 0, state, is_dead_letter, failure
    from placed where state >= :COMPLETED
  ), counted as (
    insert into fencepost.counters(lane, state, count)
    select lane, state, count(*) from placed group by lane, state
  )
  select array_agg(state order by seq), max(seq), (select count(*) from asked) + (
    select count(*) from (select distinct lane, policy from placed) as x
    cross join lateral fencepost.check_numbers(x.lane, x.policy) as checked
  ) into v_states, v_last, v_checked from placed;
  perform fencepost.note_order_after(p_now, v_last, t);
  return v_states;
end $$;

-- Record that jobs numbered until now may be in any order; t is the time of the latest.
create or replace function fencepost.note_disorder(t timestamptz) returns void language plpgsql as $$
begin
  insert into fencepost.disorder(seq, created_at)
  select last_value, greatest(t, clock_timestamp()) from fencepost.seq;
end $$;

-- To call when jobs created at t have got their numbers: if that took long, others were created and
-- numbered meanwhile.
create or replace function fencepost.note_order(p_now timestamptz, t timestamptz) returns void
language plpgsql as $$
begin
  if p_now is null and clock_timestamp() - t > interval '500 milliseconds' then
    perform fencepost.note_disorder(t);
  end if;
end $$;

-- The same for jobs that were numbered by an earlier statement, up to p_last: they may have waited
-- for keys meanwhile.
create or replace function fencepost.note_order_after(
  p_now timestamptz, p_last bigint, t timestamptz
) returns void language plpgsql as $$
declare
  v_next timestamptz;
begin
  select created_at into v_next from fencepost.submissions where seq > p_last order by seq limit 1;
  if v_next < t - interval '500 milliseconds' then
    perform fencepost.note_disorder(t);
  end if;
  perform fencepost.note_order(p_now, t);
end $$;

-- The first number of jobs created at p_at or later, to within a second. Numbers up to p_after are
-- left out.
create or replace function fencepost.first_since(p_at timestamptz, p_after bigint) returns bigint
language plpgsql stable set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_low bigint := p_after + 1;
  v_high bigint := coalesce((select max(seq) from fencepost.submissions), 0) + 1;
  v_middle bigint;
  j record;
begin
  while v_low < v_high loop
    v_middle := v_low + (v_high - v_low) / 2;
    select seq, created_at into j from fencepost.submissions
    where seq >= v_middle order by seq limit 1;
    if j.created_at >= p_at then
      v_high := v_middle;
    else
      v_low := j.seq + 1;
    end if;
  end loop;
  return v_low;
end $$;

-- Give keys to jobs; p_keys is [[type, key, seq, window], …]. Returns for each null, or [state, id]
-- of the job that holds it.
create or replace function fencepost.take_keys(p_now timestamptz, p_keys json) returns json language plpgsql
as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  k record;
  v_holders json[] := array_fill('null'::json, array[json_array_length(p_keys)]);
begin
  for k in
    select x.n, x.value ->> 0 as type, x.value ->> 1 as key, (x.value ->> 2)::bigint as seq,
      (x.value ->> 3)::bigint as key_window
    from json_array_elements(p_keys) with ordinality as x(value, n)
    order by (x.value ->> 0) collate "C", (x.value ->> 1) collate "C"
  loop
    if not fencepost.take_key(t, k.type, k.key, k.seq, k.key_window) then
      v_holders[k.n] := fencepost.holder(k.type, k.key);
    end if;
  end loop;
  return array_to_json(v_holders);
end $$;

-- Give a key to job p_seq; false if it is held. A holder that this snapshot cannot see was submitted
-- a moment ago and holds it.
create or replace function fencepost.take_key(
  t timestamptz, p_type text, p_key text, p_seq bigint, p_window bigint
) returns boolean language plpgsql as $$
declare
  v_ends_at timestamptz := t + p_window * interval '1 microsecond';
begin
  loop
    insert into fencepost.idempotency(type, key, seq, key_ends_at)
    values (p_type, p_key, p_seq, v_ends_at) on conflict (type, key) do nothing;
    if found then
      return true;
    end if;
    -- First the lock, then the look, by a later statement: the transaction that had the lock before
    -- may have reopened the holder, and a snapshot from before the wait would still show it as
    -- ended.
    perform 1 from fencepost.idempotency where type = p_type and key = p_key for update;
    if found then  -- and not pruned in between
      update fencepost.idempotency as held set seq = p_seq, key_ends_at = v_ends_at
      where held.type = p_type and held.key = p_key and (held.seq = p_seq or (
        exists (select 1 from fencepost.done where done.seq = held.seq)
        and (held.key_ends_at is null or held.key_ends_at <= t)
      ));
      return found;
    end if;
  end loop;
end $$;

-- Lock terminal jobs that are to run again, by their ids: first their keys, then their rows of done,
-- each in one order.
create or replace function fencepost.lock_ended(p_ids uuid[]) returns void language plpgsql as $$
begin
  perform 1 from fencepost.idempotency held
  join (
    select l.type, j.key from fencepost.submissions j join fencepost.lanes l on l.lane = j.lane
    where j.id = any (p_ids) and j.key is not null
  ) as own on own.type = held.type and own.key = held.key
  order by held.type collate "C", held.key collate "C" for update of held;
  perform 1 from fencepost.done where seq = any (array(
    select seq from fencepost.submissions where id = any (p_ids))) order by seq for update;
end $$;

-- [state, id] of the job that holds a key.
create or replace function fencepost.holder(p_type text, p_key text) returns json language sql stable as $$
  select json_build_array(jobs.state, jobs.id)
  from fencepost.idempotency held join fencepost.jobs on jobs.seq = held.seq
  where held.type = p_type and held.key = p_key
$$;

-- The same for the key of a job to be stored, followed by the holder's payload (encoding, text, bytes)
-- if that is another one, byte by byte; of a large one (COMPARED_BYTES_MAX) the encoding alone, since a
-- batch may have thousands. Encrypted payloads always are others, and are left out.
create or replace function fencepost.holder_of(j fencepost.new_job) returns json language sql stable as $$
  select case
    when j.payload_encoding = 2 /* ENCRYPTED */
      or (jobs.payload_encoding, jobs.payload, jobs.payload_bytes)
        is not distinct from (j.payload_encoding, j.payload, decode(j.payload_hex, 'hex'))
    then json_build_array(jobs.state, jobs.id)
    when coalesce(octet_length(jobs.payload), octet_length(jobs.payload_bytes)) > 16384
    then json_build_array(jobs.state, jobs.id, jobs.payload_encoding)
    else json_build_array(jobs.state, jobs.id, jobs.payload_encoding, jobs.payload,
      encode(jobs.payload_bytes, 'hex'))
  end
  from fencepost.idempotency held join fencepost.jobs on jobs.seq = held.seq
  where held.type = j.type and held.key = j.key
$$;
