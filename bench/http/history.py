"""A store full of jobs that have ended, of every kind that a search can ask for.

They are loaded, as ``fencepost move`` loads jobs of another store: many times as fast as to submit
and to run them, and the rows, indexes and counters are those of the product.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from bench.bench import Bench
from fencepost.core.job.job import Attempt, AttemptOutcome, Body, Category, Failure, Job, JobRecord
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Priority
from fencepost.core.values.names import id_text
from fencepost.store.open import open_store

STEP = 2_000
"""Jobs of one transaction."""
INTERVAL = timedelta(milliseconds=1)
"""Between two submissions; a million of them took a quarter of an hour."""
LIFETIME = timedelta(days=30)
RARE = 10_000
"""One job in so many is of what is called rare; and only among the oldest tenth."""
PAYLOAD = Body(b'{"to":"somebody@example.com","subject":"what there is to be said in a line"}')
RESULT = Body(b'{"sent":true}')
FAILURE = Failure(Category.PERMANENT, "no such address", exception="builtins.ValueError")


def fill(bench: Bench, url: str, count: int) -> datetime:
    """Load *count* jobs that have ended, and return when half of them had been submitted."""
    first = bench.clock.now() - count * INTERVAL
    store = open_store(url)
    try:
        for start in range(0, count, STEP):
            bench.tell(f"storing {count:,} ended jobs: {start:,}")
            ids = bench.clock.new_ids(min(STEP, count - start))
            store.run(store.transfer.load(list(_records(ids, start, count, first))))
        if store.tidy_interval is not None:
            store.run(store.upkeep.tidy())  # as a leader would have done all along
    finally:
        store.close()
    bench.tell("putting them in order")
    bench.have_loaded(url)
    return first + count // 2 * INTERVAL


def _records(ids: list[bytes], start: int, count: int, first: datetime) -> Iterator[JobRecord]:
    for number, raw in enumerate(ids, start):
        yield _record(id_text(raw), number, count, first + number * INTERVAL)


def _record(job_id: str, number: int, count: int, at: datetime) -> JobRecord:
    is_rare = number % RARE == 7 and number < count // 10 + 8
    state = _state(number)
    has_failed = state in (State.DEAD_LETTER, State.FAILED)
    job = Job(
        id=job_id,
        type="rare" if is_rare else "mail" if number % 10 else "report",
        queue="rare" if is_rare else "bulk" if number % 2 else "default",
        priority=Priority.NORMAL,
        state=state,
        attempt=1,
        max_attempts=3,
        created_at=at,
        updated_at=at + INTERVAL,
        run_at=at,
        expires_at=at + LIFETIME,
        scheduled_at=at,
        started_at=at,
        completed_at=at + INTERVAL,
        lease_version=1,
        payload_body=PAYLOAD,
        result_body=RESULT if state is State.COMPLETED else None,
        failure=FAILURE if has_failed else None,
        tags=_tags(number, is_rare),
        correlation_id=f"order-{number // 100}" if number % 10 == 3 else None,
        flow=f"flow-{number // 100}" if number % 10 == 4 else None,
    )
    outcome = AttemptOutcome.SUCCEEDED if state is State.COMPLETED else AttemptOutcome.FAILED
    attempt = Attempt(
        id=f"{job_id}.1",
        job_id=job_id,
        previous_id=None,
        number=1,
        lease_version=1,
        worker="worker-1",
        outcome=outcome,
        started_at=at,
        ended_at=at + INTERVAL,
        failure=job.failure,
    )
    is_dead_letter = state is State.DEAD_LETTER
    return JobRecord(job=job, attempts=(attempt,), is_dead_letter=is_dead_letter)


def _state(number: int) -> State:
    if number % 1_000 == 11:
        return State.DEAD_LETTER
    return State.CANCELLED if number % 5_000 == 13 else State.COMPLETED


def _tags(number: int, is_rare: bool) -> dict[str, str]:
    if is_rare:
        return {"rare": "yes"}
    if number % 10:
        return {}
    return {"tenant": str(number // 10 % 100)}
