-- Have the end of a job told of; p_how is [lane, policy, max_attempts, lifetime] of the delivery.
create or replace function fencepost.ask_back(p_seq bigint, p_how json) returns void language plpgsql as $$
begin
  perform fencepost.check_numbers((p_how ->> 0)::integer, (p_how ->> 1)::integer);
  insert into fencepost.callback(seq, lane, policy, max_attempts, lifetime)
  values (p_seq, (p_how ->> 0)::integer, (p_how ->> 1)::integer, (p_how ->> 2)::integer,
    (p_how ->> 3)::bigint);
end $$;

-- Store the deliveries that tell of the ends of jobs; returns [[id, lane, state], …] of them, or null.
create or replace function fencepost.call_back(p_now timestamptz, p_ended bigint[]) returns json
language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off as $$
declare
  t timestamptz;
  v_told json;
begin
  perform pg_current_xact_id();
  t := coalesce(p_now, clock_timestamp());
  with told as materialized (
    select nextval('fencepost.seq') as seq, gen_random_uuid() as id, asked.* from (
      select c.lane, c.policy, c.max_attempts, c.lifetime, j.correlation_id, json_build_object(
          'job_id', j.id, 'url', j.callback_url,
          'state', (array['completed', 'failed', 'dead_letter', 'cancelled'])[d.state - 4],
          'ended_at', to_char(d.ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
          'attempt', d.attempt)::text as payload
      from fencepost.callback c
      join fencepost.job j on j.seq = c.seq join fencepost.done d on d.seq = c.seq
      where c.seq = any (p_ended) order by c.seq
    ) as asked
  ), stored as (
    insert into fencepost.job(
      seq, id, created_at, run_at, expires_at, lane, policy, max_attempts, correlation_id, payload)
    select seq, id, t, t, t + lifetime * interval '1 microsecond', lane, policy, max_attempts,
      correlation_id, payload
    from told
  ), in_line as (
    insert into fencepost.ready(lane, run_at, seq) select lane, t, seq from told
  ), counted as (
    insert into fencepost.tally(lane, state, count)
    select lane, 1, count(*) from told group by lane
  )
  select json_agg(json_build_array(id, lane, 1) order by seq) into v_told from told;
  return v_told;
end $$;
