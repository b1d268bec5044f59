-- Delete the oldest entries of the audit log that were kept for p_keep microseconds; returns how
-- many. It has its owner's rights, since nobody else can delete one, and whatever it is told, it
-- keeps what is younger than a week (AUDIT_KEPT_MIN) by the server's own clock.
create or replace function fencepost.prune_actions(p_now timestamptz, p_keep bigint, p_limit integer)
returns integer language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_until constant timestamptz := least(
    coalesce(p_now, clock_timestamp()) - p_keep * interval '1 microsecond',
    clock_timestamp() - interval '7 days');
  v_count integer;
begin
  delete from fencepost.action where seq in (
    select seq from fencepost.action where at <= v_until order by at, seq
    limit greatest(p_limit, 0));
  get diagnostics v_count = row_count;
  return v_count;
end $$;

revoke execute on function fencepost.prune_actions(timestamptz, bigint, integer) from public;
do $$
begin
  if exists (select from pg_roles where rolname = 'fencepost_runtime') then
    grant execute on function fencepost.prune_actions(timestamptz, bigint, integer)
      to fencepost_runtime;
  end if;
end $$;
