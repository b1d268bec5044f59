-- Refuse whatever inserts a job from now on, or accept jobs again. A trigger and not a flag: no
-- submission pays for it while there is none, what inserts jobs cannot forget to ask, and it waits
-- for transactions that have inserted and are open. It has its owner's rights, since nobody else can
-- create a trigger; while it waits for its lock others wait behind it, hence the bound.
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
    where tgrelid = 'fencepost.job'::regclass and tgname = 'refuse_jobs');
begin
  if p_is_accepted and v_is_refusing then
    drop trigger refuse_jobs on fencepost.job;
  elsif not p_is_accepted and not v_is_refusing then
    create trigger refuse_jobs before insert on fencepost.job
      for each row execute function fencepost.refuse_job();
  end if;
end $$;

revoke execute on function fencepost.accept_jobs(boolean) from public;
do $$
begin
  if exists (select from pg_roles where rolname = 'fencepost_runtime') then
    grant execute on function fencepost.accept_jobs(boolean) to fencepost_runtime;
  end if;
end $$;
