-- The number that a lane or a policy gets, from what it is; p_try counts those that were taken by
-- others. Living processes remember numbers. A failover that loses the last commits, a restore or a
-- truncate takes some back, and were they given in turn, they would come to mean something else.
create or replace function fencepost.number_of(p_name text, p_try integer) returns integer
language sql immutable as $$
  select greatest(
    ('x' || left(md5(p_try || ':' || p_name), 8))::bit(32)::integer & 2147483647, 1)
$$;

-- The number of a lane, which is made if it is new, and revived if it was to be removed. Under
-- read committed, a transaction that has its number before it looks is waited for, see `prune_lanes`;
-- one that looks at the past holds the lane instead.
create or replace function fencepost.lane_number(p_queue text, p_type text, p_priority integer)
returns integer language plpgsql as $$
declare
  l fencepost.lane;
  v_try integer := 0;
begin
  perform pg_current_xact_id();
  loop
    select * into l from fencepost.lane
    where queue = p_queue and type = p_type and priority = p_priority;
    if found and l.idle_at is null then
      if current_setting('transaction_isolation') <> 'read committed' then
        perform 1 from fencepost.lane where lane = l.lane for key share;
      end if;
      return l.lane;
    elsif found then
      update fencepost.lane set idle_at = null, retired_at = null, fence = null
      where lane = l.lane;
      continue when not found;  -- removed meanwhile
      return l.lane;
    end if;
    insert into fencepost.lane(lane, queue, type, priority)
    values (
      fencepost.number_of(json_build_array(p_queue, p_type, p_priority)::text, v_try),
      p_queue, p_type, p_priority)
    on conflict do nothing;
    v_try := v_try + 1;
  end loop;
end $$;

-- The numbers of several lanes. Raises FP002 if a new pair of queue and type would be one more than
-- p_max; those that others make at the same moment are not counted. Fencepost's own types are not
-- refused: what it does for a job that was accepted goes on.
create or replace function fencepost.lane_numbers(
  p_queues text[], p_types text[], p_priorities integer[], p_max integer
) returns integer[] language plpgsql as $$
declare
  v_has_new boolean := exists (
    select 1 from unnest(p_queues, p_types) as x(queue, type)
    where not starts_with(x.type, 'fencepost.') and not exists (
      select 1 from fencepost.lane where lane.queue = x.queue and lane.type = x.type
    )
  );
  v_numbers integer[] := array(
    select fencepost.lane_number(x.queue, x.type, x.priority)
    from unnest(p_queues, p_types, p_priorities) with ordinality as x(queue, type, priority, n)
    order by x.n
  );
begin
  if v_has_new and (select count(*) from fencepost.lane) > p_max
    and (select count(*) from (select distinct queue, type from fencepost.lane) as x) > p_max
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
    select policy into v_policy from fencepost.policy where md5(body) = md5(p_body);
    if found then
      return v_policy;
    end if;
    insert into fencepost.policy(policy, body, lease_ttl, timeout)
    values (fencepost.number_of(p_body, v_try), p_body, p_lease_ttl, p_timeout)
    on conflict do nothing;
    v_try := v_try + 1;
  end loop;
end $$;

-- Raise FP001 unless these numbers are there: a caller remembers them from before a failover or a
-- restore that took them back, or the lane was unused and is removed. The caller forgets all that it
-- remembers, and comes again. The transaction has its number first, see `prune_lanes`. Above read
-- committed, an old snapshot does not show what was numbered since; there the indexes say whether a
-- number is taken, which know no snapshots.
create or replace function fencepost.check_numbers(p_lane integer, p_policy integer) returns void
language plpgsql as $$
declare
  is_strict constant boolean := current_setting('transaction_isolation') <> 'read committed';
  has_policy constant boolean := exists (select 1 from fencepost.policy where policy = p_policy);
  has_lane boolean;
begin
  perform pg_current_xact_id();
  has_lane := exists (select 1 from fencepost.lane where lane = p_lane and retired_at is null);
  if is_strict then
    -- Which fails if the lane has changed since the past that this transaction looks at.
    perform 1 from fencepost.lane where lane = p_lane for key share;
    if found and not has_lane then
      raise exception using errcode = 'FP001', message = format('lane %s is retired', p_lane);
    end if;
  end if;
  if has_lane and has_policy then
    return;
  end if;
  if is_strict then
    -- What could be stored is undone with all that this transaction has done.
    begin
      if not has_lane then
        insert into fencepost.lane(lane, queue, type, priority)
        values (p_lane, 'default', 'number_' || p_lane, 2);
        raise exception using errcode = 'FP001', message = format('there is no lane %s', p_lane);
      end if;
    exception when unique_violation then
      null;
    end;
    begin
      if not has_policy then
        insert into fencepost.policy(policy, body, timeout)
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

-- Remove lanes that no job has been in for so long; a few calls, each in its own transaction, do it:
-- the first sees that a lane has no jobs, a later one retires it, the next gives it a fence, and one
-- more deletes it. From then on nothing new is stored in it: `check_numbers` refuses, and `lane_number`
-- revives it. But somebody who had looked before may still store a job. Whoever looks has a number
-- before, which is below the fence: that was taken after the retirement was seen to be committed.
-- So when no transaction below the fence is under way, what they have stored can be seen. Nobody
-- who stores jobs waits for a lock. Lanes of p_kept, to which rows of `callback` refer, stay. The
-- subqueries are such as cannot become joins: one look into an index a lane, and no scan of `job`.
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
  from fencepost.lane where retired_at is not null and fence is null;
  -- A count that is still to be added up is left to `tidy` first: the sum is all that is deleted.
  with gone as (
    delete from fencepost.lane where lane = any (array(
      select l.lane from fencepost.lane l
      where l.fence <= pg_snapshot_xmin(pg_current_snapshot())
        and (select true from fencepost.job where job.lane = l.lane limit 1) is null
        and not (l.lane in (select lane from fencepost.tally)) is true
      for update skip locked
    )) returning lane
  )
  select array_agg(lane) into v_gone from gone;
  delete from fencepost.mark where lane = any (v_gone);
  delete from fencepost.total where lane = any (v_gone);
  if is_early and v_lanes is not null then
    v_fence := pg_current_xact_id();
    update fencepost.lane l set fence = v_fence
    from unnest(v_lanes, v_retired) as x(lane, retired_at)
    where l.lane = x.lane and l.retired_at = x.retired_at and l.fence is null;
  end if;
  update fencepost.lane l set
    idle_at = case when x.is_used then null else coalesce(l.idle_at, t) end,
    retired_at = case when x.is_used or l.idle_at > t - p_idle * interval '1 microsecond' then null
      when l.idle_at is not null then coalesce(l.retired_at, t) end,
    fence = case when not x.is_used then l.fence end
  from (
    select lane, (
      select true from fencepost.job where job.lane = lane.lane limit 1
    ) is true as is_used
    from fencepost.lane where type <> p_kept
    for no key update skip locked
  ) as x
  where l.lane = x.lane and (
    case when x.is_used then l.idle_at is not null
      else l.idle_at is null or l.retired_at is null
        and l.idle_at <= t - p_idle * interval '1 microsecond' end);
  return coalesce(cardinality(v_gone), 0);
end $$;
