"""Reading: jobs, pages, counts, attempts, and what surrounds a job."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Attempt, AttemptOutcome, Dependency, Job
from fencepost.core.job.lifecycle import State
from fencepost.core.job.why import Situation
from fencepost.core.values.ids import id_text, wanted_ids
from fencepost.core.values.instants import from_us, from_us_or_none
from fencepost.store.interface.overview import QueueView, TypeView
from fencepost.store.interface.reader import DeadLetterPage, JobPage
from fencepost.store.interface.settings import Scope
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codes import BY_NUMBER
from fencepost.store.sql.positions import pack, unpack
from fencepost.store.sqlite.engine.values import values
from fencepost.store.sqlite.flows.read import dependencies
from fencepost.store.sqlite.jobs import search as searching
from fencepost.store.sqlite.jobs.catalog import Env, numbers_json
from fencepost.store.sqlite.jobs.rows import (
    JOB_COLUMNS,
    decode_attempts,
    decode_dead_letter,
    decode_job,
)
from fencepost.store.sqlite.limits.concurrency import active
from fencepost.store.sqlite.limits.rates import rate_of, rates_by_type
from fencepost.store.sqlite.records.cluster import workers

GET = f"select {JOB_COLUMNS} from jobs where id in ({{values}})"
SHOW = f"""
select {JOB_COLUMNS} from jobs where seq in (select value from json_each(?)) order by seq desc
"""
PAST_ATTEMPTS = """
select lease_version, number, worker, outcome, started_at, ended_at, failure
from attempts where seq = ? order by lease_version
"""
LAST_ATTEMPT = """
select seq, state, lease_version, attempt, worker, started_at, completed_at from jobs where id = ?
"""
JOBS_AHEAD = """
select count(*) from (
  select 1 from jobs as other indexed by jobs_ready, jobs as this
  where this.id = ? and other.state = 1 and other.lane = this.lane
    and (other.priority, other.run_at, other.seq) < (this.priority, this.run_at, this.seq)
  limit 1000
)
"""
RUNNING_IN_QUEUE = """
select count(*) from jobs join lanes on lanes.lane = jobs.lane
where jobs.state = 3 and jobs.lease_expires_at > ? and lanes.queue = ?
"""
RUNNING_IN_ALL = "select count(*) from jobs where state = 3 and lease_expires_at > ?"
IS_PAUSED = "select 1 from pauses where scope = ? and name = ?"
GET_LIMIT = "select max_running from limits where scope = ? and name = ?"
LOCATE = """
select jobs.id, lanes.queue from jobs join lanes on lanes.lane = jobs.lane
where jobs.id in ({values})
"""
DEAD_LETTERS = """
select jobs.completed_at, jobs.seq, jobs.id, jobs.lane, jobs.state, jobs.attempt, jobs.failure
from jobs indexed by jobs_dead join lanes on lanes.lane = jobs.lane
where jobs.is_dead_letter = 1 and (? is null or lanes.type = ?)
  and (? is null or lanes.queue in (select value from json_each(?)))
  and (? is null or (jobs.completed_at, jobs.seq) < (?, ?))
order by jobs.completed_at desc, jobs.seq desc limit ?
"""
# A lane that was made for a job which was then not stored has no counters.
COUNTS_BY = """
select lanes.{column}, counters.state, sum(counters.count)
from lanes join counters on counters.lane = lanes.lane
group by 1, 2
"""
# One look into the index for each lane and priority, however many are in line.
OLDEST = """
select queue, min(run_at) from (
  select lanes.queue, (
      select min(run_at) from jobs indexed by jobs_ready
      where state = 1 and lane = lanes.lane and priority = of.priority
    ) as run_at
  from counters join lanes on lanes.lane = counters.lane cross join (
    select column1 as priority from (values (0), (1), (2), (3), (4))
  ) as of
  where counters.state = 1 and counters.count > 0
) where run_at is not null group by queue
"""
PAUSED = "select name from pauses where scope = ?"
QUEUE_LIMITS = "select name, max_running from limits where scope = 'queue'"


def get(env: Env, job_ids: Sequence[str]) -> Plan[list[Job | None]]:
    """Return jobs by id, None for those that do not exist."""
    rows: list[Row] = []
    for sql, params in values(GET, [(id_,) for id_ in wanted_ids(job_ids)]):
        rows += yield Statement(sql, params)
    jobs = {job.id: job for job in (yield from _decode(env, rows))}
    return [jobs.get(job_id.lower()) for job_id in job_ids]


def locate(env: Env, job_ids: Sequence[str]) -> Plan[list[str | None]]:
    """Return the queues of jobs by id, None for those that do not exist."""
    queues: dict[str, str] = {}
    for sql, params in values(LOCATE, [(id_,) for id_ in wanted_ids(job_ids)]):
        queues |= {id_text(id_): queue for id_, queue in (yield Statement(sql, params))}
    return [queues.get(job_id.lower()) for job_id in job_ids]


def _decode(env: Env, rows: Sequence[Row]) -> Plan[list[Job]]:
    now = env.clock.now_us()
    lanes = yield from env.catalog.lanes({row[2] for row in rows})
    policies = yield from env.catalog.policies({row[3] for row in rows})
    return [decode_job(row, lanes, policies, now) for row in rows]


def find(env: Env, filter: JobFilter, page: PageRequest) -> Plan[JobPage]:
    """Return one page of the jobs that meet *filter*, newest first."""
    seqs = yield from searching.find(filter, page)
    shown = seqs[: page.limit]
    rows = (yield Statement(SHOW, (numbers_json(shown),))) if shown else []
    jobs = yield from _decode(env, rows)
    return JobPage(jobs, shown[-1] if len(seqs) > page.limit else None)


def count(env: Env, filter: JobFilter) -> Plan[int]:
    """Count jobs: from the counters where they can tell, else through an index."""
    return searching.count(filter)


def attempts(env: Env, job_id: str) -> Plan[list[Attempt] | None]:
    """Return every attempt of a job: those on record, then the one in the job's own row."""
    for id_, text in wanted_ids([job_id]).items():
        rows = yield Statement(LAST_ATTEMPT, (id_,))
        if not rows:
            return None
        seq, number, version, attempt, worker, started_at, completed_at = rows[0]
        past: list[Row] = list((yield Statement(PAST_ATTEMPTS, (seq,))))
        outcome = {
            State.RUNNING: AttemptOutcome.RUNNING,
            State.COMPLETED: AttemptOutcome.SUCCEEDED,
        }.get(BY_NUMBER[number])
        if outcome is not None:
            past.append((version, attempt, worker, outcome, started_at, completed_at, None))
        return decode_attempts(text, past)
    return None


def situation(env: Env, job_id: str) -> Plan[Situation | None]:
    """Return a job and all that may keep it where it is."""
    (job,) = yield from get(env, [job_id])
    if job is None:
        return None
    now = env.clock.now_us()
    ((queue_running,),) = yield Statement(RUNNING_IN_QUEUE, (now, job.queue))
    ((app_running,),) = yield Statement(RUNNING_IN_ALL, (now,))
    rate, opens_at = yield from rate_of(job.type, now)
    return Situation(
        job=job,
        now=from_us(now),
        is_type_paused=bool((yield Statement(IS_PAUSED, (Scope.TYPE.value, job.type)))),
        is_queue_paused=bool((yield Statement(IS_PAUSED, (Scope.QUEUE.value, job.queue)))),
        queue_limit=(yield from get_limit(Scope.QUEUE, job.queue)),
        queue_running=queue_running,
        app_limit=(yield from get_limit(Scope.APP, "")),
        app_running=app_running,
        rate=rate,
        rate_opens_at=from_us_or_none(opens_at),
        jobs_ahead=(yield from _jobs_ahead(job)),
        has_worker=(yield from _has_worker(env, job)),
        dependencies=(yield from _dependencies(env, job)),
        key_active=(yield from active(job.type, job.concurrency_key)),
    )


def app_limit(env: Env) -> Plan[int | None]:
    """Return the limit of the whole store, None when there is none."""
    return get_limit(Scope.APP, "")


def get_limit(scope: Scope, name: str) -> Plan[int | None]:
    """Return a limit, None when there is none."""
    rows = yield Statement(GET_LIMIT, (scope.value, name))
    return rows[0][0] if rows else None


def _jobs_ahead(job: Job) -> Plan[int]:
    if job.state is not State.SCHEDULED:
        return 0
    (id_,) = wanted_ids([job.id])
    ((ahead,),) = yield Statement(JOBS_AHEAD, (id_,))
    return int(ahead)


def _dependencies(env: Env, job: Job) -> Plan[tuple[Dependency, ...]]:
    if job.state is not State.PENDING:
        return ()
    (found,) = yield from dependencies(env, [job.id], with_results=False)
    return tuple(found)


def _has_worker(env: Env, job: Job) -> Plan[bool]:
    live = yield from workers(env)
    return any(
        job.type in worker.types and (worker.queues is None or job.queue in worker.queues)
        for worker in live
    )


def dead_letters(
    env: Env, type: str | None, page: PageRequest, queues: Sequence[str] | None = None
) -> Plan[DeadLetterPage]:
    """Return one page of dead letters, the most recently dead first."""
    after = (None, None) if page.after is None else unpack(page.after)
    among = None if queues is None else json.dumps(sorted(queues))
    rows = yield Statement(
        DEAD_LETTERS, (type, type, among, among, after[0], *after, page.limit + 1)
    )
    lanes = yield from env.catalog.lanes({row[3] for row in rows})
    letters = [decode_dead_letter((*row[2:], row[0]), lanes) for row in rows[: page.limit]]
    has_more = len(rows) > page.limit
    return DeadLetterPage(letters, pack(*rows[page.limit - 1][:2]) if has_more else None)


def _counts_by(column: str) -> Plan[dict[str, dict[State, int]]]:
    rows = yield Statement(COUNTS_BY.format(column=column))
    counts: dict[str, dict[State, int]] = {}
    for name, number, total in rows:
        by_state = counts.setdefault(name, {})
        if total:
            by_state[BY_NUMBER[number]] = total
    return counts


def queues(env: Env) -> Plan[list[QueueView]]:
    """Return every queue that has had a job or a setting."""
    counts = yield from _counts_by("queue")
    paused = {row[0] for row in (yield Statement(PAUSED, (Scope.QUEUE.value,)))}
    limits: dict[str, int] = dict((yield Statement(QUEUE_LIMITS)))
    oldest: dict[str, int] = dict((yield Statement(OLDEST)))
    return [
        QueueView(
            name=name,
            is_paused=name in paused,
            max_running=limits.get(name),
            counts=counts.get(name, {}),
            oldest_at=from_us_or_none(oldest.get(name)),
        )
        for name in sorted(counts.keys() | paused | limits.keys())
    ]


def types(env: Env) -> Plan[list[TypeView]]:
    """Return every type that has had a job or a setting."""
    counts = yield from _counts_by("type")
    paused = {row[0] for row in (yield Statement(PAUSED, (Scope.TYPE.value,)))}
    rates = yield from rates_by_type()
    return [
        TypeView(
            name=name,
            is_paused=name in paused,
            rate=rates.get(name),
            counts=counts.get(name, {}),
        )
        for name in sorted(counts.keys() | paused | rates.keys())
    ]
