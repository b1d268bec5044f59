-- oldest: 4
-- Samples of the store's counts, each as core/stats/series.py encodes it; coarser steps are kept for longer.
create table fencepost.series(
  step integer not null,
  at timestamptz not null,
  body bytea not null,
  primary key (step, at)
);

-- How many jobs were pruned, so that totals never fall: with `counts` these are all that ever were.
create table fencepost.pruned(
  queue text not null,
  type text not null,
  state smallint not null,
  count bigint not null,
  primary key (queue, type, state)
);
