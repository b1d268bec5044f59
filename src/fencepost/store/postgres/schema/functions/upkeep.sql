-- The newest row of `marks`; there is none at first, and after all tables were emptied. None is
-- made here: other transactions would wait for its commit.
create or replace function fencepost.newest_marks() returns fencepost.marks language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  m fencepost.marks;
begin
  select * into m from fencepost.marks order by number desc limit 1;
  if not found then
    m := row(0, '-infinity', '0', 0, 0, '-infinity', '-infinity', '-infinity');
  end if;
  return m;
end $$;

-- Keep `tidy` from moving the marks of lanes until this transaction ends. Called before a job is
-- made ready at a time in the past, by a later statement: either the job is below the mark and
-- lowers it, or the mark has not passed it. Transactions that hold the marks do not wait for each
-- other.
create or replace function fencepost.hold_marks() returns void language plpgsql as $$
begin
  lock table fencepost.marks_latch in row exclusive mode;
end $$;

-- Lower the mark of a lane to p_to, if it is above. The caller holds the marks: `tidy` replaces no
-- row meanwhile. Above read committed, it fails if the row has been replaced.
create or replace function fencepost.lower_mark(p_lane integer, p_to timestamptz) returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  m fencepost.lane_marks;
begin
  loop
    select * into m from fencepost.lane_marks where lane = p_lane order by number desc limit 1;
    exit when not found or m.low <= p_to;
    update fencepost.lane_marks set low = p_to
    where lane = p_lane and number = m.number and low > p_to;
    exit when found;
  end loop;
end $$;

-- Make due jobs claimable, as far as their concurrency keys allow; returns [[id, lane, state that
-- was, state], …].
create or replace function fencepost.promote(t timestamptz, p_limit integer) returns json language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_bitmapscan = off as $$
declare
  v_mark timestamptz := (fencepost.newest_marks()).due_mark;
  v_moved json;
  v_slots bigint[];
  v_lowered bigint;
  v_entered uuid[];
begin
  perform fencepost.hold_marks();
  with due as materialized (
    delete from fencepost.delayed where ctid = any (array(
      select d.ctid from fencepost.delayed d
      where d.run_at >= v_mark and d.run_at <= t
      order by d.run_at, d.seq limit greatest(p_limit, 0) for update skip locked
    )) returning *
  ), placed as materialized (
    select due.*, k.slot from due
    left join fencepost.keyed_jobs k on k.seq = any (array[due.seq])
  ), moved as (
    insert into fencepost.ready(lane, run_at, seq, scheduled_at, attempt, lease_version)
    select lane, run_at, seq, t, attempt, lease_version from placed where slot is null
  ), held_up as (
    insert into fencepost.pending(
      seq, run_at, updated_at, scheduled_at, lane, attempt, lease_version, missing, slot, priority)
    -- If the row of its lane is missing, the job must be stored all the same.
    select seq, run_at, t, scheduled_at, placed.lane, attempt, lease_version, 0, slot,
      coalesce(lanes.priority, 2)
    from placed left join fencepost.lanes on lanes.lane = placed.lane where slot is not null
  ), counted as (
    insert into fencepost.counters(lane, state, count)
    select lane, state, -count(*) from placed group by lane, state
    union all
    select lane, :SCHEDULED, count(*) from placed where slot is null group by lane
    union all
    select lane, :PENDING, count(*) from placed where slot is not null group by lane
  ), lowered as (
    select fencepost.lower_mark(first.lane, first.run_at)
    from (select lane, min(run_at) as run_at from due group by lane) as first
  )
  select json_agg(json_build_array(submissions.id, placed.lane, placed.state,
      case when placed.slot is null then :SCHEDULED else :PENDING end)
      order by placed.run_at, placed.seq),
    array_agg(placed.slot) filter (where placed.slot is not null), (select count(*) from lowered)
  into v_moved, v_slots, v_lowered
  from placed join fencepost.submissions on submissions.seq = any (array[placed.seq]);
  if v_slots is not null then
    v_entered := array(select id from fencepost.admit(t, v_slots, null));
    v_moved := (
      select json_agg(case when (x.value ->> 0)::uuid = any (v_entered)
        then json_build_array(x.value -> 0, x.value -> 1, x.value -> 2, 1) else x.value end
        order by x.n)
      from json_array_elements(v_moved) with ordinality as x(value, n)
    );
  end if;
  return coalesce(v_moved, '[]');
end $$;

-- Add up the counters that came after the last time.
create or replace function fencepost.add_up(p_from bigint) returns void language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
  with counted as (
    delete from fencepost.counters where number >= p_from returning lane, state, count
  ), was as materialized (
    select x.lane, x.state, x.count, t.number, t.count as had from (
      select lane, state, sum(count) as count from counted group by lane, state
    ) as x left join lateral (
      select number, count from fencepost.counter_totals where lane = x.lane and state = x.state
      order by number desc limit 1
    ) as t on true
    where x.count <> 0 or t.number is null
  ), gone as (
    delete from fencepost.counter_totals t using was
    where t.lane = was.lane and t.state = was.state and t.number = was.number
  )
  insert into fencepost.counter_totals(lane, state, number, count)
  select lane, state, coalesce(number, 0) + 1, coalesce(had, 0) + count from was;
end $$;

-- Add up the counters, and move the marks. A mark may move up to a time T once every transaction
-- has ended that could have read the clock before T. A transaction gets its number before it reads
-- the clock, and `tidy` gets its own after it has read T: so those are the transactions below its
-- number. `marks` remembers one T with that number, and the marks follow when xmin has reached it.
-- (The xmax of a snapshot would not do: it is one past the last that has ended, and transactions
-- with higher numbers may be open.) A transaction that stores something below a lane's mark lowers
-- that mark. A clock that is set back can break this, so p_is_thorough, from time to time, looks
-- below the marks; only then dead rows are read that an old snapshot keeps.
create or replace function fencepost.tidy(p_now timestamptz, p_is_thorough boolean) returns void
language plpgsql set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_bitmapscan = off set lock_timeout = '50ms' as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  is_early constant boolean := pg_current_xact_id_if_assigned() is null;
  m fencepost.marks;
  v_until timestamptz;
  v_lanes integer[];
  v_below jsonb := '{}';
  v_below_lease timestamptz;
  v_below_due timestamptz;
begin
  begin
    lock table fencepost.tidy_latch in share row exclusive mode nowait;
  exception when lock_not_available then
    return;  -- another transaction does it
  end;
  m := fencepost.newest_marks();
  v_lanes := array(select distinct lane from fencepost.counters where number >= m.counter_mark);
  if v_lanes = '{}' and not p_is_thorough then
    return;
  end if;
  -- Before the counters are read: they then include all that these transactions have left.
  v_until := case when pg_snapshot_xmin(pg_current_snapshot()) >= m.next_xid then m.at end;
  perform fencepost.add_up(case when p_is_thorough then 0 else m.counter_mark end);
  perform fencepost.prune_uses(v_now, case when not p_is_thorough then m.at end);
  if p_is_thorough then
    perform fencepost.merge_disorder();
    -- Before the lock: it may take a while.
    v_lanes := array(select lane from fencepost.lanes);
    select coalesce(jsonb_object_agg(x.lane, first.run_at), '{}') into v_below
    from fencepost.marked_lanes x cross join lateral (
      select r.run_at from fencepost.ready r where r.lane = x.lane and r.run_at < x.low
      order by r.run_at, r.seq limit 1
    ) as first;
    v_below_lease := (select min(expires_at) from fencepost.leases where expires_at < m.lease_mark);
    v_below_due := (select min(run_at) from fencepost.delayed where run_at < m.due_mark);
  elsif v_until is null then
    return;
  end if;
  begin
    lock table fencepost.marks_latch in share row exclusive mode;
  exception when lock_not_available then
    return;  -- the marks are held, see hold_marks: another time
  end;
  perform fencepost.move_marks(v_lanes, v_until, v_below);
  perform fencepost.next_marks(
    v_until, case when v_until is not null and is_early then v_now end, v_below_lease, v_below_due);
end $$;

-- Delete the uses of rates some time after they counted: an open claim may have read the clock a
-- while ago. Claims do not do it: they would have to skip all dead rows that an old snapshot keeps.
-- p_last is when it was done last, null to look at all.
create or replace function fencepost.prune_uses(p_now timestamptz, p_last timestamptz)
returns void language plpgsql as $$
begin
  delete from fencepost.rate_uses u using fencepost.type_limits r
  where r.type = u.type and u.at <= -2 * r.window_us - 60000000
      + (extract(epoch from p_now) * 1000000)::bigint
    and u.at > case when p_last is null or p_last < 'epoch' then 0
      else -2 * r.window_us - 60000000 + (extract(epoch from p_last) * 1000000)::bigint end;
end $$;

-- Merge the rows of `disorder` into one, see `first_since` and search.py.
create or replace function fencepost.merge_disorder() returns void language plpgsql as $$
begin
  if (select count(*) from fencepost.disorder) > 1 then
    with gone as (delete from fencepost.disorder returning seq, created_at)
    insert into fencepost.disorder(seq, created_at)
    select max(seq), max(created_at) from gone;
  end if;
end $$;

-- Move the marks of lanes up to p_until, if that is known, or to the first job of each; p_below has
-- jobs that were found below the marks. It holds marks_latch.
create or replace function fencepost.move_marks(
  p_lanes integer[], p_until timestamptz, p_below jsonb
) returns void language plpgsql as $$
declare
  l record;
  v_first timestamptz;
  v_low timestamptz;
begin
  for l in
    select x.lane, y.number, coalesce(y.low, '-infinity') as low from unnest(p_lanes) as x(lane)
    left join lateral (
      select number, low from fencepost.lane_marks where lane = x.lane order by number desc limit 1
    ) as y on true
  loop
    select r.run_at into v_first from fencepost.ready r
    where r.lane = l.lane and r.run_at >= l.low and r.run_at < coalesce(p_until, l.low)
    order by r.run_at, r.seq limit 1;
    v_low := least(coalesce(p_until, l.low), v_first,
      (p_below ->> l.lane::text)::timestamptz);
    continue when v_low = l.low;
    if l.number is not null then
      -- Only if no other transaction is lowering it.
      perform 1 from fencepost.lane_marks where lane = l.lane and number = l.number and low = l.low
      for update skip locked;
      continue when not found;
      delete from fencepost.lane_marks where lane = l.lane and number = l.number;
    end if;
    insert into fencepost.lane_marks(lane, number, low)
    values (l.lane, coalesce(l.number, 0) + 1, v_low);
  end loop;
end $$;

-- Write the next row of `marks`: they move up to p_until, if that is known, and p_now is the next
-- time to remember, null to keep the last. The others are times that were found below the marks.
create or replace function fencepost.next_marks(
  p_until timestamptz, p_now timestamptz, p_below_lease timestamptz, p_below_due timestamptz
) returns void language plpgsql as $$
declare
  m constant fencepost.marks := fencepost.newest_marks();
begin
  insert into fencepost.marks(
    number, at, next_xid, next_counter, counter_mark, lease_mark, due_mark, lifetime_mark)
  select m.number + 1,
    coalesce(p_now, m.at),
    case when p_now is null then m.next_xid else pg_current_xact_id() end,
    case when p_now is null then m.next_counter else s.last_value + 1 end,
    case when p_until is null then m.counter_mark else m.next_counter end,
    -- A claim reads the clock before its transaction has a number, and may then be held up.
    least(coalesce(p_until - interval '5 seconds', m.lease_mark), p_below_lease, (
      select min(expires_at) from fencepost.leases
      where expires_at >= m.lease_mark and expires_at < p_until - interval '5 seconds')),
    least(coalesce(p_until, m.due_mark), p_below_due, (
      select min(run_at) from fencepost.delayed
      where run_at >= m.due_mark and run_at < p_until)),
    least(coalesce(p_until, m.lifetime_mark), (
      select min(expires_at) from fencepost.submissions
      where expires_at >= m.lifetime_mark and expires_at < p_until
        and not exists (select 1 from fencepost.done where done.seq = submissions.seq)))
  from fencepost.counters_number_seq s;
  delete from fencepost.marks where number = m.number;
end $$;
