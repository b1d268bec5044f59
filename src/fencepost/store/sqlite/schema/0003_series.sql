-- Samples of the store's counts, each as core/stats/series.py encodes it; coarser steps are kept for longer.
create table series(
  step integer not null,
  at integer not null,
  body blob not null,
  primary key (step, at)
) without rowid;

-- How many jobs were pruned, so that totals never fall: with `counters` these are all that ever were.
create table pruned(
  queue text not null,
  type text not null,
  state integer not null,
  count integer not null,
  primary key (queue, type, state)
) without rowid;
