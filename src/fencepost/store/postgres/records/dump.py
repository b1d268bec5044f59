"""Whole jobs, page by page, for another store."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from fencepost.core.job.job import AttemptOutcome, Job, JobRecord
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy
from fencepost.store.interface.transfer import Dump
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.rows import (
    JOB_COLUMNS,
    decode_attempts,
    decode_body,
    decode_job,
    utc,
)
from fencepost.store.sql.texts import decode_tags
from fencepost.store.sql.transfer import fitting, unreadable

# The length of a long value is known without reading it.
SIZES = """
select page.seq, (
    coalesce(octet_length(page.payload), octet_length(page.payload_bytes), 0)
    + coalesce(octet_length(done.result), octet_length(done.result_bytes), 0)
    + coalesce(octet_length(saved.checkpoint), octet_length(saved.checkpoint_bytes), 0)
  )::bigint
from (
  select seq, payload, payload_bytes from fencepost.job where seq > %s::bigint
  order by seq limit %s
) as page
left join fencepost.done on done.seq = page.seq
left join fencepost.saved on saved.seq = page.seq
order by page.seq
"""
RECORDS = f"""
select {JOB_COLUMNS}, key_window, is_dead_letter, coalesce(%s::timestamptz, clock_timestamp())
from fencepost.jobs where seq = any (%s::bigint[]) order by seq
"""
ATTEMPTS = """
select seq, version, number, worker, outcome, started_at, ended_at, failure
from fencepost.attempt where seq = any (%s::bigint[]) order by seq, version
"""
DEPENDENCIES = """
select dependency.child, job.id::text
from fencepost.dependency join fencepost.job on job.seq = dependency.parent
where dependency.child = any (%s::bigint[]) order by dependency.child, dependency.place
"""
KEYS = """
select job.seq, held.window_ends_at from fencepost.job
join fencepost.lane on lane.lane = job.lane
join fencepost.idempotency as held on held.type = lane.type and held.key = job.key
where job.seq = any (%s::bigint[]) and held.seq = job.seq
"""

_OWN = {State.RUNNING: AttemptOutcome.RUNNING, State.COMPLETED: AttemptOutcome.SUCCEEDED}
"""Outcomes of attempts that stand in the job's own row."""


def dump(env: Env, after: int, limit: int) -> Plan[Dump]:
    """Return the jobs that were submitted after position *after*."""
    seqs = fitting((yield Statement(SIZES, (after, limit))))
    if not seqs:
        return Dump([], after)
    rows = yield Statement(RECORDS, (env.now, seqs))
    past: defaultdict[int, list[Row]] = defaultdict(list)
    for row in (yield Statement(ATTEMPTS, (seqs,))):
        past[row[0]].append(row[1:])
    awaited: defaultdict[int, list[str]] = defaultdict(list)
    for child, parent_id in (yield Statement(DEPENDENCIES, (seqs,))):
        awaited[child].append(parent_id)
    held: dict[int, datetime | None] = dict((yield Statement(KEYS, (seqs,))))
    policies = yield from env.catalog.policies({row[5] for row in rows})
    records = []
    for row in rows:
        seq, (window, is_dead_letter, now) = row[0], row[-3:]
        job = _read(row[:-3], policies, now)
        ends_at = held.get(seq)
        records.append(
            JobRecord(
                job=job,
                attempts=tuple(decode_attempts(job.id, [*past[seq], *_own(job, row)])),
                key_window=None if window is None else window / 1_000_000,
                holds_key=seq in held,
                key_ends_at=None if ends_at is None else utc(ends_at),
                is_dead_letter=bool(is_dead_letter),
                dependencies=tuple(awaited[seq]),
            )
        )
    return Dump(records, seqs[-1])


def _read(row: Row, policies: dict[int, Policy], now: datetime) -> Job:
    """Return the job of a row; of one that has ended, what can be read of it."""
    job = decode_job(row, policies, now)
    if not job.state.is_terminal:
        if decode_body(*row[-3:]) is None or row[5] not in policies:
            raise unreadable(job.id, job.state)
        try:
            decode_tags(row[21])
        except (ValueError, TypeError):
            raise unreadable(job.id, job.state) from None
    return job


def _own(job: Job, row: Row) -> list[Row]:
    outcome = _OWN.get(job.state)
    if outcome is None:
        return []
    worker, started_at, completed_at = row[12], row[16], row[17]
    ended = (worker, outcome, started_at, completed_at, None)
    return [(job.lease_version, job.attempt, *ended)]
