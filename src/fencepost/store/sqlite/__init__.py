"""The embedded store: one SQLite file, any number of processes on one machine, no service.

One ``jobs`` table with partial indexes; every write transaction of every process runs under a
side-car lock (``lock``), concurrent operations share commits (``writer``), and what somebody relies
on reaches the disk before it is answered but outside the lock (``database``).
"""
