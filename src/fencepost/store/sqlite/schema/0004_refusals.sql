-- Writes of workers that had lost their leases: the last few of each job. Numbers are never used
-- again, so that the highest one says how many there were.
create table refusals(
  number integer primary key autoincrement,
  job_id blob not null,
  at integer not null,
  operation text not null,
  fence_held integer,
  fence_present integer not null
);
create index refusals_job on refusals(job_id, number);
