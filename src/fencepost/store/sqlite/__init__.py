"""The embedded store: one SQLite file, any number of processes on one machine, no service.

One ``jobs`` table with partial indexes. All write transactions of all processes run under a
side-car lock (``engine.lock``), and concurrent operations share commits (``engine.group_commit``).
Commits are forced to the disk before the answer, outside the lock (``engine.database``).
"""
