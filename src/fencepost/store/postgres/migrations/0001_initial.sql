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
-- `(x in (select unnest(y))) is true` looks up x in a hash of the array; without the `is true` it would
-- be a join, and `x = any (y)` goes through the array for every x.
-- Time is the server's: p_now is null in production, and set by tests that stop the clock.

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

-- Lanes with their marks.
create view fencepost.line as
select l.lane, l.queue, l.type, l.priority, coalesce((
  select m.low from fencepost.mark m where m.lane = l.lane order by m.number desc limit 1
), '-infinity') as low
from fencepost.lane l;

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

-- How many jobs are in which state, in parts to be added up.
create view fencepost.counts as
select lane, state, count from fencepost.tally
union all
select l.lane, s.state, t.count
from fencepost.lane l cross join generate_series(0, 8) as s(state) cross join lateral (
  select x.count from fencepost.total x where x.lane = l.lane and x.state = s.state
  order by x.number desc limit 1
) as t;

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

-- Delete the oldest entries of the audit log that were kept for p_keep microseconds; returns how
-- many. It has its owner's rights, since nobody else can delete one, and whatever it is told, it
-- keeps what is younger than a week (AUDIT_KEPT_MIN) by the server's own clock.
create function fencepost.prune_actions(p_now timestamptz, p_keep bigint, p_limit integer)
returns integer language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_until constant timestamptz := least(
    coalesce(p_now, clock_timestamp()) - p_keep * interval '1 microsecond',
    clock_timestamp() - interval '7 days');
  v_count integer;
begin
  delete from fencepost.action where seq in (
    select seq from fencepost.action where at <= v_until order by at, seq
    limit greatest(p_limit, 0));
  get diagnostics v_count = row_count;
  return v_count;
end $$;
revoke execute on function fencepost.prune_actions(timestamptz, bigint, integer) from public;

-- What roles.sql grants on all tables is too much for these two, wherever it was run before.
do $$
begin
  if exists (select from pg_roles where rolname = 'fencepost_server') then
    revoke all on fencepost.token from fencepost_runtime, fencepost_readonly;
    revoke insert, update, delete on fencepost.action from fencepost_runtime;
    grant select, insert, update, delete on fencepost.token to fencepost_server;
    grant insert on fencepost.action to fencepost_server;
    grant execute on function fencepost.prune_actions(timestamptz, bigint, integer)
      to fencepost_runtime;
  end if;
end $$;

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

-- The newest row of pulse; there is none at first, and after somebody has emptied all tables. None is
-- made here: others would wait for whoever does, until the commit.
create function fencepost.marks() returns fencepost.pulse language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  m fencepost.pulse;
begin
  select * into m from fencepost.pulse order by number desc limit 1;
  if not found then
    m := row(0, '-infinity', '0', 0, 0, '-infinity', '-infinity', '-infinity');
  end if;
  return m;
end $$;

-- Tables that are always empty, and there to be locked. Advisory locks would be simpler, but every
-- role of the database can take those, and keep them (decision 0045); a table only those who may
-- write to it.
create table fencepost.marks_latch();
create table fencepost.tidy_latch();

-- Keep `tidy` from moving the marks of lanes until this transaction is over. For whoever puts a job
-- into line at a time that has passed, in a later statement: it is below the mark then and lowers
-- it, or it will be seen. Those who hold them do not wait for each other.
create function fencepost.hold_marks() returns void language plpgsql as $$
begin
  lock table fencepost.marks_latch in row exclusive mode;
end $$;

-- The version of a lease that is given out at t to a job whose last one was p_last (C43): never below
-- the clock, so that it rises also if a crash of the server takes back the claim before it.
create function fencepost.next_version(p_last bigint, t timestamptz) returns bigint
language plpgsql stable as $$
begin
  return greatest(p_last + 1, (extract(epoch from t) * 1000000)::bigint);
end $$;

-- Lower the mark of a lane to p_to, unless it is there already. For whoever holds the marks: `tidy`
-- replaces no row meanwhile. A transaction that looks at the past fails if it has been replaced.
create function fencepost.lower_mark(p_lane integer, p_to timestamptz) returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  m fencepost.mark;
begin
  loop
    select * into m from fencepost.mark where lane = p_lane order by number desc limit 1;
    exit when not found or m.low <= p_to;
    update fencepost.mark set low = p_to where lane = p_lane and number = m.number and low > p_to;
    exit when found;
  end loop;
end $$;

-- ------------------------------------------------------------------------------------------------
-- Submitting
-- ------------------------------------------------------------------------------------------------

-- The number that a lane or a policy gets, from what it is; p_try counts those that were taken by
-- others. Living processes remember numbers. A failover that loses the last commits, a restore or a
-- truncate takes some back, and were they given in turn, they would come to mean something else.
create function fencepost.number_of(p_name text, p_try integer) returns integer
language sql immutable as $$
  select greatest(
    ('x' || left(md5(p_try || ':' || p_name), 8))::bit(32)::integer & 2147483647, 1)
$$;

-- The number of a lane, which is made if it is new, and revived if it was to be removed. Under
-- read committed, a transaction that has its number before it looks is waited for, see `prune_lanes`;
-- one that looks at the past holds the lane instead.
create function fencepost.lane_number(p_queue text, p_type text, p_priority integer)
returns integer language plpgsql as $$
declare
  l fencepost.lane;
  v_try integer := 0;
begin
  perform pg_current_xact_id();
  loop
    select * into l from fencepost.lane
    where queue = p_queue and type = p_type and priority = p_priority;
    if found and l.idle_at is null then
      if current_setting('transaction_isolation') <> 'read committed' then
        perform 1 from fencepost.lane where lane = l.lane for key share;
      end if;
      return l.lane;
    elsif found then
      update fencepost.lane set idle_at = null, retired_at = null, fence = null
      where lane = l.lane;
      continue when not found;  -- removed meanwhile
      return l.lane;
    end if;
    insert into fencepost.lane(lane, queue, type, priority)
    values (
      fencepost.number_of(json_build_array(p_queue, p_type, p_priority)::text, v_try),
      p_queue, p_type, p_priority)
    on conflict do nothing;
    v_try := v_try + 1;
  end loop;
end $$;

-- The numbers of several lanes. Raises FP002 if a new pair of queue and type would be one more than
-- p_max; those that others make at the same moment are not counted. Fencepost's own types are not
-- refused: what it does for a job that was accepted goes on.
create function fencepost.lane_numbers(
  p_queues text[], p_types text[], p_priorities integer[], p_max integer
) returns integer[] language plpgsql as $$
declare
  v_has_new boolean := exists (
    select 1 from unnest(p_queues, p_types) as x(queue, type)
    where not starts_with(x.type, 'fencepost.') and not exists (
      select 1 from fencepost.lane where lane.queue = x.queue and lane.type = x.type
    )
  );
  v_numbers integer[] := array(
    select fencepost.lane_number(x.queue, x.type, x.priority)
    from unnest(p_queues, p_types, p_priorities) with ordinality as x(queue, type, priority, n)
    order by x.n
  );
begin
  if v_has_new and (select count(*) from fencepost.lane) > p_max
    and (select count(*) from (select distinct queue, type from fencepost.lane) as x) > p_max
  then
    raise exception using errcode = 'FP002', message = format('there are %s lanes', p_max);
  end if;
  return v_numbers;
end $$;

-- The number of a policy, which is stored if it is new.
create function fencepost.policy_number(p_body text, p_lease_ttl bigint, p_timeout bigint)
returns integer language plpgsql as $$
declare
  v_policy integer;
  v_try integer := 0;
begin
  loop
    select policy into v_policy from fencepost.policy where md5(body) = md5(p_body);
    if found then
      return v_policy;
    end if;
    insert into fencepost.policy(policy, body, lease_ttl, timeout)
    values (fencepost.number_of(p_body, v_try), p_body, p_lease_ttl, p_timeout)
    on conflict do nothing;
    v_try := v_try + 1;
  end loop;
end $$;

-- Raise FP001 unless these numbers are there: a caller remembers them from before a failover or a
-- restore that took them back, or the lane was unused and is removed. The caller forgets all that it
-- remembers, and comes again. The transaction has its number first, see `prune_lanes`. Above read
-- committed, an old snapshot does not show what was numbered since; there the indexes say whether a
-- number is taken, which know no snapshots.
create function fencepost.check_numbers(p_lane integer, p_policy integer) returns void
language plpgsql as $$
declare
  is_strict constant boolean := current_setting('transaction_isolation') <> 'read committed';
  has_policy constant boolean := exists (select 1 from fencepost.policy where policy = p_policy);
  has_lane boolean;
begin
  perform pg_current_xact_id();
  has_lane := exists (select 1 from fencepost.lane where lane = p_lane and retired_at is null);
  if is_strict then
    -- Which fails if the lane has changed since the past that this transaction looks at.
    perform 1 from fencepost.lane where lane = p_lane for key share;
    if found and not has_lane then
      raise exception using errcode = 'FP001', message = format('lane %s is retired', p_lane);
    end if;
  end if;
  if has_lane and has_policy then
    return;
  end if;
  if is_strict then
    -- What could be stored is undone with all that this transaction has done.
    begin
      if not has_lane then
        insert into fencepost.lane(lane, queue, type, priority)
        values (p_lane, 'default', 'number_' || p_lane, 2);
        raise exception using errcode = 'FP001', message = format('there is no lane %s', p_lane);
      end if;
    exception when unique_violation then
      null;
    end;
    begin
      if not has_policy then
        insert into fencepost.policy(policy, body, timeout)
        values (p_policy, 'number ' || p_policy, 0);
        raise exception using errcode = 'FP001', message = format('there is no policy %s', p_policy);
      end if;
    exception when unique_violation then
      null;
    end;
    return;
  end if;
  raise exception using errcode = 'FP001',
    message = format('there is no lane %s or no policy %s', p_lane, p_policy);
end $$;

-- Write down that jobs which have a number now may be in any order; t is the time of the latest.
create function fencepost.note_disorder(t timestamptz) returns void language plpgsql as $$
begin
  insert into fencepost.disorder(seq, created_at)
  select last_value, greatest(t, clock_timestamp()) from fencepost.seq;
end $$;

-- Call it when jobs created at t have got their numbers: if that took long, others have been created
-- and numbered meanwhile.
create function fencepost.note_order(p_now timestamptz, t timestamptz) returns void
language plpgsql as $$
begin
  if p_now is null and clock_timestamp() - t > interval '500 milliseconds' then
    perform fencepost.note_disorder(t);
  end if;
end $$;

-- Jobs that differ in nothing but id and payload; returns the state in which they are stored.
create function fencepost.enqueue(
  p_now timestamptz, p_lane integer, p_policy integer, p_max_attempts integer, p_delay bigint,
  p_run_at timestamptz, p_lifetime bigint, p_ids uuid[], p_payloads json, p_submitter text
) returns smallint language plpgsql
set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t timestamptz;
  due timestamptz;
  v_state smallint;
  v_expires_at timestamptz;
begin
  perform fencepost.check_numbers(p_lane, p_policy);
  -- The transaction has its number before it reads the clock: `tidy` relies on it.
  perform pg_current_xact_id();
  t := coalesce(p_now, clock_timestamp());
  due := greatest(coalesce(p_run_at, t + p_delay * interval '1 microsecond'), t);
  v_state := case when due <= t then 1 else 2 end;
  v_expires_at := t + p_lifetime * interval '1 microsecond';
  if v_state = 1 then
    with j as (
      insert into fencepost.job(
        seq, id, created_at, run_at, expires_at, lane, policy, max_attempts, payload, submitter)
      select nextval('fencepost.seq'), x.id, t, due, v_expires_at, p_lane, p_policy,
        p_max_attempts, x.payload::text, p_submitter
      from rows from (unnest(p_ids), json_array_elements(p_payloads)) as x(id, payload)
      returning seq
    )
    insert into fencepost.ready(lane, run_at, seq) select p_lane, due, j.seq from j;
  else
    with j as (
      insert into fencepost.job(
        seq, id, created_at, run_at, expires_at, lane, policy, max_attempts, payload, submitter)
      select nextval('fencepost.seq'), x.id, t, due, v_expires_at, p_lane, p_policy,
        p_max_attempts, x.payload::text, p_submitter
      from rows from (unnest(p_ids), json_array_elements(p_payloads)) as x(id, payload)
      returning seq
    )
    insert into fencepost.delayed(seq, run_at, since, lane, attempt, version, state)
    select j.seq, due, t, p_lane, 0, 0, 2 from j;
  end if;
  insert into fencepost.tally(lane, state, count) values (p_lane, v_state, cardinality(p_ids));
  perform fencepost.note_order(p_now, t);
  return v_state;
end $$;

-- Jobs with a key, tags, a correlation id or a binary payload, one after another. For each returns
-- [state, null], or [state of the holder, id of the holder] if its key is held. One with a
-- concurrency key is held up; with p_admits, it is let in if there is a slot for it.
create function fencepost.enqueue_each(p_now timestamptz, p_jobs json, p_admits boolean)
returns json language plpgsql set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t timestamptz;
  due timestamptz;
  j record;
  v_seq bigint;
  v_state smallint;
  v_replies json[] := '{}';
  v_held bigint[] := '{}';
  v_places integer[] := '{}';
  v_slots bigint[] := '{}';
  v_lane integer;
  v_policy integer;
  v_count integer := json_array_length(p_jobs);
  v_seqs bigint[];
  v_taken boolean[];
begin
  perform pg_current_xact_id();
  t := coalesce(p_now, clock_timestamp());
  if v_count > 1 then
    -- Numbers in the order of the jobs, keys in the one order in which everybody takes them.
    v_seqs := array(select nextval('fencepost.seq') from generate_series(1, v_count));
    v_taken := array_fill(false, array[v_count]);
    for j in
      select x.n, x.value ->> 'type' as type, x.value ->> 'key' as key,
        (x.value ->> 'key_window')::bigint as key_window
      from json_array_elements(p_jobs) with ordinality as x(value, n)
      where x.value ->> 'key' is not null
      order by (x.value ->> 'type') collate "C", (x.value ->> 'key') collate "C", x.n
    loop
      v_taken[j.n] := fencepost.take_key(t, j.type, j.key, v_seqs[j.n], j.key_window);
    end loop;
  end if;
  for j in select * from json_to_recordset(p_jobs) as x(
    id uuid, lane integer, type text, policy integer, max_attempts integer, delay bigint,
    run_at timestamptz, lifetime bigint, key text, key_window bigint, correlation_id text,
    tags jsonb, replay_of uuid, encoding smallint, payload text, payload_hex text, flow text,
    node text, mode smallint, depth smallint, gathers boolean, missing integer,
    callback_url text, callback json, slot bigint, concurrency_key text, max_running integer,
    own_priority smallint, priority smallint, submitter text
  ) loop
    if (j.lane, j.policy) is distinct from (v_lane, v_policy) then
      perform fencepost.check_numbers(j.lane, j.policy);
      v_lane := j.lane;
      v_policy := j.policy;
    end if;
    v_seq := coalesce(v_seqs[cardinality(v_replies) + 1], nextval('fencepost.seq'));
    if j.key is not null and not coalesce(v_taken[cardinality(v_replies) + 1],
      fencepost.take_key(t, j.type, j.key, v_seq, j.key_window)) then
      v_replies := v_replies || fencepost.holder(j.type, j.key);
      continue;
    end if;
    due := greatest(coalesce(j.run_at, t + j.delay * interval '1 microsecond'), t);
    v_state := case when j.missing > 0 then 0 when due > t then 2
      when j.slot is not null then 0 else 1 end;
    insert into fencepost.job(
      seq, id, created_at, run_at, expires_at, lane, policy, max_attempts, key, key_window,
      correlation_id, tags, replay_of, encoding, payload, payload_bytes, flow, node, mode, depth,
      gathers, callback_url, own_priority, submitter)
    values (v_seq, j.id, t, due, t + j.lifetime * interval '1 microsecond', j.lane, j.policy,
      j.max_attempts, j.key, j.key_window, j.correlation_id, j.tags, j.replay_of, j.encoding,
      j.payload, decode(j.payload_hex, 'hex'), j.flow, j.node, j.mode, j.depth, j.gathers,
      j.callback_url, j.own_priority, j.submitter);
    if j.callback is not null then
      perform fencepost.ask_back(v_seq, j.callback);
    end if;
    if j.slot is not null then
      insert into fencepost.keyed(seq, slot, max_running, key)
      values (v_seq, j.slot, j.max_running, j.concurrency_key);
    end if;
    if v_state = 0 and coalesce(j.missing, 0) = 0 then
      insert into fencepost.pending(
        seq, run_at, since, lane, attempt, version, mode, missing, slot, priority)
      values (v_seq, due, t, j.lane, 0, 0, j.mode, 0, j.slot, coalesce(
        j.priority, (select lane.priority from fencepost.lane where lane.lane = j.lane)));
      v_held := v_held || v_seq;
      v_slots := v_slots || j.slot;
      v_places := v_places || (cardinality(v_replies) + 1);
    elsif v_state = 0 then
      insert into fencepost.pending(seq, run_at, since, lane, attempt, version, mode, missing)
      values (v_seq, due, t, j.lane, 0, 0, j.mode, j.missing);
    elsif v_state = 1 then
      insert into fencepost.ready(lane, run_at, seq) values (j.lane, due, v_seq);
    else
      insert into fencepost.delayed(seq, run_at, since, lane, attempt, version, state)
      values (v_seq, due, t, j.lane, 0, 0, 2);
    end if;
    insert into fencepost.tally(lane, state, count) values (j.lane, v_state, 1);
    v_replies := v_replies || json_build_array(v_state, null);
  end loop;
  perform fencepost.note_order(p_now, t);
  if p_admits and v_held <> '{}' then
    for v_seq in select seq from fencepost.admit(p_now, v_slots, null) loop
      if v_seq = any (v_held) then
        v_replies[v_places[array_position(v_held, v_seq)]] := json_build_array(1, null);
      end if;
    end loop;
  end if;
  return array_to_json(v_replies);
end $$;

-- Have the end of a job told of; p_how is [lane, policy, max_attempts, lifetime] of the delivery.
create function fencepost.ask_back(p_seq bigint, p_how json) returns void language plpgsql as $$
begin
  perform fencepost.check_numbers((p_how ->> 0)::integer, (p_how ->> 1)::integer);
  insert into fencepost.callback(seq, lane, policy, max_attempts, lifetime)
  values (p_seq, (p_how ->> 0)::integer, (p_how ->> 1)::integer, (p_how ->> 2)::integer,
    (p_how ->> 3)::bigint);
end $$;

-- Jobs of flows and jobs that wait for others, whose numbers, keys and places among each other are
-- settled: `ended` and `failure` are set for one that has ended with what it was to wait for.
-- Returns the states in which they are stored.
create function fencepost.enqueue_graph(p_now timestamptz, p_jobs json)
returns smallint[] language plpgsql set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t timestamptz;
  v_states smallint[];
  v_asked bigint;
  v_checked bigint;
  v_last bigint;
  v_next timestamptz;
begin
  perform pg_current_xact_id();
  t := coalesce(p_now, clock_timestamp());
  with given as materialized (
    select x.*, greatest(coalesce(x.run_at, t + x.delay * interval '1 microsecond'), t) as due
    from json_to_recordset(p_jobs) as x(
      seq bigint, id uuid, lane integer, policy integer, max_attempts integer, delay bigint,
      run_at timestamptz, lifetime bigint, key text, key_window bigint, correlation_id text,
      tags jsonb, encoding smallint, payload text, payload_hex text, flow text, node text,
      mode smallint, depth smallint, gathers boolean, missing integer, parents bigint[],
      ended smallint, failure text, is_dead_letter boolean, callback_url text, callback json,
      slot bigint, concurrency_key text, max_running integer, own_priority smallint,
      priority smallint, submitter text
    )
  ), placed as materialized (
    select given.*, coalesce(given.ended, case when given.missing > 0 then 0 when due > t then 2
      when given.slot is not null then 0 else 1 end)::smallint as state
    from given
  ), stored as (
    insert into fencepost.job(
      seq, id, created_at, run_at, expires_at, lane, policy, max_attempts, key, key_window,
      correlation_id, tags, encoding, payload, payload_bytes, flow, node, mode, depth, gathers,
      callback_url, own_priority, submitter)
    select seq, id, t, due, t + lifetime * interval '1 microsecond', lane, policy, max_attempts,
      key, key_window, correlation_id, tags, encoding, payload, decode(payload_hex, 'hex'), flow,
      node, mode, depth, gathers, callback_url, own_priority, submitter
    from placed
  ), named as (
    insert into fencepost.keyed(seq, slot, max_running, key)
    select seq, slot, max_running, concurrency_key from placed where slot is not null
  ), asked as (
    select fencepost.ask_back(seq, callback) from placed where callback is not null
  ), linked as (
    insert into fencepost.dependency(parent, child, place)
    select x.parent, placed.seq, x.place
    from placed cross join lateral unnest(placed.parents) with ordinality as x(parent, place)
  ), held_up as (
    insert into fencepost.pending(
      seq, run_at, since, lane, attempt, version, mode, missing, slot, priority)
    select seq, due, t, placed.lane, 0, 0, mode, coalesce(missing, 0),
      case when coalesce(missing, 0) = 0 then slot end,
      case when coalesce(missing, 0) = 0 then placed.priority end
    from placed where state = 0
  ), in_line as (
    insert into fencepost.ready(lane, run_at, seq) select lane, due, seq from placed where state = 1
  ), waiting as (
    insert into fencepost.delayed(seq, run_at, since, lane, attempt, version, state)
    select seq, due, t, lane, 0, 0, 2 from placed where state = 2
  ), over as (
    insert into fencepost.done(
      seq, ended_at, scheduled_at, attempt, version, state, is_dead_letter, failure)
    select seq, t, '-infinity', 0, 0, state, is_dead_letter, failure from placed where state >= 5
  ), counted as (
    insert into fencepost.tally(lane, state, count)
    select lane, state, count(*) from placed group by lane, state
  )
  select array_agg(state order by seq), (select count(*) from asked), max(seq), (
    select count(*) from (select distinct lane, policy from placed) as x
    cross join lateral fencepost.check_numbers(x.lane, x.policy) as checked
  )
  into v_states, v_asked, v_last, v_checked from placed;
  -- They were numbered by an earlier statement, and may have waited for keys since.
  select created_at into v_next from fencepost.job where seq > v_last order by seq limit 1;
  if v_next < t - interval '500 milliseconds' then
    perform fencepost.note_disorder(t);
  end if;
  perform fencepost.note_order(p_now, t);
  return v_states;
end $$;

-- Store the deliveries that tell of the ends of jobs; returns [[id, lane, state], …] of them, or null.
create function fencepost.call_back(p_now timestamptz, p_ended bigint[]) returns json
language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off as $$
declare
  t timestamptz;
  v_told json;
begin
  perform pg_current_xact_id();
  t := coalesce(p_now, clock_timestamp());
  with told as materialized (
    select nextval('fencepost.seq') as seq, gen_random_uuid() as id, asked.* from (
      select c.lane, c.policy, c.max_attempts, c.lifetime, j.correlation_id, json_build_object(
          'job_id', j.id, 'url', j.callback_url,
          'state', (array['completed', 'failed', 'dead_letter', 'cancelled'])[d.state - 4],
          'ended_at', to_char(d.ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
          'attempt', d.attempt)::text as payload
      from fencepost.callback c
      join fencepost.job j on j.seq = c.seq join fencepost.done d on d.seq = c.seq
      where c.seq = any (p_ended) order by c.seq
    ) as asked
  ), stored as (
    insert into fencepost.job(
      seq, id, created_at, run_at, expires_at, lane, policy, max_attempts, correlation_id, payload)
    select seq, id, t, t, t + lifetime * interval '1 microsecond', lane, policy, max_attempts,
      correlation_id, payload
    from told
  ), in_line as (
    insert into fencepost.ready(lane, run_at, seq) select lane, t, seq from told
  ), counted as (
    insert into fencepost.tally(lane, state, count)
    select lane, 1, count(*) from told group by lane
  )
  select json_agg(json_build_array(id, lane, 1) order by seq) into v_told from told;
  return v_told;
end $$;

-- Give keys to jobs; p_keys is [[type, key, seq, window], …]. Returns for each null, or [state, id]
-- of the job that holds it.
create function fencepost.take_keys(p_now timestamptz, p_keys json) returns json language plpgsql
as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  k record;
  v_holders json[] := array_fill('null'::json, array[json_array_length(p_keys)]);
begin
  for k in
    select x.n, x.value ->> 0 as type, x.value ->> 1 as key, (x.value ->> 2)::bigint as seq,
      (x.value ->> 3)::bigint as key_window
    from json_array_elements(p_keys) with ordinality as x(value, n)
    order by (x.value ->> 0) collate "C", (x.value ->> 1) collate "C"
  loop
    if not fencepost.take_key(t, k.type, k.key, k.seq, k.key_window) then
      v_holders[k.n] := fencepost.holder(k.type, k.key);
    end if;
  end loop;
  return array_to_json(v_holders);
end $$;

-- Lock terminal jobs that are to run again, by their ids: first their keys, then their rows of done,
-- each in one order.
create function fencepost.lock_ended(p_ids uuid[]) returns void language plpgsql as $$
begin
  perform 1 from fencepost.idempotency held
  join (
    select l.type, j.key from fencepost.job j join fencepost.lane l on l.lane = j.lane
    where j.id = any (p_ids) and j.key is not null
  ) as own on own.type = held.type and own.key = held.key
  order by held.type collate "C", held.key collate "C" for update of held;
  perform 1 from fencepost.done where seq = any (array(
    select seq from fencepost.job where id = any (p_ids))) order by seq for update;
end $$;

-- Give a key to job p_seq; false if it is held. A holder that this snapshot cannot see was submitted
-- a moment ago and holds it.
create function fencepost.take_key(
  t timestamptz, p_type text, p_key text, p_seq bigint, p_window bigint
) returns boolean language plpgsql as $$
declare
  v_ends_at timestamptz := t + p_window * interval '1 microsecond';
begin
  loop
    insert into fencepost.idempotency(type, key, seq, window_ends_at)
    values (p_type, p_key, p_seq, v_ends_at) on conflict (type, key) do nothing;
    if found then
      return true;
    end if;
    -- First the lock, then the look, by a later statement: the holder may have been reopened by
    -- whoever had the lock before, and a snapshot from before the wait would still see it ended.
    perform 1 from fencepost.idempotency where type = p_type and key = p_key for update;
    if found then  -- and not pruned in between
      update fencepost.idempotency as held set seq = p_seq, window_ends_at = v_ends_at
      where held.type = p_type and held.key = p_key and (held.seq = p_seq or (
        exists (select 1 from fencepost.done where done.seq = held.seq)
        and (held.window_ends_at is null or held.window_ends_at <= t)
      ));
      return found;
    end if;
  end loop;
end $$;

-- ------------------------------------------------------------------------------------------------
-- Concurrency keys: no job that has one comes into line but through `admit`.
-- ------------------------------------------------------------------------------------------------

-- Give the free slots among p_slots to those who wait for them, each in its order; p_freed jobs
-- have just left. They join the end of the line. Locks come after all others, on leases and on
-- pending, and are never waited for: a slot that another transaction has in hand is passed over, as
-- is a waiting job, and a note is left for the next claim. So whoever keeps a transaction open holds
-- nobody up, and two that take slots in different orders do not hold up each other.
create function fencepost.admit(
  p_now timestamptz, p_slots bigint[], p_freed integer[], p_are_noted boolean default false
) returns table(seq bigint, id uuid, lane integer) language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  t timestamptz;
  v_got bigint[] := '{}';
begin
  if coalesce(cardinality(p_slots), 0) = 0 then
    return;
  end if;
  -- The transaction has its number before it reads the clock: `tidy` relies on it.
  perform pg_current_xact_id();
  t := coalesce(p_now, clock_timestamp());
  -- A transaction that looks at the past cannot tell what is free now.
  if current_setting('transaction_isolation') = 'read committed' then
    insert into fencepost.slot(slot)
    select distinct x.slot from unnest(p_slots) as x(slot)
    where not exists (select 1 from fencepost.slot s where s.slot = x.slot) order by x.slot
    on conflict do nothing;
    v_got := array(
      select s.slot from fencepost.slot s where s.slot = any (p_slots)
      order by s.slot for update skip locked
    );
  end if;
  -- Also if there is a note already: its slot's holder may be about to delete that one, and has
  -- looked before this transaction is committed. What was noted itself is looked at after that.
  if not p_are_noted then
    insert into fencepost.touched(slot, freed)
    select x.slot, coalesce(sum(x.freed), 0) from unnest(p_slots, p_freed) as x(slot, freed)
    where x.slot not in (select unnest(v_got)) group by x.slot;
  end if;
  if v_got = '{}' then
    return;
  end if;
  -- By statements of their own, after the lock: they see what its last holder has done.
  with noted as (
    delete from fencepost.touched n where n.slot = any (v_got) returning n.slot, n.freed
  ), freed as (
    select x.slot, sum(x.freed) as count from (
      select * from noted union all select * from unnest(p_slots, p_freed) as u(slot, freed)
    ) as x
    where (x.slot in (select unnest(v_got))) is true group by x.slot having sum(x.freed) > 0
  )
  update fencepost.slot s set active = s.active - freed.count from freed where s.slot = freed.slot;
  -- As many as the first in line allows; one behind it may allow more.
  loop
    return query
    with had as materialized (
      select s.slot, s.active, (
        select k.max_running from fencepost.pending p join fencepost.keyed k on k.seq = p.seq
        where p.slot = s.slot order by p.priority, p.run_at, p.seq limit 1
      ) as most
      from fencepost.slot s where s.slot = any (v_got)
    ), line as materialized (
      select had.slot, had.active, first.* from had cross join lateral (
        select p.seq, p.priority, p.run_at from fencepost.pending p
        where p.slot = had.slot order by p.priority, p.run_at, p.seq
        limit greatest(had.most - had.active, 0) for update skip locked
      ) as first
      where had.most > had.active
    ), ranked as (
      select line.*, k.max_running, row_number() over (
        partition by line.slot order by line.priority, line.run_at, line.seq) as n
      from line join fencepost.keyed k on k.seq = line.seq
    ), chosen as materialized (
      select x.seq, x.slot from (
        select ranked.*, bool_and(active + n <= max_running) over (
          partition by slot order by n) as fits
        from ranked
      ) as x where x.fits
    ), gone as materialized (
      delete from fencepost.pending p using chosen where p.seq = chosen.seq returning p.*
    ), in_line as (
      insert into fencepost.ready(run_at, seq, scheduled_at, lane, attempt, version)
      select t, gone.seq, t, gone.lane, gone.attempt, gone.version from gone
    ), lowered as (
      select fencepost.lower_mark(x.lane, t) from (select distinct gone.lane from gone) as x
    ), taken as (
      update fencepost.slot s set active = s.active + x.count
      from (select slot, count(*) as count from chosen group by slot) as x where s.slot = x.slot
    ), counted as (
      insert into fencepost.tally(lane, state, count)
      select gone.lane, 0, -count(*) from gone group by gone.lane
      union all
      select gone.lane, 1, count(*) from gone group by gone.lane
    )
    select j.seq, j.id, gone.lane from gone join fencepost.job j on j.seq = gone.seq
    where (select count(*) from lowered) > 0
    order by gone.slot, gone.priority, gone.run_at, gone.seq;
    exit when not found;
  end loop;
  -- Passed over, since somebody else has it in hand, who may leave it where it is.
  insert into fencepost.touched(slot, freed)
  select s.slot, 0 from fencepost.slot s
  where s.slot = any (v_got) and s.active < (
    select k.max_running from fencepost.pending p join fencepost.keyed k on k.seq = p.seq
    where p.slot = s.slot order by p.priority, p.run_at, p.seq limit 1
  );
end $$;

-- Look after the slots of which others have left a note.
create function fencepost.admit_noted(p_now timestamptz) returns void language plpgsql as $$
begin
  perform 1 from fencepost.admit(p_now, array(
    select distinct x.slot from (select slot from fencepost.touched limit 1000) as x
  ), null, true);
end $$;

-- ------------------------------------------------------------------------------------------------
-- Claiming
-- ------------------------------------------------------------------------------------------------

-- Lease the first p_limit jobs of one lane; returns them as the elements of a JSON array. They are
-- fewer if they come to more than p_bytes, but the first of a claim, which has part 1, is always
-- taken: `room` is what the next may come to, and 0 if one did not fit. p_first is the version of a
-- job's first lease, see `next_version`.
create function fencepost.pop(
  t timestamptz, p_first bigint, p_lane integer, p_limit integer, p_worker text, p_secret uuid,
  p_part integer, p_ttl bigint, p_grace bigint, p_bytes bigint,
  out popped text, out count integer, out room bigint
) language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off as $$
declare
  v_seqs bigint[];
  v_attempts integer[];
  v_versions bigint[];
  v_run_ats timestamptz[];
  v_scheduled_ats timestamptz[];
  v_is_plain boolean;
  v_policy integer;
  v_policy_too integer;
  v_size bigint;
  v_ttl bigint;
  v_timeout bigint;
begin
  with taken as materialized (
    delete from fencepost.ready where ctid = any (array(
      select r.ctid from fencepost.ready r
      where r.lane = p_lane
        and r.run_at >= (select low from fencepost.line where line.lane = p_lane)
      order by r.run_at, r.seq limit p_limit for update skip locked
    )) returning run_at, seq, scheduled_at, attempt, version
  ), chosen as materialized (
    select taken.*, job.id, job.policy, job.max_attempts, job.encoding, job.payload,
      job.payload_bytes, job.key, job.tags, job.correlation_id, job.flow, job.mode, job.created_at,
      -- Bytes are handed out in hexadecimal.
      coalesce(octet_length(job.payload), 0) + coalesce(2 * octet_length(job.payload_bytes), 0)
        + case when taken.version > 0 then fencepost.checkpoint_size(taken.seq) else 0 end as size
    -- By number, one by one: a plan made while there were few jobs would read them all, for ever.
    from taken cross join lateral (
      select * from fencepost.job where job.seq = taken.seq limit 1
    ) as job
    order by taken.run_at, taken.seq
  )
  -- Too much is not put together.
  select string_agg(
    case when (select sum(size) from chosen) <= p_bytes or (p_part = 1 and p_limit = 1) then
      concat('[', seq, ',"', id, '",', policy, ',', max_attempts, ',', attempt + 1, ',',
        greatest(version + 1, p_first), ',',
        greatest(date_part('epoch', t - coalesce(scheduled_at, created_at)) * 1e6, 0)::bigint, ',',
        coalesce(payload, 'null'),
        case when version > 0 or payload is null or key is not null or tags is not null
          or correlation_id is not null
        then concat(',', fencepost.particulars(seq, version, encoding, payload_bytes, key, tags,
          correlation_id))
        when flow is not null or mode is not null then ',null' end,
        case when flow is not null or mode is not null
        then concat(',', coalesce(to_json(flow)::text, 'null'), ',', (mode is not null)::text) end,
        ']')
    end, ','), count(*), array_agg(seq), array_agg(attempt), array_agg(version),
    array_agg(run_at), array_agg(scheduled_at), bool_and(version = 0 and scheduled_at is null),
    min(policy), max(policy), sum(size)
  into popped, count, v_seqs, v_attempts, v_versions, v_run_ats, v_scheduled_ats, v_is_plain,
    v_policy, v_policy_too, v_size
  from chosen;
  room := greatest(p_bytes - coalesce(v_size, 0), 0);
  if count = 0 then
    popped := '';
    return;
  elsif popped is null then
    insert into fencepost.ready(lane, run_at, seq, scheduled_at, attempt, version)
    select p_lane, * from unnest(v_run_ats, v_seqs, v_scheduled_ats, v_attempts, v_versions);
    select * into popped, count from fencepost.pop(
      t, p_first, p_lane, fencepost.fitting(v_seqs, p_bytes, p_part), p_worker, p_secret, p_part,
      p_ttl, p_grace, p_bytes);
    room := 0;
    return;
  end if;
  if v_is_plain then
    v_attempts := null;
    v_versions := null;
    v_run_ats := null;
    v_scheduled_ats := null;
  else
    select array_agg(x.attempt + 1 order by x.n),
      array_agg(greatest(x.version + 1, p_first) order by x.n)
    into v_attempts, v_versions
    from unnest(v_attempts, v_versions) with ordinality as x(attempt, version, n);
  end if;
  if v_policy = v_policy_too then
    select lease_ttl, timeout into v_ttl, v_timeout from fencepost.policy where policy = v_policy;
    -- One that is not there is found out by the reader of the answer.
    v_ttl := coalesce(v_ttl, p_ttl);
    v_timeout := coalesce(v_timeout, p_ttl) + p_grace;
    insert into fencepost.lease values (
      p_secret, p_part, p_lane, t, t + least(v_ttl, v_timeout) * interval '1 microsecond', p_worker,
      v_seqs, v_attempts, v_versions, v_run_ats, v_scheduled_ats, v_ttl,
      t + v_timeout * interval '1 microsecond');
  else
    -- A row for each length that leases are to have.
    insert into fencepost.lease
    select p_secret, p_part + (row_number() over ())::integer - 1, p_lane, t,
      t + least(x.ttl, x.timeout) * interval '1 microsecond', p_worker,
      array_agg(x.seq order by x.n),
      case when not v_is_plain then array_agg(x.attempt order by x.n) end,
      case when not v_is_plain then array_agg(x.version order by x.n) end,
      case when not v_is_plain then array_agg(x.run_at order by x.n) end,
      case when not v_is_plain then array_agg(x.scheduled_at order by x.n) end,
      x.ttl, t + x.timeout * interval '1 microsecond'
    from (
      select held.*, coalesce(policy.lease_ttl, p_ttl) as ttl,
        coalesce(policy.timeout, p_ttl) + p_grace as timeout
      from unnest(v_seqs, v_attempts, v_versions, v_run_ats, v_scheduled_ats) with ordinality
        as held(seq, attempt, version, run_at, scheduled_at, n)
      join fencepost.job on job.seq = held.seq
      left join fencepost.policy on policy.policy = job.policy
    ) as x group by x.ttl, x.timeout;
  end if;
  insert into fencepost.tally(lane, state, count)
  values (p_lane, 1, -pop.count), (p_lane, 3, pop.count);
end $$;

-- What few jobs have; p_last is the version of the lease before, 0 if there was none.
create function fencepost.particulars(
  p_seq bigint, p_last bigint, p_encoding smallint, p_bytes bytea, p_key text, p_tags jsonb,
  p_correlation_id text
) returns text language plpgsql stable as $$
declare
  s fencepost.saved;
begin
  if p_last > 0 then
    select * into s from fencepost.saved where seq = p_seq;
  end if;
  return json_build_object(
    'encoding', p_encoding, 'bytes', encode(p_bytes, 'hex'), 'key', p_key, 'tags', p_tags,
    'correlation_id', p_correlation_id, 'last', p_last, 'checkpoint_encoding', s.encoding,
    'checkpoint', s.checkpoint, 'checkpoint_bytes', encode(s.checkpoint_bytes, 'hex')
  )::text;
end $$;

-- What the checkpoint of a job comes to in the answer to a claim.
create function fencepost.checkpoint_size(p_seq bigint) returns integer language sql stable as $$
  select coalesce((
    select coalesce(octet_length(checkpoint), 0) + coalesce(2 * octet_length(checkpoint_bytes), 0)
    from fencepost.saved where seq = p_seq
  ), 0)
$$;

-- How many of the first of these jobs come to no more than p_bytes, as `pop` counts them; one at the
-- least if they are the first of a claim.
create function fencepost.fitting(p_seqs bigint[], p_bytes bigint, p_part integer)
returns integer language sql stable as $$
  select greatest(count(*) filter (where total <= p_bytes), (p_part = 1)::integer)::integer from (
    select sum(fencepost.checkpoint_size(x.seq) + coalesce(octet_length(j.payload), 0)
      + coalesce(2 * octet_length(j.payload_bytes), 0)) over (order by x.n) as total
    from unnest(p_seqs) with ordinality as x(seq, n) join fencepost.job j on j.seq = x.seq
  ) as line
$$;

-- One answer to a claim, as JSON: {"todo": …} when something else must come first, or
-- {"now": …, "jobs": [[lane, [job, …]], …], "order": [seq, …] or null, "promoted": n, "held": n, "wait": …}.
-- p_lanes are the lanes to serve, by queue and then by priority; p_queues says which queue each
-- belongs to, and p_names names the queues. p_turns is a row of turns, which is dealt over and over,
-- or its beginning if no more can be dealt; null for a turn a queue that has claimable jobs, in
-- the order of p_names and from turn number p_turn on. p_types are the types to serve, null for all;
-- with p_is_any all queues are, else those of p_names. p_known is the sum of the numbers of the lanes
-- of these that the caller knows, or null if it has just looked: no other lanes are looked at, however
-- many there are. p_chores is what the caller can still do: 4 resolve,
-- 2 recover, 1 expire, or the sum of some. With p_promote 0, it leaves alone what is due and the notes
-- on slots; "failed" says why that was not possible. A lease lasts p_grace longer than its job's
-- execution timeout at the most. The jobs come to p_bytes at the most, or are one.
create function fencepost.claim(
  p_now timestamptz, p_worker text, p_secret uuid, p_ttl bigint, p_grace bigint, p_bytes bigint,
  p_known bigint, p_chores integer, p_promote integer, p_lanes integer[], p_priorities integer[],
  p_queues integer[], p_names text[], p_turns integer[], p_turn bigint, p_limit integer,
  p_types text[], p_is_any boolean
) returns text language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  m fencepost.pulse;
  ahead record;
  v_promoted integer := 0;
  v_held integer := 0;
  v_failed text;
  v_limit integer := p_limit;
  v_rooms integer[];
  v_paused integer[];
  v_turns integer[] := p_turns;
  v_order integer[];
  v_shares integer[];
  v_taken integer[];
  v_jobs text := '';
  v_seqs bigint[];
  v_part integer := 1;
  v_bytes bigint := p_bytes;
  v_first bigint;
  v_left integer;
  v_wanted integer;
  v_before integer;
  v_room integer;
  v_popped record;
  v_caps integer[];
  v_spent integer[];
  v_opens_at timestamptz;
  a record;
  p record;
  g record;
  q integer;
  is_merged boolean := false;
  -- So many jobs of a lease fit into a page with the rest of its row.
  v_most constant integer := 400;
begin
  m := fencepost.marks();
  -- One look at everything that could come in between.
  select
    p_known <> case
      when p_types is null and p_is_any then (select coalesce(sum(lane), 0) from fencepost.lane)
      when p_types is null then (
        select coalesce(sum(lane), 0) from fencepost.lane where queue = any (p_names))
      when p_is_any then (
        select coalesce(sum(lane), 0) from fencepost.lane where type = any (p_types))
      else (
        select coalesce(sum(lane), 0) from fencepost.lane
        where queue = any (p_names) and type = any (p_types))
    end as has_lanes,
    (select min(expires_at) from fencepost.lease
     where expires_at >= m.lease_mark and expires_at <= t) as expires_at,
    (select min(run_at) from fencepost.delayed where run_at >= m.due_mark) as run_at,
    -- In its order, or a plan made while there were few jobs would read them all, for ever.
    p_chores & 1 > 0 and (
      select true from fencepost.job where expires_at >= m.lifetime_mark and expires_at <= t
        and not exists (select 1 from fencepost.done where done.seq = job.seq)
      order by expires_at limit 1
    ) is not null as has_outlived,
    exists (select 1 from fencepost.pause) as has_pauses,
    exists (select 1 from fencepost.max_running) as has_limits,
    exists (select 1 from fencepost.rate) as has_rates,
    exists (select 1 from fencepost.touched) as has_touched,
    p_chores & 4 > 0 and exists (select 1 from fencepost.unsure) as has_unsure
  into ahead;
  if ahead.has_lanes then
    return '{"todo":"lanes"}';
  elsif p_chores & 2 > 0 and ahead.expires_at <= t then
    return '{"todo":"recover"}';
  elsif ahead.has_unsure then
    return '{"todo":"resolve"}';
  elsif ahead.has_outlived then
    return '{"todo":"expire"}';
  end if;
  if p_promote > 0 and (ahead.run_at <= t or ahead.has_touched) then
    begin
      if ahead.run_at <= t then
        select count(*), count(*) filter (where move ->> 3 = '0') into v_promoted, v_held
        from json_array_elements(fencepost.promote(t, p_promote)) as move;
        ahead.run_at := (select min(run_at) from fencepost.delayed where run_at >= m.due_mark);
      end if;
      if ahead.has_touched then
        perform fencepost.admit_noted(p_now);
      end if;
    exception when others then
      v_promoted := 0;
      v_held := 0;
      v_failed := sqlerrm;
    end;
  end if;
  if ahead.has_pauses then
    v_paused := array(
      select x.lane from unnest(p_lanes) as x(lane) where (
        select exists (select 1 from fencepost.pause where scope = 'queue' and name = l.queue)
          or exists (select 1 from fencepost.pause where scope = 'type' and name = l.type)
        from fencepost.lane l where l.lane = x.lane
      )
    );
  end if;
  if v_limit > 0 and ahead.has_limits then
    perform fencepost.lock_limits(p_names);
    v_limit := least(v_limit, fencepost.room(t, 'app', ''));
    v_rooms := array(
      select fencepost.room(t, 'queue', name) from unnest(p_names) with ordinality as x(name, n)
      order by n
    );
  end if;
  if ahead.has_rates then
    select * into a from fencepost.allow(p_now, p_lanes, v_paused);
    t := a.t;
    v_spent := array_fill(0, array[cardinality(p_lanes)]);
    v_paused := v_paused || a.closed;
  end if;
  v_left := greatest(v_limit, 0);
  -- It may have been held up since: a lease has its whole time, and begins after the one before.
  if not ahead.has_rates then
    t := coalesce(p_now, clock_timestamp());
  end if;
  v_first := (extract(epoch from t) * 1000000)::bigint;
  if cardinality(p_lanes) = 1 and cardinality(p_names) = 1 then
    -- Most apps: one type of one queue at one priority.
    v_wanted := least(v_left, coalesce(v_rooms[1], v_left));
    if ahead.has_rates then
      v_wanted := least(v_wanted, a.rooms[a.places[1]]);
    end if;
    v_left := 0;
    while v_wanted > 0 and (v_paused is null or p_lanes[1] <> all (v_paused)) loop
      v_popped := fencepost.pop(
        t, v_first, p_lanes[1], least(v_wanted, v_most), p_worker, p_secret, v_part, p_ttl, p_grace,
        v_bytes);
      exit when v_popped.count = 0;
      v_jobs := v_jobs || case when v_jobs = '' then '[' else ',[' end || p_lanes[1] || ',['
        || v_popped.popped || ']]';
      v_part := v_part + 1000;
      v_spent[1] := v_spent[1] + v_popped.count;
      v_bytes := v_popped.room;
      exit when v_popped.count < v_most or v_bytes = 0;
      v_wanted := v_wanted - v_popped.count;
    end loop;
  end if;
  if v_left > 0 then
    v_taken := array_fill(0, array[cardinality(p_names)]);
    v_shares := v_taken;
    if v_turns is null then
      v_turns := fencepost.open_queues(p_lanes, p_queues, v_paused, p_turn);
      v_order := v_turns;
    end if;
    for turn in 1..cardinality(v_turns) loop
      q := v_turns[turn];
      v_shares[q] := v_shares[q] + v_left / cardinality(v_turns)
        + case when turn <= v_left % cardinality(v_turns) then 1 else 0 end;
    end loop;
  end if;
  -- First everybody's share, then what others left over.
  for round in 1..2 loop
    exit when v_left <= 0;
    for place in 1..coalesce(cardinality(v_order), cardinality(p_names)) loop
      exit when v_left <= 0;
      q := coalesce(v_order[place], place);
      v_room := coalesce(v_rooms[q], v_left + v_taken[q]) - v_taken[q];
      v_wanted := least(case round when 1 then v_shares[q] else v_left end, v_room, v_left);
      continue when v_wanted <= 0 or (round = 2 and v_taken[q] < v_shares[q]);
      for g in
        select array_agg(lane order by n) as lanes, array_agg(n order by n) as numbers
        from unnest(p_lanes, p_priorities, p_queues) with ordinality as x(lane, priority, queue, n)
        where queue = q and (v_paused is null or lane <> all (v_paused))
        group by priority order by priority
      loop
        while v_wanted > 0 loop
          v_before := v_wanted;
          if ahead.has_rates then
            v_caps := fencepost.caps(g.numbers, a.places, a.rooms, v_spent);
          end if;
          for p in select * from fencepost.split(g.lanes, least(v_wanted, v_most), v_caps) loop
            v_popped := fencepost.pop(
              t, v_first, p.lane, p.count, p_worker, p_secret, v_part, p_ttl, p_grace,
              v_bytes);
            if v_popped.room = 0 then  -- that was the last
              v_left := v_popped.count;
              v_wanted := v_popped.count;
            end if;
            v_bytes := v_popped.room;
            exit when v_bytes = 0 and v_popped.count = 0;
            continue when v_popped.count = 0;
            is_merged := is_merged or v_jobs <> '';
            v_jobs := v_jobs || case when v_jobs = '' then '[' else ',[' end || p.lane || ',['
              || v_popped.popped || ']]';
            v_part := v_part + 1000;
            v_wanted := v_wanted - v_popped.count;
            v_left := v_left - v_popped.count;
            v_taken[q] := v_taken[q] + v_popped.count;
            if ahead.has_rates then
              v_room := array_position(p_lanes, p.lane);
              v_spent[v_room] := v_spent[v_room] + v_popped.count;
            end if;
            exit when v_bytes = 0;
          end loop;
          exit when v_before - v_wanted < least(v_before, v_most);
        end loop;
      end loop;
    end loop;
  end loop;
  if ahead.has_rates then
    v_opens_at := fencepost.use(t, p_lanes, a.types, a.rooms, a.moments, a.places, v_spent, a.shut);
  end if;
  if is_merged then
    v_seqs := array(
      select x.seq from fencepost.lease e
      join unnest(p_lanes, p_priorities, p_queues) with ordinality as l(lane, priority, queue, n)
        on l.lane = e.lane
      cross join lateral unnest(e.seqs, e.run_ats) as x(seq, run_at)
      join fencepost.job j on j.seq = x.seq
      where e.secret = p_secret
      order by coalesce(array_position(v_order, l.queue), l.queue), l.priority,
        coalesce(x.run_at, j.run_at), x.seq
    );
  end if;
  -- When the next lease ends, only one who waits is told: beside an old snapshot, the look steps over
  -- all leases that ended early in the last while.
  if v_jobs = '' and ahead.expires_at is null then
    ahead.expires_at := (select min(expires_at) from fencepost.lease where expires_at > t);
  end if;
  return '{"now":' || v_first
    || ',"promoted":' || v_promoted || ',"held":' || v_held || ',"jobs":[' || v_jobs || ']'
    || case when v_failed is null then '' else ',"failed":' || to_json(v_failed) end
    || ',"order":' || coalesce(array_to_json(v_seqs)::text, 'null')
    || ',"wait":' || coalesce(
      extract(epoch from least(ahead.run_at, ahead.expires_at, v_opens_at) - t)::text, 'null')
    || '}';
end $$;

-- The queues that have something to give, in their order but from turn number p_turn on.
create function fencepost.open_queues(
  p_lanes integer[], p_queues integer[], p_paused integer[], p_turn bigint
) returns integer[] language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_bitmapscan = off as $$
declare
  v_open integer[];
  v_start integer;
begin
  v_open := array(
    select distinct x.queue from unnest(p_lanes, p_queues) as x(lane, queue)
    join fencepost.line l on l.lane = x.lane
    cross join lateral (
      select 1 from fencepost.ready r
      where r.lane = l.lane and r.run_at >= l.low order by r.run_at, r.seq limit 1
    ) as first
    where p_paused is null or x.lane <> all (p_paused)
    order by x.queue
  );
  v_start := p_turn % greatest(cardinality(v_open), 1);
  return v_open[v_start + 1:] || v_open[:v_start];
end $$;

-- How many of the first p_limit jobs, by due time, stand in each of several lanes, if no more than
-- p_caps says are taken from each; null is no cap.
create function fencepost.split(p_lanes integer[], p_limit integer, p_caps integer[])
returns table(lane integer, count integer) language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_bitmapscan = off as $$
begin
  if cardinality(p_lanes) = 1 then
    return query select p_lanes[1], least(p_limit, p_caps[1])
    where least(p_limit, p_caps[1]) > 0;
    return;
  end if;
  -- The lane of the first comes first: a claim may be full before it has gone through all.
  return query
  select first.lane, count(*)::integer from (
    select l.lane, line.run_at, line.seq from unnest(p_lanes) with ordinality as x(lane, n)
    join fencepost.line l on l.lane = x.lane
    cross join lateral (
      select r.run_at, r.seq from fencepost.ready r
      where r.lane = l.lane and r.run_at >= l.low
      order by r.run_at, r.seq limit least(p_limit, p_caps[x.n])
    ) as line
    order by line.run_at, line.seq limit p_limit
  ) as first group by first.lane order by min(first.run_at), min(first.seq);
end $$;

-- Have whoever claims under the limit of all jobs, or of one of these queues, wait for whoever did
-- before. What is counted by later statements has everything that was committed meanwhile. One that
-- was set anew while it was waited for is waited for in turn.
create function fencepost.lock_limits(p_queues text[]) returns void language plpgsql as $$
declare
  v_locked integer;
begin
  loop
    perform 1 from fencepost.max_running
    where scope = 'app' or (scope = 'queue' and name = any (p_queues))
    order by scope collate "C", name collate "C" for no key update;
    get diagnostics v_locked = row_count;
    exit when v_locked = (
      select count(*) from fencepost.max_running
      where scope = 'app' or (scope = 'queue' and name = any (p_queues)));
  end loop;
end $$;

-- Have whoever starts jobs of these types, or changes how many may, wait for whoever did before.
create function fencepost.lock_rates(p_types text[]) returns void language plpgsql as $$
declare
  v_locked integer;
begin
  loop
    perform 1 from fencepost.rate where type = any (p_types)
    order by type collate "C" for no key update;
    get diagnostics v_locked = row_count;
    exit when v_locked = (select count(*) from fencepost.rate where type = any (p_types));
  end loop;
end $$;

-- What a claim may start. `types` are those that have a rate and claimable jobs, `rooms` how many
-- of each may start (null: any number), `moments` when a start is written down. `places` says of
-- each lane where its type stands among these, null if nowhere. From `closed` lanes nothing may be
-- taken; `shut` are those that were so anyway. The clock is read under the lock: whoever gets it
-- later counts at a later time.
create function fencepost.allow(
  p_now timestamptz, p_lanes integer[], p_paused integer[],
  out t timestamptz, out types text[], out rooms integer[], out moments bigint[],
  out places integer[], out closed integer[], out shut integer[]
) language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_bitmapscan = off as $$
declare
  v_now bigint;
  v_is_ahead boolean;
begin
  shut := coalesce(p_paused, '{}');
  types := array(
    select distinct l.type from unnest(p_lanes) as x(lane)
    join fencepost.line l on l.lane = x.lane join fencepost.rate on rate.type = l.type
    cross join lateral (
      select 1 from fencepost.ready r
      where r.lane = l.lane and r.run_at >= l.low order by r.run_at, r.seq limit 1
    ) as first
    where x.lane <> all (shut) order by l.type
  );
  perform fencepost.lock_rates(types);
  t := coalesce(p_now, clock_timestamp());
  v_now := (extract(epoch from t) * 1000000)::bigint;
  for look in 1..2 loop
    select array_agg(greatest(r.count - used.count, 0) order by x.n),
      array_agg((v_now + r.grain_us - 1) / r.grain_us * r.grain_us order by x.n),
      bool_or(used.newest > (v_now + r.grain_us - 1) / r.grain_us * r.grain_us)
    into rooms, moments, v_is_ahead
    from unnest(types) with ordinality as x(type, n)
    left join fencepost.rate r on r.type = x.type
    left join lateral (
      select coalesce(sum(u.count), 0)::integer as count, max(u.at) as newest
      from fencepost.rate_use u
      where u.type = r.type and u.at > v_now - r.window_us
    ) as used on true;
    exit when v_is_ahead is not true;
    perform fencepost.set_uses_back(types, moments);
  end loop;
  -- One whose first job has come only now was not waited for: it is left to the next claim.
  select array_agg(array_position(types, l.type) order by x.n),
    coalesce(array_agg(x.lane) filter (
      where rooms[array_position(types, l.type)] = 0
        or (r.type is not null and l.type <> all (types))
    ), '{}')
  into places, closed
  from unnest(p_lanes) with ordinality as x(lane, n)
  join fencepost.lane l on l.lane = x.lane left join fencepost.rate r on r.type = l.type;
end $$;

-- The clock was set back: move the uses of each type back by as much as its newest lies ahead of its
-- moment, see core/limits/rates.py. Whoever calls it holds the locks of the types.
create function fencepost.set_uses_back(p_types text[], p_moments bigint[]) returns void
language plpgsql as $$
declare
  v_type text;
  v_ahead bigint;
  v_ats bigint[];
  v_counts integer[];
begin
  for place in 1..cardinality(p_types) loop
    v_type := p_types[place];
    select max(at) - p_moments[place], array_agg(at), array_agg(count)
    into v_ahead, v_ats, v_counts from fencepost.rate_use where type = v_type;
    continue when v_ahead is null or v_ahead <= 0;
    -- In two statements: moved one by one, they would meet those that have not been moved yet.
    delete from fencepost.rate_use where type = v_type;
    insert into fencepost.rate_use(type, at, count)
    select v_type, x.at - v_ahead, x.count from unnest(v_ats, v_counts) as x(at, count);
  end loop;
end $$;

-- How many more may be taken from each of some lanes, see `allow`; p_spent is what was, by lane.
create function fencepost.caps(
  p_numbers bigint[], p_places integer[], p_rooms integer[], p_spent integer[]
) returns integer[] language sql immutable as $$
  select array_agg(p_rooms[p_places[n]] - (
    select sum(s.spent) from unnest(p_places, p_spent) as s(place, spent)
    where s.place = p_places[n]
  )::integer order by number)
  from unnest(p_numbers) with ordinality as x(n, number)
$$;

-- Write down what a claim has started, see `allow`. Returns when more may start, if there are jobs
-- in these lanes that may not now.
create function fencepost.use(
  t timestamptz, p_lanes integer[], p_types text[], p_rooms integer[], p_moments bigint[],
  p_places integer[], p_spent integer[], p_shut integer[]
) returns timestamptz language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_bitmapscan = off as $$
declare
  v_now bigint := (extract(epoch from t) * 1000000)::bigint;
  v_full text[];
begin
  insert into fencepost.rate_use as u(type, at, count)
  select p_types[x.place], p_moments[x.place], sum(x.spent)
  from unnest(p_places, p_spent) as x(place, spent)
  where x.spent > 0 and p_moments[x.place] is not null group by x.place
  on conflict (type, at) do update set count = u.count + excluded.count;
  v_full := array(
    select x.type from unnest(p_types, p_rooms) with ordinality as x(type, room, place)
    where x.room <= (
      select coalesce(sum(s.spent), 0) from unnest(p_places, p_spent) as s(place, spent)
      where s.place = x.place
    )
  );
  if v_full = '{}' then
    return null;
  end if;
  return (
    select 'epoch'::timestamptz
      + min(fencepost.rate_opens_at(x.type, v_now)) * interval '1 microsecond'
    from (
      select distinct l.type from unnest(p_lanes) as given(lane)
      join fencepost.line l on l.lane = given.lane
      cross join lateral (
        select 1 from fencepost.ready r
        where r.lane = l.lane and r.run_at >= l.low order by r.run_at, r.seq limit 1
      ) as first
      where l.type = any (v_full) and l.lane <> all (p_shut)
    ) as x
  );
end $$;

-- When a job of the type can start, in microseconds of 1970; null if one can now.
create function fencepost.rate_opens_at(p_type text, p_now bigint) returns bigint
language sql stable as $$
  select u.at + u.window_us from (
    select seen.at, seen.window_us, seen.allowed, sum(seen.count) over () as used,
      sum(seen.count) over (order by seen.at) as aged
    from (
      select r.window_us, r.count as allowed, rate_use.count, rate_use.at - greatest(
        max(rate_use.at) over () - (p_now + r.grain_us - 1) / r.grain_us * r.grain_us, 0) as at
      from fencepost.rate r join fencepost.rate_use on rate_use.type = r.type
      where r.type = p_type and rate_use.at > p_now - r.window_us
    ) as seen where seen.at > p_now - seen.window_us
  ) as u where u.used >= u.allowed and u.used - u.aged < u.allowed order by u.at limit 1
$$;

-- Set rates, p_rates is [{"type", "count", "window_us", "grain_us"}, …], or clear those without a
-- count. One that is as it was is left alone; a changed one keeps what the old one counts.
create function fencepost.set_rates(p_now timestamptz, p_rates json) returns void
language plpgsql as $$
declare
  v_types text[] := array(
    select g.type
    from json_to_recordset(p_rates) as g(type text, count integer, window_us bigint)
    left join fencepost.rate r on r.type = g.type
    where (g.count, g.window_us) is distinct from (r.count, r.window_us)
  );
  v_now bigint;
begin
  if v_types = '{}' then
    return;
  end if;
  perform fencepost.lock_rates(v_types);
  v_now := (extract(epoch from coalesce(p_now, clock_timestamp())) * 1000000)::bigint;
  delete from fencepost.rate_use u using fencepost.rate r
  where u.type = any (v_types) and r.type = u.type and u.at <= v_now - r.window_us;
  insert into fencepost.rate(type, count, window_us, grain_us)
  select g.type, g.count, g.window_us, g.grain_us from json_to_recordset(p_rates)
    as g(type text, count integer, window_us bigint, grain_us bigint)
  where g.type = any (v_types) and g.count is not null
  on conflict (type) do update
  set count = excluded.count, window_us = excluded.window_us, grain_us = excluded.grain_us;
  with cleared as (
    delete from fencepost.rate where type in (
      select g.type from json_to_recordset(p_rates) as g(type text, count integer)
      where g.type = any (v_types) and g.count is null
    ) returning type
  )
  delete from fencepost.rate_use where type in (select type from cleared);
end $$;

-- How many more jobs may run; null if there is no such limit.
create function fencepost.room(t timestamptz, p_scope text, p_name text) returns integer
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_max integer;
  v_running integer;
begin
  select max_running into v_max from fencepost.max_running where scope = p_scope and name = p_name;
  if not found then
    return null;
  end if;
  select coalesce(sum(cardinality(lease.seqs)), 0) into v_running from fencepost.lease
  where lease.expires_at > t and (p_scope = 'app' or lease.lane = any (array(
    select lane.lane from fencepost.lane where lane.queue = p_name)));
  return greatest(v_max - v_running, 0);
end $$;

-- Make due jobs claimable, as far as their concurrency keys allow; returns [[id, lane, state that
-- was, state], …].
create function fencepost.promote(t timestamptz, p_limit integer) returns json language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_bitmapscan = off as $$
declare
  v_mark timestamptz := (fencepost.marks()).due_mark;
  v_moved json;
  v_slots bigint[];
  v_lowered bigint;
  v_entered uuid[];
begin
  perform fencepost.hold_marks();
  with due as materialized (
    delete from fencepost.delayed where ctid = any (array(
      select d.ctid from fencepost.delayed d
      where d.run_at >= v_mark and d.run_at <= t
      order by d.run_at, d.seq limit greatest(p_limit, 0) for update skip locked
    )) returning *
  ), placed as materialized (
    select due.*, keyed.slot from due left join fencepost.keyed on keyed.seq = due.seq
  ), moved as (
    insert into fencepost.ready(lane, run_at, seq, scheduled_at, attempt, version)
    select lane, run_at, seq, t, attempt, version from placed where slot is null
  ), held_up as (
    insert into fencepost.pending(
      seq, run_at, since, scheduled_at, lane, attempt, version, missing, slot, priority)
    -- Should the row of its lane be missing, a job is no less to be put down.
    select seq, run_at, t, scheduled_at, placed.lane, attempt, version, 0, slot,
      coalesce(lane.priority, 2)
    from placed left join fencepost.lane on lane.lane = placed.lane where slot is not null
  ), counted as (
    insert into fencepost.tally(lane, state, count)
    select lane, state, -count(*) from placed group by lane, state
    union all
    select lane, 1, count(*) from placed where slot is null group by lane
    union all
    select lane, 0, count(*) from placed where slot is not null group by lane
  ), lowered as (
    select fencepost.lower_mark(first.lane, first.run_at)
    from (select lane, min(run_at) as run_at from due group by lane) as first
  )
  select json_agg(json_build_array(job.id, placed.lane, placed.state,
      case when placed.slot is null then 1 else 0 end) order by placed.run_at, placed.seq),
    array_agg(placed.slot) filter (where placed.slot is not null), (select count(*) from lowered)
  into v_moved, v_slots, v_lowered from placed join fencepost.job on job.seq = placed.seq;
  if v_slots is not null then
    v_entered := array(select id from fencepost.admit(t, v_slots, null));
    v_moved := (
      select json_agg(case when (x.value ->> 0)::uuid = any (v_entered)
        then json_build_array(x.value -> 0, x.value -> 1, x.value -> 2, 1) else x.value end
        order by x.n)
      from json_array_elements(v_moved) with ordinality as x(value, n)
    );
  end if;
  return coalesce(v_moved, '[]');
end $$;

-- ------------------------------------------------------------------------------------------------
-- Writes under a lease. The one rule (INV-2): the secret names a lease that holds the job and has
-- not run out.
-- ------------------------------------------------------------------------------------------------

-- Lock the rows of a lease that hold some of p_seqs at t, and return them. Rows that hold none of
-- them are left alone. Whoever had a row in hand may have put some of its jobs into a row of their
-- own, which a look that waited for it cannot see; so what was not found is looked for again, by a
-- later statement, until that finds no more either.
create function fencepost.hold_leases(t timestamptz, p_secret uuid, p_seqs bigint[])
returns setof fencepost.lease language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  v_rest bigint[] := p_seqs;
  v_count integer;
  e fencepost.lease;
begin
  -- What was claimed from one lane and ends as it was claimed, which is nearly everything.
  select * into e from fencepost.lease
  where secret = p_secret and part = 1 and expires_at > t and seqs = p_seqs for update;
  if found then
    return next e;
    return;
  end if;
  loop
    for e in
      select * from fencepost.lease where secret = p_secret and expires_at > t
        and exists (select 1 from unnest(seqs) as x where (x in (select unnest(v_rest))) is true)
      order by part for update
    loop
      return next e;
      v_count := least(cardinality(v_rest), cardinality(e.seqs));
      if e.seqs[1:v_count] = v_rest[1:v_count] then
        v_rest := v_rest[v_count + 1:];
      else
        v_rest := array(
          select x.seq from unnest(v_rest) with ordinality as x(seq, n)
          where x.seq not in (select unnest(e.seqs)) order by x.n
        );
      end if;
    end loop;
    exit when v_rest = '{}' or not exists (
      select 1 from fencepost.lease where secret = p_secret and expires_at > t
        and exists (select 1 from unnest(seqs) as x where (x in (select unnest(v_rest))) is true)
    );
  end loop;
end $$;

-- Lock the rows of job of those that p_groups names, see `complete`, and that seem to be held at t, by
-- number: no job ends by its age that may have ended in a transaction of a caller's. Before their
-- leases, as whoever ends jobs by their age does.
create function fencepost.hold_jobs(t timestamptz, p_groups json) returns void language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  g json;
  v_parts text[];
  v_held bigint[] := '{}';
begin
  for g in select value from json_array_elements(p_groups) loop
    v_parts := array(select value::text from json_array_elements(g));
    v_held := v_held || array(
      select x.seq from fencepost.lease e cross join lateral unnest(e.seqs) as x(seq)
      where e.secret = btrim(v_parts[1], '"')::uuid and e.expires_at > t
        and (x.seq in (select unnest(btrim(v_parts[2], '"')::bigint[]))) is true
    );
  end loop;
  perform 1 from fencepost.job where seq = any (v_held) order by seq for no key update;
end $$;

-- Lock what a settlement of several kinds is about, before each kind is recorded by itself: all its
-- leases, by secret, then all that waits behind p_failed or for p_completed. p_groups is
-- [[secret, "{seq,…}"], …], by secret.
create function fencepost.hold_all(
  p_now timestamptz, p_groups json, p_is_joined boolean, p_failed bigint[], p_completed bigint[]
) returns void language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  h record;
begin
  if p_is_joined then
    perform fencepost.hold_jobs(t, p_groups);
  end if;
  for h in
    select (value ->> 0)::uuid as secret, (value ->> 1)::bigint[] as seqs
    from json_array_elements(p_groups)
  loop
    perform 1 from fencepost.hold_leases(t, h.secret, h.seqs);
  end loop;
  -- By a statement of its own, after the locks: it sees who came to wait before they were had.
  if not p_is_joined and p_failed || p_completed <> '{}' then
    perform fencepost.lock_behind(
      p_failed, array(select child from fencepost.dependency where parent = any (p_completed)));
  end if;
end $$;

-- Record successes; p_groups is [[secret, "{seq,…}", [result, …] or null], …], by secret. Returns
-- null if that is all there is to say, or {"lost": [[secret, seq], …] of those that were not held,
-- "moved": of those that waited for them, see `count_down`, "told": of webhooks, see `call_back`}.
-- With p_is_joined, in a transaction of a caller's, nobody's rows are locked but those of the jobs
-- themselves: a note is left for the next claim, of who waits for them and of their slots.
create function fencepost.complete(
  p_now timestamptz, p_groups json, p_is_joined boolean default false
) returns json
language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  g json;
  e fencepost.lease;
  v_parts text[];
  v_secret uuid;
  v_seqs bigint[];
  v_results text[];
  v_done bigint[];
  v_lost json[];
  v_count integer;
  v_version bigint;
  v_ended bigint[] := '{}';
  v_moved json;
  v_slots bigint[];
  v_told json;
begin
  if p_is_joined then
    perform fencepost.hold_jobs(t, p_groups);
  end if;
  for g in select value from json_array_elements(p_groups) loop
    -- Element by element: the operator -> would unescape every string, and some cannot be.
    v_parts := array(select value::text from json_array_elements(g));
    v_secret := btrim(v_parts[1], '"')::uuid;
    v_seqs := btrim(v_parts[2], '"')::bigint[];
    v_results := null;
    if v_parts[3] <> 'null' then
      v_results := array(select value::text from json_array_elements(v_parts[3]::json));
    end if;
    for e in select * from fencepost.hold_leases(t, v_secret, v_seqs) loop
      v_version := fencepost.next_version(0, e.started_at);
      v_count := least(cardinality(v_seqs), cardinality(e.seqs));
      if e.seqs[1:v_count] = v_seqs[1:v_count] then
        -- As they were claimed, so they end: nearly always.
        insert into fencepost.done(
          seq, ended_at, started_at, scheduled_at, secret, attempt, version, state, encoding,
          worker, result)
        select x.seq, t, e.started_at, x.scheduled_at, v_secret, coalesce(x.attempt, 1),
          coalesce(x.version, v_version), 5, 0, e.worker, coalesce(x.result, 'null')
        from unnest(v_seqs[1:v_count], e.attempts[1:v_count], e.versions[1:v_count],
          e.scheduled_ats[1:v_count], v_results[1:v_count])
          as x(seq, attempt, version, scheduled_at, result);
        v_ended := v_ended || v_seqs[1:v_count];
        v_seqs := v_seqs[v_count + 1:];
        v_results := v_results[v_count + 1:];
        if v_count = cardinality(e.seqs) then
          delete from fencepost.lease where secret = e.secret and part = e.part;
        else
          update fencepost.lease set seqs = e.seqs[v_count + 1:],
            attempts = e.attempts[v_count + 1:], versions = e.versions[v_count + 1:],
            run_ats = e.run_ats[v_count + 1:], scheduled_ats = e.scheduled_ats[v_count + 1:]
          where secret = e.secret and part = e.part;
        end if;
      else
        with ended as (
          insert into fencepost.done(
            seq, ended_at, started_at, scheduled_at, secret, attempt, version, state, encoding,
            worker, result)
          select held.seq, t, e.started_at, held.scheduled_at, v_secret, coalesce(held.attempt, 1),
            coalesce(held.version, v_version), 5, 0, e.worker, coalesce(given.result, 'null')
          from unnest(e.seqs, e.attempts, e.versions, e.scheduled_ats)
            as held(seq, attempt, version, scheduled_at)
          join unnest(v_seqs, v_results) as given(seq, result) on given.seq = held.seq
          returning seq
        )
        select array_agg(seq) into v_done from ended;
        v_count := coalesce(cardinality(v_done), 0);
        if v_count > 0 then
          v_ended := v_ended || v_done;
          perform fencepost.shrink(e, v_done);
          select coalesce(array_agg(x.seq order by x.n), '{}'), array_agg(x.result order by x.n)
          into v_seqs, v_results
          from unnest(v_seqs, v_results) with ordinality as x(seq, result, n)
          where x.seq <> all (v_done);
        end if;
      end if;
      if v_count > 0 then
        insert into fencepost.tally(lane, state, count)
        values (e.lane, 3, -v_count), (e.lane, 5, v_count);
      end if;
    end loop;
    if v_seqs <> '{}' then
      v_lost := v_lost || array(select json_build_array(v_secret, x) from unnest(v_seqs) as x);
    end if;
  end loop;
  v_slots := array(select slot from fencepost.keyed where seq = any (v_ended));
  if p_is_joined then
    -- Above read committed, an old snapshot does not show who came to wait since.
    insert into fencepost.unsure(seq, has_ended)
    select x, true from unnest(v_ended) as x
    where current_setting('transaction_isolation') <> 'read committed'
      or exists (select 1 from fencepost.dependency where parent = x);
    insert into fencepost.touched(slot, freed) select x, 1 from unnest(v_slots) as x;
    v_slots := '{}';
  -- By a statement of its own, after the locks: it sees who came to wait before they were had.
  elsif exists (select 1 from fencepost.dependency where parent = any (v_ended)) then
    v_moved := fencepost.let_go(p_now, v_ended);
  end if;
  if v_slots <> '{}' or v_moved is not null then
    v_moved := fencepost.admit_after(p_now, v_slots, v_moved);
  end if;
  if exists (select 1 from fencepost.callback where seq = any (v_ended)) then
    v_told := fencepost.call_back(p_now, v_ended);
  end if;
  if v_lost is null and v_moved is null and v_told is null then
    return null;
  end if;
  return json_build_object('lost', array_to_json(v_lost), 'moved', v_moved, 'told', v_told);
end $$;

-- Give away the slots that a job each has left, and those for which jobs wait that p_moved, the
-- answer of `count_down`, names. Returns [[id, lane, state], …] of all that have moved, or null.
create function fencepost.admit_after(p_now timestamptz, p_left bigint[], p_moved json)
returns json language plpgsql as $$
declare
  v_held bigint[] := array(
    select (value ->> 3)::bigint from json_array_elements(p_moved)
    where json_array_length(value) = 4
  );
begin
  if p_left = '{}' and v_held = '{}' then
    return p_moved;
  end if;
  return (
    select json_agg(moved) from (
      select value as moved from json_array_elements(p_moved) where json_array_length(value) = 3
      union all
      select json_build_array(id, lane, 1) from fencepost.admit(
        p_now, p_left || v_held,
        array_fill(1, array[cardinality(p_left)]) || array_fill(0, array[cardinality(v_held)]))
    ) as all_moved
  );
end $$;

-- Let go of jobs that waited for p_ended, all of which have completed.
create function fencepost.let_go(p_now timestamptz, p_ended bigint[]) returns json language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off as $$
declare
  v_children bigint[];
  v_counts integer[];
begin
  select array_agg(child), array_agg(count) into v_children, v_counts from (
    select child, count(*)::integer as count from fencepost.dependency
    where parent = any (p_ended) group by child
  ) as waiting;
  return fencepost.count_down(p_now, v_children, v_counts);
end $$;

-- Have jobs wait for so many fewer, and let go of those that wait for none any more. Returns
-- [[id, lane, state], …] of these, or null. One that waits for any one of several misses one. One
-- that has a concurrency key waits for that instead: [id, lane, 0, slot], for the caller to admit.
create function fencepost.count_down(
  p_now timestamptz, p_seqs bigint[], p_counts integer[]
) returns json language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off as $$
declare
  t timestamptz;
  v_moved json;
begin
  -- In one order, whoever does it; the counts are those of a later statement.
  perform 1 from fencepost.pending where seq = any (p_seqs) and slot is null
  order by seq for update;
  if not found then
    return null;
  end if;
  t := coalesce(p_now, clock_timestamp());
  with fewer as materialized (
    select * from unnest(p_seqs, p_counts) as x(seq, count)
  ), counted_down as (
    update fencepost.pending p set missing = p.missing - fewer.count
    from fewer where p.seq = fewer.seq and p.slot is null and p.missing > fewer.count
  ), met as materialized (
    select p.seq, p.run_at, p.scheduled_at, p.lane, p.attempt, p.version, k.slot
    from fewer join fencepost.pending p on p.seq = fewer.seq
    left join fencepost.keyed k on k.seq = p.seq
    where p.slot is null and p.missing <= fewer.count
  ), moved as materialized (
    select met.*, greatest(met.run_at, t) as due,
      case when met.run_at > t then 2 when met.slot is not null then 0 else 1 end as state
    from met
  ), gone as (
    delete from fencepost.pending p using moved where p.seq = moved.seq and moved.state > 0
  ), held_up as (
    update fencepost.pending p
    set missing = 0, run_at = moved.due, since = t, slot = moved.slot,
      priority = coalesce(lane.priority, 2)
    from moved left join fencepost.lane on lane.lane = moved.lane
    where p.seq = moved.seq and moved.state = 0
  ), in_line as (
    insert into fencepost.ready(run_at, seq, scheduled_at, lane, attempt, version)
    select due, seq, t, lane, attempt, version from moved where state = 1
  ), waiting as (
    insert into fencepost.delayed(
      seq, run_at, since, scheduled_at, lane, attempt, version, state)
    select seq, due, t, scheduled_at, lane, attempt, version, 2 from moved where state = 2
  ), counted as (
    insert into fencepost.tally(lane, state, count)
    select lane, 0, -count(*) from moved where state > 0 group by lane
    union all
    select lane, state, count(*) from moved where state > 0 group by lane, state
  )
  select json_agg(case when moved.state > 0 then json_build_array(job.id, moved.lane, moved.state)
    else json_build_array(job.id, moved.lane, 0, moved.slot) end order by moved.seq)
  into v_moved from moved join fencepost.job on job.seq = moved.seq;
  return v_moved;
end $$;

-- Take jobs out of a lease, and the lease away with the last.
create function fencepost.shrink(e fencepost.lease, p_seqs bigint[]) returns void
language plpgsql as $$
declare
  kept record;
begin
  select array_agg(x.seq) as seqs, array_agg(x.attempt) as attempts,
    array_agg(x.version) as versions, array_agg(x.run_at) as run_ats,
    array_agg(x.scheduled_at) as scheduled_ats
  into kept
  from unnest(e.seqs, e.attempts, e.versions, e.run_ats, e.scheduled_ats)
    as x(seq, attempt, version, run_at, scheduled_at)
  where x.seq <> all (p_seqs);
  if kept.seqs is null then
    delete from fencepost.lease where secret = e.secret and part = e.part;
  else
    update fencepost.lease set seqs = kept.seqs,
      attempts = case when e.attempts is not null then kept.attempts end,
      versions = case when e.attempts is not null then kept.versions end,
      run_ats = case when e.attempts is not null then kept.run_ats end,
      scheduled_ats = case when e.attempts is not null then kept.scheduled_ats end
    where secret = e.secret and part = e.part;
  end if;
end $$;

-- Extend leases, none past its deadline; p_beats is [[secret, ttl or null, "{seq,…}"], …]. Returns [[beat, seq, expiry], …] of those
-- that were held. Jobs of a lease that are not named keep their expiry, in a part of their own.
create function fencepost.heartbeat(p_now timestamptz, p_beats json) returns json
language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  b record;
  e fencepost.lease;
  v_named bigint[];
  v_expires_at timestamptz;
  v_extended json[] := '{}';
begin
  for b in
    select n, (value ->> 0)::uuid as secret, (value ->> 1)::bigint as ttl,
      (value ->> 2)::bigint[] as seqs
    from json_array_elements(p_beats) with ordinality as x(value, n)
  loop
    for e in select * from fencepost.hold_leases(t, b.secret, b.seqs) loop
      v_named := array(
        select x.seq from unnest(e.seqs) with ordinality as x(seq, n)
        where x.seq = any (b.seqs) order by x.n
      );
      v_expires_at := greatest(e.expires_at,
        least(t + coalesce(b.ttl, e.ttl) * interval '1 microsecond', e.deadline));
      if v_expires_at > e.expires_at then
        if cardinality(v_named) < cardinality(e.seqs) then
          e := fencepost.part(e, v_named);
        end if;
        update fencepost.lease set expires_at = v_expires_at
        where secret = e.secret and part = e.part;
      end if;
      v_extended := v_extended || (
        select array_agg(json_build_array(
          b.n, x, (extract(epoch from v_expires_at) * 1000000)::bigint))
        from unnest(v_named) as x
      );
    end loop;
  end loop;
  return array_to_json(v_extended);
end $$;

-- Put some jobs of a lease into a part of their own, and return that. Whoever waits for the row of
-- the lease meanwhile has to look again, see `hold_leases`.
create function fencepost.part(e fencepost.lease, p_seqs bigint[]) returns fencepost.lease
language plpgsql as $$
declare
  v_part fencepost.lease;
begin
  insert into fencepost.lease
  select e.secret, nextval('fencepost.part'), e.lane,
    e.started_at, e.expires_at, e.worker, array_agg(x.seq order by x.n),
    case when e.attempts is not null then array_agg(x.attempt order by x.n) end,
    case when e.attempts is not null then array_agg(x.version order by x.n) end,
    case when e.attempts is not null then array_agg(x.run_at order by x.n) end,
    case when e.attempts is not null then array_agg(x.scheduled_at order by x.n) end,
    e.ttl, e.deadline
  from unnest(e.seqs, e.attempts, e.versions, e.run_ats, e.scheduled_ats) with ordinality
    as x(seq, attempt, version, run_at, scheduled_at, n)
  where x.seq = any (p_seqs)
  returning * into v_part;
  perform fencepost.shrink(e, p_seqs);
  return v_part;
end $$;

-- Put jobs into a part of their leases each, so that whoever locks that locks no other job;
-- p_groups is [[secret, "{seq,…}"], …], by secret.
create function fencepost.isolate(p_now timestamptz, p_groups json) returns void
language plpgsql as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  h record;
  e fencepost.lease;
  v_seq bigint;
begin
  for h in
    select (value ->> 0)::uuid as secret, (value ->> 1)::bigint[] as seqs
    from json_array_elements(p_groups)
  loop
    for e in select * from fencepost.hold_leases(t, h.secret, h.seqs) loop
      foreach v_seq in array array(select x from unnest(e.seqs) as x where x = any (h.seqs)) loop
        exit when cardinality(e.seqs) = 1;
        perform fencepost.part(e, array[v_seq]);
        select * into e from fencepost.lease where secret = e.secret and part = e.part;
      end loop;
    end loop;
  end loop;
end $$;

-- Keep what a handler asks to keep; false if it does not hold the job.
create function fencepost.save(
  p_now timestamptz, p_secret uuid, p_seq bigint, p_progress text, p_encoding smallint,
  p_checkpoint text, p_checkpoint_bytes bytea
) returns boolean language plpgsql as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  e fencepost.lease;
  v_version bigint;
begin
  select * into e from fencepost.hold_leases(t, p_secret, array[p_seq]);
  if not found then
    return false;
  end if;
  v_version := coalesce(
    e.versions[array_position(e.seqs, p_seq)], fencepost.next_version(0, e.started_at));
  insert into fencepost.saved as s(
    seq, version, progress, encoding, checkpoint, checkpoint_bytes)
  values (p_seq, v_version, p_progress, p_encoding, p_checkpoint, p_checkpoint_bytes)
  on conflict (seq) do update set
    version = excluded.version,
    progress = coalesce(excluded.progress,
      case when s.version = excluded.version then s.progress end),
    encoding = coalesce(excluded.encoding, s.encoding),
    checkpoint = case when excluded.encoding is null then s.checkpoint
      else excluded.checkpoint end,
    checkpoint_bytes = case when excluded.encoding is null then s.checkpoint_bytes
      else excluded.checkpoint_bytes end;
  return true;
end $$;

-- ------------------------------------------------------------------------------------------------
-- Moving jobs by hand of Python: first they are lifted from where they stand, then what `core`
-- decides about them is put down. Between the two they are nowhere, in one transaction.
-- ------------------------------------------------------------------------------------------------

-- A job on its way. Times are text: they pass through Python unread.
create type fencepost.standing as (
  seq bigint, id uuid, lane integer, policy integer, state smallint, attempt integer,
  max_attempts integer, version bigint, run_at timestamptz, scheduled_at timestamptz,
  expires_at timestamptz, secret uuid, worker text, started_at timestamptz, is_overdue boolean
);

create function fencepost.lift_held(e fencepost.lease, p_seqs bigint[])
returns setof fencepost.standing language plpgsql as $$
begin
  perform fencepost.shrink(e, p_seqs);
  return query
  select j.seq, j.id, e.lane, j.policy, 3::smallint, coalesce(x.attempt, 1), j.max_attempts,
    coalesce(x.version, fencepost.next_version(0, e.started_at)), coalesce(x.run_at, j.run_at),
    coalesce(x.scheduled_at, j.created_at), j.expires_at, e.secret, e.worker, e.started_at,
    e.expires_at >= e.deadline
  from unnest(e.seqs, e.attempts, e.versions, e.run_ats, e.scheduled_ats)
    as x(seq, attempt, version, run_at, scheduled_at)
  join fencepost.job j on j.seq = x.seq
  where x.seq = any (p_seqs);
end $$;

-- Lift running jobs under valid leases; p_groups is [[secret, "{seq,…}"], …]. What is not held is
-- not returned.
create function fencepost.lift_leased(p_now timestamptz, p_groups json)
returns setof fencepost.standing language plpgsql as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  g record;
  e fencepost.lease;
  v_named bigint[];
begin
  for g in
    select (value ->> 0)::uuid as secret, (value ->> 1)::bigint[] as seqs
    from json_array_elements(p_groups)
  loop
    for e in select * from fencepost.hold_leases(t, g.secret, g.seqs) loop
      v_named := array(select x from unnest(e.seqs) as x where x = any (g.seqs));
      return query select * from fencepost.lift_held(e, v_named);
    end loop;
  end loop;
end $$;

-- Lift up to p_limit running jobs whose leases ran out, the oldest first.
create function fencepost.lift_expired(p_now timestamptz, p_limit integer)
returns setof fencepost.standing language plpgsql as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  e fencepost.lease;
  v_mark timestamptz := (fencepost.marks()).lease_mark;
  v_left integer := p_limit;
  v_named bigint[];
begin
  for e in
    select * from fencepost.lease where expires_at >= v_mark and expires_at <= t
    order by expires_at, secret, part limit greatest(p_limit, 0) for update skip locked
  loop
    exit when v_left <= 0;
    v_named := e.seqs[1:v_left];
    v_left := v_left - cardinality(v_named);
    return query select * from fencepost.lift_held(e, v_named);
  end loop;
end $$;

-- A job that another is to wait for.
create type fencepost.parent as (
  id uuid, seq bigint, state smallint, priority smallint, depth smallint, failure text
);

-- Find jobs and keep them where they stand until this transaction is over: whoever ends one then
-- sees who waits for it. A claim or a settlement may move one between two looks, so that what was
-- not found is looked for again. Not returned: what does not exist and, unless p_waits, what
-- somebody has in hand. Leases come first and pending last, which is also the order in which a
-- settlement locks them; so only the first look waits, see `lift`. What p_pending names is to be
-- changed: those rows of pending are locked for update, with their rows of job first.
create function fencepost.hold_parents(
  p_seqs bigint[], p_waits boolean default true, p_pending bigint[] default '{}'
) returns setof fencepost.parent
language plpgsql set jit = off set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off as $$
declare
  v_rest bigint[] := p_seqs;
  v_states smallint[];
  v_found bigint[];
  v_more bigint[];
  v_ended record;
begin
  if p_pending <> '{}' then
    perform 1 from fencepost.job where seq = any (p_pending) order by seq for no key update;
  end if;
  for round in 1..case when p_waits then 20 else 1 end loop
    v_rest := array(
      select x from unnest(v_rest) as x where exists (select 1 from fencepost.job where seq = x)
    );
    exit when v_rest = '{}' and (round > 1 or p_pending = '{}');
    if round > 1 then
      perform pg_sleep(0.001 * round);
    end if;
    if p_waits and round = 1 then
      perform 1 from fencepost.done where seq = any (v_rest) order by seq for share;
    end if;
    v_found := '{}';
    for v_ended in
      select seq, state, failure from fencepost.done where seq = any (v_rest)
      order by seq for share skip locked
    loop
      v_found := v_found || v_ended.seq;
      return query
      select j.id, j.seq, v_ended.state, l.priority, coalesce(j.depth, 1::smallint),
        case when v_ended.state > 5 then v_ended.failure end
      from fencepost.job j join fencepost.lane l on l.lane = j.lane where j.seq = v_ended.seq;
    end loop;
    v_rest := array(select x from unnest(v_rest) as x where x not in (select unnest(v_found)));
    exit when v_rest = '{}' and (round > 1 or p_pending = '{}');
    if p_waits and round = 1 then
      perform 1 from fencepost.lease l
      where exists (select 1 from unnest(l.seqs) as x where (x in (select unnest(v_rest))) is true)
      order by l.secret, l.part for share;
    end if;
    v_found := array(
      select x from (
        select l.seqs from fencepost.lease l where exists (
          select 1 from unnest(l.seqs) as x where (x in (select unnest(v_rest))) is true)
        order by l.secret, l.part for share skip locked
      ) as held cross join lateral unnest(held.seqs) as x
      where (x in (select unnest(v_rest))) is true
    );
    v_states := array_fill(3::smallint, array[cardinality(v_found)]);
    if p_waits and round = 1 then
      perform 1 from fencepost.job j cross join lateral (
        select 1 from fencepost.ready
        where lane = j.lane and run_at = j.run_at and seq = j.seq and scheduled_at is null
        limit 1 for share
      ) as r
      where j.seq = any (v_rest);
      perform 1 from fencepost.ready r where r.seq = any (v_rest) and r.scheduled_at is not null
      order by r.seq for share;
      perform 1 from fencepost.delayed where seq = any (v_rest) order by seq for share;
    end if;
    v_more := array(
      select r.seq from fencepost.job j cross join lateral (
        select seq from fencepost.ready
        where lane = j.lane and run_at = j.run_at and seq = j.seq and scheduled_at is null
        limit 1 for share skip locked
      ) as r
      where j.seq = any (v_rest)
    ) || array(
      select r.seq from fencepost.ready r where r.seq = any (v_rest) and r.scheduled_at is not null
      order by r.seq for share skip locked
    );
    v_found := v_found || v_more;
    v_states := v_states || array_fill(1::smallint, array[cardinality(v_more)]);
    for v_ended in
      select seq, state from fencepost.delayed where seq = any (v_rest)
      order by seq for share skip locked
    loop
      v_found := v_found || v_ended.seq;
      v_states := v_states || v_ended.state;
    end loop;
    if p_waits and round = 1 then
      if p_pending = '{}' then
        perform 1 from fencepost.pending where seq = any (v_rest) order by seq for share;
      else
        perform 1 from fencepost.pending where seq = any (v_rest || p_pending)
        order by seq for update;
      end if;
    end if;
    v_more := array(
      select seq from fencepost.pending where seq = any (v_rest) order by seq for share skip locked
    );
    v_found := v_found || v_more;
    v_states := v_states || array_fill(0::smallint, array[cardinality(v_more)]);
    return query
    select j.id, j.seq, x.state, l.priority, coalesce(j.depth, 1::smallint), null::text
    from unnest(v_found, v_states) as x(seq, state)
    join fencepost.job j on j.seq = x.seq join fencepost.lane l on l.lane = j.lane;
    v_rest := array(
      select x from unnest(v_rest) as x where x not in (select unnest(v_found))
    );
  end loop;
  if p_waits and v_rest <> '{}' then
    raise exception 'jobs move on at every look' using errcode = '40001';
  end if;
end $$;

-- Lift jobs that wait for others, whose rows this transaction has locked.
create function fencepost.lift_pending(p_seqs bigint[]) returns setof fencepost.standing
language plpgsql set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off as $$
begin
  return query
  with gone as (delete from fencepost.pending p where p.seq = any (p_seqs) returning p.*)
  select j.seq, j.id, gone.lane, j.policy, 0::smallint, gone.attempt, j.max_attempts,
    gone.version, gone.run_at, gone.scheduled_at, j.expires_at, null::uuid, null::text,
    null::timestamptz, null::boolean
  from gone join fencepost.job j on j.seq = gone.seq;
end $$;

-- Lock those of p_seqs that wait for others or for a key, and all that wait behind any of p_ended,
-- in the one order of their numbers: level by level, two that end jobs of one graph could come upon
-- each other's.
create function fencepost.lock_behind(p_ended bigint[], p_seqs bigint[] default '{}')
returns void language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off as $$
begin
  perform 1 from fencepost.pending where seq = any (array(
    with recursive behind(seq) as (
      select d.child from fencepost.dependency d join fencepost.pending p on p.seq = d.child
      where d.parent = any (p_ended)
      union
      select d.child from behind join fencepost.dependency d on d.parent = behind.seq
      join fencepost.pending p on p.seq = d.child
    )
    select behind.seq from behind union select unnest(p_seqs)
  )) order by seq for update;
end $$;

-- Lift live jobs from wherever they stand, which end then. A claim or a settlement may move one
-- between two looks, so that what was not found is looked for again. Not returned: what is terminal
-- or unknown, and what stands nowhere, because its row was lost. Everything is locked in one order, which is also that of a settlement: leases,
-- ready, delayed, pending, each by its key. So only the first look waits for locks; the others come
-- back to leases with rows of pending in hand.
create function fencepost.lift(p_seqs bigint[]) returns setof fencepost.standing
language plpgsql set jit = off set enable_seqscan = off as $$
declare
  v_rest bigint[] := p_seqs;
  v_leases fencepost.lease[];
  v_places tid[];
  v_ready bigint[];
  v_delayed bigint[];
  v_pending bigint[];
  e fencepost.lease;
begin
  for round in 1..20 loop
    v_rest := array(
      select x from unnest(v_rest) as x
      where not exists (select 1 from fencepost.done where done.seq = x)
        and exists (select 1 from fencepost.job where job.seq = x)
    );
    exit when v_rest = '{}';
    if round = 1 then
      v_leases := array(
        select l from fencepost.lease l
        where exists (select 1 from unnest(l.seqs) as x where (x in (select unnest(v_rest))) is true)
        order by l.secret, l.part for update
      );
    else
      -- Of all places in one look, for nobody moves while it lasts.
      v_rest := array(
        select j.seq from fencepost.job j where j.seq = any (v_rest) and (
          exists (select 1 from fencepost.done where done.seq = j.seq)
          or exists (select 1 from fencepost.lease where j.seq = any (lease.seqs))
          or exists (select 1 from fencepost.ready r
            where r.lane = j.lane and r.run_at = j.run_at and r.seq = j.seq)
          or exists (select 1 from fencepost.ready r
            where r.seq = j.seq and r.scheduled_at is not null)
          or exists (select 1 from fencepost.delayed where delayed.seq = j.seq)
          or exists (select 1 from fencepost.pending where pending.seq = j.seq)
        )
      );
      exit when v_rest = '{}';
      perform pg_sleep(0.001 * round);
      v_leases := array(
        select l from fencepost.lease l
        where exists (select 1 from unnest(l.seqs) as x where (x in (select unnest(v_rest))) is true)
        order by l.secret, l.part for update skip locked
      );
    end if;
    foreach e in array v_leases loop
      return query select * from fencepost.lift_held(
        e, array(select x from unnest(e.seqs) as x where (x in (select unnest(v_rest))) is true));
    end loop;
    v_rest := array(
      select x from unnest(v_rest) as x where x not in (
        select unnest(l.seqs) from unnest(v_leases) as l)
    );
    -- A row is found by its whole key, or by ready_again; never by looking through the line, which a
    -- plan does that was made while the line was short.
    if round = 1 then
      select array_agg(first.place), array_agg(first.seq) into v_places, v_ready from (
        select r.place, j.seq from fencepost.job j cross join lateral (
          select ctid as place from fencepost.ready
          where lane = j.lane and run_at = j.run_at and seq = j.seq and scheduled_at is null
          limit 1 for update
        ) as r
        where j.seq = any (v_rest)
      ) as first;
      select v_places || array_agg(again.place), v_ready || array_agg(again.seq)
      into v_places, v_ready from (
        select r.ctid as place, r.seq from fencepost.ready r
        where r.seq = any (v_rest) and r.scheduled_at is not null
        order by r.seq for update
      ) as again;
      v_delayed := array(
        select d.seq from fencepost.delayed d where d.seq = any (v_rest)
        order by d.seq for update
      );
    else
      select array_agg(first.place), array_agg(first.seq) into v_places, v_ready from (
        select r.place, j.seq from fencepost.job j cross join lateral (
          select ctid as place from fencepost.ready
          where lane = j.lane and run_at = j.run_at and seq = j.seq and scheduled_at is null
          limit 1 for update skip locked
        ) as r
        where j.seq = any (v_rest)
      ) as first;
      select v_places || array_agg(again.place), v_ready || array_agg(again.seq)
      into v_places, v_ready from (
        select r.ctid as place, r.seq from fencepost.ready r
        where r.seq = any (v_rest) and r.scheduled_at is not null
        order by r.seq for update skip locked
      ) as again;
      v_delayed := array(
        select d.seq from fencepost.delayed d where d.seq = any (v_rest)
        order by d.seq for update skip locked
      );
    end if;
    return query
    with gone as (delete from fencepost.ready where ctid = any (v_places) returning *)
    select j.seq, j.id, gone.lane, j.policy, 1::smallint, gone.attempt, j.max_attempts,
      gone.version, gone.run_at, coalesce(gone.scheduled_at, j.created_at), j.expires_at,
      null::uuid, null::text, null::timestamptz, null::boolean
    from gone join fencepost.job j on j.seq = gone.seq;
    return query
    with gone as (delete from fencepost.delayed d where d.seq = any (v_delayed) returning d.*)
    select j.seq, j.id, gone.lane, j.policy, gone.state, gone.attempt, j.max_attempts,
      gone.version, gone.run_at, gone.scheduled_at, j.expires_at, null::uuid, null::text,
      null::timestamptz, null::boolean
    from gone join fencepost.job j on j.seq = gone.seq;
    if round = 1 then
      perform fencepost.lock_behind(p_seqs, v_rest);
    end if;
    v_pending := array(
      select p.seq from fencepost.pending p where p.seq = any (v_rest)
      order by p.seq for update skip locked
    );
    return query select * from fencepost.lift_pending(v_pending);
    v_rest := array(
      select x from unnest(v_rest) as x
      where x not in (select unnest(v_ready || v_delayed || v_pending))
    );
  end loop;
  if v_rest <> '{}' then
    raise exception 'jobs move on at every look' using errcode = '40001';
  end if;
end $$;

-- Lift a terminal job.
create function fencepost.lift_done(p_seq bigint) returns setof fencepost.standing
language plpgsql as $$
begin
  return query
  with gone as (delete from fencepost.done where seq = p_seq returning *)
  select j.seq, j.id, j.lane, j.policy, gone.state, gone.attempt, j.max_attempts, gone.version,
    j.run_at, nullif(coalesce(gone.scheduled_at, j.created_at), '-infinity'), j.expires_at,
    null::uuid, null::text, gone.started_at, null::boolean
  from gone join fencepost.job j on j.seq = gone.seq;
end $$;

-- Put lifted jobs down. `was` and `was_lane` say where from; with `delay`, the job is due so many
-- microseconds from now, or at the end of its lifetime if that is sooner; with `is_in_line`, it
-- becomes claimable now. `outcome` says how its attempt ended; null if it had none, or succeeded.
-- A job that has a concurrency key comes into line only if it is there or runs; else, and if it
-- misses nobody, it waits for its slot. Returns [[slot, how many have left it], …] for the caller to
-- admit, or null.
create function fencepost.put(p_now timestamptz, p_jobs json) returns json language plpgsql
set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  v_touched json;
  v_lowered bigint;
begin
  if exists (select 1 from json_array_elements(p_jobs) where value ->> 'state' = '1') then
    perform fencepost.hold_marks();
  end if;
  with given as materialized (
    select x.seq, x.lane, x.was_lane, x.state, x.was, x.attempt, x.number, x.version, x.secret,
      x.worker, x.started_at, x.outcome, x.failure, x.encoding, x.result, x.result_hex,
      x.is_dead_letter, x.mode, coalesce(x.missing, 0) as missing, keyed.slot,
      case when x.is_in_line then t else x.scheduled_at end as scheduled_at,
      case when x.delay is null then x.run_at
      else least(t + x.delay * interval '1 microsecond', x.expires_at) end as due
    from json_to_recordset(p_jobs) as x(
      seq bigint, lane integer, was_lane integer, state smallint, was smallint, attempt integer,
      number integer, version bigint, delay bigint, run_at timestamptz, scheduled_at timestamptz,
      expires_at timestamptz, secret uuid, worker text, started_at timestamptz, outcome text,
      failure text, encoding smallint, result text, result_hex text, is_dead_letter boolean,
      is_in_line boolean, mode smallint, missing integer
    ) left join fencepost.keyed on keyed.seq = x.seq
  ), held_up as (
    insert into fencepost.pending(
      seq, run_at, since, scheduled_at, lane, attempt, version, mode, missing, slot, priority)
    select seq, due, t, scheduled_at, given.lane, attempt, version, mode, missing,
      case when missing = 0 then slot end, case when missing = 0 then coalesce(lane.priority, 2) end
    from given left join fencepost.lane on lane.lane = given.lane where state = 0
  ), ended as (
    insert into fencepost.done(
      seq, ended_at, started_at, scheduled_at, secret, attempt, version, state, encoding,
      is_dead_letter, worker, result, result_bytes, failure)
    select seq, t, started_at, coalesce(scheduled_at, '-infinity'), secret, attempt, version, state,
      encoding, is_dead_letter, worker, result, decode(result_hex, 'hex'), failure
    from given where state >= 5
  ), waiting as (
    insert into fencepost.delayed(
      seq, run_at, since, scheduled_at, lane, attempt, version, state)
    select seq, due, t, scheduled_at, lane, attempt, version, state
    from given where state in (2, 4)
  ), in_line as (
    insert into fencepost.ready(run_at, seq, scheduled_at, lane, attempt, version)
    select due, seq, scheduled_at, lane, attempt, version from given where state = 1
  ), lowered as (
    select fencepost.lower_mark(first.lane, first.due)
    from (select lane, min(due) as due from given where state = 1 group by lane) as first
  ), recorded as (
    insert into fencepost.attempt(
      seq, version, number, started_at, ended_at, secret, worker, outcome, failure)
    select seq, version, number, started_at, t, secret, worker, outcome, failure
    from given where outcome is not null
  ), counted as (
    insert into fencepost.tally(lane, state, count)
    select was_lane, was, -count(*) from given group by was_lane, was
    union all
    select lane, state, count(*) from given group by lane, state
  )
  select json_agg(json_build_array(x.slot, x.freed)), (select count(*) from lowered)
  into v_touched, v_lowered from (
    select slot, count(*) filter (where was in (1, 3)) as freed from given
    where slot is not null
      and ((was in (1, 3) and state not in (1, 3)) or (state = 0 and missing = 0))
    group by slot
  ) as x;
  return v_touched;
end $$;

-- ------------------------------------------------------------------------------------------------
-- Upkeep
-- ------------------------------------------------------------------------------------------------

-- Remove lanes that no job has been in for so long; a few calls, each in its own transaction, do it:
-- the first sees that a lane has no jobs, a later one retires it, the next gives it a fence, and one
-- more deletes it. From then on nothing new is stored in it: `check_numbers` refuses, and `lane_number`
-- revives it. But somebody who had looked before may still store a job. Whoever looks has a number
-- before, which is below the fence: that was taken after the retirement was seen to be committed.
-- So when no transaction below the fence is under way, what they have stored can be seen. Nobody
-- who stores jobs waits for a lock. Lanes of p_kept, to which rows of `callback` refer, stay. The
-- subqueries are such as cannot become joins: one look into an index a lane, and no scan of `job`.
create function fencepost.prune_lanes(p_now timestamptz, p_idle bigint, p_kept text)
returns integer language plpgsql set jit = off set enable_seqscan = off as $$
declare
  t timestamptz := coalesce(p_now, clock_timestamp());
  is_early constant boolean := pg_current_xact_id_if_assigned() is null;
  v_gone integer[];
  v_lanes integer[];
  v_retired timestamptz[];
  v_fence xid8;
begin
  select array_agg(lane), array_agg(retired_at) into v_lanes, v_retired
  from fencepost.lane where retired_at is not null and fence is null;
  -- A count that is still to be added up is left to `tidy` first: the sum is all that is deleted.
  with gone as (
    delete from fencepost.lane where lane = any (array(
      select l.lane from fencepost.lane l
      where l.fence <= pg_snapshot_xmin(pg_current_snapshot())
        and (select true from fencepost.job where job.lane = l.lane limit 1) is null
        and not (l.lane in (select lane from fencepost.tally)) is true
      for update skip locked
    )) returning lane
  )
  select array_agg(lane) into v_gone from gone;
  delete from fencepost.mark where lane = any (v_gone);
  delete from fencepost.total where lane = any (v_gone);
  if is_early and v_lanes is not null then
    v_fence := pg_current_xact_id();
    update fencepost.lane l set fence = v_fence
    from unnest(v_lanes, v_retired) as x(lane, retired_at)
    where l.lane = x.lane and l.retired_at = x.retired_at and l.fence is null;
  end if;
  update fencepost.lane l set
    idle_at = case when x.is_used then null else coalesce(l.idle_at, t) end,
    retired_at = case when x.is_used or l.idle_at > t - p_idle * interval '1 microsecond' then null
      when l.idle_at is not null then coalesce(l.retired_at, t) end,
    fence = case when not x.is_used then l.fence end
  from (
    select lane, (
      select true from fencepost.job where job.lane = lane.lane limit 1
    ) is true as is_used
    from fencepost.lane where type <> p_kept
    for no key update skip locked
  ) as x
  where l.lane = x.lane and (
    case when x.is_used then l.idle_at is not null
      else l.idle_at is null or l.retired_at is null
        and l.idle_at <= t - p_idle * interval '1 microsecond' end);
  return coalesce(cardinality(v_gone), 0);
end $$;

-- Add up what came since the last time.
create function fencepost.add_up(p_from bigint) returns void language plpgsql
set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
  with counted as (
    delete from fencepost.tally where number >= p_from returning lane, state, count
  ), was as materialized (
    select x.lane, x.state, x.count, t.number, t.count as had from (
      select lane, state, sum(count) as count from counted group by lane, state
    ) as x left join lateral (
      select number, count from fencepost.total where lane = x.lane and state = x.state
      order by number desc limit 1
    ) as t on true
    where x.count <> 0 or t.number is null
  ), gone as (
    delete from fencepost.total t using was
    where t.lane = was.lane and t.state = was.state and t.number = was.number
  )
  insert into fencepost.total(lane, state, number, count)
  select lane, state, coalesce(number, 0) + 1, coalesce(had, 0) + count from was;
end $$;

-- Add the counts up, and move the marks. A mark may move up to an instant T once every transaction
-- is over that could have read the clock before T and not yet committed. Whoever reads the clock
-- has a number before, and `tidy` gets its own after it has read T: those are the transactions below
-- it. So `pulse` remembers one T with that number, and the marks follow when xmin has reached it.
-- (The xmax of a snapshot would not do: it is one past the last that has ended, and others with
-- higher numbers may be under way.) Whoever puts something below a lane's mark knowingly lowers
-- that mark in the same transaction. A clock that is set back can fool this, so that p_is_thorough,
-- now and then, looks below the marks; it is the only one to read what an old snapshot has kept.
create function fencepost.tidy(p_now timestamptz, p_is_thorough boolean) returns void
language plpgsql set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_bitmapscan = off set lock_timeout = '50ms' as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  is_early constant boolean := pg_current_xact_id_if_assigned() is null;
  m fencepost.pulse;
  l record;
  v_until timestamptz;
  v_first timestamptz;
  v_low timestamptz;
  v_lanes integer[];
  v_below jsonb := '{}';
  v_below_lease timestamptz;
  v_below_due timestamptz;
begin
  begin
    lock table fencepost.tidy_latch in share row exclusive mode nowait;
  exception when lock_not_available then
    return;  -- somebody else does it
  end;
  m := fencepost.marks();
  v_lanes := array(select distinct lane from fencepost.tally where number >= m.tally_mark);
  if v_lanes = '{}' and not p_is_thorough then
    return;
  end if;
  -- Before the counts are read: what is added up then has all that these transactions have left.
  v_until := case when pg_snapshot_xmin(pg_current_snapshot()) >= m.next_xid then m.at end;
  perform fencepost.add_up(case when p_is_thorough then 0 else m.tally_mark end);
  -- Some time after they counted: a claim under way may have read the clock a while ago. And not by
  -- claims, which would have to step over all that an old snapshot keeps from being removed.
  delete from fencepost.rate_use u using fencepost.rate r
  where r.type = u.type and u.at <= -2 * r.window_us - 60000000
      + (extract(epoch from v_now) * 1000000)::bigint
    and u.at > case when p_is_thorough or m.at < 'epoch' then 0 else -2 * r.window_us - 60000000
      + (extract(epoch from m.at) * 1000000)::bigint end;
  if p_is_thorough then
    -- Of these the latest count, see `first_since` and search.py.
    if (select count(*) from fencepost.disorder) > 1 then
      with gone as (delete from fencepost.disorder returning seq, created_at)
      insert into fencepost.disorder(seq, created_at)
      select max(seq), max(created_at) from gone;
    end if;
    -- Before the lock: it may take a while.
    v_lanes := array(select lane from fencepost.lane);
    select coalesce(jsonb_object_agg(x.lane, first.run_at), '{}') into v_below
    from fencepost.line x cross join lateral (
      select r.run_at from fencepost.ready r where r.lane = x.lane and r.run_at < x.low
      order by r.run_at, r.seq limit 1
    ) as first;
    v_below_lease := (select min(expires_at) from fencepost.lease where expires_at < m.lease_mark);
    v_below_due := (select min(run_at) from fencepost.delayed where run_at < m.due_mark);
  elsif v_until is null then
    return;
  end if;
  begin
    lock table fencepost.marks_latch in share row exclusive mode;
  exception when lock_not_available then
    return;  -- somebody holds the marks, see hold_marks: another time
  end;
  for l in
    select x.lane, y.number, coalesce(y.low, '-infinity') as low from unnest(v_lanes) as x(lane)
    left join lateral (
      select number, low from fencepost.mark where lane = x.lane order by number desc limit 1
    ) as y on true
  loop
    select r.run_at into v_first from fencepost.ready r
    where r.lane = l.lane and r.run_at >= l.low and r.run_at < coalesce(v_until, l.low)
    order by r.run_at, r.seq limit 1;
    v_low := least(coalesce(v_until, l.low), v_first,
      (v_below ->> l.lane::text)::timestamptz);
    continue when v_low = l.low;
    if l.number is not null then
      -- Only if nobody lowers it now.
      perform 1 from fencepost.mark where lane = l.lane and number = l.number and low = l.low
      for update skip locked;
      continue when not found;
      delete from fencepost.mark where lane = l.lane and number = l.number;
    end if;
    insert into fencepost.mark(lane, number, low)
    values (l.lane, coalesce(l.number, 0) + 1, v_low);
  end loop;
  m := fencepost.marks();
  insert into fencepost.pulse(
    number, at, next_xid, next_tally, tally_mark, lease_mark, due_mark, lifetime_mark)
  select m.number + 1,
    case when v_until is null or not is_early then m.at else v_now end,
    case when v_until is null or not is_early then m.next_xid else pg_current_xact_id() end,
    case when v_until is null or not is_early then m.next_tally else s.last_value + 1 end,
    case when v_until is null then m.tally_mark else m.next_tally end,
    -- A claim reads the clock before its transaction has a number, and may then be held up.
    least(coalesce(v_until - interval '5 seconds', m.lease_mark), v_below_lease, (
      select min(expires_at) from fencepost.lease
      where expires_at >= m.lease_mark and expires_at < v_until - interval '5 seconds')),
    least(coalesce(v_until, m.due_mark), v_below_due, (
      select min(run_at) from fencepost.delayed
      where run_at >= m.due_mark and run_at < v_until)),
    least(coalesce(v_until, m.lifetime_mark), (
      select min(expires_at) from fencepost.job
      where expires_at >= m.lifetime_mark and expires_at < v_until
        and not exists (select 1 from fencepost.done where done.seq = job.seq)))
  from fencepost.tally_number_seq s;
  delete from fencepost.pulse where number = m.number;
end $$;

-- ------------------------------------------------------------------------------------------------
-- Looking
-- ------------------------------------------------------------------------------------------------

-- The first number of jobs that were created at p_at or later: no job before it was created a second
-- after that, and none from it on a second before. Numbers up to p_after are left out.
create function fencepost.first_since(p_at timestamptz, p_after bigint) returns bigint
language plpgsql stable set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_low bigint := p_after + 1;
  v_high bigint := coalesce((select max(seq) from fencepost.job), 0) + 1;
  v_middle bigint;
  j record;
begin
  while v_low < v_high loop
    v_middle := v_low + (v_high - v_low) / 2;
    select seq, created_at into j from fencepost.job
    where seq >= v_middle order by seq limit 1;
    if j.created_at >= p_at then
      v_high := v_middle;
    else
      v_low := j.seq + 1;
    end if;
  end loop;
  return v_low;
end $$;

create view fencepost.jobs as
select
  j.seq, j.id, l.queue, l.type, l.priority, j.lane, j.policy, j.max_attempts, j.created_at,
  j.expires_at, j.key, j.key_window, j.correlation_id, j.tags, j.replay_of, j.flow, j.node,
  j.mode, coalesce(p.missing, 0) as missing, j.depth, j.gathers, j.own_priority,
  k.key as concurrency_key, j.callback_url, j.submitter,
  coalesce(d.state, w.state, p.state, r.state, e.state)::smallint as state,
  coalesce(d.attempt, w.attempt, p.attempt, r.attempt, e.attempt) as attempt,
  coalesce(d.version, w.version, p.version, r.version, e.version) as version,
  coalesce(w.run_at, p.run_at, r.run_at, e.run_at, j.run_at) as run_at,
  case when d.seq is not null then nullif(coalesce(d.scheduled_at, j.created_at), '-infinity')
    when w.seq is not null then w.scheduled_at
    when p.seq is not null then p.scheduled_at
    else coalesce(r.scheduled_at, e.scheduled_at, j.created_at) end as scheduled_at,
  coalesce(d.started_at, e.started_at, a.started_at) as started_at,
  d.ended_at as completed_at,
  coalesce(d.ended_at, w.since, p.since, r.scheduled_at, e.started_at, j.created_at) as updated_at,
  coalesce(d.worker, e.worker) as worker,
  e.expires_at as lease_expires_at,
  coalesce(d.secret, e.secret) as secret,
  d.is_dead_letter,
  case when d.state = 5 then null else coalesce(d.failure, a.failure) end as failure,
  d.encoding as result_encoding, d.result, d.result_bytes,
  case when s.version = coalesce(d.version, w.version, p.version, r.version, e.version) then s.progress
    end as progress,
  s.encoding as checkpoint_encoding, s.checkpoint, s.checkpoint_bytes,
  j.encoding, j.payload, j.payload_bytes
from fencepost.job j
join fencepost.lane l on l.lane = j.lane
left join fencepost.done d on d.seq = j.seq
left join fencepost.delayed w on w.seq = j.seq
left join (select *, 0 as state from fencepost.pending) p on p.seq = j.seq
left join fencepost.keyed k on k.seq = j.seq
left join lateral (
  select 1 as state, found.* from (
    select * from fencepost.ready x
    where x.lane = j.lane and x.run_at = j.run_at and x.seq = j.seq
      and d.seq is null and w.seq is null and p.seq is null
    union all
    select * from fencepost.ready x
    where x.seq = j.seq and x.scheduled_at is not null
      and d.seq is null and w.seq is null and p.seq is null
  ) as found limit 1
) r on true
left join lateral (
  select 3 as state, x.secret, x.worker, x.started_at, x.expires_at,
    coalesce(x.attempts[n], 1) as attempt,
    coalesce(x.versions[n], fencepost.next_version(0, x.started_at)) as version,
    x.run_ats[n] as run_at, x.scheduled_ats[n] as scheduled_at
  from fencepost.lease x, array_position(x.seqs, j.seq) as n
  where d.seq is null and w.seq is null and p.seq is null and r.seq is null and n is not null
  limit 1
) e on true
left join lateral (
  select
    (select x.started_at from fencepost.attempt x where x.seq = j.seq
     order by x.version desc limit 1) as started_at,
    (select x.failure from fencepost.attempt x where x.seq = j.seq and x.failure is not null
      and x.version > j.reopened_version order by x.version desc limit 1) as failure
  where coalesce(d.version, w.version, p.version, r.version, e.version) > 0
    and d.state is distinct from 5
) a on true
left join fencepost.saved s on s.seq = j.seq;

-- [state, id] of the job that holds a key.
create function fencepost.holder(p_type text, p_key text) returns json language sql stable as $$
  select json_build_array(jobs.state, jobs.id)
  from fencepost.idempotency held join fencepost.jobs on jobs.seq = held.seq
  where held.type = p_type and held.key = p_key
$$;

-- Refuse whatever inserts a job from now on, or accept jobs again. A trigger and not a flag: no
-- submission pays for it while there is none, what inserts jobs cannot forget to ask, and it waits
-- for transactions that have inserted and are open. It has its owner's rights, since nobody else can
-- create a trigger; while it waits for its lock others wait behind it, hence the bound.
create function fencepost.refuse_job() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  raise exception using errcode = 'FP003', message = 'new jobs are refused';
end $$;

create function fencepost.accept_jobs(p_is_accepted boolean) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '10s'
as $$
declare
  v_is_refusing constant boolean := exists (
    select from pg_trigger
    where tgrelid = 'fencepost.job'::regclass and tgname = 'refuse_jobs');
begin
  if p_is_accepted and v_is_refusing then
    drop trigger refuse_jobs on fencepost.job;
  elsif not p_is_accepted and not v_is_refusing then
    create trigger refuse_jobs before insert on fencepost.job
      for each row execute function fencepost.refuse_job();
  end if;
end $$;
