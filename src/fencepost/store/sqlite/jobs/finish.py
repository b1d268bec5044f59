"""Ending attempts: the one way in which a running job's row leaves RUNNING.

Settling, recovering, expiring and cancelling all write through here, so that the fence is lifted,
the attempt recorded and the counters moved in the same breath.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from fencepost.core.job.job import AttemptOutcome
from fencepost.core.job.lifecycle import DEAD, State
from fencepost.core.job.outcome import Decision
from fencepost.core.values.ids import id_of_digits
from fencepost.core.values.instants import seconds_to_us
from fencepost.core.values.payload import NULL
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codes import BY_NUMBER, NUMBER
from fencepost.store.sql.texts import encode_failure
from fencepost.store.sqlite.engine.values import values
from fencepost.store.sqlite.jobs.catalog import Tally
from fencepost.store.sqlite.jobs.rows import encode_body

STANDING_COLUMNS = """
seq, id, lane, state, attempt, max_attempts, policy, run_at, expires_at, lease_version,
lease_token, lease_expires_at, settled_token, worker, started_at,
lease_ttl, timeout_grace
"""

# All rows of a chunk succeed at the same moment; only the result differs.
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


class Standing(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A live job's row, as far as ending its attempt needs it."""

    seq: int
    digits: str
    """The id in hexadecimal."""
    lane: int
    number: int
    """The state, as the table holds it."""
    attempt: int
    max_attempts: int
    policy: int
    run_at: int
    expires_at: int
    lease_version: int
    lease_token: str | None
    lease_expires_at: int | None
    settled_token: str | None
    worker: str | None
    started_at: int | None
    lease_ttl: int | None
    """What the claim asked for, as the next."""
    timeout_grace: int | None

    @property
    def state(self) -> State:
        return BY_NUMBER[self.number]

    @property
    def job_id(self) -> str:
        return id_of_digits(self.digits)


def standing(row: Row) -> Standing:
    """Return the standing in a row with STANDING_COLUMNS."""
    return Standing(row[0], row[1].hex(), *row[2:])


class Ending(NamedTuple):
    """A job, what becomes of it, and the token that settles it (None when it was taken away)."""

    job: Standing
    decision: Decision
    settled_token: str | None = None


def complete(endings: Sequence[Ending], now: int, tally: Tally) -> Plan[None]:
    """Write successes: one row each, nothing else."""
    rows = []
    by_lane: Counter[int] = Counter()
    for job, decision, token in endings:
        rows.append((job.seq, *encode_body(decision.result or NULL), token, now))
        by_lane[job.lane] += 1
    for lane, count in by_lane.items():
        tally.move(lane, State.RUNNING, State.COMPLETED, count)
    for sql, params in values(COMPLETE, rows):
        yield Statement(sql, params)


def end(endings: Sequence[Ending], now: int, tally: Tally) -> Plan[None]:
    """Write every other ending, and the attempts that ended so."""
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
        tally.move(job.lane, job.state, state)
    for sql, params in values(END, rows):
        yield Statement(sql, params)
    yield from _record(endings, now)


def _record(endings: Sequence[Ending], now: int) -> Plan[None]:
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
