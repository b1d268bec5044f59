-- oldest: 4
-- Replays of many dead letters, each as core/job/replays.py encodes it.
create table fencepost.replays(
  id uuid primary key,
  body bytea not null
);
