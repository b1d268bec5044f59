"""The way of a job through a worker: fetched, run, kept alive, settled."""
