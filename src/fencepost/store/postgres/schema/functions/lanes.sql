-- The number of a lane or a policy, made from its name; p_try counts numbers that were taken
-- already. Processes remember numbers. A failover that loses the last commits, a restore or a
-- truncate takes some back; if they were given in turn, they would later mean something else.
create or replace function fencepost.number_of(p_name text, p_try integer) returns integer
language sql immutable as $$
  select greatest(
    ('x' || left(md5(p_try || ':' || p_name), 8))::bit(32)::integer & 2147483647, 1)
$$;

-- The number of a lane, which is made if it is new, and revived if it was retired. Under read
-- committed, `prune_lanes` waits for transactions that got their number before they looked; above
-- read committed, a transaction holds the lane instead.
create or replace function fencepost.lane_number(p_queue text, p_type text, p_priority integer)
returns integer language plpgsql as $$
declare
  l fencepost.lanes;
  v_try integer := 0;
begin
  perform pg_current_xact_id();
  loop
    select * into l from fencepost.lanes
    where queue = p_queue and type = p_type and priority = p_priority;
    if found and l.idle_at is null then
      if current_setting('transaction_isolation') <> 'read committed' then
        perform 1 from fencepost.lanes where lane = l.lane for key share;
      end if;
      return l.lane;
    elsif found then
      update fencepost.lanes set idle_at = null, retired_at = null, fence = null
      where lane = l.lane;
      continue when not found;  -- removed meanwhile
      return l.lane;
    end if;
    insert into fencepost.lanes(lane, queue, type, priority)
    values (
      fencepost.number_of(json_build_array(p_queue, p_type, p_priority)::text, v_try),
      p_queue, p_type, p_priority)
    on conflict do nothing;
    v_try := v_try + 1;
  end loop;
end $$;

-- The numbers of several lanes. Raises FP002 if there would be more than p_max pairs of queue and
-- type; pairs that others make at the same moment are not counted. Fencepost's own types are never
-- refused: what it does for jobs that were accepted goes on.
create or replace function fencepost.lane_numbers(
  p_queues text[], p_types text[], p_priorities integer[], p_max integer
) returns integer[] language plpgsql as $$
declare
  v_has_new boolean := exists (
    select 1 from unnest(p_queues, p_types) as x(queue, type)
    where not starts_with(x.type, 'fencepost.') and not exists (
      select 1 from fencepost.lanes where lanes.queue = x.queue and lanes.type = x.type
    )
  );
  v_numbers integer[] := array(
    select fencepost.lane_number(x.queue, x.type, x.priority)
    from unnest(p_queues, p_types, p_priorities) with ordinality as x(queue, type, priority, n)
    order by x.n
  );
begin
  if v_has_new and (select count(*) from fencepost.lanes) > p_max
    and (select count(*) from (select distinct queue, type from fencepost.lanes) as x) > p_max
  then
    raise exception using errcode = 'FP002', message = format('there are %s lanes', p_max);
  end if;
  return v_numbers;
end $$;

-- The number of a policy, which is stored if it is new.
create or replace function fencepost.policy_number(p_body text, p_lease_ttl bigint, p_timeout bigint)
returns integer language plpgsql as $$
declare
  v_policy integer;
  v_try integer := 0;
begin
  loop
    select policy into v_policy from fencepost.policies where md5(body) = md5(p_body);
    if found then
      return v_policy;
    end if;
    insert into fencepost.policies(policy, body, lease_ttl, timeout)
    values (fencepost.number_of(p_body, v_try), p_body, p_lease_ttl, p_timeout)
    on conflict do nothing;
    v_try := v_try + 1;
  end loop;
end $$;

-- Raise FP001 unless these numbers exist: the caller may remember them from before a failover or a
-- restore that took them back, or the lane was unused and has been removed. The caller then forgets
-- all numbers and repeats. The transaction gets its number first, see `prune_lanes`. Above read
-- committed, an old snapshot does not show newer numbers; there the indexes, which know no
-- snapshots, show whether a number is taken.
create or replace function fencepost.check_numbers(p_lane integer, p_policy integer) returns void
language plpgsql as $$
declare
  is_strict constant boolean := current_setting('transaction_isolation') <> 'read committed';
  has_policy constant boolean := exists (select 1 from fencepost.policies where policy = p_policy);
  has_lane boolean;
begin
  perform pg_current_xact_id();
  has_lane := exists (select 1 from fencepost.lanes where lane = p_lane and retired_at is null);
  if is_strict then
    -- Fails if the lane has changed after this transaction's snapshot.
    perform 1 from fencepost.lanes where lane = p_lane for key share;
    if found and not has_lane then
      raise exception using errcode = 'FP001', message = format('lane %s is retired', p_lane);
    end if;
  end if;
  if has_lane and has_policy then
    return;
  end if;
  if is_strict then
    -- What could be inserted is rolled back with the rest of this transaction.
    begin
      if not has_lane then
        insert into fencepost.lanes(lane, queue, type, priority)
        values (p_lane, 'default', 'number_' || p_lane, 2);
        raise exception using errcode = 'FP001', message = format('there is no lane %s', p_lane);
      end if;
    exception when unique_violation then
      null;
    end;
    begin
      if not has_policy then
        insert into fencepost.policies(policy, body, timeout)
        values (p_policy, 'number ' || p_policy, 0);
        raise exception using errcode = 'FP001', message = format('there is no policy %s', p_policy);
      end if;
    exception when unique_violation then
      null;
    end;
    return;
  end if;
  raise exception using errcode = 'FP001',
    message = format('there is no lane %s or no policy %s', p_lane, p_policy);
end $$;

-- Remove lanes that have had no jobs for p_idle microseconds. It takes a few calls, each in its own
-- transaction: the first sees that a lane has no jobs, a later one retires it, the next gives it a
-- fence, and one more deletes it. Nothing new is stored in a retired lane: `check_numbers` refuses,
-- and `lane_number` revives it. But a transaction that looked before may still store a job. It got
-- its number before it looked, and that is below the fence, which was taken after the retirement
-- was committed. So once no transaction below the fence is open, all that they stored is visible.
-- Transactions that store jobs wait for no lock. Lanes of type p_kept, to which rows of `callbacks`
-- refer, stay. The subqueries cannot become joins: one index look-up a lane, and no scan of
-- `submissions`.
create or replace function fencepost.prune_lanes(p_now timestamptz, p_idle bigint, p_kept text)
returns integer language plpgsql set jit = off set enable_seqscan = off as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  is_early constant boolean := pg_current_xact_id_if_assigned() is null;
  v_gone integer[];
  v_lanes integer[];
  v_retired timestamptz[];
  v_fence xid8;
begin
  select array_agg(lane), array_agg(retired_at) into v_lanes, v_retired
  from fencepost.lanes where retired_at is not null and fence is null;
  -- Lanes with counts that `tidy` has yet to add up are left: only sums are deleted here.
  with gone as (
    delete from fencepost.lanes where lane = any (array(
      select l.lane from fencepost.lanes l
      where l.fence <= pg_snapshot_xmin(pg_current_snapshot())
        and (select true from fencepost.submissions where submissions.lane = l.lane limit 1) is null
        and not (l.lane in (select lane from fencepost.counters)) is true
      for update skip locked
    )) returning lane
  )
  select array_agg(lane) into v_gone from gone;
  delete from fencepost.lane_marks where lane = any (v_gone);
  delete from fencepost.counter_totals where lane = any (v_gone);
  if is_early and v_lanes is not null then
    v_fence := pg_current_xact_id();
    update fencepost.lanes l set fence = v_fence
    from unnest(v_lanes, v_retired) as x(lane, retired_at)
    where l.lane = x.lane and l.retired_at = x.retired_at and l.fence is null;
  end if;
  update fencepost.lanes l set
    idle_at = case when x.is_used then null else coalesce(l.idle_at, t) end,
    retired_at = case when x.is_used or l.idle_at > t - p_idle * interval '1 microsecond' then null
      when l.idle_at is not null then coalesce(l.retired_at, t) end,
    fence = case when not x.is_used then l.fence end
  from (
    select lane, (
      select true from fencepost.submissions where submissions.lane = lanes.lane limit 1
    ) is true as is_used
    from fencepost.lanes where type <> p_kept
    for no key update skip locked
  ) as x
  where l.lane = x.lane and (
    case when x.is_used then l.idle_at is not null
      else l.idle_at is null or l.retired_at is null
        and l.idle_at <= t - p_idle * interval '1 microsecond' end);
  return coalesce(cardinality(v_gone), 0);
end $$;
