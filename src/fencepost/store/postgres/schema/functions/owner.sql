-- Functions that run with the rights of their owner.

-- Delete the oldest entries of the audit log that were kept for p_keep microseconds; returns how
-- many. It has its owner's rights, since no other role can delete entries, and it always keeps
-- entries of the last week (AUDIT_KEPT_MIN) by the server's own clock.
create or replace function fencepost.prune_actions(p_now timestamptz, p_keep bigint, p_limit integer)
returns integer language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_until constant timestamptz := least(
    coalesce(p_now, clock_timestamp()) - p_keep * interval '1 microsecond',
    clock_timestamp() - interval '7 days');
  v_count integer;
begin
  delete from fencepost.actions where seq in (
    select seq from fencepost.actions where at <= v_until order by at, seq
    limit greatest(p_limit, 0));
  get diagnostics v_count = row_count;
  return v_count;
end $$;

-- Refuse new jobs from now on, or accept them again. A trigger and not a flag: it costs submissions
-- nothing while there is none, no statement that inserts jobs can forget to check it, and creating
-- it waits for open transactions that have inserted jobs. It has its owner's rights, since no other
-- role can create a trigger; while it waits for its lock others wait behind it, hence the bound.
create or replace function fencepost.refuse_job() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  raise exception using errcode = 'FP003', message = 'new jobs are refused';
end $$;

create or replace function fencepost.accept_jobs(p_is_accepted boolean) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '10s'
as $$
declare
  v_is_refusing constant boolean := exists (
    select from pg_trigger
    where tgrelid = 'fencepost.submissions'::regclass and tgname = 'refuse_jobs');
begin
  if p_is_accepted and v_is_refusing then
    drop trigger refuse_jobs on fencepost.submissions;
  elsif not p_is_accepted and not v_is_refusing then
    create trigger refuse_jobs before insert on fencepost.submissions
      for each row execute function fencepost.refuse_job();
  end if;
end $$;

revoke execute on function fencepost.prune_actions(timestamptz, bigint, integer) from public;
revoke execute on function fencepost.accept_jobs(boolean) from public;
do $$
begin
  if exists (select from pg_roles where rolname = 'fencepost_runtime') then
    grant execute on function
      fencepost.prune_actions(timestamptz, bigint, integer), fencepost.accept_jobs(boolean)
      to fencepost_runtime;
  end if;
end $$;
