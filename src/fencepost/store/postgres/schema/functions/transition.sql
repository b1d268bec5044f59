-- Moving jobs as Python decides: first they are detached from their tables, then attached as `core`
-- has decided. Between the two, in one transaction, they are in no table.

create or replace function fencepost.detach_held(e fencepost.leases, p_seqs bigint[])
returns setof fencepost.detached_job language plpgsql as $$
begin
  perform fencepost.shrink(e, p_seqs);
  return query
  select j.seq, j.id, e.lane, j.policy, :RUNNING::smallint, coalesce(x.attempt, 1), j.max_attempts,
    coalesce(x.lease_version, fencepost.next_version(0, e.started_at)),
    coalesce(x.run_at, j.run_at), coalesce(x.scheduled_at, j.created_at), j.expires_at,
    e.lease_token, e.worker, e.started_at,
    e.expires_at >= e.deadline
  from unnest(e.seqs, e.attempts, e.lease_versions, e.run_ats, e.scheduled_ats)
    as x(seq, attempt, lease_version, run_at, scheduled_at)
  join fencepost.submissions j on j.seq = any (array[x.seq])
  where x.seq = any (p_seqs);
end $$;

-- Detach running jobs under valid leases; p_groups is [[lease token, "{seq,…}"], …]. Jobs without a
-- valid lease are not returned.
create or replace function fencepost.detach_leased(p_now timestamptz, p_groups json)
returns setof fencepost.detached_job language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  g record;
  e fencepost.leases;
  v_named bigint[];
begin
  for g in
    select (value ->> 0)::uuid as lease_token, (value ->> 1)::bigint[] as seqs
    from json_array_elements(p_groups)
  loop
    for e in select * from fencepost.hold_leases(t, g.lease_token, g.seqs) loop
      v_named := array(select x from unnest(e.seqs) as x where x = any (g.seqs));
      return query select * from fencepost.detach_held(e, v_named);
    end loop;
  end loop;
end $$;

-- Detach up to p_limit running jobs whose leases have expired, the oldest first.
create or replace function fencepost.detach_expired(p_now timestamptz, p_limit integer)
returns setof fencepost.detached_job language plpgsql as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  e fencepost.leases;
  v_mark timestamptz := (fencepost.newest_marks()).lease_mark;
  v_left integer := p_limit;
  v_named bigint[];
begin
  for e in
    select * from fencepost.leases where expires_at >= v_mark and expires_at <= t
    order by expires_at, lease_token, part limit greatest(p_limit, 0) for update skip locked
  loop
    exit when v_left <= 0;
    v_named := e.seqs[1:v_left];
    v_left := v_left - cardinality(v_named);
    return query select * from fencepost.detach_held(e, v_named);
  end loop;
end $$;

-- Detach jobs that wait for others, whose rows this transaction has locked.
create or replace function fencepost.detach_pending(p_seqs bigint[]) returns setof fencepost.detached_job
language plpgsql set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off as $$
begin
  return query
  with gone as (delete from fencepost.pending p where p.seq = any (p_seqs) returning p.*)
  select j.seq, j.id, gone.lane, j.policy, :PENDING::smallint, gone.attempt, j.max_attempts,
    gone.lease_version, gone.run_at, gone.scheduled_at, j.expires_at, null::uuid, null::text,
    null::timestamptz, null::boolean
  from gone join fencepost.submissions j on j.seq = any (array[gone.seq]);
end $$;

-- Detach live jobs from any table, see `detach_awaited`.
create or replace function fencepost.detach(p_seqs bigint[]) returns setof fencepost.detached_job
language plpgsql set jit = off set enable_seqscan = off as $$
begin
  if exists (
    select 1 from unnest(p_seqs) as x
    where not exists (select 1 from fencepost.done where done.seq = x)
  ) then
    perform fencepost.await_live(p_seqs);
    return query select * from fencepost.detach_awaited(p_seqs);
  end if;
end $$;

-- Detach live jobs from any table, after `await_live`. A claim or a settlement may move a job
-- between two looks, so that jobs that were not found are looked for again. Not returned: jobs that
-- are terminal or unknown, and jobs that are in no table, because their row was lost. No look waits
-- for locks: a later one comes back to leases with rows of pending locked.
create or replace function fencepost.detach_awaited(p_seqs bigint[])
returns setof fencepost.detached_job
language plpgsql set jit = off set enable_seqscan = off as $$
declare
  v_rest bigint[] := p_seqs;
  v_found bigint[];
  v_job fencepost.detached_job;
begin
  for round in 1..20 loop
    v_rest := array(
      select x from unnest(case round when 1 then v_rest else fencepost.existing(v_rest) end) as x
      where not exists (select 1 from fencepost.done where done.seq = x)
    );
    exit when v_rest = '{}';
    if round > 1 then
      perform pg_sleep(0.001 * round);
    end if;
    v_found := '{}';
    for v_job in select * from fencepost.detach_free(v_rest) loop
      return next v_job;
      v_found := v_found || v_job.seq;
    end loop;
    v_rest := array(select x from unnest(v_rest) as x where x not in (select unnest(v_found)));
  end loop;
  if v_rest <> '{}' then
    raise exception 'jobs move on at every look' using errcode = '40001';
  end if;
end $$;

-- Wait for transactions that have locked live jobs among p_seqs, and lock these and all that wait
-- behind them. Everything is locked in one order, which is also that of a settlement: leases,
-- ready, delayed, pending, each by its key.
create or replace function fencepost.await_live(p_seqs bigint[]) returns void language plpgsql as $$
begin
  perform 1 from fencepost.leases l
  where exists (select 1 from unnest(l.seqs) as x where (x in (select unnest(p_seqs))) is true)
  order by l.lease_token, l.part for update;
  perform 1 from fencepost.submissions j cross join lateral (
    select 1 from fencepost.ready
    where lane = j.lane and run_at = j.run_at and seq = j.seq and scheduled_at is null
    limit 1 for update
  ) as r
  where j.seq = any (p_seqs);
  perform 1 from fencepost.ready r where r.seq = any (p_seqs) and r.scheduled_at is not null
  order by r.seq for update;
  perform 1 from fencepost.delayed where seq = any (p_seqs) order by seq for update;
  perform fencepost.lock_behind(p_seqs, p_seqs);
end $$;

-- Detach those of p_seqs that no other transaction has locked. A row of ready is found by its whole
-- key or by ready_again, never by a scan, which a plan would do that was made while there were few
-- ready jobs.
create or replace function fencepost.detach_free(p_seqs bigint[])
returns setof fencepost.detached_job language plpgsql as $$
declare
  e fencepost.leases;
begin
  for e in
    select * from fencepost.leases l
    where exists (select 1 from unnest(l.seqs) as x where (x in (select unnest(p_seqs))) is true)
    order by l.lease_token, l.part for update skip locked
  loop
    return query select * from fencepost.detach_held(
      e, array(select x from unnest(e.seqs) as x where (x in (select unnest(p_seqs))) is true));
  end loop;
  return query
  with in_line as (
    delete from fencepost.ready where ctid = any (array(
      select r.place from fencepost.submissions j cross join lateral (
        select ctid as place from fencepost.ready
        where lane = j.lane and run_at = j.run_at and seq = j.seq and scheduled_at is null
        limit 1 for update skip locked
      ) as r
      where j.seq = any (p_seqs)
    ) || array(
      select r.ctid from fencepost.ready r where r.seq = any (p_seqs) and r.scheduled_at is not null
      order by r.seq for update skip locked
    )) returning *
  ), waiting as (
    delete from fencepost.delayed where seq = any (array(
      select d.seq from fencepost.delayed d where d.seq = any (p_seqs)
      order by d.seq for update skip locked
    )) returning *
  ), gone as (
    select seq, lane, :SCHEDULED::smallint as state, attempt, lease_version, run_at, scheduled_at
    from in_line
    union all
    select seq, lane, state, attempt, lease_version, run_at, scheduled_at from waiting
  )
  select j.seq, j.id, gone.lane, j.policy, gone.state, gone.attempt, j.max_attempts,
    gone.lease_version, gone.run_at,
    coalesce(gone.scheduled_at, case gone.state when :SCHEDULED then j.created_at end),
    j.expires_at, null::uuid, null::text, null::timestamptz, null::boolean
  from gone join fencepost.submissions j on j.seq = any (array[gone.seq]);
  return query select * from fencepost.detach_pending(array(
    select p.seq from fencepost.pending p where p.seq = any (p_seqs)
    order by p.seq for update skip locked
  ));
end $$;

-- Those of p_seqs that are in some table: by one statement, which sees one moment.
create or replace function fencepost.existing(p_seqs bigint[]) returns bigint[]
language plpgsql as $$
begin
  return array(
    select j.seq from fencepost.submissions j where j.seq = any (p_seqs) and (
      exists (select 1 from fencepost.done where done.seq = j.seq)
      or exists (select 1 from fencepost.leases where j.seq = any (leases.seqs))
      or exists (select 1 from fencepost.ready r
        where r.lane = j.lane and r.run_at = j.run_at and r.seq = j.seq)
      or exists (select 1 from fencepost.ready r
        where r.seq = j.seq and r.scheduled_at is not null)
      or exists (select 1 from fencepost.delayed where delayed.seq = j.seq)
      or exists (select 1 from fencepost.pending where pending.seq = j.seq)
    )
  );
end $$;

-- Detach a terminal job.
create or replace function fencepost.detach_done(p_seq bigint) returns setof fencepost.detached_job
language plpgsql as $$
begin
  return query
  with gone as (delete from fencepost.done where seq = p_seq returning *)
  select j.seq, j.id, j.lane, j.policy, gone.state, gone.attempt, j.max_attempts,
    gone.lease_version,
    j.run_at, nullif(coalesce(gone.scheduled_at, j.created_at), '-infinity'), j.expires_at,
    null::uuid, null::text, gone.started_at, null::boolean
  from gone join fencepost.submissions j on j.seq = any (array[gone.seq]);
end $$;

-- Store detached jobs. `was` and `was_lane` say where they were; with `delay`, the job is due in so
-- many microseconds, or at the end of its lifetime if that is sooner; with `is_in_line`, it becomes
-- claimable now. `outcome` is how its attempt ended; null if it had none, or succeeded. A job with
-- a concurrency key stays ready only if it was ready or running; otherwise, unless it waits for
-- other jobs, it waits for its slot. Returns [[slot, how many have left it], …] for the caller to
-- admit, or null; also slots for which a job waited that has ended: it may have allowed fewer jobs
-- than those behind it.
create or replace function fencepost.attach(p_now timestamptz, p_jobs json) returns json language plpgsql
set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  v_touched json;
  v_lowered bigint;
begin
  if exists (
    select 1 from json_array_elements(p_jobs) where (value ->> 'state')::int = :SCHEDULED) then
    perform fencepost.hold_marks();
  end if;
  with given as materialized (
    select * from fencepost.read_moves(t, p_jobs)
  ), held_up as (
    insert into fencepost.pending(
      seq, run_at, updated_at, scheduled_at, lane, attempt, lease_version, mode, missing, slot,
      priority)
    select seq, due, t, scheduled_at, given.lane, attempt, lease_version, mode, missing,
      case when missing = 0 then slot end,
      case when missing = 0 then coalesce(lanes.priority, 2) end
    from given left join fencepost.lanes on lanes.lane = given.lane where state = :PENDING
  ), ended as (
    insert into fencepost.done(
      seq, completed_at, started_at, scheduled_at, lease_token, attempt, lease_version, state,
      result_encoding, is_dead_letter, worker, result, result_bytes, failure)
    select seq, t, started_at, coalesce(scheduled_at, '-infinity'), lease_token, attempt,
      lease_version, state, result_encoding, is_dead_letter, worker, result, decode(result_hex, 'hex'), failure
    from given where state >= :COMPLETED
  ), waiting as (
    insert into fencepost.delayed(
      seq, run_at, updated_at, scheduled_at, lane, attempt, lease_version, state)
    select seq, due, t, scheduled_at, lane, attempt, lease_version, state
    from given where state in (:DELAYED, :RETRYING)
  ), in_line as (
    insert into fencepost.ready(run_at, seq, scheduled_at, lane, attempt, lease_version)
    select due, seq, scheduled_at, lane, attempt, lease_version from given where state = :SCHEDULED
  ), lowered as (
    select fencepost.lower_mark(first.lane, first.due)
    from (select lane, min(due) as due from given where state = :SCHEDULED group by lane) as first
  ), recorded as (
    insert into fencepost.attempts(
      seq, lease_version, number, started_at, ended_at, lease_token, worker, outcome, failure)
    select seq, lease_version, number, started_at, t, lease_token, worker, outcome, failure
    from given where outcome is not null
  ), counted as (
    insert into fencepost.counters(lane, state, count)
    select was_lane, was, -count(*) from given group by was_lane, was
    union all
    select lane, state, count(*) from given group by lane, state
  )
  select json_agg(json_build_array(x.slot, x.freed)), (select count(*) from lowered)
  into v_touched, v_lowered from (
    select slot, count(*) filter (where was in (:SCHEDULED, :RUNNING)) as freed from given
    where slot is not null
      and ((was in (:SCHEDULED, :RUNNING) and state not in (:SCHEDULED, :RUNNING))
        or (state = :PENDING and missing = 0) or (was = :PENDING and state >= :COMPLETED))
    group by slot
  ) as x;
  return v_touched;
end $$;

-- The jobs of `attach`, one row each, with their concurrency slots.
create or replace function fencepost.read_moves(t timestamptz, p_jobs json)
returns table(
  seq bigint, lane integer, was_lane integer, state smallint, was smallint, attempt integer,
  number integer, lease_version bigint, lease_token uuid, worker text, started_at timestamptz,
  outcome text, failure text, result_encoding smallint, result text, result_hex text,
  is_dead_letter boolean, mode smallint, missing integer, slot bigint, scheduled_at timestamptz, due timestamptz
) rows 100 language plpgsql as $$
#variable_conflict use_column
begin
  return query
  select x.seq, x.lane, x.was_lane, x.state, x.was, x.attempt, x.number, x.lease_version,
    x.lease_token, x.worker, x.started_at, x.outcome, x.failure, x.result_encoding, x.result, x.result_hex,
    x.is_dead_letter, x.mode, coalesce(x.missing, 0) as missing, keyed_jobs.slot,
    case when x.is_in_line then t else x.scheduled_at end as scheduled_at,
    case when x.delay is null then x.run_at
    else least(t + x.delay * interval '1 microsecond', x.expires_at) end as due
  from json_to_recordset(p_jobs) as x(
    seq bigint, lane integer, was_lane integer, state smallint, was smallint, attempt integer,
    number integer, lease_version bigint, delay bigint, run_at timestamptz,
    scheduled_at timestamptz, expires_at timestamptz, lease_token uuid, worker text, started_at timestamptz, outcome text,
    failure text, result_encoding smallint, result text, result_hex text, is_dead_letter boolean,
    is_in_line boolean, mode smallint, missing integer
  ) left join fencepost.keyed_jobs on keyed_jobs.seq = any (array[x.seq]);
end $$;
