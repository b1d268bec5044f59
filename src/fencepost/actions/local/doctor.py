"""The doctor: what an operator should know about a store, its workers and its jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from fencepost.actions.backend import Script
from fencepost.core.bounds import UNREADABLE_SHOWN
from fencepost.core.display import amount
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.failure import (
    LETTERS_LOOKED_AT,
    OUTAGE_AGE,
    OUTAGE_SPAN,
    UNREADABLE,
    is_brief,
    is_outage,
)
from fencepost.core.job.job import Job
from fencepost.core.job.lifecycle import LIVE, State
from fencepost.core.moves import mark_of
from fencepost.core.stats.overview import Finding, QueueView, WorkerInfo
from fencepost.core.webhooks.delivery import DELIVERY_QUEUE, DELIVERY_TYPE

if TYPE_CHECKING:
    from fencepost.actions.session import Session
    from fencepost.store.interface.reader import DeadLetterPage, JobPage


def examine(session: Session) -> Script[list[Finding]]:
    """Return all findings: those of the engine, and those that are the same for every engine."""
    store = session.store
    findings: list[Finding] = list((yield store.overview.inspect()))
    workers: list[WorkerInfo] = yield store.cluster.workers()
    queues: list[QueueView] = yield store.overview.queues()
    retrying: JobPage = yield store.reader.find(
        JobFilter(states=(State.RETRYING,)), PageRequest(UNREADABLE_SHOWN)
    )
    findings.append(_live(workers))
    findings += [Finding("warn", "webhooks", text) for text in _undelivered(queues, workers)]
    findings += [Finding("warn", "moved", text) for text in _moved(queues)]
    findings += [Finding("warn", UNREADABLE, text) for text in _unreadable(retrying.jobs)]
    return [*findings, *(yield from _outages(session))]


def _live(workers: Sequence[WorkerInfo]) -> Finding:
    if workers:
        return Finding("ok", "workers", f"live workers: {len(workers)}")
    return Finding("note", "workers", "no live worker; `fencepost worker APP` starts one")


def _undelivered(queues: list[QueueView], workers: list[WorkerInfo]) -> Iterator[str]:
    """Warn of webhooks that no worker delivers; with --queue, their queue has to be named."""
    counts = next((queue.counts for queue in queues if queue.name == DELIVERY_QUEUE), {})
    waiting = sum(count for state, count in counts.items() if state in LIVE)
    is_served = any(worker.serves(DELIVERY_TYPE, DELIVERY_QUEUE) for worker in workers)
    if waiting and not is_served:
        yield (
            f"{waiting} webhooks wait and no worker delivers them; start `fencepost server APP`, "
            f"or `fencepost worker APP` without --queue or with --queue {DELIVERY_QUEUE}, for an "
            f"app that has webhook secrets"
        )


def _moved(queues: list[QueueView]) -> Iterator[str]:
    """Warn of a store whose jobs were moved away: a worker on it would run them twice."""
    mark = mark_of(queues)
    if mark.is_moving:
        yield "a move to another store is unfinished; repeat `fencepost move`, or add --abandon"
    elif mark.is_moved:
        yield "its jobs were moved and a worker here would run them twice; it refuses new ones"


def _unreadable(jobs: Iterable[Job]) -> Iterator[str]:
    """Warn of jobs whose payload a worker could not read: its code was too old or too new."""
    counts = Counter(job.type for job in jobs if job.failure and job.failure.code == UNREADABLE)
    for type, count in sorted(counts.items()):
        yield (
            f"no worker could read the payload of {amount(count, 'job')} of type {type!r} so far; "
            f"they wait an hour at most: finish the deployment, or roll it back"
        )


def _outages(session: Session) -> Script[list[Finding]]:
    """Recommend patient retries for jobs that died of an outage within a few seconds."""
    store, now = session.store, session.store.clock.now()
    page: DeadLetterPage = yield store.reader.dead_letters(None, PageRequest(LETTERS_LOOKED_AT))
    brief: Counter[str] = Counter()
    for letter in page.letters:
        age = (now - letter.completed_at).total_seconds()
        if age <= OUTAGE_AGE and is_outage(letter.failure):
            attempts = yield store.reader.attempts(letter.job_id)
            brief[letter.type] += is_brief(attempts)
    return [
        Finding("note", "outage", _outage(type, count))
        for type, count in sorted(brief.items())
        if count
    ]


def _outage(type: str, count: int) -> str:
    return (
        f"{amount(count, 'job')} of type {type!r} died of an outage: all attempts lay within "
        f"{OUTAGE_SPAN:.0f} s. Retry.patient() tries for an hour: give it to the task as "
        f"retry=, or set FENCEPOST_RETRY=patient. `fencepost dlq replay --type {type}` runs "
        f"them again"
    )
