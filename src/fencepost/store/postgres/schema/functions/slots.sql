-- Concurrency keys: a job that has one becomes ready only through `admit`.

-- Give the free slots among p_slots to blocked jobs, in their order; p_freed jobs have just left.
-- They become the last ready jobs. The locks come after all others, on leases and on pending, and
-- are never waited for: a slot or a job that another transaction has locked is skipped, and a note
-- is left for the next claim. So an open transaction blocks no others, and two that take slots in
-- different orders do not deadlock.
create or replace function fencepost.admit(
  p_now timestamptz, p_slots bigint[], p_freed integer[], p_are_noted boolean default false
) returns table(seq bigint, id uuid, lane integer) language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  t timestamptz;
  v_got bigint[];
  v_freed bigint[];
  has_filled boolean;
begin
  if coalesce(cardinality(p_slots), 0) = 0 then
    return;
  end if;
  -- The transaction has its number before it reads the clock: `tidy` relies on it.
  perform pg_current_xact_id();
  t := coalesce(p_now, clock_timestamp());
  v_got := fencepost.take_slots(p_slots);
  -- Also if there is a note already: the transaction that has locked the slot may be about to
  -- delete that one, and looked before this transaction commits. Slots with notes are looked at
  -- afterwards.
  if not p_are_noted then
    insert into fencepost.freed_slots(slot, freed)
    select x.slot, coalesce(sum(x.freed), 0) from unnest(p_slots, p_freed) as x(slot, freed)
    where x.slot not in (select unnest(v_got)) group by x.slot;
  end if;
  if v_got = '{}' then
    return;
  end if;
  -- By separate statements, after the lock: they see what the transaction that had it before has
  -- done.
  with noted as (
    delete from fencepost.freed_slots n where n.slot = any (v_got) returning n.slot, n.freed
  )
  select array_agg(x.slot), array_agg(x.freed) into v_got, v_freed from (
    select u.slot, sum(u.freed) as freed from (
      select g as slot, 0 as freed from unnest(v_got) as g
      union all select * from noted
      union all select * from unnest(p_slots, p_freed) as given(slot, freed)
      where (given.slot in (select unnest(v_got))) is true
    ) as u group by u.slot
  ) as x;
  loop
    return query select * from fencepost.fill_slots(t, v_got, v_freed);
    has_filled := found;
    -- As many were taken as the first blocked job of a slot allowed; one behind it may allow more.
    v_got := fencepost.open_slots(v_got);
    exit when v_got = '{}' or not has_filled;
    v_freed := null;
  end loop;
  -- A job was skipped, since another transaction has locked it, which may leave it there.
  insert into fencepost.freed_slots(slot, freed) select x, 0 from unnest(v_got) as x;
end $$;

-- Lock the rows of slots, which are made if they are new; returns those that no other transaction
-- has locked. Above read committed, a transaction cannot see what is free now, and gets none.
create or replace function fencepost.take_slots(p_slots bigint[]) returns bigint[]
language plpgsql as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    return '{}';
  end if;
  insert into fencepost.slots(slot)
  select distinct x.slot from unnest(p_slots) as x(slot)
  where not exists (select 1 from fencepost.slots s where s.slot = x.slot) order by x.slot
  on conflict do nothing;
  return array(
    select s.slot from fencepost.slots s where s.slot = any (p_slots)
    order by s.slot for update skip locked
  );
end $$;

-- Return those of p_slots that have room for the first job which waits for them.
create or replace function fencepost.open_slots(p_slots bigint[]) returns bigint[]
language plpgsql as $$
begin
  return array(
    select s.slot from fencepost.slots s
    where s.slot = any (p_slots) and s.active < (
      select k.max_running from fencepost.pending p
      join fencepost.keyed_jobs k on k.seq = any (array[p.seq])
      where p.slot = s.slot order by p.priority, p.run_at, p.seq limit 1
    )
  );
end $$;

-- Make the first blocked jobs of these slots ready, as many as the first of each allows, after
-- p_freed jobs have left each. The rows of the slots are locked; one that as many jobs have left as
-- came to it is not written.
create or replace function fencepost.fill_slots(t timestamptz, p_slots bigint[], p_freed bigint[])
returns table(seq bigint, id uuid, lane integer) language plpgsql as $$
#variable_conflict use_column
begin
  return query
  with had as materialized (
    select s.slot, s.active - coalesce(x.freed, 0) as active, (
      select k.max_running from fencepost.pending p
      join fencepost.keyed_jobs k on k.seq = any (array[p.seq])
      where p.slot = s.slot order by p.priority, p.run_at, p.seq limit 1
    ) as most
    from unnest(p_slots, p_freed) as x(slot, freed)
    join fencepost.slots s on s.slot = any (array[x.slot])
  ), line as materialized (
    select had.slot, had.active, first.* from had cross join lateral (
      select p.seq, p.priority, p.run_at from fencepost.pending p
      where p.slot = had.slot order by p.priority, p.run_at, p.seq
      limit greatest(had.most - had.active, 0) for update skip locked
    ) as first
    where had.most > had.active
  ), ranked as (
    select line.*, k.max_running, row_number() over (
      partition by line.slot order by line.priority, line.run_at, line.seq) as n
    from line join fencepost.keyed_jobs k on k.seq = any (array[line.seq])
  ), chosen as materialized (
    select x.seq, x.slot from (
      select ranked.*, bool_and(active + n <= max_running) over (
        partition by slot order by n) as fits
      from ranked
    ) as x where x.fits
  ), gone as materialized (
    delete from fencepost.pending p using chosen
    where p.seq = any (array[chosen.seq]) returning p.*
  ), in_line as (
    insert into fencepost.ready(run_at, seq, scheduled_at, lane, attempt, lease_version)
    select t, gone.seq, t, gone.lane, gone.attempt, gone.lease_version from gone
  ), lowered as (
    select fencepost.lower_mark(x.lane, t) from (select distinct gone.lane from gone) as x
  ), changed as (
    update fencepost.slots s set active = s.active + x.more from (
      select u.slot, sum(u.more) as more from (
        select chosen.slot, 1 as more from chosen
        union all select given.slot, -given.freed from unnest(p_slots, p_freed) as given(slot, freed)
        where given.freed > 0
      ) as u group by u.slot having sum(u.more) <> 0
    ) as x
    where s.slot = any (array[x.slot])
  ), counted as (
    insert into fencepost.counters(lane, state, count)
    select gone.lane, :PENDING, -count(*) from gone group by gone.lane
    union all
    select gone.lane, :SCHEDULED, count(*) from gone group by gone.lane
  )
  select j.seq, j.id, gone.lane from gone
  join fencepost.submissions j on j.seq = any (array[gone.seq])
  where (select count(*) from lowered) > 0
  order by gone.slot, gone.priority, gone.run_at, gone.seq;
end $$;

-- Admit jobs to the slots on which notes were left.
create or replace function fencepost.admit_noted(p_now timestamptz) returns void language plpgsql as $$
begin
  perform 1 from fencepost.admit(p_now, array(
    select distinct x.slot from (select slot from fencepost.freed_slots limit 1000) as x
  ), null, true);
end $$;

-- Fill the slots that one job each has left, and those of jobs in p_moved, the answer of
-- `count_down`. Returns [[id, lane, state], …] of all jobs that have moved, or null.
create or replace function fencepost.admit_after(p_now timestamptz, p_left bigint[], p_moved json)
returns json language plpgsql as $$
declare
  v_held bigint[] := array(
    select (value ->> 3)::bigint from json_array_elements(p_moved)
    where json_array_length(value) = 4
  );
begin
  if p_left = '{}' and v_held = '{}' then
    return p_moved;
  end if;
  return (
    select json_agg(moved) from (
      select value as moved from json_array_elements(p_moved) where json_array_length(value) = 3
      union all
      select json_build_array(id, lane, :SCHEDULED) from fencepost.admit(
        p_now, p_left || v_held,
        array_fill(1, array[cardinality(p_left)]) || array_fill(0, array[cardinality(v_held)]))
    ) as all_moved
  );
end $$;
