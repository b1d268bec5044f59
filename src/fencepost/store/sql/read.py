"""Reading jobs, their attempts and what surrounds them: plans over the SQL of an engine.

Engines select the columns of a job in one order, which ``decode_job`` names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol

from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.flows.dependencies import Waits
from fencepost.core.job.job import (
    EMPTY,
    Attempt,
    AttemptOutcome,
    DeadLetter,
    Dependency,
    Job,
    Ownership,
)
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import DEFAULT_POLICY, Policy, Priority
from fencepost.core.job.why import Situation
from fencepost.core.limits.type_limits import TypeLimits, TypeUsage
from fencepost.core.values.names import attempt_id, previous_attempt_id, wanted_ids
from fencepost.core.values.times import from_us, to_us
from fencepost.store.interface.control import Selected
from fencepost.store.interface.reader import DeadLetterPage, JobPage
from fencepost.store.interface.settings import Scope
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codec import (
    BY_NUMBER,
    MODES,
    UNREADABLE,
    Codec,
    E,
    SqlEnv,
    decode_failure,
    decode_progress,
    readable_tags,
)
from fencepost.store.sql.paging import pack, unpack
from fencepost.store.sql.records.cluster import ClusterPlans
from fencepost.store.sql.settings import SettingPlans

OPEN_ATTEMPTS = {State.RUNNING: AttemptOutcome.RUNNING, State.COMPLETED: AttemptOutcome.SUCCEEDED}
"""Outcomes of attempts that are kept in the job's own row, not in the table of attempts."""

SEQ, POLICY, WORKER, STARTED_AT, COMPLETED_AT, TAGS = 0, 5, 12, 16, 17, 21
"""Places of some columns in the row of a job."""
PRIORITIES = {int(priority): priority for priority in Priority}


class ReadSql(NamedTuple):
    """Statements that read jobs, with their parameters."""

    get: str
    """now, ids; returns rows of jobs that end with the time"""
    show: str
    """now, numbers; returns the same, the newest first"""
    ids: str
    """numbers; returns number and id"""
    locate: str
    """ids; returns id and queue"""
    last_attempt: str
    """id; returns number, state and the columns of the attempt in the job's own row"""
    past_attempts: str
    """number"""
    running: str
    """queue, now, now; returns how many jobs run in the queue and in all, and the time"""
    jobs_ahead: str
    dependencies: str
    """ids; ``{result}`` stands for the columns of the result"""
    result: str
    no_result: str
    dependents: str
    """ids"""
    dead_letters: str
    """the parameters of ``{conditions}``, how many"""
    of_type: str
    of_queues: str
    older: str


class ByIds(Protocol):
    """How an engine executes a statement for a list of ids, after parameters of its own."""

    def __call__(self, sql: str, ids: Sequence[str], *before: Any) -> Plan[list[Row]]: ...


class ReadPlans(NamedTuple, Generic[E]):
    sql: ReadSql
    codec: Codec
    cluster: ClusterPlans
    settings: SettingPlans
    by_ids: ByIds
    search: Callable[[JobFilter, PageRequest], Plan[list[int]]]
    """The numbers of jobs that meet a filter, one more than a page holds."""
    ahead_params: Callable[[Job], Sequence[Any]]
    usage_of: Callable[[str, Any], Plan[tuple[TypeLimits, TypeUsage]]]
    """The limits of a type, and how far they are used up."""
    active: Callable[[str, str | None], Plan[int]]
    """How many jobs hold a slot of a concurrency key."""

    def get(self, env: E, job_ids: Sequence[str]) -> Plan[list[Job | None]]:
        """Return jobs by id, None for those that do not exist."""
        rows = yield from self._of_ids(self.sql.get, job_ids, env.now)
        jobs = {job.id: job for job in (yield from self.decode(env, rows))}
        return [jobs.get(job_id.lower()) for job_id in job_ids]

    def decode(self, env: E, rows: Sequence[Row]) -> Plan[list[Job]]:
        """Return the jobs of rows."""
        policies = yield from env.catalog.policies({row[POLICY] for row in rows})
        return [decode_job(self.codec, row, policies) for row in rows]

    def locate(self, env: E, job_ids: Sequence[str]) -> Plan[list[str | None]]:
        """Return the queues of jobs by id, None for those that do not exist."""
        rows = yield from self._of_ids(self.sql.locate, job_ids)
        queues: dict[str, str] = {self.codec.decode_id(id_): queue for id_, queue in rows}
        return [queues.get(job_id.lower()) for job_id in job_ids]

    def find(self, env: E, filter: JobFilter, page: PageRequest) -> Plan[JobPage]:
        """Return one page of the jobs that meet *filter*."""
        seqs = yield from self.search(filter, page)
        shown = seqs[: page.limit]
        params = (env.now, self.codec.encode_list(shown))
        rows: Sequence[Row] = (yield Statement(self.sql.show, params)) if shown else []
        rows = rows[::-1] if page.is_oldest_first else rows
        jobs = yield from self.decode(env, rows)
        positions = [row[SEQ] for row in rows]
        return JobPage(jobs, shown[-1] if len(seqs) > page.limit else None, positions)

    def select(self, env: E, filter: JobFilter, page: PageRequest) -> Plan[Selected]:
        """Return one page of the ids of the jobs that meet *filter*."""
        seqs = yield from self.search(filter, page)
        shown = seqs[: page.limit]
        found: dict[int, str] = {}
        if shown:
            found = dict((yield Statement(self.sql.ids, (self.codec.encode_list(shown),))))
        ids = [self.codec.decode_id(found[seq]) for seq in shown if seq in found]
        return Selected(ids, shown[-1] if len(seqs) > page.limit else None)

    def attempts(self, env: E, job_id: str) -> Plan[list[Attempt] | None]:
        """Return every attempt of a job: those on record, then the one in the job's own row."""
        for text in wanted_ids([job_id]).values():
            rows = yield Statement(self.sql.last_attempt, (self.codec.encode_id(text),))
            if not rows:
                return None
            seq, number, version, attempt, worker, started_at, completed_at = rows[0]
            past: list[Row] = list((yield Statement(self.sql.past_attempts, (seq,))))
            outcome = OPEN_ATTEMPTS.get(BY_NUMBER[number])
            if outcome is not None:
                past.append((version, attempt, worker, outcome, started_at, completed_at, None))
            return decode_attempts(self.codec, text, past)
        return None

    def situation(self, env: E, job_id: str) -> Plan[Situation | None]:
        """Return a job and everything that may keep it from running."""
        (job,) = yield from self.get(env, [job_id])
        if job is None:
            return None
        at = env.now
        ((queue_running, app_running, now),) = yield Statement(
            self.sql.running, (job.queue, at, at)
        )
        limits, usage = yield from self.usage_of(job.type, now)
        return Situation(
            job=job,
            now=self.codec.decode_time(now),
            is_type_paused=(yield from self.settings.is_paused(Scope.TYPE, job.type)),
            is_queue_paused=(yield from self.settings.is_paused(Scope.QUEUE, job.queue)),
            queue_limit=(yield from self.settings.queue_limit(job.queue)),
            queue_running=queue_running,
            app_limit=(yield from self.settings.app_limit(env)),
            app_running=app_running,
            limits=limits,
            usage=usage,
            jobs_ahead=(yield from self._jobs_ahead(job)),
            workers=(yield from self.cluster.workers(env)),
            dependencies=(yield from self._awaited(env, job)),
            key_active=(yield from self.active(job.type, job.concurrency_key)),
        )

    def _jobs_ahead(self, job: Job) -> Plan[int]:
        if job.state is not State.SCHEDULED:
            return 0
        ((ahead,),) = yield Statement(self.sql.jobs_ahead, self.ahead_params(job))
        return int(ahead)

    def _awaited(self, env: E, job: Job) -> Plan[tuple[Dependency, ...]]:
        if job.state is not State.PENDING:
            return ()
        (found,) = yield from self.dependencies(env, [job.id])
        return tuple(found)

    def dependencies(
        self, env: SqlEnv, job_ids: Sequence[str], *, with_results: bool = False
    ) -> Plan[list[list[Dependency]]]:
        """Return what each job waits for or waited for, in order."""
        result = self.sql.result if with_results else self.sql.no_result
        sql = self.sql.dependencies.replace("{result}", result)
        found: dict[str, list[Dependency]] = {}
        for child, parent, type_, number, node, *body in (yield from self._of_ids(sql, job_ids)):
            dependency = Dependency(
                job_id=self.codec.decode_id(parent),
                type=type_,
                state=BY_NUMBER[number],
                node=node,
                result=self.codec.decode_body(*body),
            )
            found.setdefault(self.codec.decode_id(child), []).append(dependency)
        return [found.get(job_id.lower(), []) for job_id in job_ids]

    def dependents(self, env: SqlEnv, job_ids: Sequence[str]) -> Plan[list[list[str]]]:
        """Return the jobs that wait for each job or waited for it, oldest first."""
        found: dict[str, list[str]] = {}
        decode_id = self.codec.decode_id
        for parent, child in (yield from self._of_ids(self.sql.dependents, job_ids)):
            found.setdefault(decode_id(parent), []).append(decode_id(child))
        return [found.get(job_id.lower(), []) for job_id in job_ids]

    def _of_ids(self, sql: str, job_ids: Sequence[str], *before: Any) -> Plan[list[Row]]:
        wanted = list(wanted_ids(job_ids).values())
        return (yield from self.by_ids(sql, wanted, *before)) if wanted else []

    def dead_letters(
        self,
        env: SqlEnv,
        type: str | None,
        page: PageRequest,
        queues: Sequence[str] | None = None,
    ) -> Plan[DeadLetterPage]:
        """Return one page of dead letters, the most recently dead first."""
        conditions = ["true"]
        params: list[Any] = []
        if type is not None:
            conditions.append(self.sql.of_type)
            params.append(type)
        if queues is not None:
            conditions.append(self.sql.of_queues)
            params.append(self.codec.encode_list(sorted(queues)))
        if page.after is not None:
            conditions.append(self.sql.older)
            completed_us, seq = unpack(page.after)
            params += [self.codec.encode_time(from_us(completed_us)), seq]
        sql = self.sql.dead_letters.format(conditions=" and ".join(conditions))
        rows = yield Statement(sql, (*params, page.limit + 1))
        letters = [self._letter(row) for row in rows[: page.limit]]
        if len(rows) <= page.limit:
            return DeadLetterPage(letters)
        completed_at = letters[-1].completed_at
        return DeadLetterPage(letters, pack(to_us(completed_at), rows[page.limit - 1][0]))

    def _letter(self, row: Row) -> DeadLetter:
        _seq, id_, type_, queue, state, attempt, failure, completed_at = row
        return DeadLetter(
            job_id=self.codec.decode_id(id_),
            type=type_,
            queue=queue,
            state=BY_NUMBER[state],
            attempts=attempt,
            failure=decode_failure(failure) or UNREADABLE,
            completed_at=self.codec.decode_time(completed_at),
        )


def decode_job(codec: Codec, row: Row, policies: Mapping[int, Policy]) -> Job:
    """Return the job of a row; values that cannot be read are left out.

    After the columns of the job come those of its three bodies, then the time.
    """
    (
        _seq, id_, queue, type_, priority, policy, number, attempt, max_attempts, lease_version,
        run_at, lease_expires_at, worker, created_at, updated_at, scheduled_at, started_at,
        completed_at, expires_at, key, correlation_id, tags, replay_of, failure, progress,
        flow, node, mode, missing, depth, gathers, own_priority, concurrency_key, callback_url,
        submitter, *bodies, now,
    ) = row  # fmt: skip
    state = BY_NUMBER[number]
    lease = waits = None
    if state is State.RUNNING:
        ends_at = codec.decode_time(lease_expires_at)
        has_expired = codec.decode_time(now) >= ends_at
        lease = Ownership(worker, lease_version, ends_at, has_expired)
    if mode is not None:
        still_missing = missing if state is State.PENDING else 0
        own = PRIORITIES.get(own_priority)
        waits = Waits(MODES[mode], still_missing, depth, bool(gathers), own)
    width = len(bodies) // 3
    checkpoint, result, payload = (
        codec.decode_body(*bodies[at : at + width]) for at in (0, width, 2 * width)
    )
    return Job(
        id=codec.decode_id(id_),
        type=type_,
        queue=queue,
        priority=PRIORITIES.get(priority, Priority.NORMAL),
        state=state,
        attempt=attempt,
        max_attempts=max_attempts,
        created_at=codec.decode_time(created_at),
        updated_at=codec.decode_time(updated_at),
        run_at=codec.decode_time(run_at),
        expires_at=codec.decode_time(expires_at),
        scheduled_at=codec.decode_time_or_none(scheduled_at),
        started_at=codec.decode_time_or_none(started_at),
        completed_at=codec.decode_time_or_none(completed_at),
        lease=lease,
        lease_version=lease_version,
        policy=policies.get(policy, DEFAULT_POLICY),
        payload_body=payload or EMPTY,
        result_body=result,
        failure=decode_failure(failure),
        progress=decode_progress(progress),
        checkpoint_body=checkpoint,
        key=key,
        tags=readable_tags(tags),
        correlation_id=correlation_id,
        replay_of=None if replay_of is None else codec.decode_id(replay_of),
        callback_url=callback_url,
        waits=waits,
        flow=flow,
        node=node,
        concurrency_key=concurrency_key,
        submitter=submitter,
    )


def decode_attempts(codec: Codec, job_id: str, rows: Sequence[Row]) -> list[Attempt]:
    """Return the attempts of a job, oldest first, each with the one before it.

    Rows hold lease_version, number, worker, outcome, started_at, ended_at and failure.
    """
    attempts = []
    last_version = 0
    for version, number, worker, outcome, started_at, ended_at, failure in rows:
        attempts.append(
            Attempt(
                id=attempt_id(job_id, version),
                job_id=job_id,
                previous_id=previous_attempt_id(job_id, last_version),
                number=number,
                lease_version=version,
                worker=worker,
                outcome=AttemptOutcome(outcome),
                started_at=codec.decode_time(started_at),
                ended_at=codec.decode_time_or_none(ended_at),
                failure=decode_failure(failure),
            )
        )
        last_version = version
    return attempts
