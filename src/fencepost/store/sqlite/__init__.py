"""The embedded store: one SQLite file, any number of processes on one machine, no service.

One ``jobs`` table with partial indexes. Every write transaction of every process runs under a
side-car lock (``engine.lock``), and concurrent operations share commits (``engine.group_commit``).
What a caller relies on reaches the disk before the answer, outside the lock (``engine.database``).
"""
