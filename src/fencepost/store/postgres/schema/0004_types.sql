-- Values that functions pass to each other and to Python.

-- A job to be stored, as `enqueue_each` and `enqueue_graph` read it from JSON. `seq`, `parents` and
-- how it has `ended` already are set for jobs of flows only.
create type fencepost.new_job as (
  seq bigint, id uuid, lane integer, type text, policy integer, max_attempts integer,
  delay bigint, run_at timestamptz, lifetime bigint, key text, key_window bigint,
  correlation_id text, tags jsonb, replay_of uuid, payload_encoding smallint, payload text,
  payload_hex text, flow text, node text, mode smallint, depth smallint, gathers boolean,
  missing integer, parents bigint[], ended smallint, failure text, is_dead_letter boolean,
  callback_url text, callback json, slot bigint, concurrency_key text, max_running integer,
  own_priority smallint, priority smallint, submitter text
);

-- Numbers of new jobs, and whether each got its key, see `number_each`.
create type fencepost.numbered_jobs as (seqs bigint[], taken boolean[]);

-- A job that `detach` has taken out of its table, see functions/transition.sql. Python passes its
-- times on as text.
create type fencepost.detached_job as (
  seq bigint, id uuid, lane integer, policy integer, state smallint, attempt integer,
  max_attempts integer, lease_version bigint, run_at timestamptz, scheduled_at timestamptz,
  expires_at timestamptz, lease_token uuid, worker text, started_at timestamptz, is_overdue boolean
);

-- A job that another depends on.
create type fencepost.parent as (
  id uuid, seq bigint, state smallint, priority smallint, depth smallint, failure text
);

-- What a claim asks for: `most` jobs with at most `bytes` together, or one. `known` is the sum of the
-- numbers of the lanes that it may serve and that the caller knows, or null if it has just looked:
-- other lanes are not read, however many there are. `chores` is what the caller can still do: 4
-- resolve, 2 recover, 1 expire, or a sum of these. With `promote` 0, due jobs and notes on slots are
-- left alone. A lease lasts at most timeout_grace longer than its job's execution timeout.
create type fencepost.claim_request as (
  worker text, lease_token uuid, lease_ttl bigint, timeout_grace bigint, bytes bigint, most integer,
  turn bigint, known bigint, chores integer, promote integer
);

-- Where a claim looks, the same in every claim of a worker: lanes by queue and then by priority,
-- with the priority of each and the index of its queue in `names`. `turns` is a row of turns, which
-- is repeated, or its beginning if no more jobs can be taken; null gives each queue with claimable
-- jobs one turn, in the order of `names` and starting with the request's turn. `types` are those to
-- serve, null for all; with `is_any` all queues are served, else those of `names`.
create type fencepost.served_lanes as (
  lanes integer[], priorities integer[], queues integer[], names text[], turns integer[],
  types text[], is_any boolean
);

-- What the leases of one claim share; first_version is the version of a job's first lease, and
-- `now` is null in production, see `p_now`.
create type fencepost.lease_terms as (
  started_at timestamptz, first_version bigint, worker text, lease_token uuid,
  lease_ttl bigint, timeout_grace bigint, now timestamptz
);

-- What a claim may take: `most` jobs, from each queue as many as `rooms` says, none from `paused`
-- lanes. The rest is for types with limits, see `allow`; lanes in `shut` are paused by an operator.
create type fencepost.claim_bounds as (
  most integer, rooms integer[], paused integer[], t timestamptz, types text[],
  type_rooms integer[], moments bigint[], places integer[], shut integer[]
);

-- Jobs of one lane that a claim has taken out of line, see `take`.
create type fencepost.taken_jobs as (
  jobs text, count integer, seqs bigint[], attempts integer[], lease_versions bigint[],
  run_ats timestamptz[], scheduled_ats timestamptz[], is_plain boolean, policy integer,
  policy_too integer, size bigint
);

-- What a claim has to consider, see `look_ahead`: `todo` is what must be done before it; the others
-- are when the next lease ends, when the next job is due, and which bounds there are.
create type fencepost.claim_outlook as (
  has_lanes boolean, expires_at timestamptz, run_at timestamptz, has_outlived boolean,
  has_pauses boolean, has_limits boolean, has_type_limits boolean, has_touched boolean,
  has_unsure boolean, due_mark timestamptz, todo text
);

-- What a claim has taken: the jobs as its answer shows them, null if there are none; how many came
-- from each lane; their order, if they come from several; and of several lanes how many in all, how
-- often it took some, and how many bytes more there may be, 0 if a job did not fit.
create type fencepost.claimed_jobs as (
  jobs text, spent integer[], seqs bigint[], count integer, pops integer, room bigint
);

-- What was taken from one lane: [lane, [job, …]], how many, and how many bytes more there may be.
create type fencepost.popped_jobs as (popped text, count integer, room bigint);
