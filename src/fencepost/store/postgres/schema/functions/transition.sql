-- Moving jobs as Python decides: first they are lifted from where they stand, then what `core`
-- decides about them is put down. Between the two they are nowhere, in one transaction.

create or replace function fencepost.lift_held(e fencepost.lease, p_seqs bigint[])
returns setof fencepost.standing language plpgsql as $$
begin
  perform fencepost.shrink(e, p_seqs);
  return query
  select j.seq, j.id, e.lane, j.policy, 3::smallint, coalesce(x.attempt, 1), j.max_attempts,
    coalesce(x.version, fencepost.next_version(0, e.started_at)), coalesce(x.run_at, j.run_at),
    coalesce(x.scheduled_at, j.created_at), j.expires_at, e.secret, e.worker, e.started_at,
    e.expires_at >= e.deadline
  from unnest(e.seqs, e.attempts, e.versions, e.run_ats, e.scheduled_ats)
    as x(seq, attempt, version, run_at, scheduled_at)
  join fencepost.job j on j.seq = x.seq
  where x.seq = any (p_seqs);
end $$;

-- Lift running jobs under valid leases; p_groups is [[secret, "{seq,…}"], …]. What is not held is
-- not returned.
create or replace function fencepost.lift_leased(p_now timestamptz, p_groups json)
returns setof fencepost.standing language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  g record;
  e fencepost.lease;
  v_named bigint[];
begin
  for g in
    select (value ->> 0)::uuid as secret, (value ->> 1)::bigint[] as seqs
    from json_array_elements(p_groups)
  loop
    for e in select * from fencepost.hold_leases(t, g.secret, g.seqs) loop
      v_named := array(select x from unnest(e.seqs) as x where x = any (g.seqs));
      return query select * from fencepost.lift_held(e, v_named);
    end loop;
  end loop;
end $$;

-- Lift up to p_limit running jobs whose leases ran out, the oldest first.
create or replace function fencepost.lift_expired(p_now timestamptz, p_limit integer)
returns setof fencepost.standing language plpgsql as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  e fencepost.lease;
  v_mark timestamptz := (fencepost.marks()).lease_mark;
  v_left integer := p_limit;
  v_named bigint[];
begin
  for e in
    select * from fencepost.lease where expires_at >= v_mark and expires_at <= t
    order by expires_at, secret, part limit greatest(p_limit, 0) for update skip locked
  loop
    exit when v_left <= 0;
    v_named := e.seqs[1:v_left];
    v_left := v_left - cardinality(v_named);
    return query select * from fencepost.lift_held(e, v_named);
  end loop;
end $$;

-- Lift jobs that wait for others, whose rows this transaction has locked.
create or replace function fencepost.lift_pending(p_seqs bigint[]) returns setof fencepost.standing
language plpgsql set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off as $$
begin
  return query
  with gone as (delete from fencepost.pending p where p.seq = any (p_seqs) returning p.*)
  select j.seq, j.id, gone.lane, j.policy, 0::smallint, gone.attempt, j.max_attempts,
    gone.version, gone.run_at, gone.scheduled_at, j.expires_at, null::uuid, null::text,
    null::timestamptz, null::boolean
  from gone join fencepost.job j on j.seq = gone.seq;
end $$;

-- Lift live jobs from wherever they stand, which end then. A claim or a settlement may move one
-- between two looks, so that what was not found is looked for again. Not returned: what is terminal
-- or unknown, and what stands nowhere, because its row was lost. Everything is locked in one order, which is also that of a settlement: leases,
-- ready, delayed, pending, each by its key. So only the first look waits for locks; the others come
-- back to leases with rows of pending in hand.
create or replace function fencepost.lift(p_seqs bigint[]) returns setof fencepost.standing
language plpgsql set jit = off set enable_seqscan = off as $$
declare
  v_rest bigint[] := p_seqs;
  v_leases fencepost.lease[];
  v_ready fencepost.places;
  v_delayed bigint[];
  v_pending bigint[];
  e fencepost.lease;
begin
  for round in 1..20 loop
    v_rest := array(
      select x from unnest(v_rest) as x
      where not exists (select 1 from fencepost.done where done.seq = x)
        and exists (select 1 from fencepost.job where job.seq = x)
    );
    if round > 1 then
      v_rest := fencepost.standing_of(v_rest);
    end if;
    exit when v_rest = '{}';
    if round > 1 then
      perform pg_sleep(0.001 * round);
    end if;
    v_leases := fencepost.lock_leases(v_rest, round = 1);
    foreach e in array v_leases loop
      return query select * from fencepost.lift_held(
        e, array(select x from unnest(e.seqs) as x where (x in (select unnest(v_rest))) is true));
    end loop;
    v_rest := array(
      select x from unnest(v_rest) as x where x not in (
        select unnest(l.seqs) from unnest(v_leases) as l)
    );
    v_ready := fencepost.lock_ready(v_rest, round = 1);
    v_delayed := fencepost.lock_delayed(v_rest, round = 1);
    return query select * from fencepost.lift_ready(v_ready.rows);
    return query select * from fencepost.lift_delayed(v_delayed);
    if round = 1 then
      perform fencepost.lock_behind(p_seqs, v_rest);
    end if;
    v_pending := array(
      select p.seq from fencepost.pending p where p.seq = any (v_rest)
      order by p.seq for update skip locked
    );
    return query select * from fencepost.lift_pending(v_pending);
    v_rest := array(
      select x from unnest(v_rest) as x
      where x not in (select unnest(v_ready.seqs || v_delayed || v_pending))
    );
  end loop;
  if v_rest <> '{}' then
    raise exception 'jobs move on at every look' using errcode = '40001';
  end if;
end $$;

-- Those of p_seqs that stand somewhere, or have ended: of all places in one look, for nobody moves
-- while it lasts.
create or replace function fencepost.standing_of(p_seqs bigint[]) returns bigint[]
language plpgsql as $$
begin
  return array(
    select j.seq from fencepost.job j where j.seq = any (p_seqs) and (
      exists (select 1 from fencepost.done where done.seq = j.seq)
      or exists (select 1 from fencepost.lease where j.seq = any (lease.seqs))
      or exists (select 1 from fencepost.ready r
        where r.lane = j.lane and r.run_at = j.run_at and r.seq = j.seq)
      or exists (select 1 from fencepost.ready r
        where r.seq = j.seq and r.scheduled_at is not null)
      or exists (select 1 from fencepost.delayed where delayed.seq = j.seq)
      or exists (select 1 from fencepost.pending where pending.seq = j.seq)
    )
  );
end $$;

-- Lock the leases that hold some of p_seqs; without p_waits, those that nobody else has in hand.
create or replace function fencepost.lock_leases(p_seqs bigint[], p_waits boolean)
returns fencepost.lease[] language plpgsql as $$
begin
  if p_waits then
    return array(
      select l from fencepost.lease l
      where exists (select 1 from unnest(l.seqs) as x where (x in (select unnest(p_seqs))) is true)
      order by l.secret, l.part for update
    );
  end if;
  return array(
    select l from fencepost.lease l
    where exists (select 1 from unnest(l.seqs) as x where (x in (select unnest(p_seqs))) is true)
    order by l.secret, l.part for update skip locked
  );
end $$;

-- Lock those of p_seqs that are in line; without p_waits, those that nobody else has in hand. A row is
-- found by its whole key, or by ready_again; never by looking through the line, which a plan does
-- that was made while the line was short.
create or replace function fencepost.lock_ready(p_seqs bigint[], p_waits boolean)
returns fencepost.places language plpgsql as $$
declare
  v_first fencepost.places;
  v_again fencepost.places;
begin
  if p_waits then
    select array_agg(x.place), array_agg(x.seq) into v_first from (
      select r.place, j.seq from fencepost.job j cross join lateral (
        select ctid as place from fencepost.ready
        where lane = j.lane and run_at = j.run_at and seq = j.seq and scheduled_at is null
        limit 1 for update
      ) as r
      where j.seq = any (p_seqs)
    ) as x;
    select array_agg(x.place), array_agg(x.seq) into v_again from (
      select r.ctid as place, r.seq from fencepost.ready r
      where r.seq = any (p_seqs) and r.scheduled_at is not null order by r.seq for update
    ) as x;
  else
    select array_agg(x.place), array_agg(x.seq) into v_first from (
      select r.place, j.seq from fencepost.job j cross join lateral (
        select ctid as place from fencepost.ready
        where lane = j.lane and run_at = j.run_at and seq = j.seq and scheduled_at is null
        limit 1 for update skip locked
      ) as r
      where j.seq = any (p_seqs)
    ) as x;
    select array_agg(x.place), array_agg(x.seq) into v_again from (
      select r.ctid as place, r.seq from fencepost.ready r
      where r.seq = any (p_seqs) and r.scheduled_at is not null
      order by r.seq for update skip locked
    ) as x;
  end if;
  return row(v_first.rows || v_again.rows, v_first.seqs || v_again.seqs);
end $$;

-- Lock those of p_seqs that wait for their time; without p_waits, those that nobody else has in hand.
create or replace function fencepost.lock_delayed(p_seqs bigint[], p_waits boolean)
returns bigint[] language plpgsql as $$
begin
  if p_waits then
    return array(
      select d.seq from fencepost.delayed d where d.seq = any (p_seqs) order by d.seq for update
    );
  end if;
  return array(
    select d.seq from fencepost.delayed d where d.seq = any (p_seqs)
    order by d.seq for update skip locked
  );
end $$;

-- Lift jobs that are in line, by the places of their rows, which this transaction has locked.
create or replace function fencepost.lift_ready(p_rows tid[]) returns setof fencepost.standing
language plpgsql as $$
begin
  return query
  with gone as (delete from fencepost.ready where ctid = any (p_rows) returning *)
  select j.seq, j.id, gone.lane, j.policy, 1::smallint, gone.attempt, j.max_attempts,
    gone.version, gone.run_at, coalesce(gone.scheduled_at, j.created_at), j.expires_at,
    null::uuid, null::text, null::timestamptz, null::boolean
  from gone join fencepost.job j on j.seq = gone.seq;
end $$;

-- Lift jobs that wait for their time, whose rows this transaction has locked.
create or replace function fencepost.lift_delayed(p_seqs bigint[])
returns setof fencepost.standing language plpgsql as $$
begin
  return query
  with gone as (delete from fencepost.delayed d where d.seq = any (p_seqs) returning d.*)
  select j.seq, j.id, gone.lane, j.policy, gone.state, gone.attempt, j.max_attempts,
    gone.version, gone.run_at, gone.scheduled_at, j.expires_at, null::uuid, null::text,
    null::timestamptz, null::boolean
  from gone join fencepost.job j on j.seq = gone.seq;
end $$;

-- Lift a terminal job.
create or replace function fencepost.lift_done(p_seq bigint) returns setof fencepost.standing
language plpgsql as $$
begin
  return query
  with gone as (delete from fencepost.done where seq = p_seq returning *)
  select j.seq, j.id, j.lane, j.policy, gone.state, gone.attempt, j.max_attempts, gone.version,
    j.run_at, nullif(coalesce(gone.scheduled_at, j.created_at), '-infinity'), j.expires_at,
    null::uuid, null::text, gone.started_at, null::boolean
  from gone join fencepost.job j on j.seq = gone.seq;
end $$;

-- Put lifted jobs down. `was` and `was_lane` say where from; with `delay`, the job is due so many
-- microseconds from now, or at the end of its lifetime if that is sooner; with `is_in_line`, it
-- becomes claimable now. `outcome` says how its attempt ended; null if it had none, or succeeded.
-- A job that has a concurrency key comes into line only if it is there or runs; else, and if it
-- misses nobody, it waits for its slot. Returns [[slot, how many have left it], …] for the caller to
-- admit, or null.
create or replace function fencepost.put(p_now timestamptz, p_jobs json) returns json language plpgsql
set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  v_touched json;
  v_lowered bigint;
begin
  if exists (select 1 from json_array_elements(p_jobs) where value ->> 'state' = '1') then
    perform fencepost.hold_marks();
  end if;
  with given as materialized (
    select * from fencepost.read_moves(t, p_jobs)
  ), held_up as (
    insert into fencepost.pending(
      seq, run_at, since, scheduled_at, lane, attempt, version, mode, missing, slot, priority)
    select seq, due, t, scheduled_at, given.lane, attempt, version, mode, missing,
      case when missing = 0 then slot end, case when missing = 0 then coalesce(lane.priority, 2) end
    from given left join fencepost.lane on lane.lane = given.lane where state = 0
  ), ended as (
    insert into fencepost.done(
      seq, ended_at, started_at, scheduled_at, secret, attempt, version, state, encoding,
      is_dead_letter, worker, result, result_bytes, failure)
    select seq, t, started_at, coalesce(scheduled_at, '-infinity'), secret, attempt, version, state,
      encoding, is_dead_letter, worker, result, decode(result_hex, 'hex'), failure
    from given where state >= 5
  ), waiting as (
    insert into fencepost.delayed(
      seq, run_at, since, scheduled_at, lane, attempt, version, state)
    select seq, due, t, scheduled_at, lane, attempt, version, state
    from given where state in (2, 4)
  ), in_line as (
    insert into fencepost.ready(run_at, seq, scheduled_at, lane, attempt, version)
    select due, seq, scheduled_at, lane, attempt, version from given where state = 1
  ), lowered as (
    select fencepost.lower_mark(first.lane, first.due)
    from (select lane, min(due) as due from given where state = 1 group by lane) as first
  ), recorded as (
    insert into fencepost.attempt(
      seq, version, number, started_at, ended_at, secret, worker, outcome, failure)
    select seq, version, number, started_at, t, secret, worker, outcome, failure
    from given where outcome is not null
  ), counted as (
    insert into fencepost.tally(lane, state, count)
    select was_lane, was, -count(*) from given group by was_lane, was
    union all
    select lane, state, count(*) from given group by lane, state
  )
  select json_agg(json_build_array(x.slot, x.freed)), (select count(*) from lowered)
  into v_touched, v_lowered from (
    select slot, count(*) filter (where was in (1, 3)) as freed from given
    where slot is not null
      and ((was in (1, 3) and state not in (1, 3)) or (state = 0 and missing = 0))
    group by slot
  ) as x;
  return v_touched;
end $$;

-- What `put` is given, one row a job, with its concurrency slot.
create or replace function fencepost.read_moves(t timestamptz, p_jobs json)
returns table(
  seq bigint, lane integer, was_lane integer, state smallint, was smallint, attempt integer,
  number integer, version bigint, secret uuid, worker text, started_at timestamptz, outcome text,
  failure text, encoding smallint, result text, result_hex text, is_dead_letter boolean,
  mode smallint, missing integer, slot bigint, scheduled_at timestamptz, due timestamptz
) rows 100 language plpgsql as $$
#variable_conflict use_column
begin
  return query
  select x.seq, x.lane, x.was_lane, x.state, x.was, x.attempt, x.number, x.version, x.secret,
    x.worker, x.started_at, x.outcome, x.failure, x.encoding, x.result, x.result_hex,
    x.is_dead_letter, x.mode, coalesce(x.missing, 0) as missing, keyed.slot,
    case when x.is_in_line then t else x.scheduled_at end as scheduled_at,
    case when x.delay is null then x.run_at
    else least(t + x.delay * interval '1 microsecond', x.expires_at) end as due
  from json_to_recordset(p_jobs) as x(
    seq bigint, lane integer, was_lane integer, state smallint, was smallint, attempt integer,
    number integer, version bigint, delay bigint, run_at timestamptz, scheduled_at timestamptz,
    expires_at timestamptz, secret uuid, worker text, started_at timestamptz, outcome text,
    failure text, encoding smallint, result text, result_hex text, is_dead_letter boolean,
    is_in_line boolean, mode smallint, missing integer
  ) left join fencepost.keyed on keyed.seq = x.seq;
end $$;
