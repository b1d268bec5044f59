"""Ends of attempts: the only code that takes a row out of RUNNING.

Settling, recovering, expiring and cancelling all write through here, so that the lease is cleared,
the attempt recorded and the counters moved together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from fencepost.core.job.job import AttemptOutcome
from fencepost.core.job.lifecycle import DEAD, State
from fencepost.core.values.names import id_of_digits
from fencepost.core.values.payload import NULL
from fencepost.core.values.times import seconds_to_us
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codec import BY_NUMBER, NUMBER, encode_failure
from fencepost.store.sql.endings import Ending
from fencepost.store.sqlite.jobs.catalog import JobCounters
from fencepost.store.sqlite.jobs.rows import encode_body, values

LIVE_COLUMNS = """
seq, id, lane, state, attempt, max_attempts, policy, run_at, expires_at, lease_version,
lease_token, lease_expires_at, settled_token, worker, started_at,
lease_ttl, timeout_grace
"""

COMPLETE = f"""
with done(seq, result, result_encoding, settled_token, now) as ({{values}})
update jobs
set state = {NUMBER[State.COMPLETED]}, result = done.result,
    result_encoding = done.result_encoding, settled_token = done.settled_token,
    completed_at = done.now, updated_at = done.now, failure = null, lease_token = null,
    lease_expires_at = null
from done where jobs.seq = done.seq
"""
END = """
with ended(seq, state, attempt, run_at, scheduled_at, completed_at, is_dead_letter, failure,
           settled_token, now) as ({values})
update jobs
set state = ended.state, attempt = ended.attempt, run_at = ended.run_at,
    scheduled_at = coalesce(ended.scheduled_at, jobs.scheduled_at),
    completed_at = ended.completed_at, is_dead_letter = ended.is_dead_letter,
    failure = coalesce(ended.failure, jobs.failure),
    settled_token = coalesce(ended.settled_token, jobs.settled_token),
    updated_at = ended.now, lease_token = null, lease_expires_at = null, worker = null
from ended where jobs.seq = ended.seq
"""
RECORD = """
insert into attempts(seq, lease_version, number, worker, outcome, started_at, ended_at, failure)
{values}
"""


class LiveRow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The columns of a live job's row that ending its attempt needs."""

    seq: int
    digits: str
    """The id in hexadecimal."""
    lane: int
    number: int
    """The state's number."""
    attempt: int
    max_attempts: int
    policy: int
    run_at: int
    expires_at: int
    lease_version: int
    lease_token: str | None = None
    lease_expires_at: int | None = None
    settled_token: str | None = None
    worker: str | None = None
    started_at: int | None = None
    lease_ttl: int | None = None
    """As the claim asked for; so is the next."""
    timeout_grace: int | None = None

    @property
    def state(self) -> State:
        return BY_NUMBER[self.number]

    @property
    def job_id(self) -> str:
        return id_of_digits(self.digits)


def live_row(row: Row) -> LiveRow:
    """Return a row with LIVE_COLUMNS."""
    return LiveRow(row[0], row[1].hex(), *row[2:])


LiveEnding = Ending[LiveRow]


def complete(endings: Sequence[LiveEnding], now: int, counters: JobCounters) -> Plan[None]:
    """Write successes: an update of one row each."""
    rows = []
    by_lane: Counter[int] = Counter()
    for job, decision, token in endings:
        rows.append((job.seq, *encode_body(decision.result or NULL), token, now))
        by_lane[job.lane] += 1
    for lane, count in by_lane.items():
        counters.move(lane, State.RUNNING, State.COMPLETED, count)
    for sql, params in values(COMPLETE, rows):
        yield Statement(sql, params)


def end(endings: Sequence[LiveEnding], now: int, counters: JobCounters) -> Plan[None]:
    """Write all other endings, with their attempts."""
    rows = []
    for job, decision, token in endings:
        state = decision.state
        run_at = job.run_at
        if state in (State.RETRYING, State.DELAYED):
            run_at = min(now + seconds_to_us(decision.delay), job.expires_at)
        rows.append(
            (
                job.seq,
                NUMBER[state],
                job.attempt if decision.is_counted else job.attempt - 1,
                run_at,
                now if state is State.SCHEDULED else None,
                now if state.is_terminal else None,
                1 if state in DEAD else None,
                encode_failure(decision.failure),
                token,
                now,
            )
        )
        counters.move(job.lane, job.state, state)
    for sql, params in values(END, rows):
        yield Statement(sql, params)
    yield from _record(endings, now)


def _record(endings: Sequence[LiveEnding], now: int) -> Plan[None]:
    rows = [
        (
            job.seq,
            job.lease_version,
            job.attempt,
            job.worker,
            decision.outcome.value,
            job.started_at,
            now,
            encode_failure(decision.failure),
        )
        for job, decision, _ in endings
        if job.state is State.RUNNING and decision.outcome is not AttemptOutcome.SUCCEEDED
    ]
    for sql, params in values(RECORD, rows):
        yield Statement(sql, params)
