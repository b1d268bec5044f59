"""Reading: jobs, pages, counts, attempts, and what surrounds a job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Attempt, AttemptOutcome, Dependency, Job
from fencepost.core.job.lifecycle import State
from fencepost.core.job.why import Situation
from fencepost.core.values.ids import wanted_ids
from fencepost.core.values.instants import from_us, to_us
from fencepost.store.interface.overview import QueueView, TypeView
from fencepost.store.interface.reader import DeadLetterPage, JobPage
from fencepost.store.interface.settings import Scope
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.jobs import search as searching
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.keys import queues_of
from fencepost.store.postgres.jobs.rows import (
    JOB_COLUMNS,
    decode_attempts,
    decode_body,
    decode_dead_letter,
    decode_job,
    utc,
    utc_or_none,
)
from fencepost.store.postgres.limits.concurrency import active
from fencepost.store.postgres.limits.rates import rate_of, rates_by_type
from fencepost.store.postgres.records.cluster import workers
from fencepost.store.sql.codes import BY_NUMBER
from fencepost.store.sql.positions import pack, unpack

NOW = "coalesce(%s::timestamptz, clock_timestamp())"
GET = f"select {JOB_COLUMNS}, {NOW} from fencepost.jobs where id = any (%s::uuid[])"
SHOW = f"select {JOB_COLUMNS}, {NOW} from fencepost.jobs where seq = any (%s) order by seq desc"
PAST_ATTEMPTS = """
select version, number, worker, outcome, started_at, ended_at, failure
from fencepost.attempt where seq = %s order by version
"""
LAST_ATTEMPT = """
select seq, state, version, attempt, worker, started_at, completed_at
from fencepost.jobs where id = %s::uuid
"""
# All that is claimable at a lower priority number, then what comes first in the job's own lane.
JOBS_AHEAD = """
select count(*) from (
  select 1 from fencepost.job j
  join fencepost.lane own on own.lane = j.lane
  join fencepost.line l
    on l.queue = own.queue and l.type = own.type and l.priority < own.priority
  cross join lateral (
    select 1 from fencepost.ready r where r.lane = l.lane and r.run_at >= l.low
    order by r.run_at, r.seq limit 1000
  ) as before
  where j.id = %s::uuid
  union all
  select 1 from fencepost.job j
  join fencepost.line l on l.lane = j.lane
  cross join lateral (
    select 1 from fencepost.ready r
    where r.lane = l.lane and r.run_at >= l.low and (r.run_at, r.seq) < (%s, j.seq)
    order by r.run_at, r.seq limit 1000
  ) as before
  where j.id = %s::uuid
  limit 1000
) as ahead
"""
RUNNING = f"""
select
  coalesce(sum(cardinality(e.seqs)) filter (where l.queue = %s), 0)::bigint,
  coalesce(sum(cardinality(e.seqs)), 0)::bigint, {NOW}
from fencepost.lease e join fencepost.lane l on l.lane = e.lane
where e.expires_at > {NOW}
"""
IS_PAUSED = "select 1 from fencepost.pause where scope = %s and name = %s"
GET_LIMIT = "select max_running from fencepost.max_running where scope = %s and name = %s"
DEAD_LETTERS = """
select d.seq, j.id::text, l.type, l.queue, d.state, d.attempt, d.failure, d.ended_at
from fencepost.done d
join fencepost.job j on j.seq = d.seq
join fencepost.lane l on l.lane = j.lane
where {conditions}
order by d.ended_at desc, d.seq desc limit %s
"""
OF_TYPE = "l.type = %s"
OF_QUEUES = "l.queue = any (%s::text[])"
OLDER = "(d.ended_at, d.seq) < (%s, %s)"
# A lane that was made for a job which was then not stored has no counts.
COUNTS_BY = """
select l.{column}, t.state, sum(t.count)::bigint
from fencepost.lane l join fencepost.counts t on t.lane = l.lane
group by 1, 2
"""
DEPENDENCIES = """
select c.id::text, p.id::text, l.type, coalesce(d.state, (
    select state from fencepost.jobs where jobs.seq = p.seq
  ))::smallint, p.node, {result}
from fencepost.job c
join fencepost.dependency on dependency.child = c.seq
join fencepost.job p on p.seq = dependency.parent
join fencepost.lane l on l.lane = p.lane
left join fencepost.done d on d.seq = p.seq
where c.id = any (%s::uuid[]) order by c.seq, dependency.place
"""
WITH_RESULTS = DEPENDENCIES.format(result="d.encoding, d.result, d.result_bytes")
WITHOUT_RESULTS = DEPENDENCIES.format(result="null, null, null")
DEPENDENTS = """
select p.id::text, c.id::text from fencepost.job p
join fencepost.dependency on dependency.parent = p.seq
join fencepost.job c on c.seq = dependency.child
where p.id = any (%s::uuid[]) order by c.seq
"""
# One look into the index for each lane, however many are in line.
OLDEST = """
select l.queue, min(first.run_at) from fencepost.line l cross join lateral (
  select r.run_at from fencepost.ready r where r.lane = l.lane and r.run_at >= l.low
  order by r.run_at, r.seq limit 1
) as first group by l.queue
"""
PAUSED = "select name from fencepost.pause where scope = %s"
QUEUE_LIMITS = "select name, max_running from fencepost.max_running where scope = 'queue'"


def get(env: Env, job_ids: Sequence[str]) -> Plan[list[Job | None]]:
    """Return jobs by id, None for those that do not exist."""
    wanted = list(wanted_ids(job_ids).values())
    rows = (yield Statement(GET, (env.now, wanted))) if wanted else []
    jobs = {job.id: job for job in (yield from _decode(env, rows))}
    return [jobs.get(job_id.lower()) for job_id in job_ids]


def locate(env: Env, job_ids: Sequence[str]) -> Plan[list[str | None]]:
    """Return the queues of jobs by id, None for those that do not exist."""
    queues = yield from queues_of(list(wanted_ids(job_ids).values()))
    return [queues.get(job_id.lower()) for job_id in job_ids]


def _decode(env: Env, rows: Sequence[Row]) -> Plan[list[Job]]:
    """Return the jobs of rows that end with the server's time."""
    policies = yield from env.catalog.policies({row[5] for row in rows})
    return [decode_job(row[:-1], policies, row[-1]) for row in rows]


def find(env: Env, filter: JobFilter, page: PageRequest) -> Plan[JobPage]:
    """Return one page of the jobs that meet *filter*, newest first."""
    seqs = yield from searching.find(filter, page)
    shown = seqs[: page.limit]
    rows = (yield Statement(SHOW, (env.now, shown))) if shown else []
    jobs = yield from _decode(env, rows)
    return JobPage(jobs, shown[-1] if len(seqs) > page.limit else None)


def count(env: Env, filter: JobFilter) -> Plan[int]:
    """Count jobs: from the counts where they can tell, else through an index."""
    return searching.count(filter)


def attempts(env: Env, job_id: str) -> Plan[list[Attempt] | None]:
    """Return every attempt of a job: those on record, then the one in the job's own row."""
    for text in wanted_ids([job_id]).values():
        rows = yield Statement(LAST_ATTEMPT, (text,))
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
    rows = yield Statement(RUNNING, (job.queue, env.now, env.now))
    queue_running, app_running, now = rows[0]
    rate, opens_at = yield from rate_of(job.type, utc(now))
    return Situation(
        job=job,
        now=utc(now),
        is_type_paused=bool((yield Statement(IS_PAUSED, (Scope.TYPE.value, job.type)))),
        is_queue_paused=bool((yield Statement(IS_PAUSED, (Scope.QUEUE.value, job.queue)))),
        queue_limit=(yield from get_limit(Scope.QUEUE, job.queue)),
        queue_running=queue_running,
        app_limit=(yield from get_limit(Scope.APP, "")),
        app_running=app_running,
        rate=rate,
        rate_opens_at=opens_at,
        jobs_ahead=(yield from _jobs_ahead(job)),
        has_worker=(yield from _has_worker(env, job)),
        dependencies=(yield from _awaited(env, job)),
        key_active=(yield from active(job.type, job.concurrency_key)),
    )


def _awaited(env: Env, job: Job) -> Plan[tuple[Dependency, ...]]:
    if job.state is not State.PENDING:
        return ()
    (found,) = yield from dependencies(env, [job.id])
    return tuple(found)


def dependencies(
    env: Env, job_ids: Sequence[str], *, with_results: bool = False
) -> Plan[list[list[Dependency]]]:
    """Return what each job waits for or waited for, in order."""
    wanted = list(wanted_ids(job_ids).values())
    sql = WITH_RESULTS if with_results else WITHOUT_RESULTS
    found: dict[str, list[Dependency]] = {}
    for row in (yield Statement(sql, (wanted,))) if wanted else ():
        child, job_id, type_, number, node, *body = row
        dependency = Dependency(
            job_id=job_id,
            type=type_,
            state=BY_NUMBER[number],
            node=node,
            result=decode_body(*body),
        )
        found.setdefault(child, []).append(dependency)
    return [found.get(job_id.lower(), []) for job_id in job_ids]


def dependents(env: Env, job_ids: Sequence[str]) -> Plan[list[list[str]]]:
    """Return who waits for each job or waited for it, oldest first."""
    wanted = list(wanted_ids(job_ids).values())
    found: dict[str, list[str]] = {}
    for parent, child in (yield Statement(DEPENDENTS, (wanted,))) if wanted else ():
        found.setdefault(parent, []).append(child)
    return [found.get(job_id.lower(), []) for job_id in job_ids]


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
    ((ahead,),) = yield Statement(JOBS_AHEAD, (job.id, job.run_at, job.id))
    return int(ahead)


def _has_worker(env: Env, job: Job) -> Plan[bool]:
    live = yield from workers(env)
    return any(
        job.type in worker.types and (worker.queues is None or job.queue in worker.queues)
        for worker in live
    )


def dead_letters(
    env: Env,
    type: str | None,
    page: PageRequest,
    queues: Sequence[str] | None = None,
) -> Plan[DeadLetterPage]:
    """Return one page of dead letters, the most recently dead first."""
    conditions = ["d.is_dead_letter"]
    params: list[Any] = []
    if type is not None:
        conditions.append(OF_TYPE)
        params.append(type)
    if queues is not None:
        conditions.append(OF_QUEUES)
        params.append(sorted(queues))
    if page.after is not None:
        conditions.append(OLDER)
        ended_us, seq = unpack(page.after)
        params += [from_us(ended_us), seq]
    sql = DEAD_LETTERS.format(conditions=" and ".join(conditions))
    rows = yield Statement(sql, (*params, page.limit + 1))
    letters = [decode_dead_letter(row[1:]) for row in rows[: page.limit]]
    if len(rows) <= page.limit:
        return DeadLetterPage(letters)
    seq, *_, ended_at = rows[page.limit - 1]
    return DeadLetterPage(letters, pack(to_us(utc(ended_at)), seq))


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
    oldest: dict[str, datetime] = dict((yield Statement(OLDEST)))
    return [
        QueueView(
            name=name,
            is_paused=name in paused,
            max_running=limits.get(name),
            counts=counts.get(name, {}),
            oldest_at=utc_or_none(oldest.get(name)),
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
