-- oldest: 4
-- Sessions of browsers: a digest does not allow access. They end with their token.
create table fencepost.sessions(
  id text primary key,
  token_id text not null,
  digest bytea not null,
  created_at timestamptz not null,
  expires_at timestamptz not null
);

-- As tokens: a role that can write sessions can give itself access.
do $$
begin
  if exists (select from pg_roles where rolname = 'fencepost_server') then
    revoke all on fencepost.sessions from fencepost_runtime, fencepost_readonly;
    grant select, insert, update, delete on fencepost.sessions to fencepost_server;
  end if;
end $$;
