"""The pool that tests put before PostgreSQL is one in transaction mode."""

from __future__ import annotations

import psycopg
from tests.servers.pgbouncer import PgBouncer


def test_a_query_goes_through_and_transactions_share_connections(pgbouncer: PgBouncer) -> None:
    pids: set[int] = set()
    connections = [psycopg.connect(pgbouncer.url(), prepare_threshold=None) for _ in range(12)]
    for connection in connections:
        with connection, connection.transaction():
            row = connection.execute("select pg_backend_pid()").fetchone()
            assert row is not None
            pids.add(row[0])
    assert len(pids) < len(connections)


def test_it_can_be_stopped_and_started_again(pgbouncer: PgBouncer) -> None:
    pgbouncer.stop()
    pgbouncer.start()
    with psycopg.connect(pgbouncer.url()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
