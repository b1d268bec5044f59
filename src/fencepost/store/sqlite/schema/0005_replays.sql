-- Replays of many dead letters, each as core/job/replays.py encodes it.
create table replays(
  id blob primary key,
  body blob not null
) without rowid;
