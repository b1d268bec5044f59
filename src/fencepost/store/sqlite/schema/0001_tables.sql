-- A lane is one type on one queue. Jobs refer to it by number, and claims read lane by lane, so that
-- a backlog of a paused or unknown type costs the others nothing. A lane that has been empty for long
-- is removed; `idle_at` is when it was first seen empty. Processes cache numbers, so that none is
-- used again.
create table lanes(
  lane integer primary key autoincrement,
  queue text not null,
  type text not null,
  idle_at integer,
  unique (queue, type)
);
create index lanes_type on lanes(type, queue);

-- Jobs of one task share a policy; each distinct one is stored once.
create table policies(
  policy integer primary key,
  body text not null unique
);

create table jobs(
  seq integer primary key,
  id blob not null,
  lane integer not null,
  policy integer not null,
  priority integer not null,
  state integer not null,
  attempt integer not null default 0,
  max_attempts integer not null,
  run_at integer not null,
  lease_version integer not null default 0,
  lease_token text,
  lease_expires_at integer,
  lease_ttl integer,
  timeout_grace integer,
  worker text,
  settled_token text,
  created_at integer not null,
  updated_at integer not null,
  scheduled_at integer,
  started_at integer,
  completed_at integer,
  expires_at integer not null,
  is_dead_letter integer,
  key text,
  key_window integer,
  correlation_id text,
  tags text,
  replay_of blob,
  failure text,
  progress text,
  checkpoint blob,
  checkpoint_encoding integer,
  result blob,
  result_encoding integer,
  flow text,
  node text,
  mode integer,
  missing integer,
  depth integer,
  gathers integer,
  own_priority integer,
  slot integer,
  callback_url text,
  -- The id of the token that submitted the job over HTTP.
  submitter text,
  payload_encoding integer not null,
  payload blob not null
);

create unique index jobs_id on jobs(id);
create index jobs_ready on jobs(lane, priority, run_at) where state = 1; -- SCHEDULED
create index jobs_due on jobs(run_at) where state in (2, 4); -- DELAYED, RETRYING
create index jobs_lease on jobs(lease_expires_at) where state = 3; -- RUNNING
-- On completed_at, not on the state: so a claim does not write to this index.
create index jobs_lifetime on jobs(expires_at) where completed_at is null;
create index jobs_dead on jobs(completed_at) where is_dead_letter = 1;
create index jobs_correlation on jobs(correlation_id) where correlation_id is not null;
create index jobs_lane on jobs(lane);
create index jobs_ended on jobs(completed_at) where completed_at is not null;
create index jobs_unsuccessful on jobs(state) where state > 5; -- FAILED, DEAD_LETTER, CANCELLED
-- Read for every job that ends, so it holds no others.
create index jobs_callback on jobs(seq) where callback_url is not null;
create index jobs_flow on jobs(flow) where flow is not null;
-- By concurrency key: counts active jobs, and gives waiting ones in order.
create index jobs_slot on jobs(slot, state, missing, priority, run_at) where slot is not null;

-- A concurrency key of one type. Jobs refer to it by number; their `missing` is never null.
create table slots(
  slot integer primary key,
  type text not null,
  concurrency_key text not null,
  unique (type, concurrency_key)
);

-- Keys whose jobs were loaded from another store: the next claim admits jobs to their slots.
create table freed_slots(
  slot integer primary key
);

-- Which job waits or waited for which; kept as long as both jobs are.
create table dependencies(
  child integer not null,
  place integer not null,
  parent integer not null,
  primary key (child, place)
) without rowid;

create index dependencies_parent on dependencies(parent, child);

-- Rows up to seq may not be in the order of creation; none of them was created after created_at.
create table disorder(
  seq integer not null,
  created_at integer not null
);

-- Attempts that ended without success; the successful one is in the job's row.
create table attempts(
  seq integer not null,
  lease_version integer not null,
  number integer not null,
  worker text not null,
  outcome text not null,
  started_at integer not null,
  ended_at integer not null,
  failure text,
  primary key (seq, lease_version)
) without rowid;

create table tags(
  name text not null,
  value text not null,
  seq integer not null,
  primary key (name, value, seq)
) without rowid;

create table idempotency(
  type text not null,
  key text not null,
  seq integer not null,
  key_ends_at integer,
  primary key (type, key)
) without rowid;

-- Numbers of jobs, because `group by state` over a million rows takes more than a second. Every stored
-- job is counted, so that the reference refuses a process which has cached a removed lane.
create table counters(
  lane integer not null references lanes(lane),
  state integer not null,
  count integer not null,
  primary key (lane, state)
) without rowid;

create table pauses(
  scope text not null,
  name text not null,
  primary key (scope, name)
) without rowid;

create table limits(
  scope text not null,
  name text not null,
  max_running integer not null,
  primary key (scope, name)
) without rowid;

-- What limits the jobs of a type: JSON of core/limits/type_limits.py.
create table type_limits(
  type text primary key,
  limits text not null
) without rowid;

-- Starts of jobs of types that have a rate, as long as they count.
create table rate_uses(
  type text not null,
  at integer not null,
  count integer not null,
  primary key (type, at)
) without rowid;

create table workers(
  id text primary key,
  seen_at integer not null,
  info text not null
) without rowid;

-- Sent events, and their jobs: [[job id, type, is it a duplicate], ...].
create table events(
  seq integer primary key,
  id blob not null,
  name text not null,
  key text,
  sent_at integer not null,
  payload_encoding integer not null,
  payload blob not null,
  jobs text not null
);

create unique index events_id on events(id);
create index events_name on events(name);
create index events_sent on events(sent_at);

create table terms(
  name text primary key,
  worker text not null,
  expires_at integer not null
) without rowid;

-- next_tick is the first tick that was not fired; if it is past, it was missed.
create table crons(
  name text primary key,
  expression text not null,
  tz text not null,
  missed text not null,
  catch_up integer not null,
  template text not null,
  is_paused integer not null default 0,
  last_tick integer,
  next_tick integer,
  declared_at integer not null,
  changed_at integer not null
) without rowid;

-- Bearer tokens, of which only a digest is stored.
create table tokens(
  id text primary key,
  name text not null,
  digest blob not null,
  roles text not null,
  queues text,
  rate real,
  created_at integer not null,
  expires_at integer,
  revoked_at integer
) without rowid;

-- The audit log: append-only, pruned from the oldest.
create table actions(
  seq integer primary key,
  id text not null unique,
  at integer not null,
  principal_id text,
  principal text not null,
  action text not null,
  target text not null,
  detail text not null,
  request_id text,
  status integer
);

create index actions_at on actions(at);
