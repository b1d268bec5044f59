"""Whole jobs out of and into Redis, as they are in the other store."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.core.flows.dependents import MET
from fencepost.core.job.job import EMPTY, JobRecord
from fencepost.core.job.lifecycle import ACTIVE
from fencepost.core.limits.concurrency import limit_of
from fencepost.core.values.names import id_bytes, wanted_ids
from fencepost.core.values.times import from_us_or_none, seconds_to_us, to_us
from fencepost.errors import DuplicateJobError, StateConflictError
from fencepost.store.interface.records.transfer import Dump, LoadReply
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.document import document_of
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.flows.dependents import end_waiting
from fencepost.store.redis.jobs.catalog import Env, field, number_text
from fencepost.store.redis.jobs.enqueue import as_parent, find_holder
from fencepost.store.redis.jobs.read import attempts_of, whole
from fencepost.store.redis.jobs.rows import encode_waits, submitted_fields
from fencepost.store.redis.limits.concurrency import active
from fencepost.store.sql.codec import ENCODING_NUMBER, NUMBER, encode_failure, encode_json
from fencepost.store.sql.endings import Stored
from fencepost.store.sql.records.transfer import (
    fitting,
    held_up,
    judge_loaded,
    loadable,
    needs_key,
    waiting_among,
    without_present,
)

PORTION = 500


def accept_jobs(env: Env, is_accepted: bool) -> Plan[None]:
    """Refuse new jobs, or accept them again."""
    unit = Unit(env)
    if is_accepted:
        unit.do(b"DEL", env.key("refusing"))
    else:
        unit.do(b"SET", env.key("refusing"), 1)
    yield from unit.commit()


def dump(env: Env, after: int, limit: int) -> Plan[Dump]:
    """Return the jobs that were submitted after position *after*."""
    unit = Unit(env)
    last, low = yield from unit.read([b"GET", env.key("seq")], [b"GET", env.key("low")])
    start, end = max(after, int(low or 0)) + 1, int(last or 0)
    jobs: dict[int, Kept] = {}
    while start <= end and len(jobs) < limit:
        upto = min(start + PORTION - 1, end)
        jobs |= yield from unit.jobs(range(start, upto + 1))
        start = upto + 1
    chosen = list(jobs.values())[: max(limit, 0)]
    if not chosen:
        return Dump([], after)
    sizes = yield from unit.read(
        *(
            [b"HSTRLEN", env.key(column), number_text(kept.seq)]
            for kept in chosen
            for column in ("job", "payload", "result", "checkpoint")
        )
    )
    totals = [(kept.seq, sum(sizes[at * 4 : at * 4 + 4])) for at, kept in enumerate(chosen)]
    page = [jobs[seq] for seq in fitting(totals)]
    records = []
    for kept, job in zip(page, (yield from whole(unit, page)), strict=True):
        if not kept.state.is_terminal and job.payload_body is EMPTY:
            raise StateConflictError(
                f"job {job.id} cannot be read, so it cannot move; cancel it first",
                job_id=job.id,
                state=job.state,
            )
        attempts = yield from attempts_of(unit, kept)
        holds, ends_at = yield from _key(unit, kept)
        window = kept.document.key_window
        parents = yield from unit.jobs(kept.document.parents or ())
        records.append(
            JobRecord(
                job=job,
                attempts=tuple(attempts),
                key_window=None if window is None else window / 1_000_000,
                holds_key=holds,
                key_ends_at=from_us_or_none(ends_at),
                is_dead_letter=kept.document.is_dead_letter,
                dependencies=tuple(each.id for each in parents.values()),
            )
        )
    return Dump(records, page[-1].seq)


def _key(unit: Unit, kept: Kept) -> Plan[tuple[bool, int | None]]:
    """Return whether a job was the last to take its key, and when its window ends."""
    if kept.document.key is None:
        return False, None
    name = field(kept.type, kept.document.key)
    text = yield from unit.field(unit.env.key("keys"), name)
    seq, _, ends = (text or b"0 ").decode().partition(" ")
    if int(seq) != kept.seq:
        return False, None
    return True, int(ends) if ends else None


def load(env: Env, records: Sequence[JobRecord]) -> Plan[list[LoadReply]]:
    """Store jobs that are not there yet, at the end of the order of submission."""
    unit = Unit(env)
    yield from unit.start()
    yield from unit.reserve(len(records))
    ids = [id_bytes(job_id) for job_id in loadable(records)]
    present = set((yield from unit.numbers_of(ids)))
    new, replies = without_present(records, present)
    fresh: dict[int, JobRecord] = {}
    occupied: dict[tuple[str, str], int] = {}
    for id_, record in new.items():
        yield from unit.field(env.key("ids"), id_)  # nobody else may load it meanwhile
        placed = yield from _placed(unit, record, occupied)
        kept = yield from _insert(unit, placed)
        fresh[kept.seq] = placed
    yield from _take_keys(unit, fresh)
    yield from _link(unit, fresh)
    yield from unit.commit()
    return replies


def _placed(unit: Unit, record: JobRecord, occupied: dict[tuple[str, str], int]) -> Plan[JobRecord]:
    """Return *record*, which keeps its slot if there is a free one here."""
    job = record.job
    if job.concurrency_key is None:
        return record
    scope = (job.type, job.concurrency_key)
    name = field(*scope)
    yield from unit.field(unit.env.key("held"), name)
    if scope not in occupied:
        occupied[scope] = yield from active(unit, *scope)
    # Not admitted yet: the job that has the slot may come with the next page.
    unit.do(b"SADD", unit.env.key("freed"), name)
    if job.state not in ACTIVE:
        return record
    if occupied[scope] >= limit_of(job.policy):
        return held_up(record)
    occupied[scope] += 1
    return record


def _insert(unit: Unit, record: JobRecord) -> Plan[Kept]:
    job, success, window = record.job, record.success, record.key_window
    policy = job.policy
    yield from unit.open_lane(job.queue, job.type)
    document = document_of(
        **submitted_fields(job),
        lease_version=job.lease_version,
        attempt=job.attempt,
        id=id_bytes(job.id),
        number=NUMBER[job.state],
        created_at=to_us(job.created_at),
        expires_at=to_us(job.expires_at),
        run_at=to_us(job.run_at),
        updated_at=to_us(job.updated_at),
        scheduled_at=None if job.scheduled_at is None else to_us(job.scheduled_at),
        started_at=None if job.started_at is None else to_us(job.started_at),
        completed_at=None if job.completed_at is None else to_us(job.completed_at),
        max_attempts=job.max_attempts,
        policy=unit.digest(policy),
        payload_encoding=ENCODING_NUMBER[job.payload_body.encoding],
        key=job.key,
        key_window=None if window is None else seconds_to_us(window),
        replay_of=None if job.replay_of is None else id_bytes(job.replay_of),
        waits=None if job.waits is None else encode_waits(job.waits),
        failure=encode_failure(job.failure),
        worker=None if success is None else success.worker,
        is_dead_letter=record.is_dead_letter,
    )
    kept = unit.add(document, policy, job.payload_body)
    for column, body in (("result", job.result_body), ("checkpoint", job.checkpoint_body)):
        if body is not None:
            unit.put_body(column, kept, body)
    if job.progress is not None:
        unit.put_progress(kept, encode_json(job.progress).encode())
    for each in record.unsuccessful:
        ended = None if each.ended_at is None else to_us(each.ended_at)
        row = (each.lease_version, each.number, each.worker, each.outcome.value)
        times = (to_us(each.started_at), ended)
        unit.record(kept, (*row, *times, encode_failure(each.failure)))
    return kept


def _take_keys(unit: Unit, fresh: dict[int, JobRecord]) -> Plan[None]:
    for seq, record in fresh.items():
        job = record.job
        if job.key is None or not record.holds_key:
            continue
        holder = yield from find_holder(unit, job.type, job.key)
        if holder is None:
            ends = "" if record.key_ends_at is None else str(to_us(record.key_ends_at))
            name = field(job.type, job.key)
            unit.set_field(unit.env.key("keys"), name, f"{seq} {ends}".encode())
        elif needs_key(record):
            raise DuplicateJobError(type=job.type, key=job.key, existing_id=holder.id)


def _link(unit: Unit, fresh: dict[int, JobRecord]) -> Plan[None]:
    """Store the dependencies of loaded jobs, and apply the ends that they were waiting for."""
    named = {job_id for record in fresh.values() for job_id in record.dependencies}
    known = yield from unit.by_id(wanted_ids(list(named)))
    jobs = yield from unit.jobs(fresh)
    stored = {job_id: Stored(kept.seq, as_parent(kept)) for job_id, kept in known.items()}
    missing, failing = judge_loaded(waiting_among(fresh), stored)
    for seq, record in fresh.items():
        # A dependency that was pruned there, or was not moved, is dropped.
        parents = [known[job_id] for job_id in record.dependencies if job_id in known]
        if parents:
            unit.link(jobs[seq], parents)
    for seq, count in missing.items():
        jobs[seq].missing = count
    free = [seq for seq, count in missing.items() if count == MET]
    decisions = {**dict.fromkeys(free), **failing}
    if decisions:
        yield from end_waiting(unit, {seq: jobs[seq] for seq in decisions}, decisions)
