-- Give keys to jobs; p_keys is [[type, key, seq, window], …]. Returns for each null, or [state, id]
-- of the job that holds it.
create or replace function fencepost.take_keys(p_now timestamptz, p_keys json) returns json language plpgsql
as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  k record;
  v_holders json[] := array_fill('null'::json, array[json_array_length(p_keys)]);
begin
  for k in
    select x.n, x.value ->> 0 as type, x.value ->> 1 as key, (x.value ->> 2)::bigint as seq,
      (x.value ->> 3)::bigint as key_window
    from json_array_elements(p_keys) with ordinality as x(value, n)
    order by (x.value ->> 0) collate "C", (x.value ->> 1) collate "C"
  loop
    if not fencepost.take_key(t, k.type, k.key, k.seq, k.key_window) then
      v_holders[k.n] := fencepost.holder(k.type, k.key);
    end if;
  end loop;
  return array_to_json(v_holders);
end $$;

-- Give a key to job p_seq; false if it is held. A holder that this snapshot cannot see was submitted
-- a moment ago and holds it.
create or replace function fencepost.take_key(
  t timestamptz, p_type text, p_key text, p_seq bigint, p_window bigint
) returns boolean language plpgsql as $$
declare
  v_ends_at timestamptz := t + p_window * interval '1 microsecond';
begin
  loop
    insert into fencepost.idempotency(type, key, seq, window_ends_at)
    values (p_type, p_key, p_seq, v_ends_at) on conflict (type, key) do nothing;
    if found then
      return true;
    end if;
    -- First the lock, then the look, by a later statement: the holder may have been reopened by
    -- whoever had the lock before, and a snapshot from before the wait would still see it ended.
    perform 1 from fencepost.idempotency where type = p_type and key = p_key for update;
    if found then  -- and not pruned in between
      update fencepost.idempotency as held set seq = p_seq, window_ends_at = v_ends_at
      where held.type = p_type and held.key = p_key and (held.seq = p_seq or (
        exists (select 1 from fencepost.done where done.seq = held.seq)
        and (held.window_ends_at is null or held.window_ends_at <= t)
      ));
      return found;
    end if;
  end loop;
end $$;

-- Lock terminal jobs that are to run again, by their ids: first their keys, then their rows of done,
-- each in one order.
create or replace function fencepost.lock_ended(p_ids uuid[]) returns void language plpgsql as $$
begin
  perform 1 from fencepost.idempotency held
  join (
    select l.type, j.key from fencepost.job j join fencepost.lane l on l.lane = j.lane
    where j.id = any (p_ids) and j.key is not null
  ) as own on own.type = held.type and own.key = held.key
  order by held.type collate "C", held.key collate "C" for update of held;
  perform 1 from fencepost.done where seq = any (array(
    select seq from fencepost.job where id = any (p_ids))) order by seq for update;
end $$;

-- [state, id] of the job that holds a key.
create or replace function fencepost.holder(p_type text, p_key text) returns json language sql stable as $$
  select json_build_array(jobs.state, jobs.id)
  from fencepost.idempotency held join fencepost.jobs on jobs.seq = held.seq
  where held.type = p_type and held.key = p_key
$$;
