"""The raw limit: what SQLite does on this machine for the same work and no framework.

The product's own tables and indexes, settings and promise to the disk; one connection, nothing but
statements over rows that were prepared before the clock started. As in the product, a claim does
not wait for the disk (losing one only makes a job run again); a submission and a completion do.
The statements are written out here, not imported: a product that slowed down must not slow the
limit down with it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from fencepost.clock import Clock
from fencepost.core.job.lifecycle import State
from fencepost.store.sql.codec import NUMBER
from fencepost.store.sqlite.engine import files, schema
from fencepost.store.sqlite.engine.checkpoints import CHECKPOINT_PAGES
from fencepost.store.sqlite.engine.database import CACHE_KIB

BATCH = 200
"""Jobs of one claim and of one completion."""
ROWS_MAX = 256
"""Rows of one insert."""
SCHEDULED, RUNNING, COMPLETED = (
    NUMBER[state] for state in (State.SCHEDULED, State.RUNNING, State.COMPLETED)
)

MAKE_LANE = """
insert into lanes(lane, queue, type) values (1, 'default', 'noop') on conflict do nothing
"""
MAKE_POLICY = "insert into policies(policy, body) values (1, '{}') on conflict do nothing"
COLUMNS = """
id, lane, policy, priority, state, max_attempts, run_at, created_at, updated_at, scheduled_at,
expires_at, key, key_window, correlation_id, tags, replay_of, payload_encoding, payload
"""
WIDTH = 18
CHOOSE = f"""
select seq from jobs indexed by jobs_ready where state = {SCHEDULED} and lane = ?
order by priority, run_at, seq limit ?
"""
CLAIM = f"""
update jobs
set state = {RUNNING}, attempt = attempt + 1, lease_version = lease_version + 1,
    lease_token = ?, lease_expires_at = ?, worker = ?, started_at = ?, updated_at = ?,
    progress = null
where seq in (select value from json_each(?))
returning seq, id, lane, policy, priority, attempt, max_attempts, lease_version, run_at,
  expires_at, payload_encoding, payload, key, tags, correlation_id, checkpoint, checkpoint_encoding
"""
COMPLETE = f"""
with done(seq, result) as (values {{values}})
update jobs
set state = {COMPLETED}, result = done.result, result_encoding = 0, settled_token = ?,
    completed_at = ?, updated_at = ?, failure = null, lease_token = null,
    lease_expires_at = null
from done where jobs.seq = done.seq
"""
COUNT = """
insert into counters(lane, state, count) values {values}
on conflict(lane, state) do update set count = count + excluded.count
"""
COUNT_ONE = COUNT.format(values="(?, ?, ?)")
COUNT_MOVE = COUNT.format(values="(?, ?, ?), (?, ?, ?)")

Row = tuple[Any, ...]


class RawDatabase:
    """One connection to a database with the product's layout."""

    def __init__(self, path: Path, *, durability: str, clock: Clock) -> None:
        self._clock = clock
        self._is_synced = durability == "power"
        self._connection = sqlite3.connect(path, isolation_level=None)
        files.claim(self._connection, str(path))
        self._configure()
        schema.apply(self._connection, clock.now_us())
        self._wal = os.open(f"{path}-wal", os.O_RDWR | os.O_CREAT)
        self._lane, self._policy = self._numbers()

    def _configure(self) -> None:
        for pragma in (
            "journal_mode = wal",
            "synchronous = normal",
            f"cache_size = -{CACHE_KIB}",
            "temp_store = memory",
            f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
        ):
            self._connection.execute(f"pragma {pragma}")

    def _numbers(self) -> tuple[int, int]:
        """Return a lane and a policy to refer to, made if there is none."""
        self._connection.execute(MAKE_LANE)
        self._connection.execute(MAKE_POLICY)
        return 1, 1

    def close(self) -> None:
        self._connection.close()
        os.close(self._wal)

    # Submitting.

    def rows(self, count: int) -> list[Row]:
        """Return rows of new jobs; made beforehand, since the limit is that of the statements."""
        now = self._clock.now_us()
        return [
            (
                self._clock.new_id(),
                self._lane,
                self._policy,
                2,
                SCHEDULED,
                5,
                now,
                now,
                now,
                now,
                now + 7 * 86_400_000_000,
                None,
                None,
                None,
                None,
                None,
                0,
                b"[[%d],{}]" % number,
            )
            for number in range(count)
        ]

    def submit(self, rows: Sequence[Row]) -> None:
        """Store *rows* in one transaction, and wait for the disk."""
        execute = self._connection.execute
        with self._transaction():
            for start in range(0, len(rows), ROWS_MAX):
                part = rows[start : start + ROWS_MAX]
                execute(_insert(len(part)), list(chain.from_iterable(part)))
            execute(COUNT_ONE, (self._lane, SCHEDULED, len(rows)))
        self._sync()

    # Working.

    def drain(self, count: int) -> None:
        """Claim and complete *count* jobs."""
        left = count
        while left > 0:
            seqs = self._claim(min(BATCH, left))
            if not seqs:
                return
            self._complete(seqs)
            left -= len(seqs)

    def _claim(self, limit: int) -> list[int]:
        execute = self._connection.execute
        now = self._clock.now_us()
        with self._transaction():
            chosen = execute(CHOOSE, (self._lane, limit)).fetchall()
            seqs = "[" + ",".join([str(seq) for (seq,) in chosen]) + "]"
            rows = execute(CLAIM, ("token", now + 30_000_000, "raw", now, now, seqs)).fetchall()
            self._move(len(rows), SCHEDULED, RUNNING)
        return [row[0] for row in rows]

    def _complete(self, seqs: Sequence[int]) -> None:
        now = self._clock.now_us()
        params = [*chain.from_iterable((seq, b"null") for seq in seqs), "token", now, now]
        with self._transaction():
            self._connection.execute(_complete(len(seqs)), params)
            self._move(len(seqs), RUNNING, COMPLETED)
        self._sync()

    def _move(self, count: int, was: int, state: int) -> None:
        self._connection.execute(COUNT_MOVE, (self._lane, was, -count, self._lane, state, count))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("begin immediate")
        yield
        self._connection.execute("commit")

    def _sync(self) -> None:
        if self._is_synced:
            os.fdatasync(self._wal)


@cache
def _insert(count: int) -> str:
    row = "(" + ",".join("?" * WIDTH) + ")"
    return f"insert into jobs({COLUMNS}) values " + ",".join([row] * count)


@cache
def _complete(count: int) -> str:
    return COMPLETE.format(values=",".join(["(?,?)"] * count))
