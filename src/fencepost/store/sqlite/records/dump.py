"""Whole jobs, page by page, for another store."""

from __future__ import annotations

from collections import defaultdict

from fencepost.core.job.job import AttemptOutcome, Job, JobRecord
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy
from fencepost.core.values.ids import id_text
from fencepost.core.values.instants import from_us_or_none
from fencepost.store.interface.transfer import Dump
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.texts import decode_tags
from fencepost.store.sql.transfer import fitting, unreadable
from fencepost.store.sqlite.jobs.catalog import Env, Lane, numbers_json
from fencepost.store.sqlite.jobs.rows import JOB_COLUMNS, decode_attempts, decode_body, decode_job

# The length of a blob is known without reading it.
SIZES = """
select seq, length(payload) + coalesce(length(result), 0) + coalesce(length(checkpoint), 0)
from jobs where seq > ? order by seq limit ?
"""
RECORDS = f"""
select {JOB_COLUMNS}, key_window, is_dead_letter from jobs
where seq in (select value from json_each(?)) order by seq
"""
ATTEMPTS = """
select seq, lease_version, number, worker, outcome, started_at, ended_at, failure
from attempts where seq in (select value from json_each(?)) order by seq, lease_version
"""
KEYS = """
select jobs.seq, idempotency.window_ends_at from jobs
join lanes on lanes.lane = jobs.lane
join idempotency on idempotency.type = lanes.type and idempotency.key = jobs.key
where jobs.seq in (select value from json_each(?)) and idempotency.seq = jobs.seq
"""
PARENTS = """
select dependencies.child, jobs.id from dependencies join jobs on jobs.seq = dependencies.parent
where dependencies.child in (select value from json_each(?))
order by dependencies.child, dependencies.place
"""

_OWN = {State.RUNNING: AttemptOutcome.RUNNING, State.COMPLETED: AttemptOutcome.SUCCEEDED}
"""Outcomes of attempts that stand in the job's own row."""


def dump(env: Env, after: int, limit: int) -> Plan[Dump]:
    """Return the jobs that were submitted after position *after*."""
    seqs = fitting((yield Statement(SIZES, (after, limit))))
    if not seqs:
        return Dump([], after)
    numbers = numbers_json(seqs)
    rows = yield Statement(RECORDS, (numbers,))
    past: defaultdict[int, list[Row]] = defaultdict(list)
    for row in (yield Statement(ATTEMPTS, (numbers,))):
        past[row[0]].append(row[1:])
    parents: defaultdict[int, list[str]] = defaultdict(list)
    for child, parent in (yield Statement(PARENTS, (numbers,))):
        parents[child].append(id_text(parent))
    held: dict[int, int | None] = dict((yield Statement(KEYS, (numbers,))))
    lanes = yield from env.catalog.lanes({row[2] for row in rows})
    policies = yield from env.catalog.policies({row[3] for row in rows})
    now = env.clock.now_us()
    records = []
    for row in rows:
        seq, (window, is_dead_letter) = row[0], row[-2:]
        job = _read(row[:-2], lanes, policies, now)
        records.append(
            JobRecord(
                job=job,
                attempts=tuple(decode_attempts(job.id, [*past[seq], *_own(job, row)])),
                key_window=None if window is None else window / 1_000_000,
                holds_key=seq in held,
                key_ends_at=from_us_or_none(held.get(seq)),
                is_dead_letter=bool(is_dead_letter),
                dependencies=tuple(parents.get(seq, ())),
            )
        )
    return Dump(records, seqs[-1])


def _read(row: Row, lanes: dict[int, Lane], policies: dict[int, Policy], now: int) -> Job:
    """Return the job of a row; of one that has ended, what can be read of it."""
    job = decode_job(row, lanes, policies, now)
    if not job.state.is_terminal:
        payload_encoding, payload = row[-2:]
        if decode_body(payload, payload_encoding) is None or row[3] not in policies:
            raise unreadable(job.id, job.state)
        try:
            decode_tags(row[20])
        except (ValueError, TypeError):
            raise unreadable(job.id, job.state) from None
    return job


def _own(job: Job, row: Row) -> list[Row]:
    outcome = _OWN.get(job.state)
    if outcome is None:
        return []
    worker, started_at, completed_at = row[11], row[15], row[16]
    ended = (worker, outcome, started_at, completed_at, None)
    return [(job.lease_version, job.attempt, *ended)]
