"""Reading jobs, their attempts and what surrounds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from fencepost.core.filter import PageRequest
from fencepost.core.job.job import (
    EMPTY,
    Attempt,
    AttemptOutcome,
    Body,
    DeadLetter,
    Dependency,
    Job,
)
from fencepost.core.job.lifecycle import State
from fencepost.core.job.why import Situation
from fencepost.core.values.names import attempt_id, previous_attempt_id, wanted_ids
from fencepost.core.values.times import from_us, from_us_or_none
from fencepost.store.interface.reader import DeadLetterPage
from fencepost.store.interface.settings import Scope
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.document import body_of, decode_body
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.lines import jobs_ahead
from fencepost.store.redis.documents.places import attempts_key
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, number_of, number_text
from fencepost.store.redis.jobs.rows import job_of
from fencepost.store.redis.limits.concurrency import active
from fencepost.store.redis.limits.rates import usage_of
from fencepost.store.redis.records.cluster import workers
from fencepost.store.redis.records.settings import app_limit, is_paused, queue_limit
from fencepost.store.sql.codec import UNREADABLE, decode_failure, decode_progress
from fencepost.store.sql.paging import pack, unpack
from fencepost.store.sql.read import OPEN_ATTEMPTS


def payload_of(unit: Unit, kept: Kept) -> Plan[bytes]:
    """Return the payload of a job; empty if it is lost."""
    if kept.document.payload is not None:
        return kept.document.payload
    return (yield from unit.large_payload(kept))


def whole(unit: Unit, jobs: Sequence[Kept]) -> Plan[list[Job]]:
    """Return jobs with everything that is kept apart."""
    if not jobs:
        return []
    env, numbers = unit.env, [number_text(kept.seq) for kept in jobs]
    columns = ("payload", "result", "checkpoint", "progress")
    rows = yield from unit.read(*([b"HMGET", env.key(each), *numbers] for each in columns))
    found: list[Job] = []
    for kept, payload, result, checkpoint, progress in zip(jobs, *rows, strict=True):
        data = payload if kept.document.payload is None else kept.document.payload
        found.append(
            job_of(
                kept,
                EMPTY if data is None else body_of(kept.document.payload_encoding, data),
                unit.now,
                result=decode_body(result),
                checkpoint=decode_body(checkpoint),
                progress=decode_progress(None if progress is None else progress.decode()),
            )
        )
    return found


def get(env: Env, job_ids: Sequence[str]) -> Plan[list[Job | None]]:
    """Return jobs by id, None for those that do not exist."""
    unit = Unit(env)
    found = yield from unit.by_id(wanted_ids(job_ids))
    jobs = {job.id: job for job in (yield from whole(unit, list(found.values())))}
    return [jobs.get(job_id.lower()) for job_id in job_ids]


def locate(env: Env, job_ids: Sequence[str]) -> Plan[list[str | None]]:
    """Return the queues of jobs by id, None for those that do not exist."""
    found = yield from Unit(env).by_id(wanted_ids(job_ids))
    return [found[each].queue if each in found else None for each in map(str.lower, job_ids)]


def attempts(env: Env, job_id: str) -> Plan[list[Attempt] | None]:
    """Return every attempt of a job: those on record, then the one that runs or has succeeded."""
    unit = Unit(env)
    found = yield from unit.by_id(wanted_ids([job_id]))
    kept = found.get(job_id.lower())
    return None if kept is None else (yield from attempts_of(unit, kept))


def attempts_of(unit: Unit, kept: Kept) -> Plan[list[Attempt]]:
    """Return the attempts of a job, oldest first, each with the one before it."""
    (texts,) = yield from unit.read([b"LRANGE", attempts_key(unit.env, kept.seq), 0, -1])
    rows: list[Any] = [msgspec.msgpack.decode(text) for text in texts]
    outcome = OPEN_ATTEMPTS.get(kept.state)
    document, lease = kept.document, kept.lease
    if lease is not None:
        rows.append(
            [lease.version, lease.attempt, lease.worker, outcome, lease.started_at, None, None]
        )
    elif outcome is not None and document.started_at is not None:  # a mirror has not run here
        times = (document.started_at, document.completed_at)
        own = (document.lease_version, document.attempt, document.worker, outcome)
        rows.append([*own, *times, None])
    found = []
    last = 0
    for version, number, worker, ended_as, started_at, ended_at, failure in rows:
        found.append(
            Attempt(
                id=attempt_id(kept.id, version),
                job_id=kept.id,
                previous_id=previous_attempt_id(kept.id, last),
                number=number,
                lease_version=version,
                worker=worker,
                outcome=AttemptOutcome(ended_as),
                started_at=from_us(started_at),
                ended_at=from_us_or_none(ended_at),
                failure=decode_failure(failure),
            )
        )
        last = version
    return found


def situation(env: Env, job_id: str) -> Plan[Situation | None]:
    """Return a job and everything that may keep it from running."""
    (job,) = yield from get(env, [job_id])
    if job is None:
        return None
    unit = Unit(env)
    now = yield from unit.start()
    running, in_all = yield from unit.read(
        *(
            [b"ZCOUNT", key, f"({now}", b"+inf"]
            for key in (env.key("leases", job.queue), env.key("leases"))
        )
    )
    limits, usage = yield from usage_of(env, job.type, now)
    awaited: tuple[Dependency, ...] = ()
    if job.state is State.PENDING:
        awaited = tuple((yield from dependencies(env, [job.id]))[0])
    live = yield from workers(env)
    return Situation(
        job=job,
        now=from_us(now),
        is_type_paused=(yield from is_paused(env, Scope.TYPE, job.type)),
        is_queue_paused=(yield from is_paused(env, Scope.QUEUE, job.queue)),
        queue_limit=(yield from queue_limit(env, job.queue)),
        queue_running=running,
        app_limit=(yield from app_limit(env)),
        app_running=in_all,
        limits=limits,
        usage=usage,
        jobs_ahead=(yield from _jobs_ahead(unit, job)),
        workers=live,
        dependencies=awaited,
        key_active=(yield from active(unit, job.type, job.concurrency_key)),
    )


def _jobs_ahead(unit: Unit, job: Job) -> Plan[int]:
    found = yield from unit.by_id(wanted_ids([job.id]))
    kept = found.get(job.id)
    return 0 if kept is None else (yield from jobs_ahead(unit.env, kept))


def dependencies(
    env: Env, job_ids: Sequence[str], *, with_results: bool = False
) -> Plan[list[list[Dependency]]]:
    """Return what each job waits for or waited for, in order."""
    unit = Unit(env)
    jobs = yield from unit.by_id(wanted_ids(job_ids))
    parents = yield from unit.jobs(_parents(jobs.values()))
    results: dict[int, Body | None] = {}
    if with_results and parents:
        numbers = [number_text(seq) for seq in parents]
        (texts,) = yield from unit.read([b"HMGET", env.key("result"), *numbers])
        results = dict(zip(parents, map(decode_body, texts), strict=True))
    found: list[list[Dependency]] = []
    for job_id in job_ids:
        kept = jobs.get(job_id.lower())
        seqs = [] if kept is None else kept.document.parents or []
        found.append(
            [
                Dependency(
                    job_id=parents[seq].id,
                    type=parents[seq].type,
                    state=parents[seq].state,
                    node=parents[seq].document.node,
                    result=results.get(seq),
                )
                for seq in seqs
                if seq in parents
            ]
        )
    return found


def _parents(jobs: Iterable[Kept]) -> list[int]:
    return [seq for kept in jobs for seq in kept.document.parents or ()]


def dependents(env: Env, job_ids: Sequence[str]) -> Plan[list[list[str]]]:
    """Return the jobs that wait for each job or waited for it, oldest first."""
    unit = Unit(env)
    jobs = yield from unit.by_id(wanted_ids(job_ids))
    found: list[list[str]] = []
    for job_id in job_ids:
        kept = jobs.get(job_id.lower())
        if kept is None:
            found.append([])
            continue
        (seqs,) = yield from unit.children([kept])
        children = yield from unit.jobs(seqs)
        found.append([child.id for child in children.values()])
    return found


PORTION = 200


def dead_letters(
    env: Env, type: str | None, page: PageRequest, queues: Sequence[str] | None = None
) -> Plan[DeadLetterPage]:
    """Return one page of dead letters, the most recently dead first."""
    found, has_more = yield from placed_letters(env, type, page, queues)
    letters = [letter for _, letter in found]
    return DeadLetterPage(letters, found[-1][0] if has_more else None)


def placed_letters(
    env: Env, type: str | None, page: PageRequest, queues: Sequence[str] | None = None
) -> Plan[tuple[list[tuple[int, DeadLetter]], bool]]:
    """Return the dead letters of a page with their positions, and whether there are more."""
    unit = Unit(env)
    yield from unit.start()
    found: list[tuple[int, DeadLetter]] = []
    after = None if page.after is None else unpack(page.after)
    while len(found) <= page.limit:
        jobs, after = yield from _dead_before(unit, after, PORTION)
        found += [
            (pack(*place), _letter(kept))
            for place, kept in jobs
            if (type is None or kept.type == type) and (queues is None or kept.queue in queues)
        ]
        if after is None:
            break
    return found[: page.limit], len(found) > page.limit


Place = tuple[int, int]
"""When a job died, and its number."""


def _dead_before(
    unit: Unit, after: Place | None, limit: int
) -> Plan[tuple[list[tuple[Place, Kept]], Place | None]]:
    """Return dead letters beyond *after*, the newest first, and where to go on, if there are more.

    One that is no dead letter any more, since it was found in the list, is left out.
    """
    key = unit.env.key("dead")
    top: Any = b"+inf" if after is None else after[0]
    places: list[Place] = []
    offset = 0
    while len(places) < limit:
        part = [b"ZREVRANGEBYSCORE", key, top, b"-inf", b"LIMIT", offset, limit]
        (numbers,) = yield from unit.read([*part, b"WITHSCORES"])
        pairs = list(zip(numbers[1::2], numbers[::2], strict=True))
        if not pairs:
            break
        offset += len(pairs)
        for score, number in pairs:
            place = (int(float(score)), number_of(number))
            if after is None or place < after:
                places.append(place)
    following = places[limit - 1] if len(places) >= limit else None
    jobs = yield from unit.jobs(seq for _, seq in places[:limit])
    found = []
    for place in places[:limit]:
        kept = jobs.get(place[1])
        if kept is not None and kept.document.is_dead_letter:
            found.append((place, kept))
    return found, following


def _letter(kept: Kept) -> DeadLetter:
    return DeadLetter(
        job_id=kept.id,
        type=kept.type,
        queue=kept.queue,
        state=kept.state,
        attempts=kept.attempt,
        failure=kept.failure or UNREADABLE,
        completed_at=from_us(kept.document.completed_at or 0),
    )
