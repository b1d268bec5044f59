-- Taking ready jobs for a claim. The settings are those of `claim`.

-- Take jobs from the lanes that a claim serves.
create or replace function fencepost.pop_served(
  p_terms fencepost.lease_terms, b fencepost.claim_bounds, r fencepost.claim_request,
  s fencepost.served_lanes
) returns fencepost.claimed_jobs language plpgsql as $$
begin
  if cardinality(s.lanes) = 1 and cardinality(s.names) = 1 then
    -- Most apps: one type of one queue at one priority.
    return fencepost.pop_lane(p_terms, b, s.lanes[1], r.bytes);
  end if;
  return fencepost.pop_lanes(p_terms, b, s, r.turn, r.bytes);
end $$;

-- Take jobs if there is only one lane.
create or replace function fencepost.pop_lane(
  p_terms fencepost.lease_terms, b fencepost.claim_bounds, p_lane integer, p_bytes bigint
) returns fencepost.claimed_jobs language plpgsql as $$
declare
  v_jobs text;
  v_count integer := 0;
  v_wanted integer := least(b.most, b.rooms[1], b.type_rooms[b.places[1]]);
  v_room bigint := p_bytes;
  v_part integer := 1;
  v_popped fencepost.popped_jobs;
  -- This many jobs of a lease fit into a page with the rest of its row.
  v_most constant integer := 400;
begin
  while v_wanted > 0 and (b.paused is null or p_lane <> all (b.paused)) loop
    v_popped := fencepost.pop(p_terms, p_lane, least(v_wanted, v_most), v_part, v_room);
    exit when v_popped.count = 0;
    v_jobs := concat_ws(',', v_jobs, v_popped.popped);
    v_count := v_count + v_popped.count;
    v_part := v_part + 1000;
    v_room := v_popped.room;
    exit when v_popped.count < v_most or v_room = 0;
    v_wanted := v_wanted - v_popped.count;
  end loop;
  return row(v_jobs, array[v_count], null::bigint[], v_count, 0, v_room);
end $$;

-- Take jobs from several lanes: first every queue's share, then what others left over.
create or replace function fencepost.pop_lanes(
  p_terms fencepost.lease_terms, b fencepost.claim_bounds, s fencepost.served_lanes, p_turn bigint,
  p_bytes bigint
) returns fencepost.claimed_jobs language plpgsql as $$
declare
  x fencepost.claimed_jobs;
  v_left integer := greatest(b.most, 0);
  v_order integer[];
  v_turns integer[];
  v_shares integer[] := array_fill(0, array[cardinality(s.names)]);
  v_taken integer[] := v_shares;
  v_wanted integer;
  v_before integer;
  q integer;
begin
  x := row(null, array_fill(0, array[cardinality(s.lanes)]), null, 0, 0, p_bytes);
  if v_left = 0 then
    return x;
  end if;
  if s.turns is null then
    v_order := fencepost.open_queues(s, b.paused, p_turn);
  end if;
  v_turns := coalesce(s.turns, v_order);
  for turn in 1..cardinality(v_turns) loop
    v_shares[v_turns[turn]] := v_shares[v_turns[turn]] + v_left / cardinality(v_turns)
      + case when turn <= v_left % cardinality(v_turns) then 1 else 0 end;
  end loop;
  for round in 1..2 loop
    for place in 1..coalesce(cardinality(v_order), cardinality(s.names)) loop
      exit when v_left <= 0;
      q := coalesce(v_order[place], place);
      v_wanted := least(
        case round when 1 then v_shares[q] else v_left end, b.rooms[q] - v_taken[q], v_left);
      continue when v_wanted <= 0 or (round = 2 and v_taken[q] < v_shares[q]);
      v_before := x.count;
      x := fencepost.pop_queue(p_terms, b, s, q, v_wanted, x);
      v_taken[q] := v_taken[q] + x.count - v_before;
      v_left := case when x.room = 0 then 0 else v_left - x.count + v_before end;
    end loop;
  end loop;
  if x.pops > 1 then
    x.seqs := fencepost.lease_order(p_terms.lease_token, s, v_order);
  end if;
  return x;
end $$;

-- Take up to p_wanted more jobs than x, from the lanes of queue q, by priority.
create or replace function fencepost.pop_queue(
  p_terms fencepost.lease_terms, b fencepost.claim_bounds, s fencepost.served_lanes, q integer,
  p_wanted integer, x fencepost.claimed_jobs
) returns fencepost.claimed_jobs language plpgsql as $$
declare
  v_most constant integer := 400;  -- as in `pop_lane`
  v_wanted constant integer := x.count + p_wanted;
  v_before integer;
  v_caps integer[];
  v_popped fencepost.popped_jobs;
  v_place integer;
  g record;
  p record;
begin
  for g in
    select array_agg(lane order by n) as lanes, array_agg(n order by n) as numbers
    from unnest(s.lanes, s.priorities, s.queues) with ordinality as l(lane, priority, queue, n)
    where queue = q and (b.paused is null or lane <> all (b.paused))
    group by priority order by priority
  loop
    while x.count < v_wanted loop
      v_before := x.count;
      if b.places is not null then
        v_caps := fencepost.caps(g.numbers, b.places, b.type_rooms, x.spent);
      end if;
      for p in
        select * from fencepost.split(g.lanes, least(v_wanted - v_before, v_most), v_caps)
      loop
        v_popped := fencepost.pop(p_terms, p.lane, p.count, 1 + 1000 * x.pops, x.room);
        x.room := v_popped.room;
        if v_popped.count > 0 then
          x.jobs := concat_ws(',', x.jobs, v_popped.popped);
          x.pops := x.pops + 1;
          x.count := x.count + v_popped.count;
          v_place := array_position(s.lanes, p.lane);
          x.spent[v_place] := x.spent[v_place] + v_popped.count;
        end if;
        if x.room = 0 then
          return x;
        end if;
      end loop;
      exit when x.count - v_before < least(v_wanted - v_before, v_most);
    end loop;
  end loop;
  return x;
end $$;

-- The order of the jobs of one claim that come from several lanes.
create or replace function fencepost.lease_order(
  p_lease_token uuid, s fencepost.served_lanes, p_order integer[]
) returns bigint[] language plpgsql as $$
begin
  return array(
    select x.seq from fencepost.leases e
    join unnest(s.lanes, s.priorities, s.queues) as l(lane, priority, queue) on l.lane = e.lane
    cross join lateral unnest(e.seqs, e.run_ats) as x(seq, run_at)
    join fencepost.submissions j on j.seq = any (array[x.seq])
    where e.lease_token = p_lease_token
    order by coalesce(array_position(p_order, l.queue), l.queue), l.priority,
      coalesce(x.run_at, j.run_at), x.seq
  );
end $$;

-- Lease the first p_limit jobs of one lane; returns [lane, [job, …]] for the answer. They are fewer
-- if they have more than p_bytes, but the first of a claim, which has part 1, is always taken.
-- `room` is how many bytes are left, 0 if a job did not fit.
create or replace function fencepost.pop(
  p_terms fencepost.lease_terms, p_lane integer, p_limit integer, p_part integer, p_bytes bigint
) returns fencepost.popped_jobs language plpgsql as $$
begin
  return fencepost.pop_from(p_terms, p_lane, p_limit, p_part, p_bytes,
    (select low from fencepost.marked_lanes where lane = p_lane), 0);
end $$;

-- Do so behind a place in the line of the lane.
create or replace function fencepost.pop_from(
  p_terms fencepost.lease_terms, p_lane integer, p_limit integer, p_part integer, p_bytes bigint,
  p_low timestamptz, p_after bigint
) returns fencepost.popped_jobs language plpgsql as $$
declare
  t timestamptz := p_terms.started_at;
  v_first constant bigint := p_terms.first_version;
  x fencepost.taken_jobs;
  v_again fencepost.popped_jobs;
  v_ttl bigint;
  v_timeout bigint;
begin
  x := fencepost.take_from(t, v_first, p_lane, p_limit, p_part, p_bytes, p_low, p_after);
  if x.count = 0 then
    return row(null::text, 0, p_bytes);
  elsif x.jobs is null then
    insert into fencepost.ready(lane, run_at, seq, scheduled_at, attempt, lease_version)
    select p_lane, * from unnest(x.run_ats, x.seqs, x.scheduled_ats, x.attempts, x.lease_versions);
    v_again := fencepost.pop_from(p_terms, p_lane, fencepost.fitting(x.seqs, p_bytes, p_part),
      p_part, p_bytes, p_low, p_after);
    v_again.room := 0;
    return v_again;
  end if;
  if x.is_plain then
    x.attempts := null;
    x.lease_versions := null;
    x.run_ats := null;
    x.scheduled_ats := null;
  else
    -- Since the claim read the clock, another lease of such a job may have ended.
    t := coalesce(p_terms.now, clock_timestamp());
    p_terms.started_at := t;
    select array_agg(y.attempt + 1 order by y.n),
      array_agg(greatest(y.lease_version + 1, v_first) order by y.n)
    into x.attempts, x.lease_versions
    from unnest(x.attempts, x.lease_versions) with ordinality as y(attempt, lease_version, n);
  end if;
  if x.policy = x.policy_too then
    select lease_ttl, timeout into v_ttl, v_timeout from fencepost.policies where policy = x.policy;
    -- One that is not there is found out by the reader of the answer.
    v_ttl := coalesce(v_ttl, p_terms.lease_ttl);
    v_timeout := coalesce(v_timeout, p_terms.lease_ttl) + p_terms.timeout_grace;
    insert into fencepost.leases values (
      p_terms.lease_token, p_part, p_lane, t, t + least(v_ttl, v_timeout) * interval '1 microsecond',
      p_terms.worker, x.seqs, x.attempts, x.lease_versions, x.run_ats, x.scheduled_ats, v_ttl,
      t + v_timeout * interval '1 microsecond');
  else
    perform fencepost.lease_each(p_terms, p_lane, p_part, x);
  end if;
  insert into fencepost.counters(lane, state, count)
  values (p_lane, :SCHEDULED, -x.count), (p_lane, :RUNNING, x.count);
  return row('[' || p_lane || ',[' || x.jobs || ']]', x.count, greatest(p_bytes - x.size, 0));
end $$;

-- Take the first p_limit ready jobs of one lane that are due after p_low, or at p_low and behind
-- p_after. `jobs` is their part of the claim's answer; null if they have more than p_bytes. p_first
-- is the version of a job's first lease, see `next_version`.
create or replace function fencepost.take_from(
  t timestamptz, p_first bigint, p_lane integer, p_limit integer, p_part integer, p_bytes bigint,
  p_low timestamptz, p_after bigint
) returns fencepost.taken_jobs language plpgsql as $$
declare
  x fencepost.taken_jobs;
begin
  with taken as materialized (
    delete from fencepost.ready where ctid = any (array(
      select r.ctid from fencepost.ready r
      where r.lane = p_lane
        and (r.run_at, r.seq) > (p_low, p_after)
      order by r.run_at, r.seq limit p_limit for update skip locked
    )) returning run_at, seq, scheduled_at, attempt, lease_version
  ), chosen as materialized (
    select taken.*, j.id, j.policy, j.max_attempts, j.payload_encoding, j.payload, j.payload_bytes,
      j.key, j.tags, j.correlation_id, j.flow, j.mode, j.created_at,
      -- Bytes are handed out in hexadecimal.
      coalesce(octet_length(j.payload), 0) + coalesce(2 * octet_length(j.payload_bytes), 0)
        + case when taken.lease_version > 0 then fencepost.checkpoint_size(taken.seq) else 0 end
        as size
    -- By number, one by one: a plan made while there were few jobs would always read all of them.
    from taken cross join lateral (
      select * from fencepost.submissions where submissions.seq = taken.seq limit 1
    ) as j
    order by taken.run_at, taken.seq
  )
  -- A text that would be too long is not built.
  select string_agg(
    case when (select sum(size) from chosen) <= p_bytes or (p_part = 1 and p_limit = 1) then
      concat('[', seq, ',"', id, '",', policy, ',', max_attempts, ',', attempt + 1, ',',
        greatest(lease_version + 1, p_first), ',',
        greatest(date_part('epoch', t - coalesce(scheduled_at, created_at)) * 1e6, 0)::bigint, ',',
        coalesce(payload, 'null'),
        case when lease_version > 0 or payload is null or key is not null or tags is not null
          or correlation_id is not null
        then concat(',', fencepost.particulars(
          seq, lease_version, payload_encoding, payload_bytes, key, tags, correlation_id))
        when flow is not null or mode is not null then ',null' end,
        case when flow is not null or mode is not null
        then concat(',', coalesce(to_json(flow)::text, 'null'), ',', (mode is not null)::text) end,
        ']')
    end, ','), count(*), array_agg(seq), array_agg(attempt), array_agg(lease_version),
    array_agg(run_at), array_agg(scheduled_at),
    bool_and(lease_version = 0 and scheduled_at is null), min(policy), max(policy), sum(size)
  into x from chosen;
  return x;
end $$;

-- Lease jobs whose leases have different lengths: a row for each length.
create or replace function fencepost.lease_each(
  p_terms fencepost.lease_terms, p_lane integer, p_part integer, x fencepost.taken_jobs
) returns void language plpgsql as $$
declare
  t constant timestamptz := p_terms.started_at;
begin
  insert into fencepost.leases
  select p_terms.lease_token, p_part + (row_number() over ())::integer - 1, p_lane, t,
    t + least(y.lease_ttl, y.timeout) * interval '1 microsecond', p_terms.worker,
    array_agg(y.seq order by y.n),
    case when not x.is_plain then array_agg(y.attempt order by y.n) end,
    case when not x.is_plain then array_agg(y.lease_version order by y.n) end,
    case when not x.is_plain then array_agg(y.run_at order by y.n) end,
    case when not x.is_plain then array_agg(y.scheduled_at order by y.n) end,
    y.lease_ttl, t + y.timeout * interval '1 microsecond'
  from (
    select held.*, coalesce(policies.lease_ttl, p_terms.lease_ttl) as lease_ttl,
      coalesce(policies.timeout, p_terms.lease_ttl) + p_terms.timeout_grace as timeout
    from unnest(x.seqs, x.attempts, x.lease_versions, x.run_ats, x.scheduled_ats) with ordinality
      as held(seq, attempt, lease_version, run_at, scheduled_at, n)
    join fencepost.submissions on submissions.seq = any (array[held.seq])
    left join fencepost.policies on policies.policy = submissions.policy
  ) as y group by y.lease_ttl, y.timeout;
end $$;

-- Fields that few jobs have; p_last is the version of the lease before, 0 if there was none.
create or replace function fencepost.particulars(
  p_seq bigint, p_last bigint, p_payload_encoding smallint, p_bytes bytea, p_key text, p_tags jsonb,
  p_correlation_id text
) returns text language plpgsql stable as $$
declare
  s fencepost.saved;
begin
  if p_last > 0 then
    select * into s from fencepost.saved where seq = p_seq;
  end if;
  return json_build_object(
    'payload_encoding', p_payload_encoding, 'bytes', encode(p_bytes, 'hex'), 'key', p_key,
    'tags', p_tags, 'correlation_id', p_correlation_id, 'last', p_last,
    'checkpoint_encoding', s.checkpoint_encoding, 'checkpoint', s.checkpoint,
    'checkpoint_bytes', encode(s.checkpoint_bytes, 'hex')
  )::text;
end $$;

-- How many bytes the checkpoint of a job has in the answer to a claim.
create or replace function fencepost.checkpoint_size(p_seq bigint) returns integer language sql stable as $$
  select coalesce((
    select coalesce(octet_length(checkpoint), 0) + coalesce(2 * octet_length(checkpoint_bytes), 0)
    from fencepost.saved where seq = p_seq
  ), 0)
$$;

-- How many of the first of these jobs have at most p_bytes together, as `pop` counts them; at least
-- one if they are the first of a claim.
create or replace function fencepost.fitting(p_seqs bigint[], p_bytes bigint, p_part integer)
returns integer language sql stable as $$
  select greatest(count(*) filter (where total <= p_bytes), (p_part = 1)::integer)::integer from (
    select sum(fencepost.checkpoint_size(x.seq) + coalesce(octet_length(j.payload), 0)
      + coalesce(2 * octet_length(j.payload_bytes), 0)) over (order by x.n) as total
    from unnest(p_seqs) with ordinality as x(seq, n)
    join fencepost.submissions j on j.seq = any (array[x.seq])
  ) as line
$$;
