"""The measurements behind ``make bench``: one module a group of figures.

Every figure stands beside what the machine could do at the most, with the same promise to the disk
and no framework (``raw``). Pairs are measured in turns within one run, because a rate means little
on a busy machine and a ratio still does.

What is measured stands on a ground (``bench.Bench``): SQLite, whose figures are here, or a
PostgreSQL server, whose figures are in ``postgres``. Workers, callers and the report are the same.
"""
