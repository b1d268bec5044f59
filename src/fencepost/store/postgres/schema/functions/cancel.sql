-- Cancelling many jobs at once.

-- Cancel the jobs of p_ids that nothing follows, see `end_plain`, in p_state and with p_failure.
-- Returns [[id, lane, state that it was in], …] of these, and [[id, seq], …] of the others, which
-- are locked for `detach_awaited`; null for none.
create or replace function fencepost.cancel(
  p_now timestamptz, p_ids uuid[], p_state smallint, p_failure text, out ended text, out rest text
) language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  v_seqs constant bigint[] :=
    array(select seq from fencepost.submissions where id = any (p_ids) order by seq);
  v_ended bigint[];
begin
  perform fencepost.await_live(v_seqs);
  select json_agg(json_build_array(x.id, x.lane, x.was))::text, array_agg(x.seq)
  into ended, v_ended
  from fencepost.end_plain(
    coalesce(p_now, clock_timestamp()), fencepost.plain(v_seqs), p_state, p_failure) as x;
  if v_ended is null or cardinality(v_ended) < cardinality(v_seqs) then
    rest := (
      select json_agg(json_build_array(j.id, j.seq))::text from fencepost.submissions j
      where j.seq = any (v_seqs) and (j.seq in (select unnest(v_ended))) is not true
    );
  end if;
end $$;

-- Those of p_seqs whose end nothing follows: no other job waits for them, no webhook is sent, and no
-- slot of a concurrency key becomes free. By a statement of its own, once they are locked: none of
-- these can come any more.
create or replace function fencepost.plain(p_seqs bigint[]) returns bigint[] language plpgsql as $$
begin
  return array(
    select x from unnest(p_seqs) as x
    where not exists (select 1 from fencepost.dependencies where parent = x)
      and not exists (select 1 from fencepost.callbacks where seq = x)
      and not exists (select 1 from fencepost.keyed_jobs where seq = x)
  );
end $$;

-- End those of p_seqs that are ready or delayed and that no other transaction has locked, as
-- `detach_free` and `attach` would.
create or replace function fencepost.end_plain(
  t timestamptz, p_seqs bigint[], p_state smallint, p_failure text
) returns table(seq bigint, id uuid, lane integer, was smallint) language plpgsql as $$
#variable_conflict use_column
begin
  return query
  with in_line as (
    delete from fencepost.ready where ctid = any (array(
      select r.place from fencepost.submissions j cross join lateral (
        select ctid as place from fencepost.ready
        where lane = j.lane and run_at = j.run_at and seq = j.seq and scheduled_at is null
        limit 1 for update skip locked
      ) as r
      where j.seq = any (p_seqs)
    ) || array(
      select r.ctid from fencepost.ready r where r.seq = any (p_seqs) and r.scheduled_at is not null
      order by r.seq for update skip locked
    )) returning *
  ), waiting as (
    delete from fencepost.delayed where seq = any (array(
      select d.seq from fencepost.delayed d where d.seq = any (p_seqs)
      order by d.seq for update skip locked
    )) returning *
  ), gone as materialized (
    select j.seq, j.id, x.lane, x.was, x.attempt, x.lease_version,
      coalesce(x.scheduled_at, case x.was when :SCHEDULED then j.created_at else '-infinity' end)
        as scheduled_at
    from (
      select seq, lane, :SCHEDULED::smallint as was, attempt, lease_version, scheduled_at
      from in_line
      union all
      select seq, lane, state, attempt, lease_version, scheduled_at from waiting
    ) as x join fencepost.submissions j on j.seq = any (array[x.seq])
  ), stored as (
    insert into fencepost.done(
      seq, completed_at, scheduled_at, attempt, lease_version, state, failure)
    select seq, t, scheduled_at, attempt, lease_version, p_state, p_failure from gone order by seq
  ), counted as (
    insert into fencepost.counters(lane, state, count)
    select lane, was, -count(*) from gone group by lane, was
    union all
    select lane, p_state, count(*) from gone group by lane
  )
  select gone.seq, gone.id, gone.lane, gone.was from gone;
end $$;
