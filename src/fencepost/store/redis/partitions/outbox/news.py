"""News: jobs that were changed by hand while jobs of other partitions wait for them.

A job that runs again after its end, or whose priority changes, leaves *news* in the same commit:
an entry that names the job. Delivery asks every partition for mirrors of it that still matter,
stores a report for each, so that they learn of its next end, and updates them. A mirror keeps the
highest revision it has seen, so news may arrive late and more than once.

A job that is being submitted at this moment may rely on the state from before. It is stored within
COMMIT_WITHIN_US or not at all, so news are delivered at once, a second time after that limit, and
then deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.core.job.job import Body, Encoding, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.values.names import wanted_ids
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.document import decode_document
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env
from fencepost.store.redis.jobs.enqueue import accept, store_plain
from fencepost.store.redis.partitions.numbers import HIDDEN, OUTBOX
from fencepost.store.redis.partitions.outbox.entries import NEWS, POLICY, REPORT, report_job
from fencepost.store.redis.partitions.outbox.mirrors import Mirror, mirror_of, results_of


def note_changes(unit: Unit) -> Plan[None]:
    """Add news of the jobs that run again or have another priority to the commit of a unit."""
    changed: list[Kept] = []
    for kept, was in unit.changed():
        if was is None or kept.queue in HIDDEN or kept.state.is_terminal:
            continue
        if was.is_terminal:
            yield from _wait_again(unit, kept)
            changed.append(kept)
        elif kept.document.children and _has_new_priority(kept):
            changed.append(kept)
    if changed:
        adds = unit.adds  # a closed store refuses new jobs, but not entries
        yield from store_plain(unit, [_news_job(kept.id) for kept in changed])
        unit.adds = adds


def _has_new_priority(kept: Kept) -> bool:
    return kept.read is not None and decode_document(kept.read).priority != kept.document.priority


def _news_job(job_id: str) -> NewJob:
    payload = Body(job_id.encode(), Encoding.BINARY)
    return NewJob(type=NEWS, queue=OUTBOX, payload=payload, policy=POLICY)


def _wait_again(unit: Unit, kept: Kept) -> Plan[None]:
    """Let reports of its end that were not delivered wait for the next one."""
    (seqs,) = yield from unit.children([kept])
    for child in (yield from unit.jobs(seqs)).values():
        if child.type == REPORT and child.state in (State.SCHEDULED, State.DELAYED):
            causes = yield from unit.jobs(child.document.parents or ())
            child.set_state(State.PENDING)
            child.missing = sum(not cause.state.is_terminal for cause in causes.values())


class Wanted(NamedTuple):
    """A report to store: which partition wants the state of which job, and under which id."""

    job_id: str
    mirror_id: str
    number: int


def report_to(env: Env, wanted: Sequence[Wanted]) -> Plan[list[Mirror | None]]:
    """Store reports of jobs here, unless they are there; return how the jobs stand with that.

    None stands for one that is not here any more.
    """
    unit = Unit(env)
    found = yield from unit.by_id(wanted_ids([each.job_id for each in wanted]))
    jobs = [found.get(each.job_id) for each in wanted]
    reports = [
        report_job(each.job_id, each.mirror_id, each.number)
        for each, kept in zip(wanted, jobs, strict=True)
        if kept is not None
    ]
    results = yield from results_of(env, [kept.seq for kept in found.values()])
    yield from accept(unit, reports, atomic=False)
    unit.adds = False
    yield from unit.commit()
    return [
        None if kept is None else mirror_of(kept, each.mirror_id, results[kept.seq])
        for each, kept in zip(wanted, jobs, strict=True)
    ]
