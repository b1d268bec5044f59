-- Taking jobs out of the line for a claim. The settings are those of `claim`.

-- Take jobs from the one lane that there is.
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
  -- So many jobs of a lease fit into a page with the rest of its row.
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
  return row(v_jobs, array[v_count], null::bigint[]);
end $$;

-- Take jobs from several lanes, see `claim` for what they are: first every queue's share, then what
-- others left over. There are p_count queues.
create or replace function fencepost.pop_lanes(
  p_terms fencepost.lease_terms, b fencepost.claim_bounds, p_bytes bigint, p_lanes integer[],
  p_priorities integer[], p_queues integer[], p_count integer, p_turns integer[], p_turn bigint
) returns fencepost.claimed_jobs language plpgsql as $$
declare
  x fencepost.claimed_jobs;
  v_left integer := greatest(b.most, 0);
  v_room bigint := p_bytes;
  v_pops integer := 0;
  v_order integer[];
  v_turns integer[];
  v_shares integer[] := array_fill(0, array[p_count]);
  v_taken integer[] := v_shares;
  v_wanted integer;
  v_popped record;
  q integer;
begin
  x.spent := array_fill(0, array[cardinality(p_lanes)]);
  if v_left = 0 then
    return x;
  end if;
  if p_turns is null then
    v_order := fencepost.open_queues(p_lanes, p_queues, b.paused, p_turn);
  end if;
  v_turns := coalesce(p_turns, v_order);
  for turn in 1..cardinality(v_turns) loop
    v_shares[v_turns[turn]] := v_shares[v_turns[turn]] + v_left / cardinality(v_turns)
      + case when turn <= v_left % cardinality(v_turns) then 1 else 0 end;
  end loop;
  for round in 1..2 loop
    for place in 1..coalesce(cardinality(v_order), p_count) loop
      exit when v_left <= 0;
      q := coalesce(v_order[place], place);
      v_wanted := least(
        case round when 1 then v_shares[q] else v_left end, b.rooms[q] - v_taken[q], v_left);
      continue when v_wanted <= 0 or (round = 2 and v_taken[q] < v_shares[q]);
      v_popped := fencepost.pop_queue(
        p_terms, b, v_room, v_pops, v_wanted, p_lanes, p_priorities, p_queues, q, x.spent);
      x.jobs := nullif(concat_ws(',', x.jobs, v_popped.jobs), '');
      x.spent := v_popped.spent;
      v_pops := v_popped.pops;
      v_room := v_popped.room;
      v_taken[q] := v_taken[q] + v_popped.count;
      v_left := case when v_room = 0 then 0 else v_left - v_popped.count end;
    end loop;
  end loop;
  if v_pops > 1 then
    x.seqs := fencepost.lease_order(p_terms.secret, p_lanes, p_priorities, p_queues, v_order);
  end if;
  return x;
end $$;

-- Take up to p_wanted jobs from the lanes of queue q, by priority. p_pops is how many times something
-- was taken for this claim before, p_spent from which lanes. `room` is 0 if that was the last.
create or replace function fencepost.pop_queue(
  p_terms fencepost.lease_terms, b fencepost.claim_bounds, p_room bigint, p_pops integer,
  p_wanted integer, p_lanes integer[], p_priorities integer[], p_queues integer[], q integer,
  p_spent integer[],
  out jobs text, out count integer, out room bigint, out pops integer, out spent integer[]
) language plpgsql as $$
declare
  v_most constant integer := 400;  -- as in `pop_lane`
  v_before integer;
  v_caps integer[];
  v_popped fencepost.popped_jobs;
  v_place integer;
  g record;
  p record;
begin
  count := 0;
  room := p_room;
  pops := p_pops;
  spent := p_spent;
  for g in
    select array_agg(lane order by n) as lanes, array_agg(n order by n) as numbers
    from unnest(p_lanes, p_priorities, p_queues) with ordinality as x(lane, priority, queue, n)
    where queue = q and (b.paused is null or lane <> all (b.paused))
    group by priority order by priority
  loop
    while count < p_wanted loop
      v_before := count;
      if b.places is not null then
        v_caps := fencepost.caps(g.numbers, b.places, b.type_rooms, spent);
      end if;
      for p in
        select * from fencepost.split(g.lanes, least(p_wanted - count, v_most), v_caps) as s
      loop
        v_popped := fencepost.pop(p_terms, p.lane, p.count, 1 + 1000 * pops, room);
        room := v_popped.room;
        continue when v_popped.count = 0 and room > 0;
        if v_popped.count > 0 then
          jobs := concat_ws(',', jobs, v_popped.popped);
          pops := pops + 1;
          count := count + v_popped.count;
          v_place := array_position(p_lanes, p.lane);
          spent[v_place] := spent[v_place] + v_popped.count;
        end if;
        if room = 0 then
          return;
        end if;
      end loop;
      exit when count - v_before < least(p_wanted - v_before, v_most);
    end loop;
  end loop;
end $$;

-- The order of the jobs of one claim that come from several lanes.
create or replace function fencepost.lease_order(
  p_secret uuid, p_lanes integer[], p_priorities integer[], p_queues integer[], p_order integer[]
) returns bigint[] language plpgsql as $$
begin
  return array(
    select x.seq from fencepost.lease e
    join unnest(p_lanes, p_priorities, p_queues) as l(lane, priority, queue) on l.lane = e.lane
    cross join lateral unnest(e.seqs, e.run_ats) as x(seq, run_at)
    join fencepost.job j on j.seq = x.seq
    where e.secret = p_secret
    order by coalesce(array_position(p_order, l.queue), l.queue), l.priority,
      coalesce(x.run_at, j.run_at), x.seq
  );
end $$;

-- Lease the first p_limit jobs of one lane; returns [lane, [job, …]] for the answer. They are
-- fewer if they come to more than p_bytes, but the first of a claim, which has part 1, is always
-- taken: `room` is what the next may come to, and 0 if one did not fit.
create or replace function fencepost.pop(
  p_terms fencepost.lease_terms, p_lane integer, p_limit integer, p_part integer, p_bytes bigint
) returns fencepost.popped_jobs language plpgsql as $$
declare
  t constant timestamptz := p_terms.started_at;
  v_first constant bigint := p_terms.first_version;
  x fencepost.taken_jobs;
  v_again fencepost.popped_jobs;
  v_ttl bigint;
  v_timeout bigint;
begin
  x := fencepost.take(t, v_first, p_lane, p_limit, p_part, p_bytes);
  if x.count = 0 then
    return row(null::text, 0, p_bytes);
  elsif x.jobs is null then
    insert into fencepost.ready(lane, run_at, seq, scheduled_at, attempt, version)
    select p_lane, * from unnest(x.run_ats, x.seqs, x.scheduled_ats, x.attempts, x.versions);
    v_again := fencepost.pop(
      p_terms, p_lane, fencepost.fitting(x.seqs, p_bytes, p_part), p_part, p_bytes);
    v_again.room := 0;
    return v_again;
  end if;
  if x.is_plain then
    x.attempts := null;
    x.versions := null;
    x.run_ats := null;
    x.scheduled_ats := null;
  else
    select array_agg(y.attempt + 1 order by y.n),
      array_agg(greatest(y.version + 1, v_first) order by y.n)
    into x.attempts, x.versions
    from unnest(x.attempts, x.versions) with ordinality as y(attempt, version, n);
  end if;
  if x.policy = x.policy_too then
    select lease_ttl, timeout into v_ttl, v_timeout from fencepost.policy where policy = x.policy;
    -- One that is not there is found out by the reader of the answer.
    v_ttl := coalesce(v_ttl, p_terms.ttl);
    v_timeout := coalesce(v_timeout, p_terms.ttl) + p_terms.grace;
    insert into fencepost.lease values (
      p_terms.secret, p_part, p_lane, t, t + least(v_ttl, v_timeout) * interval '1 microsecond',
      p_terms.worker, x.seqs, x.attempts, x.versions, x.run_ats, x.scheduled_ats, v_ttl,
      t + v_timeout * interval '1 microsecond');
  else
    perform fencepost.lease_each(
      p_terms, p_lane, p_part, x.seqs, x.attempts, x.versions, x.run_ats, x.scheduled_ats);
  end if;
  insert into fencepost.tally(lane, state, count)
  values (p_lane, 1, -x.count), (p_lane, 3, x.count);
  return row('[' || p_lane || ',[' || x.jobs || ']]', x.count, greatest(p_bytes - x.size, 0));
end $$;

-- Take the first p_limit jobs of one lane out of line. `jobs` is what a claim says of them, each in
-- brackets; null if they come to more than p_bytes. p_first is the version of a job's first lease,
-- see `next_version`.
create or replace function fencepost.take(
  t timestamptz, p_first bigint, p_lane integer, p_limit integer, p_part integer, p_bytes bigint
) returns fencepost.taken_jobs language plpgsql as $$
declare
  x fencepost.taken_jobs;
begin
  with taken as materialized (
    delete from fencepost.ready where ctid = any (array(
      select r.ctid from fencepost.ready r
      where r.lane = p_lane
        and r.run_at >= (select low from fencepost.line where line.lane = p_lane)
      order by r.run_at, r.seq limit p_limit for update skip locked
    )) returning run_at, seq, scheduled_at, attempt, version
  ), chosen as materialized (
    select taken.*, job.id, job.policy, job.max_attempts, job.encoding, job.payload,
      job.payload_bytes, job.key, job.tags, job.correlation_id, job.flow, job.mode, job.created_at,
      -- Bytes are handed out in hexadecimal.
      coalesce(octet_length(job.payload), 0) + coalesce(2 * octet_length(job.payload_bytes), 0)
        + case when taken.version > 0 then fencepost.checkpoint_size(taken.seq) else 0 end as size
    -- By number, one by one: a plan made while there were few jobs would read them all, for ever.
    from taken cross join lateral (
      select * from fencepost.job where job.seq = taken.seq limit 1
    ) as job
    order by taken.run_at, taken.seq
  )
  -- Too much is not put together.
  select string_agg(
    case when (select sum(size) from chosen) <= p_bytes or (p_part = 1 and p_limit = 1) then
      concat('[', seq, ',"', id, '",', policy, ',', max_attempts, ',', attempt + 1, ',',
        greatest(version + 1, p_first), ',',
        greatest(date_part('epoch', t - coalesce(scheduled_at, created_at)) * 1e6, 0)::bigint, ',',
        coalesce(payload, 'null'),
        case when version > 0 or payload is null or key is not null or tags is not null
          or correlation_id is not null
        then concat(',', fencepost.particulars(seq, version, encoding, payload_bytes, key, tags,
          correlation_id))
        when flow is not null or mode is not null then ',null' end,
        case when flow is not null or mode is not null
        then concat(',', coalesce(to_json(flow)::text, 'null'), ',', (mode is not null)::text) end,
        ']')
    end, ','), count(*), array_agg(seq), array_agg(attempt), array_agg(version),
    array_agg(run_at), array_agg(scheduled_at), bool_and(version = 0 and scheduled_at is null),
    min(policy), max(policy), sum(size)
  into x from chosen;
  return x;
end $$;

-- Lease jobs whose leases are to have several lengths: a row for each length.
create or replace function fencepost.lease_each(
  p_terms fencepost.lease_terms, p_lane integer, p_part integer, p_seqs bigint[],
  p_attempts integer[], p_versions bigint[], p_run_ats timestamptz[],
  p_scheduled_ats timestamptz[]
) returns void language plpgsql as $$
declare
  t constant timestamptz := p_terms.started_at;
  is_plain constant boolean := p_attempts is null;
begin
  insert into fencepost.lease
  select p_terms.secret, p_part + (row_number() over ())::integer - 1, p_lane, t,
    t + least(x.ttl, x.timeout) * interval '1 microsecond', p_terms.worker,
    array_agg(x.seq order by x.n),
    case when not is_plain then array_agg(x.attempt order by x.n) end,
    case when not is_plain then array_agg(x.version order by x.n) end,
    case when not is_plain then array_agg(x.run_at order by x.n) end,
    case when not is_plain then array_agg(x.scheduled_at order by x.n) end,
    x.ttl, t + x.timeout * interval '1 microsecond'
  from (
    select held.*, coalesce(policy.lease_ttl, p_terms.ttl) as ttl,
      coalesce(policy.timeout, p_terms.ttl) + p_terms.grace as timeout
    from unnest(p_seqs, p_attempts, p_versions, p_run_ats, p_scheduled_ats) with ordinality
      as held(seq, attempt, version, run_at, scheduled_at, n)
    join fencepost.job on job.seq = held.seq
    left join fencepost.policy on policy.policy = job.policy
  ) as x group by x.ttl, x.timeout;
end $$;

-- What few jobs have; p_last is the version of the lease before, 0 if there was none.
create or replace function fencepost.particulars(
  p_seq bigint, p_last bigint, p_encoding smallint, p_bytes bytea, p_key text, p_tags jsonb,
  p_correlation_id text
) returns text language plpgsql stable as $$
declare
  s fencepost.saved;
begin
  if p_last > 0 then
    select * into s from fencepost.saved where seq = p_seq;
  end if;
  return json_build_object(
    'encoding', p_encoding, 'bytes', encode(p_bytes, 'hex'), 'key', p_key, 'tags', p_tags,
    'correlation_id', p_correlation_id, 'last', p_last, 'checkpoint_encoding', s.encoding,
    'checkpoint', s.checkpoint, 'checkpoint_bytes', encode(s.checkpoint_bytes, 'hex')
  )::text;
end $$;

-- What the checkpoint of a job comes to in the answer to a claim.
create or replace function fencepost.checkpoint_size(p_seq bigint) returns integer language sql stable as $$
  select coalesce((
    select coalesce(octet_length(checkpoint), 0) + coalesce(2 * octet_length(checkpoint_bytes), 0)
    from fencepost.saved where seq = p_seq
  ), 0)
$$;

-- How many of the first of these jobs come to no more than p_bytes, as `pop` counts them; one at the
-- least if they are the first of a claim.
create or replace function fencepost.fitting(p_seqs bigint[], p_bytes bigint, p_part integer)
returns integer language sql stable as $$
  select greatest(count(*) filter (where total <= p_bytes), (p_part = 1)::integer)::integer from (
    select sum(fencepost.checkpoint_size(x.seq) + coalesce(octet_length(j.payload), 0)
      + coalesce(2 * octet_length(j.payload_bytes), 0)) over (order by x.n) as total
    from unnest(p_seqs) with ordinality as x(seq, n) join fencepost.job j on j.seq = x.seq
  ) as line
$$;
