"""What the store says in the end, in the checker's own words: jobs, attempts and counts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from fencepost.core.bounds import DUMP_BATCH
from fencepost.core.job.job import Job, JobRecord
from fencepost.core.webhooks.delivery import DELIVERY_TYPE
from fencepost.store.interface.store import Store

NAME = "dump.jsonl"


class Run(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One attempt, as the store has it."""

    version: int
    number: int
    worker: str
    outcome: str
    began: float
    ended: float | None
    code: str | None = None
    category: str | None = None


class Record(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """One job, as the store has it; records come in the order of submission."""

    id: str
    type: str
    queue: str
    key: str | None
    state: str
    version: int
    attempt: int
    max_attempts: int
    created_at: float
    completed_at: float | None = None
    result: str | None = None
    checkpoint: str | None = None
    runs: tuple[Run, ...] = ()
    awaited: tuple[str, ...] = ()
    """What it waits for or waited for."""
    mode: str | None = None
    failed_dependency: str | None = None
    """On whose account it ended."""
    has_callback: bool = False
    about: str | None = None
    """Of a webhook: whose end it tells of."""
    concurrency_key: str | None = None


class Closing(msgspec.Struct, frozen=True, kw_only=True):
    """What the nemesis says when it is done."""

    injected: dict[str, int]
    skipped: dict[str, str]
    """Kinds that could not be injected once, and why."""
    counts: dict[str, int]
    """Jobs by state, from the store's counters."""
    integrity: str
    """``ok``, or what is wrong with the store's file."""
    source: str
    """What store it was, in which version."""
    drained_after: float
    """Seconds from the calm to the end of the last job, or to the end of patience."""


def write(store: Store, place: Path) -> None:
    """Write every job to the dump, oldest first."""
    after, pages = 0, msgspec.json.Encoder()
    with (place / NAME).open("wb") as file:
        while (page := store.run(store.transfer.dump(after, DUMP_BATCH))).records:
            after = page.last
            file.writelines(pages.encode(record_of(each)) + b"\n" for each in page.records)


def read(place: Path) -> Iterator[Record]:
    decoder = msgspec.json.Decoder(Record)
    with (place / NAME).open("rb") as file:
        for line in file:
            yield decoder.decode(line)


def record_of(given: JobRecord) -> Record:
    """Return what the checker needs to know of a job."""
    job = given.job
    return Record(
        id=job.id,
        type=job.type,
        queue=job.queue,
        key=job.key,
        state=job.state.value,
        version=job.lease_version,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        created_at=job.created_at.timestamp(),
        completed_at=_seconds(job.completed_at),
        result=None if job.result_body is None else job.result_body.data.decode(),
        checkpoint=None if job.checkpoint_body is None else job.checkpoint_body.data.decode(),
        runs=tuple(
            Run(
                each.lease_version,
                each.number,
                each.worker,
                each.outcome.value,
                each.started_at.timestamp(),
                _seconds(each.ended_at),
                None if each.failure is None else each.failure.code,
                None if each.failure is None else each.failure.category.value,
            )
            for each in given.attempts
        ),
        awaited=given.dependencies,
        mode=None if job.waits is None else job.waits.mode.value,
        failed_dependency=None if job.failure is None else job.failure.failed_dependency,
        has_callback=job.callback_url is not None,
        about=_about(job),
        concurrency_key=job.concurrency_key,
    )


def _about(job: Job) -> str | None:
    if job.type != DELIVERY_TYPE:
        return None
    told: dict[str, object] = msgspec.json.decode(job.payload_body.data)
    return str(told["job_id"])


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def counts(store: Store) -> dict[str, int]:
    """Return how many jobs are in which state, as the store counts them."""
    found: dict[str, int] = {}
    for queue in store.run(store.overview.queues()):
        for state, count in queue.counts.items():
            found[state.value] = found.get(state.value, 0) + count
    return found
