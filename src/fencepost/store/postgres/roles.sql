-- Four roles for Fencepost in this database. Run it with psql as a superuser, or as a role that may
-- create roles and owns the database; running it again changes nothing.
--
--   fencepost_owner     owns the schema: `fencepost migrate`
--   fencepost_runtime   callers, workers: all that they do, no change to the schema
--   fencepost_server    the same, bearer tokens and the audit log: `fencepost server`,
--                       `fencepost tokens`
--   fencepost_readonly  reports: looks at all but tokens (at payloads too), changes nothing
--
-- None of them can log in yet. Either let one, or make a login role of yours a member:
--
--   alter role fencepost_runtime login password '…';
--   grant fencepost_runtime to web;
--   grant fencepost_owner to deploy;
--   alter role deploy set role fencepost_owner;  -- what it creates must be the owner's
--
-- On PostgreSQL 13 and 14 every role may create objects in schema public, and others may run these
-- unknowingly, with their own rights. That right is revoked below. Fencepost looks up nothing
-- there; your own programs do. Roles that were granted it by name keep it: `fencepost doctor` names
-- them.
begin;
-- A superuser may run this.
set local search_path = pg_catalog, pg_temp;

do $$
begin
  if to_regnamespace('public') is not null then
    revoke create on schema public from public;
  end if;
exception when insufficient_privilege then
  raise warning 'could not revoke create on schema public from public; let its owner do it';
end $$;

do $$
declare
  name text;
begin
  foreach name in array array[
    'fencepost_owner', 'fencepost_runtime', 'fencepost_server', 'fencepost_readonly'
  ] loop
    if not exists (select from pg_roles where rolname = name) then
      execute format('create role %I nologin', name);
    end if;
    execute format('grant connect on database %I to %I', current_database(), name);
  end loop;
  -- Since 16, a role that has created another cannot yet act as it.
  if not pg_has_role(current_user, 'fencepost_owner', 'member') then
    execute format('grant fencepost_owner to %I', current_user);
  end if;
  grant fencepost_runtime to fencepost_server;
  if not exists (select from pg_namespace where nspname = 'fencepost') then
    create schema fencepost;
  end if;
end $$;

-- Objects that exist already become the owner's.
alter schema fencepost owner to fencepost_owner;
do $$
declare
  command text;
begin
  for command in
    select format('alter %s fencepost.%I owner to fencepost_owner',
      case c.relkind when 'S' then 'sequence' when 'v' then 'view' else 'table' end, c.relname)
    from pg_class c
    where c.relnamespace = 'fencepost'::regnamespace and c.relkind in ('r', 'p', 'v', 'S')
      -- The sequence of an identity column goes with its table.
      and not exists (
        select from pg_depend d
        where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'i')
    union all
    select format('alter routine %s owner to fencepost_owner', p.oid::regprocedure)
    from pg_proc p where p.pronamespace = 'fencepost'::regnamespace
    union all
    select format('alter type fencepost.%I owner to fencepost_owner', t.typname)
    from pg_type t join pg_class c on c.oid = t.typrelid
    where t.typnamespace = 'fencepost'::regnamespace and c.relkind = 'c'
  loop
    execute command;
  end loop;
end $$;

-- Rights on existing objects.
grant usage on schema fencepost to fencepost_runtime, fencepost_readonly;
grant select on all tables in schema fencepost to fencepost_runtime, fencepost_readonly;
grant insert, update, delete on all tables in schema fencepost to fencepost_runtime;
grant usage, select on all sequences in schema fencepost to fencepost_runtime;
grant execute on all functions in schema fencepost to fencepost_runtime;

-- A role that can write tokens can give itself access, and a log that can be changed, or appended
-- to by those it is about, proves nothing. Workers need neither, and prune the log by a function.
-- The migration that creates these tables does the same, if it comes later.
do $$
begin
  if to_regclass('fencepost.tokens') is not null then
    revoke all on fencepost.tokens from fencepost_runtime, fencepost_readonly;
    revoke insert, update, delete on fencepost.actions from fencepost_runtime;
    grant select, insert, update, delete on fencepost.tokens to fencepost_server;
    grant insert on fencepost.actions to fencepost_server;
  end if;
  if to_regclass('fencepost.sessions') is not null then
    revoke all on fencepost.sessions from fencepost_runtime, fencepost_readonly;
    grant select, insert, update, delete on fencepost.sessions to fencepost_server;
  end if;
end $$;

-- Rights on objects of later migrations.
alter default privileges for role fencepost_owner in schema fencepost
  grant select on tables to fencepost_runtime, fencepost_readonly;
alter default privileges for role fencepost_owner in schema fencepost
  grant insert, update, delete on tables to fencepost_runtime;
alter default privileges for role fencepost_owner in schema fencepost
  grant usage, select on sequences to fencepost_runtime;
alter default privileges for role fencepost_owner in schema fencepost
  grant execute on functions to fencepost_runtime;

commit;
