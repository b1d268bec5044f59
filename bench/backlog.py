"""Databases full of waiting jobs, made quickly: a few by the product, the rest as copies of them.

A million submissions take a minute; copying rows inside SQLite takes seconds and leaves the same
rows, indexes and counters behind.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from bench.noop import BenchApp
from bench.raw import COLUMNS, SCHEDULED
from bench.sqlite_bench import SqliteBench

SEED_MAX = 1_000
STEP = 50_000

MULTIPLY = f"""
insert into jobs({COLUMNS})
select randomblob(16), {COLUMNS.split(",", 1)[1]}
from jobs, (select 1 from jobs limit ?) where seq <= ? limit ?
"""
RECOUNT = f"update counters set count = (select count(*) from jobs) where state = {SCHEDULED}"


def filled(bench: SqliteBench, count: int) -> Path:
    """Return a closed database in which *count* jobs of the noop task wait."""
    bench.tell(f"storing {count:,} jobs")
    path = bench.new_path()
    seed = min(count, SEED_MAX)
    with BenchApp(bench.url(path)) as app:
        app.noop.submit_many(range(seed))
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        for start in range(seed, count, STEP):
            step = min(STEP, count - start)
            connection.execute(MULTIPLY, (-(-step // seed), seed, step))
        connection.execute(RECOUNT)
        connection.execute("pragma wal_checkpoint(truncate)")
    finally:
        connection.close()
    return path
