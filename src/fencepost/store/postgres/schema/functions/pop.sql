-- Lease the first p_limit jobs of one lane; returns them as the elements of a JSON array. They are
-- fewer if they come to more than p_bytes, but the first of a claim, which has part 1, is always
-- taken: `room` is what the next may come to, and 0 if one did not fit. p_first is the version of a
-- job's first lease, see `next_version`.
create or replace function fencepost.pop(
  t timestamptz, p_first bigint, p_lane integer, p_limit integer, p_worker text, p_secret uuid,
  p_part integer, p_ttl bigint, p_grace bigint, p_bytes bigint,
  out popped text, out count integer, out room bigint
) language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off as $$
declare
  v_seqs bigint[];
  v_attempts integer[];
  v_versions bigint[];
  v_run_ats timestamptz[];
  v_scheduled_ats timestamptz[];
  v_is_plain boolean;
  v_policy integer;
  v_policy_too integer;
  v_size bigint;
  v_ttl bigint;
  v_timeout bigint;
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
  into popped, count, v_seqs, v_attempts, v_versions, v_run_ats, v_scheduled_ats, v_is_plain,
    v_policy, v_policy_too, v_size
  from chosen;
  room := greatest(p_bytes - coalesce(v_size, 0), 0);
  if count = 0 then
    popped := '';
    return;
  elsif popped is null then
    insert into fencepost.ready(lane, run_at, seq, scheduled_at, attempt, version)
    select p_lane, * from unnest(v_run_ats, v_seqs, v_scheduled_ats, v_attempts, v_versions);
    select * into popped, count from fencepost.pop(
      t, p_first, p_lane, fencepost.fitting(v_seqs, p_bytes, p_part), p_worker, p_secret, p_part,
      p_ttl, p_grace, p_bytes);
    room := 0;
    return;
  end if;
  if v_is_plain then
    v_attempts := null;
    v_versions := null;
    v_run_ats := null;
    v_scheduled_ats := null;
  else
    select array_agg(x.attempt + 1 order by x.n),
      array_agg(greatest(x.version + 1, p_first) order by x.n)
    into v_attempts, v_versions
    from unnest(v_attempts, v_versions) with ordinality as x(attempt, version, n);
  end if;
  if v_policy = v_policy_too then
    select lease_ttl, timeout into v_ttl, v_timeout from fencepost.policy where policy = v_policy;
    -- One that is not there is found out by the reader of the answer.
    v_ttl := coalesce(v_ttl, p_ttl);
    v_timeout := coalesce(v_timeout, p_ttl) + p_grace;
    insert into fencepost.lease values (
      p_secret, p_part, p_lane, t, t + least(v_ttl, v_timeout) * interval '1 microsecond', p_worker,
      v_seqs, v_attempts, v_versions, v_run_ats, v_scheduled_ats, v_ttl,
      t + v_timeout * interval '1 microsecond');
  else
    -- A row for each length that leases are to have.
    insert into fencepost.lease
    select p_secret, p_part + (row_number() over ())::integer - 1, p_lane, t,
      t + least(x.ttl, x.timeout) * interval '1 microsecond', p_worker,
      array_agg(x.seq order by x.n),
      case when not v_is_plain then array_agg(x.attempt order by x.n) end,
      case when not v_is_plain then array_agg(x.version order by x.n) end,
      case when not v_is_plain then array_agg(x.run_at order by x.n) end,
      case when not v_is_plain then array_agg(x.scheduled_at order by x.n) end,
      x.ttl, t + x.timeout * interval '1 microsecond'
    from (
      select held.*, coalesce(policy.lease_ttl, p_ttl) as ttl,
        coalesce(policy.timeout, p_ttl) + p_grace as timeout
      from unnest(v_seqs, v_attempts, v_versions, v_run_ats, v_scheduled_ats) with ordinality
        as held(seq, attempt, version, run_at, scheduled_at, n)
      join fencepost.job on job.seq = held.seq
      left join fencepost.policy on policy.policy = job.policy
    ) as x group by x.ttl, x.timeout;
  end if;
  insert into fencepost.tally(lane, state, count)
  values (p_lane, 1, -pop.count), (p_lane, 3, pop.count);
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
