"""Whole jobs on their way to another store: the dump of SQL engines, and rules of every store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple

from msgspec.structs import replace

from fencepost.core.bounds import DUMP_BYTES
from fencepost.core.job.job import EMPTY, Job, JobRecord
from fencepost.core.job.lifecycle import State
from fencepost.core.values.names import id_bytes
from fencepost.core.values.times import seconds_to_us
from fencepost.errors import StateConflictError, UnknownDependencyError
from fencepost.store.interface.records.transfer import Dump, Loaded, LoadReply, Present
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codec import (
    MODE_NUMBER,
    NUMBER,
    Codec,
    E,
    decode_tags,
    encode_failure,
    encode_json,
)
from fencepost.store.sql.endings import Stored, Verdicts, failed_by, judge_parents
from fencepost.store.sql.read import (
    COMPLETED_AT,
    OPEN_ATTEMPTS,
    POLICY,
    STARTED_AT,
    TAGS,
    WORKER,
    ReadPlans,
    decode_attempts,
)

NOT_ACCEPTED = (
    "new jobs are refused: a move of its jobs to another store was begun; submit to that store"
)


def loadable(records: Sequence[JobRecord]) -> dict[str, JobRecord]:
    """Return *records* by id, or raise StateConflictError: a lease is valid in one store only."""
    found: dict[str, JobRecord] = {}
    for record in records:
        job = record.job
        if job.state is State.RUNNING:
            raise StateConflictError(
                f"job {job.id} is {job.state}; a job that runs cannot move",
                job_id=job.id,
                state=job.state,
            )
        found.setdefault(job.id, record)
    return found


def without_present(
    records: Sequence[JobRecord], present: set[bytes]
) -> tuple[dict[bytes, JobRecord], list[LoadReply]]:
    """Return the jobs whose ids are not *present*, and a reply to each record."""
    new: dict[bytes, JobRecord] = {}
    replies: list[LoadReply] = []
    for record in records:
        id_ = id_bytes(record.job.id)
        is_new = id_ not in present and id_ not in new
        if is_new:
            new[id_] = record
        replies.append(Loaded(record.job.id) if is_new else Present(record.job.id))
    return new, replies


def held_up(record: JobRecord) -> JobRecord:
    """Let a job wait for a slot of its key here, even if it had one in the other store."""
    job = record.job
    if job.concurrency_key is None or job.state is not State.SCHEDULED:
        return record
    return replace(record, job=replace(job, state=State.PENDING, scheduled_at=None))


def needs_key(record: JobRecord) -> bool:
    """Return whether the job must have its key; one that has ended can do without (C15)."""
    return record.holds_key and not record.job.state.is_terminal


def waiting_among(loaded: Mapping[int, JobRecord]) -> dict[int, JobRecord]:
    """Return the jobs that wait for others, and not only for a slot of their key."""
    return {
        seq: record
        for seq, record in loaded.items()
        if record.job.state is State.PENDING and not record.job.is_held
    }


def judge_loaded(waiting: Mapping[int, JobRecord], known: Mapping[str, Stored]) -> Verdicts:
    """Return what the states of their dependencies here mean for jobs that wait for them.

    Raises UnknownDependencyError for one that is not *known*.
    """
    verdicts = Verdicts({}, {})
    for seq, record in waiting.items():
        assert record.job.waits is not None
        for job_id in record.dependencies:
            if job_id not in known:
                raise UnknownDependencyError(job_id)
        parents = [known[job_id].parent for job_id in record.dependencies]
        missing, failed = judge_parents(MODE_NUMBER[record.job.waits.mode], parents)
        if failed is None:
            verdicts.missing[seq] = missing
        else:
            verdicts.failing[seq] = failed_by(failed)
    return verdicts


def fitting(sizes: Iterable[tuple[int, int]]) -> list[int]:
    """Return as many of the (number, bytes) as make one page: at least one, if there is one."""
    numbers: list[int] = []
    total = 0
    for number, size in sizes:
        total += size
        if numbers and total > DUMP_BYTES:
            break
        numbers.append(number)
    return numbers


def job_fields(codec: Codec, record: JobRecord) -> dict[str, Any]:
    """Return what both engines store of a loaded job in columns of the same name."""
    job, success, window, waits = record.job, record.success, record.key_window, record.job.waits
    encode_time = codec.encode_time_or_none
    return {
        "id": codec.encode_id(job.id),
        "state": NUMBER[job.state],
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "lease_version": job.lease_version,
        "worker": None if success is None else success.worker,
        "created_at": encode_time(job.created_at),
        "updated_at": encode_time(job.updated_at),
        "run_at": encode_time(job.run_at),
        "expires_at": encode_time(job.expires_at),
        "scheduled_at": encode_time(job.scheduled_at),
        "started_at": encode_time(job.started_at),
        "completed_at": encode_time(job.completed_at),
        "is_dead_letter": record.is_dead_letter or None,
        "key": job.key,
        "key_window": None if window is None else seconds_to_us(window),
        "correlation_id": job.correlation_id,
        "replay_of": None if job.replay_of is None else codec.encode_id(job.replay_of),
        "failure": encode_failure(job.failure),
        "progress": None if job.progress is None else encode_json(job.progress),
        "flow": job.flow,
        "node": job.node,
        "mode": None if waits is None else MODE_NUMBER[waits.mode],
        "missing": None if waits is None else waits.missing,
        "depth": None if waits is None else waits.depth,
        "gathers": None if waits is None else waits.gathers,
        "own_priority": None if waits is None else waits.own_priority,
        "callback_url": job.callback_url,
        "submitter": job.submitter,
    }


def attempt_fields(codec: Codec, record: JobRecord, seq: int) -> Iterator[dict[str, Any]]:
    """Yield the columns of each attempt that is not in the job's own row, in their order."""
    for each in record.unsuccessful:
        yield {
            "seq": seq,
            "lease_version": each.lease_version,
            "number": each.number,
            "worker": each.worker,
            "outcome": each.outcome.value,
            "started_at": codec.encode_time(each.started_at),
            "ended_at": codec.encode_time_or_none(each.ended_at),
            "failure": encode_failure(each.failure),
        }


class DumpSql(NamedTuple):
    """Statements that dump jobs, with their parameters."""

    sizes: str
    """the number after which to begin, how many; returns number and bytes"""
    records: str
    """now, numbers; returns the window of the key, whether it is a dead letter, and a row of the
    job that ends with the time"""
    attempts: str
    """numbers; returns the number, then the columns of an attempt"""
    dependencies: str
    """numbers; returns the number, then the id of a job that it waits for"""
    keys: str
    """numbers; returns the number of each job that holds its key, and when its window ends"""


class DumpPlans(NamedTuple, Generic[E]):
    sql: DumpSql
    reader: ReadPlans[E]

    def dump(self, env: E, after: int, limit: int) -> Plan[Dump]:
        """Return the jobs that were submitted after position *after*."""
        seqs = fitting((yield Statement(self.sql.sizes, (after, limit))))
        if not seqs:
            return Dump([], after)
        codec = self.reader.codec
        numbers = codec.encode_list(seqs)
        rows = yield Statement(self.sql.records, (env.now, numbers))
        past: defaultdict[int, list[Row]] = defaultdict(list)
        for row in (yield Statement(self.sql.attempts, (numbers,))):
            past[row[0]].append(row[1:])
        parents: defaultdict[int, list[str]] = defaultdict(list)
        for child, parent in (yield Statement(self.sql.dependencies, (numbers,))):
            parents[child].append(codec.decode_id(parent))
        held: dict[int, Any] = dict((yield Statement(self.sql.keys, (numbers,))))
        policies = yield from env.catalog.policies({row[2:][POLICY] for row in rows})
        jobs = yield from self.reader.decode(env, [row[2:] for row in rows])
        records = []
        for job, (window, is_dead_letter, *columns) in zip(jobs, rows, strict=True):
            seq = columns[0]
            if not (job.state.is_terminal or _is_readable(job, columns, policies)):
                raise StateConflictError(
                    f"job {job.id} cannot be read, so it cannot move; cancel it first",
                    job_id=job.id,
                    state=job.state,
                )
            attempts = decode_attempts(codec, job.id, [*past[seq], *_own_attempt(job, columns)])
            records.append(
                JobRecord(
                    job=job,
                    attempts=tuple(attempts),
                    key_window=None if window is None else window / 1_000_000,
                    holds_key=seq in held,
                    key_ends_at=codec.decode_time_or_none(held.get(seq)),
                    is_dead_letter=bool(is_dead_letter),
                    dependencies=tuple(parents[seq]),
                )
            )
        return Dump(records, seqs[-1])


def _is_readable(job: Job, columns: Sequence[Any], policies: Collection[int]) -> bool:
    """Return whether a job would arrive as it is; of one that has ended, any part will do."""
    try:
        decode_tags(columns[TAGS])
    except (ValueError, TypeError):
        return False
    # EMPTY itself stands for a payload that cannot be read; one that can be is another value.
    return job.payload_body is not EMPTY and columns[POLICY] in policies


def _own_attempt(job: Job, columns: Sequence[Any]) -> list[Row]:
    """Return the attempt in the job's own row, if there is one."""
    outcome = OPEN_ATTEMPTS.get(job.state)
    if outcome is None:
        return []
    worker, started_at, ended_at = columns[WORKER], columns[STARTED_AT], columns[COMPLETED_AT]
    return [(job.lease_version, job.attempt, worker, outcome, started_at, ended_at, None)]
