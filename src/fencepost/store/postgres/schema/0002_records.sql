-- What is kept beside the jobs: processes, events, crons, tokens and the audit log.

create table fencepost.worker(
  id text primary key,
  seen_at timestamptz not null,
  info text not null
) with (fillfactor = 50);

create table fencepost.term(
  name text primary key,
  worker text not null,
  expires_at timestamptz not null
) with (fillfactor = 50);

-- What was sent, and the jobs it came to: [[job id, type, is it a duplicate], ...].
create table fencepost.event(
  seq bigint generated always as identity primary key,
  id uuid not null,
  name text not null,
  key text,
  sent_at timestamptz not null,
  encoding smallint not null,
  payload text,
  payload_bytes bytea,
  jobs text not null
);
create unique index event_id on fencepost.event(id);
create index event_name on fencepost.event(name, seq);
create index event_sent on fencepost.event(sent_at, seq);

-- What is kept of bearer tokens; a digest lets nobody in.
create table fencepost.token(
  id text primary key,
  name text not null,
  digest bytea not null,
  roles text not null,
  queues text,
  rate double precision,
  created_at timestamptz not null,
  expires_at timestamptz,
  revoked_at timestamptz
);

-- Who did what; only ever appended to, and cut off at its old end.
create table fencepost.action(
  seq bigint generated always as identity primary key,
  id uuid not null unique,
  at timestamptz not null,
  principal_id text,
  principal text not null,
  action text not null,
  target text not null,
  detail text not null,
  request_id text,
  status integer
);
create index action_at on fencepost.action(at, seq);

-- next_tick is the first that was not fired: what is past of it was missed.
create table fencepost.cron(
  name text primary key,
  expression text not null,
  tz text not null,
  missed text not null,
  catch_up integer not null,
  template text not null,
  is_paused boolean not null default false,
  last_tick timestamptz,
  next_tick timestamptz,
  declared_at timestamptz not null,
  changed_at timestamptz not null
) with (fillfactor = 50);

-- What roles.sql grants on all tables is too much for these two, wherever it was run before.
do $$
begin
  if exists (select from pg_roles where rolname = 'fencepost_server') then
    revoke all on fencepost.token from fencepost_runtime, fencepost_readonly;
    revoke insert, update, delete on fencepost.action from fencepost_runtime;
    grant select, insert, update, delete on fencepost.token to fencepost_server;
    grant insert on fencepost.action to fencepost_server;
  end if;
end $$;
