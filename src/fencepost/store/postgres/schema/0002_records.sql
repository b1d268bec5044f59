-- What is kept beside the jobs: processes, events, crons, tokens and the audit log.

create table fencepost.workers(
  id text primary key,
  seen_at timestamptz not null,
  info text not null
) with (fillfactor = 50);

create table fencepost.terms(
  name text primary key,
  worker text not null,
  expires_at timestamptz not null
) with (fillfactor = 50);

-- Events that were sent, and their jobs: [[job id, type, is it a duplicate], ...].
create table fencepost.events(
  seq bigint generated always as identity primary key,
  id uuid not null,
  name text not null,
  key text,
  sent_at timestamptz not null,
  payload_encoding smallint not null,
  payload text,
  payload_bytes bytea,
  jobs text not null
);
create unique index events_id on fencepost.events(id);
create index events_name on fencepost.events(name, seq);
create index events_sent on fencepost.events(sent_at, seq);

-- Bearer tokens: a digest does not allow access.
create table fencepost.tokens(
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

-- The audit log: rows are only appended, and the oldest are deleted.
create table fencepost.actions(
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
create index actions_at on fencepost.actions(at, seq);

-- next_tick is the first that was not fired: ticks from then until now were missed.
create table fencepost.crons(
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

-- roles.sql grants more on all tables than is right for these two, if it was run before.
do $$
begin
  if exists (select from pg_roles where rolname = 'fencepost_server') then
    revoke all on fencepost.tokens from fencepost_runtime, fencepost_readonly;
    revoke insert, update, delete on fencepost.actions from fencepost_runtime;
    grant select, insert, update, delete on fencepost.tokens to fencepost_server;
    grant insert on fencepost.actions to fencepost_server;
  end if;
end $$;
