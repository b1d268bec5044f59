-- What functions hand each other, and give to Python.

-- A job to be stored, as `enqueue_each` and `enqueue_graph` read it from JSON. `seq`, `parents` and
-- how it has `ended` already are set for jobs of flows only.
create type fencepost.new_job as (
  seq bigint, id uuid, lane integer, type text, policy integer, max_attempts integer,
  delay bigint, run_at timestamptz, lifetime bigint, key text, key_window bigint,
  correlation_id text, tags jsonb, replay_of uuid, encoding smallint, payload text,
  payload_hex text, flow text, node text, mode smallint, depth smallint, gathers boolean,
  missing integer, parents bigint[], ended smallint, failure text, is_dead_letter boolean,
  callback_url text, callback json, slot bigint, concurrency_key text, max_running integer,
  own_priority smallint, priority smallint, submitter text
);

-- Numbers of new jobs, and whether each got the key that it asked for, see `number_each`.
create type fencepost.numbered_jobs as (seqs bigint[], taken boolean[]);

-- A job that `lift` has taken from where it stood, see functions/transition.sql. Times are text: they pass through Python unread.
create type fencepost.standing as (
  seq bigint, id uuid, lane integer, policy integer, state smallint, attempt integer,
  max_attempts integer, version bigint, run_at timestamptz, scheduled_at timestamptz,
  expires_at timestamptz, secret uuid, worker text, started_at timestamptz, is_overdue boolean
);

-- A job that another is to wait for.
create type fencepost.parent as (
  id uuid, seq bigint, state smallint, priority smallint, depth smallint, failure text
);

-- What the leases of one claim have in common; first_version is that of a job's first lease.
create type fencepost.lease_terms as (
  started_at timestamptz, first_version bigint, worker text, secret uuid, ttl bigint, grace bigint
);

-- What a claim may take: `most` jobs, of each queue as `rooms` says, of no lane that is `paused`. The
-- others are of types that have a rate, see `allow`; those lanes that are `shut` were paused anyway.
create type fencepost.claim_bounds as (
  most integer, rooms integer[], paused integer[], t timestamptz, types text[],
  type_rooms integer[], moments bigint[], places integer[], shut integer[]
);

-- Jobs of one lane that a claim has taken out of line, see `take`.
create type fencepost.taken_jobs as (
  jobs text, count integer, seqs bigint[], attempts integer[], versions bigint[],
  run_ats timestamptz[], scheduled_ats timestamptz[], is_plain boolean, policy integer,
  policy_too integer, size bigint
);

-- What stands between a claim and its jobs, see `look_ahead`: `todo` is what must come before it;
-- the others are when the next lease ends, when the next job is due, and what bounds there may be.
create type fencepost.claim_outlook as (
  has_lanes boolean, expires_at timestamptz, run_at timestamptz, has_outlived boolean,
  has_pauses boolean, has_limits boolean, has_rates boolean, has_touched boolean,
  has_unsure boolean, due_mark timestamptz, todo text
);

-- What a claim has taken: the jobs as its answer has them, null if there are none; how many came
-- from each lane; and their order, if they come from several.
create type fencepost.claimed_jobs as (jobs text, spent integer[], seqs bigint[]);

-- What was taken from one lane: [lane, [job, …]], how many, and how many bytes more there may be.
create type fencepost.popped_jobs as (popped text, count integer, room bigint);

-- Rows of `ready` and the jobs that they are of; both null if there are none.
create type fencepost.places as (rows tid[], seqs bigint[]);
