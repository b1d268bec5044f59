-- Sessions of browsers, of which only a digest is stored; they end with their token.
create table sessions(
  id text primary key,
  token_id text not null,
  digest blob not null,
  created_at integer not null,
  expires_at integer not null
) without rowid;
