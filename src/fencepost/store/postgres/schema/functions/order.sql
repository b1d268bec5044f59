-- Write down that jobs which have a number now may be in any order; t is the time of the latest.
create or replace function fencepost.note_disorder(t timestamptz) returns void language plpgsql as $$
begin
  insert into fencepost.disorder(seq, created_at)
  select last_value, greatest(t, clock_timestamp()) from fencepost.seq;
end $$;

-- Call it when jobs created at t have got their numbers: if that took long, others have been created
-- and numbered meanwhile.
create or replace function fencepost.note_order(p_now timestamptz, t timestamptz) returns void
language plpgsql as $$
begin
  if p_now is null and clock_timestamp() - t > interval '500 milliseconds' then
    perform fencepost.note_disorder(t);
  end if;
end $$;

-- The same for jobs that were numbered by an earlier statement, up to p_last: they may have waited for
-- keys since.
create or replace function fencepost.note_order_after(
  p_now timestamptz, p_last bigint, t timestamptz
) returns void language plpgsql as $$
declare
  v_next timestamptz;
begin
  select created_at into v_next from fencepost.job where seq > p_last order by seq limit 1;
  if v_next < t - interval '500 milliseconds' then
    perform fencepost.note_disorder(t);
  end if;
  perform fencepost.note_order(p_now, t);
end $$;

-- The first number of jobs that were created at p_at or later: no job before it was created a second
-- after that, and none from it on a second before. Numbers up to p_after are left out.
create or replace function fencepost.first_since(p_at timestamptz, p_after bigint) returns bigint
language plpgsql stable set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_low bigint := p_after + 1;
  v_high bigint := coalesce((select max(seq) from fencepost.job), 0) + 1;
  v_middle bigint;
  j record;
begin
  while v_low < v_high loop
    v_middle := v_low + (v_high - v_low) / 2;
    select seq, created_at into j from fencepost.job
    where seq >= v_middle order by seq limit 1;
    if j.created_at >= p_at then
      v_high := v_middle;
    else
      v_low := j.seq + 1;
    end if;
  end loop;
  return v_low;
end $$;
