-- Every state has a narrow table, and the description of a job is written once:
--
--   submissions  what was submitted                          inserted once
--   pending      PENDING, on others or on a key              deleted when they let it go
--   ready        SCHEDULED, in line                          deleted by a claim, never updated
--   delayed      DELAYED and RETRYING, by due time           deleted when due
--   leases       RUNNING: one row for the jobs of one claim  deleted with its last job
--   done         everything terminal, with the result        inserted once
--   attempts     attempts that did not succeed               inserted once
--
-- A live job has a row in exactly one of pending, ready, delayed and leases; a job with a row in
-- done is terminal.

-- One type of one queue at one priority. Claims read lane by lane, so that a backlog of a paused or
-- unknown type costs other types nothing. A lane's number is made from its names, see `number_of`.
-- A lane without jobs is removed after a while, see `prune_lanes`: `idle_at` is when it was first
-- seen empty; with `retired_at`, nothing is stored in it until it is revived; `fence` is the number
-- of a transaction that began after the retirement was visible to all.
create table fencepost.lanes(
  lane integer primary key,
  queue text not null,
  type text not null,
  priority smallint not null,
  idle_at timestamptz,
  retired_at timestamptz,
  fence xid8,
  unique (queue, type, priority)
);
-- With the queue, so that a claim of some types in some queues reads no other lanes in either
-- index.
create index lanes_type on fencepost.lanes(type, queue);

-- No row of ready is below the mark of its lane, now or later: an old snapshot keeps dead rows from
-- being removed, and a claim that had to skip all of them would take far too long. For the same
-- reason a mark that moves is a new row with a higher number, and the newest is read first: dead
-- ones may pile up behind it.
create table fencepost.lane_marks(
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
create table fencepost.policies(
  policy integer primary key,
  body text not null,
  lease_ttl bigint,
  timeout bigint not null
);
create unique index policies_body on fencepost.policies(md5(body));

create sequence fencepost.seq;

create table fencepost.submissions(
  seq bigint primary key,
  id uuid not null,
  created_at timestamptz not null,
  run_at timestamptz not null,
  expires_at timestamptz not null,
  lane integer not null,
  policy integer not null,
  max_attempts integer not null,
  reopened_version bigint not null default 0,
  payload_encoding smallint not null default 0,
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
create unique index submissions_id on fencepost.submissions(id);
create index submissions_lifetime on fencepost.submissions(expires_at);
create index submissions_lane on fencepost.submissions(lane, seq);
create index submissions_correlation on fencepost.submissions(correlation_id)
where correlation_id is not null;
create index submissions_flow on fencepost.submissions(flow) where flow is not null;
create index submissions_tags on fencepost.submissions using gin(tags jsonb_path_ops)
where tags is not null;

-- Jobs are numbered in the order of their creation, to within a second; see `first_since`. Up to
-- seq they may be in any order, and none of them was created after created_at.
create table fencepost.disorder(
  seq bigint not null,
  created_at timestamptz not null
);

-- Which job (child) depends on which (parent), until both are pruned; place is the order in which
-- they were named.
create table fencepost.dependencies(
  parent bigint not null,
  child bigint not null,
  place integer not null,
  primary key (parent, child)
);
create index dependencies_child on fencepost.dependencies(child, place);

-- Jobs that wait for others, and for how many still. The transaction that ends one of those counts
-- down, and locks these rows in the order of their numbers. A job with a slot waits only for that
-- slot, see `admit`, and has a priority, too.
create table fencepost.pending(
  seq bigint primary key,
  run_at timestamptz not null,
  updated_at timestamptz not null,
  scheduled_at timestamptz,
  lane integer not null,
  attempt integer not null,
  lease_version bigint not null,
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

-- Jobs that have a concurrency key. A slot is a number that callers make from a type and a key.
create table fencepost.keyed_jobs(
  seq bigint primary key,
  slot bigint not null,
  max_running integer not null,
  concurrency_key text not null
);
create index keyed_jobs_slot on fencepost.keyed_jobs(slot);

-- How many jobs of a key are claimable or running. Changed under the lock of the row, which no
-- transaction waits for.
create table fencepost.slots(
  slot bigint primary key,
  active integer not null default 0
) with (
  fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);

-- Notes of transactions that found the row of a slot locked: how many jobs have left it. The next
-- claim admits others.
create table fencepost.freed_slots(
  slot bigint not null,
  freed integer not null
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);
create index freed_slots_slot on fencepost.freed_slots(slot);

-- Notes of callers' transactions, which may stay open for long and so do not lock rows of other
-- jobs: jobs stored there that depend on others (which may have ended meanwhile), and jobs ended
-- there that have dependents. The next claim resolves them.
create table fencepost.unresolved(
  seq bigint not null,
  has_ended boolean not null
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);

-- Jobs with a webhook, and how its delivery is stored when they end. Read for every job that ends,
-- so it holds no other jobs.
create table fencepost.callbacks(
  seq bigint primary key,
  lane integer not null,
  policy integer not null,
  max_attempts integer not null,
  lifetime bigint not null
);

-- scheduled_at is null for a job that was ready when it was submitted: then it equals created_at,
-- and run_at equals that of the submission. Other rows are found by ready_again.
create table fencepost.ready(
  run_at timestamptz not null,
  seq bigint not null,
  scheduled_at timestamptz,
  lane integer not null,
  attempt integer not null default 0,
  lease_version bigint not null default 0,
  primary key (lane, run_at, seq)
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.5, vacuum_truncate = off
);
create index ready_again on fencepost.ready(seq) where scheduled_at is not null;

create table fencepost.delayed(
  seq bigint primary key,
  run_at timestamptz not null,
  updated_at timestamptz not null,
  scheduled_at timestamptz,
  lane integer not null,
  attempt integer not null,
  lease_version bigint not null,
  state smallint not null
) with (
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);
create index delayed_due on fencepost.delayed(run_at, seq);

-- The jobs of one claim in one lane. The last four arrays are null if every job is in its first
-- attempt and was ready when it was submitted; then their lease version is the first one at
-- started_at. A heartbeat without a time extends by lease_ttl, never past the deadline. The storage
-- is plain: compressing a row that lives for milliseconds is a waste.
create table fencepost.leases(
  lease_token uuid not null,
  part integer not null,
  lane integer not null,
  started_at timestamptz not null,
  expires_at timestamptz not null,
  worker text not null,
  seqs bigint[] not null,
  attempts integer[],
  lease_versions bigint[],
  run_ats timestamptz[],
  scheduled_ats timestamptz[],
  lease_ttl bigint not null,
  deadline timestamptz not null,
  primary key (lease_token, part)
) with (
  fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off
);
alter table fencepost.leases alter seqs set storage plain;

-- Numbers of parts that were split off, below those that claims give.
create sequence fencepost.part as integer
minvalue -2147483648 maxvalue -1 start -2147483648 cycle;
create index leases_expiry on fencepost.leases(expires_at);

-- scheduled_at: null is the job's created_at, -infinity is never.
create table fencepost.done(
  seq bigint primary key,
  completed_at timestamptz not null,
  started_at timestamptz,
  scheduled_at timestamptz,
  lease_token uuid,
  attempt integer not null,
  lease_version bigint not null,
  state smallint not null,
  result_encoding smallint,
  is_dead_letter boolean,
  worker text,
  result text,
  result_bytes bytea,
  failure text
);
create index done_dead on fencepost.done(completed_at, seq) where is_dead_letter;
create index done_unsuccessful on fencepost.done(state, seq) where state > :COMPLETED;
-- Of pages, not of rows: it costs a settlement a tenth of what an index in order would.
create index done_ended on fencepost.done using brin(completed_at)
with (pages_per_range = 32, autosummarize = on);

create table fencepost.attempts(
  seq bigint not null,
  lease_version bigint not null,
  number integer not null,
  started_at timestamptz not null,
  ended_at timestamptz not null,
  lease_token uuid,
  worker text not null,
  outcome text not null,
  failure text,
  primary key (seq, lease_version)
);

create table fencepost.saved(
  seq bigint primary key,
  lease_version bigint not null,
  progress text,
  checkpoint_encoding smallint,
  checkpoint text,
  checkpoint_bytes bytea
) with (fillfactor = 80);

-- Released lazily: a key is held while its job has no row in done, or until its window ends.
create table fencepost.idempotency(
  type text not null,
  key text not null,
  seq bigint not null,
  key_ends_at timestamptz,
  primary key (type, key)
) with (fillfactor = 80);

-- By how much the number of jobs in a state has changed. Rows are only inserted, so that no two
-- transactions ever wait for each other over a count. `tidy` adds them up, into `counter_totals`.
create table fencepost.counters(
  number bigint generated always as identity primary key,
  lane integer not null,
  state smallint not null,
  count bigint not null
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off
);

-- The sums when they were last added up. The newest row counts, as in `lane_marks`.
create table fencepost.counter_totals(
  lane integer not null,
  state smallint not null,
  number bigint not null,
  count bigint not null,
  primary key (lane, state, number)
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);

create table fencepost.pauses(
  scope text not null,
  name text not null,
  primary key (scope, name)
);

create table fencepost.limits(
  scope text not null,
  name text not null,
  max_running integer not null,
  primary key (scope, name)
);

-- What limits the jobs of a type: JSON of core/limits/type_limits.py. The columns of its rate are
-- those of core/limits/rates.py: from 1,000 starts on, they are counted by the grain.
create table fencepost.type_limits(
  type text primary key,
  limits jsonb not null,
  rate_count integer generated always as ((limits #>> '{rate,count}')::integer) stored,
  window_us bigint generated always as (
    ((limits #>> '{rate,window}')::numeric * 1000000)::bigint) stored,
  grain_us bigint generated always as (
    case when (limits #>> '{rate,count}')::integer <= 1000 then 1
      else floor((limits #>> '{rate,window}')::numeric * 1000)::bigint end) stored
);

-- Starts of types that have a rate, in microseconds of 1970; `tidy` deletes them some time after they counted.
create table fencepost.rate_uses(
  type text not null,
  at bigint not null,
  count integer not null,
  primary key (type, at)
);

-- Below its mark an index has no live rows, and none can appear there, see `tidy`. The newest row
-- counts, as in `lane_marks`.
create table fencepost.marks(
  number bigint primary key,
  at timestamptz not null,
  next_xid xid8 not null,
  next_counter bigint not null,
  counter_mark bigint not null default 0,
  lease_mark timestamptz not null default '-infinity',
  due_mark timestamptz not null default '-infinity',
  lifetime_mark timestamptz not null default '-infinity'
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0
);

-- Tables that are always empty and exist to be locked. Advisory locks would be simpler, but every
-- role of the database can take and keep those (decision 0045); a table can be locked only by roles
-- that may write to it.
create table fencepost.marks_latch();
create table fencepost.tidy_latch();
