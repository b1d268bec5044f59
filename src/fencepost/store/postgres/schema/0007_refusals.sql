-- oldest: 4
-- Writes of workers that had lost their leases: the last few of each job. Numbers are never used
-- again, so that the highest one says how many there were.
create table fencepost.refusals(
  number bigint generated always as identity primary key,
  job_id uuid not null,
  at timestamptz not null,
  operation text not null,
  fence_held bigint,
  fence_present bigint not null
);
create index refusals_job on fencepost.refusals(job_id, number);
