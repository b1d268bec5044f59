-- Every state has a narrow table of its own, and the description of a job is written once:
--
--   job        what was submitted                          inserted once
--   pending    PENDING, on others or on a key              deleted when they let it go
--   ready      SCHEDULED, in line                          deleted by a claim, never updated
--   delayed    DELAYED and RETRYING, by due time           deleted when due
--   lease      RUNNING: one row for the jobs of one claim  deleted with its last job
--   done       everything terminal, with the result        inserted once
--   attempt    attempts that did not succeed               inserted once
--
-- A live job stands in exactly one of pending, ready, delayed and lease; a job with a row in done is
-- terminal.

-- One type of one queue at one priority. Claims walk lanes, so that a backlog of a paused or unknown
-- type costs the others nothing. Its number is made of its names, see `number_of`. A lane that has
-- had no jobs for a while is removed, see `prune_lanes`: `idle_at` says since when it has none, as far
-- as was seen; with `retired_at`, nothing is stored in it until it is revived; `fence` is the number
-- of a transaction that began after everybody could see that.
create table fencepost.lane(
  lane integer primary key,
  queue text not null,
  type text not null,
  priority smallint not null,
  idle_at timestamptz,
  retired_at timestamptz,
  fence xid8,
  unique (queue, type, priority)
);
-- With the queue, so that a claim of some types in some queues reads no lanes of others in either index.
create index lane_type on fencepost.lane(type, queue);

-- No row of ready is, or can come to be, before the mark of its lane: an old snapshot keeps dead
-- rows from being removed, and a claim that had to step over them all would collapse. So that the
-- same does not befall marks, a mark that moves on is a new row with a higher number, and the newest
-- is read first: older ones may pile up behind it.
create table fencepost.mark(
  lane integer not null,
  number bigint not null,
  low timestamptz not null,
  primary key (lane, number)
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);

-- Jobs of one task share a policy; each distinct one is kept once. Some bodies are longer than an
-- index allows.
create table fencepost.policy(
  policy integer primary key,
  body text not null,
  lease_ttl bigint,
  timeout bigint not null
);
create unique index policy_body on fencepost.policy(md5(body));

create sequence fencepost.seq;

create table fencepost.job(
  seq bigint primary key,
  id uuid not null,
  created_at timestamptz not null,
  run_at timestamptz not null,
  expires_at timestamptz not null,
  lane integer not null,
  policy integer not null,
  max_attempts integer not null,
  reopened_version bigint not null default 0,
  encoding smallint not null default 0,
  payload text,
  payload_bytes bytea,
  key text,
  key_window bigint,
  correlation_id text,
  tags jsonb,
  replay_of uuid,
  flow text,
  node text,
  mode smallint,
  depth smallint,
  gathers boolean,
  own_priority smallint,
  callback_url text,
  submitter text
);
create unique index job_id on fencepost.job(id);
create index job_lifetime on fencepost.job(expires_at);
create index job_lane on fencepost.job(lane, seq);
create index job_correlation on fencepost.job(correlation_id) where correlation_id is not null;
create index job_flow on fencepost.job(flow) where flow is not null;
create index job_tags on fencepost.job using gin(tags jsonb_path_ops) where tags is not null;

-- Jobs are numbered in the order of their creation, to within a second; see `first_since`. Up to seq,
-- they may be in any order; none of them was created after created_at.
create table fencepost.disorder(
  seq bigint not null,
  created_at timestamptz not null
);

-- Who waits for whom, or did; place is the order in which they were named.
create table fencepost.dependency(
  parent bigint not null,
  child bigint not null,
  place integer not null,
  primary key (parent, child)
);
create index dependency_child on fencepost.dependency(child, place);

-- Jobs that wait for others, how many of which must still let them go. Whoever ends one of those
-- counts down in the same transaction, and locks these rows by their number. With a slot, a job
-- waits for nothing but that, see `admit`, and then it has a priority too.
create table fencepost.pending(
  seq bigint primary key,
  run_at timestamptz not null,
  since timestamptz not null,
  scheduled_at timestamptz,
  lane integer not null,
  attempt integer not null,
  version bigint not null,
  mode smallint,
  missing integer not null,
  slot bigint,
  priority smallint
) with (
  fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);

create index pending_held on fencepost.pending(slot, priority, run_at, seq)
where slot is not null;

-- Jobs that have a concurrency key. A slot is the number that callers make of a type and a key.
create table fencepost.keyed(
  seq bigint primary key,
  slot bigint not null,
  max_running integer not null,
  key text not null
);
create index keyed_slot on fencepost.keyed(slot);

-- How many jobs of a key are in line or running. Changed by whoever holds the row's lock, which
-- nobody ever waits for.
create table fencepost.slot(
  slot bigint primary key,
  active integer not null default 0
) with (
  fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);

-- Left by those who found the row of a slot locked: so many jobs have left, and somebody is to look
-- who may enter. The next claim does.
create table fencepost.touched(
  slot bigint not null,
  freed integer not null
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);
create index touched_slot on fencepost.touched(slot);

-- Left by transactions of callers, which may stay open for long and so lock nobody's rows: jobs that
-- were stored there to wait for others (which may have ended unseen), and jobs that have ended there
-- (for which others wait). The next claim looks at what has become of each.
create table fencepost.unsure(
  seq bigint not null,
  has_ended boolean not null
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);

-- Jobs whose end is told of by a webhook, and how its delivery is to be stored then. Asked for every
-- job that ends, so it holds no others.
create table fencepost.callback(
  seq bigint primary key,
  lane integer not null,
  policy integer not null,
  max_attempts integer not null,
  lifetime bigint not null
);

-- scheduled_at is null for a job that was ready when it was submitted: it is its created_at, and
-- its run_at is the job's own. The others are found by ready_again.
create table fencepost.ready(
  run_at timestamptz not null,
  seq bigint not null,
  scheduled_at timestamptz,
  lane integer not null,
  attempt integer not null default 0,
  version bigint not null default 0,
  primary key (lane, run_at, seq)
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.5, vacuum_truncate = off
);
create index ready_again on fencepost.ready(seq) where scheduled_at is not null;

create table fencepost.delayed(
  seq bigint primary key,
  run_at timestamptz not null,
  since timestamptz not null,
  scheduled_at timestamptz,
  lane integer not null,
  attempt integer not null,
  version bigint not null,
  state smallint not null
) with (
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);
create index delayed_due on fencepost.delayed(run_at, seq);

-- The jobs of one claim in one lane. The four last arrays are null when every job is in its first
-- attempt and was ready when it was submitted; their version is the first at started_at. A heartbeat
-- that names no time extends by ttl, and none past the deadline. Plain storage: compressing a row
-- that lives for milliseconds is a waste.
create table fencepost.lease(
  secret uuid not null,
  part integer not null,
  lane integer not null,
  started_at timestamptz not null,
  expires_at timestamptz not null,
  worker text not null,
  seqs bigint[] not null,
  attempts integer[],
  versions bigint[],
  run_ats timestamptz[],
  scheduled_ats timestamptz[],
  ttl bigint not null,
  deadline timestamptz not null,
  primary key (secret, part)
) with (
  fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off
);
alter table fencepost.lease alter seqs set storage plain;

-- Numbers of parts that were split off, below those that claims give.
create sequence fencepost.part as integer
minvalue -2147483648 maxvalue -1 start -2147483648 cycle;
create index lease_expiry on fencepost.lease(expires_at);

-- scheduled_at: null is the job's created_at, -infinity is never.
create table fencepost.done(
  seq bigint primary key,
  ended_at timestamptz not null,
  started_at timestamptz,
  scheduled_at timestamptz,
  secret uuid,
  attempt integer not null,
  version bigint not null,
  state smallint not null,
  encoding smallint,
  is_dead_letter boolean,
  worker text,
  result text,
  result_bytes bytea,
  failure text
);
create index done_dead on fencepost.done(ended_at, seq) where is_dead_letter;
create index done_unsuccessful on fencepost.done(state, seq) where state > 5;
-- Of pages, not of rows: it costs a settlement a tenth of what an index in order would.
create index done_ended on fencepost.done using brin(ended_at)
with (pages_per_range = 32, autosummarize = on);

create table fencepost.attempt(
  seq bigint not null,
  version bigint not null,
  number integer not null,
  started_at timestamptz not null,
  ended_at timestamptz not null,
  secret uuid,
  worker text not null,
  outcome text not null,
  failure text,
  primary key (seq, version)
);

create table fencepost.saved(
  seq bigint primary key,
  version bigint not null,
  progress text,
  encoding smallint,
  checkpoint text,
  checkpoint_bytes bytea
) with (fillfactor = 80);

-- Released lazily: a key is held while its job has no row in done, or until its window ends.
create table fencepost.idempotency(
  type text not null,
  key text not null,
  seq bigint not null,
  window_ends_at timestamptz,
  primary key (type, key)
) with (fillfactor = 80);

-- How many more jobs are in which state, or fewer: rows that are only inserted, so that no two
-- transactions ever wait for each other over a count. `tidy` adds them up, into `total`.
create table fencepost.tally(
  number bigint generated always as identity primary key,
  lane integer not null,
  state smallint not null,
  count bigint not null
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off
);

-- What they were when they were last added up. The newest counts, as in `mark`.
create table fencepost.total(
  lane integer not null,
  state smallint not null,
  number bigint not null,
  count bigint not null,
  primary key (lane, state, number)
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);

create table fencepost.pause(
  scope text not null,
  name text not null,
  primary key (scope, name)
);

create table fencepost.max_running(
  scope text not null,
  name text not null,
  max_running integer not null,
  primary key (scope, name)
);

-- How often jobs of a type may start; see core/limits/rates.py.
create table fencepost.rate(
  type text primary key,
  count integer not null,
  window_us bigint not null,
  grain_us bigint not null
);

-- Starts of those types, in microseconds of 1970; `tidy` deletes them some time after they counted.
create table fencepost.rate_use(
  type text not null,
  at bigint not null,
  count integer not null,
  primary key (type, at)
);

-- Below its mark an index holds nothing that lives, and nothing can appear there any more, see
-- `tidy`. The newest row counts, as in `mark`.
create table fencepost.pulse(
  number bigint primary key,
  at timestamptz not null,
  next_xid xid8 not null,
  next_tally bigint not null,
  tally_mark bigint not null default 0,
  lease_mark timestamptz not null default '-infinity',
  due_mark timestamptz not null default '-infinity',
  lifetime_mark timestamptz not null default '-infinity'
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0
);

-- Tables that are always empty, and there to be locked. Advisory locks would be simpler, but every
-- role of the database can take those, and keep them (decision 0045); a table only those who may
-- write to it.
create table fencepost.marks_latch();
create table fencepost.tidy_latch();
