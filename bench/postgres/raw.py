"""The raw limit: what this server does for batched claims and completions, and no framework.

Two plain tables. A job waits in ``job``, where it can be found by its random id. The claim, one
statement and one commit, marks it there; the completion, another, moves it to ``done`` with its
result. As in the product, a claim does not wait for the disk (losing one only makes a job run
again); a submission and a completion do. One connection, statements prepared, a batch as one array
literal, because adapting a Python list costs more than the statement; what is submitted is made
before the clock starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import psycopg

from fencepost.clock import Clock

SCHEMA = "fencepost_bench"
BATCH = 500
"""Jobs of one claim and of one completion."""

CREATE = """
drop schema if exists fencepost_bench cascade;
create schema fencepost_bench;
create table fencepost_bench.job(
  seq bigint generated always as identity primary key,
  id uuid not null unique,
  type text not null,
  created_at timestamptz not null default now(),
  claimed_at timestamptz,
  payload text not null
);
create index job_waiting on fencepost_bench.job(seq) where claimed_at is null;
create table fencepost_bench.done(
  seq bigint primary key,
  id uuid not null,
  type text not null,
  created_at timestamptz not null,
  claimed_at timestamptz not null,
  completed_at timestamptz not null,
  payload text not null,
  result text not null
);
"""
# Statistics from when `done` was empty would have it read as a whole for every batch.
TUNE = """
set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set jit = off;
"""
EMPTY = "truncate fencepost_bench.job, fencepost_bench.done restart identity"
INSERT = "insert into fencepost_bench.job(id, type, payload) values (%s, 'noop', %s)"
COPY = "copy fencepost_bench.job(id, type, payload) from stdin"
CLAIM = """
with claimed as (
  update fencepost_bench.job set claimed_at = now()
  where ctid = any(array(
    select ctid from fencepost_bench.job where claimed_at is null
    order by seq limit %s for update skip locked
  ))
  returning seq, type, payload
), relaxed as materialized (
  select set_config('synchronous_commit', 'off', true)
)
select seq, type, payload from claimed, relaxed
"""
COMPLETE = """
with given as materialized (
  select * from unnest(%s::bigint[], %s::text[]) as given(seq, result)
), ended as (
  delete from fencepost_bench.job using given where job.seq = given.seq
  returning job.*, given.result
)
insert into fencepost_bench.done(
  seq, id, type, created_at, claimed_at, completed_at, payload, result)
select seq, id, type, created_at, claimed_at, now(), payload, result from ended
"""

Row = tuple[str, str]


class RawTables:
    """One connection to two tables of its own."""

    def __init__(self, connection: psycopg.Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        connection.execute(CREATE)
        connection.execute(TUNE)
        self._cursor = connection.cursor(binary=True)

    def close(self) -> None:
        self._connection.close()

    def empty(self) -> None:
        self._connection.execute(EMPTY)

    # Submitting.

    def rows(self, count: int) -> list[Row]:
        """Return id and payload of new jobs."""
        new_id = self._clock.new_id
        return [(str(UUID(bytes=new_id())), f"[[{number}],{{}}]") for number in range(count)]

    def submit(self, rows: Sequence[Row]) -> None:
        """Insert *rows* one by one, a commit each."""
        execute = self._cursor.execute
        for row in rows:
            execute(INSERT, row, prepare=True)

    def block(self, rows: Sequence[Row]) -> bytes:
        """Return *rows* as COPY reads them."""
        return "".join(f"{id_}\tnoop\t{payload}\n" for id_, payload in rows).encode()

    def load(self, block: bytes) -> None:
        """Copy a block of rows in, in one transaction."""
        with self._cursor.copy(COPY) as copy:
            copy.write(block)

    # Working.

    def drain(self, count: int) -> int:
        """Claim and complete up to *count* jobs; return how many there were."""
        done = 0
        while done < count:
            seqs = self._claim(min(BATCH, count - done))
            if not seqs:
                break
            self._complete(seqs)
            done += len(seqs)
        return done

    def _claim(self, limit: int) -> list[int]:
        rows = self._cursor.execute(CLAIM, (limit,), prepare=True).fetchall()
        return [row[0] for row in rows]

    def _complete(self, seqs: Sequence[int]) -> None:
        given = "{" + ",".join([str(seq) for seq in seqs]) + "}"
        # Quoted: the text "null", which is the result, not SQL's null.
        results = "{" + ",".join(['"null"'] * len(seqs)) + "}"
        self._cursor.execute(COMPLETE, (given, results), prepare=True)
