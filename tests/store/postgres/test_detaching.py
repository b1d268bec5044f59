"""To take jobs out of line costs the same however long the line is.

Store-specific: a plan that was made while the line was short looked through all of it for each job
that was cancelled, or waited for; 20,000 of them took half a minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fencepost.clock import SystemClock
from fencepost.core.job.job import NewJob
from fencepost.store.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres("migrated")

IN_LINE = 20_000
DETACHED = 20
RUNS = 3


@pytest.fixture
def line(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a store whose line is long, and whose statistics say that it is empty."""
    store = PostgresStore(postgres_url, clock=SystemClock())
    store.migrate()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("alter table fencepost.ready set (autovacuum_enabled = off)")
        connection.execute("analyze fencepost.ready")
        store.run(store.queue.enqueue([NewJob(type="mail")] * IN_LINE))
        yield connection
    store.close()


@pytest.mark.parametrize("function", ["detach", "hold_parents"])
def test_a_few_jobs_are_taken_from_a_long_line_by_few_reads(
    line: psycopg.Connection[Any], function: str
) -> None:
    found = line.execute(
        "select seq from fencepost.submissions order by seq limit %s", [DETACHED + 1]
    )
    first, *seqs = [row[0] for row in found]
    line.execute(f"select fencepost.{function}(%s)", [[first]])  # it reads catalogues, too
    # Some 15 a job; to look through the line is 100 a job. What others do on the server has a
    # session read its catalogues again, so the least of some runs counts.
    assert min(blocks_of(line, function, seqs) for _ in range(RUNS)) < 40 * DETACHED


def blocks_of(line: psycopg.Connection[Any], function: str, seqs: list[int]) -> int:
    """Return how many blocks a call of *function* reads; it is undone."""
    query = f"explain (analyze, buffers, format json) select * from fencepost.{function}(%s)"
    with line.transaction(force_rollback=True):
        (row,) = line.execute(query, [seqs]).fetchall()
    plan = row[0][0]["Plan"]
    assert plan["Actual Rows"] == DETACHED
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
