"""The rules for jobs that wait for others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fencepost.core.flows.dependencies import Mode
from fencepost.core.job.lifecycle import TERMINAL, State
from lab.chaos.dump import Record
from lab.chaos.violation import Violation

if TYPE_CHECKING:
    from lab.chaos.evidence import Evidence

SKEW = 0.05
"""Seconds by which two readings of one machine's clock may differ."""
CLAIM_AGE = 1.0
"""Seconds that may pass from a claim's look at the clock, whose time its attempts bear, to its look
at the line: what is let go meanwhile is taken too."""


def too_early(evidence: Evidence) -> Iterator[Violation]:
    """No job is claimed, and no handler starts, before what it waits for has let it go."""
    jobs = {record.id: record for record in evidence.records}
    for record in evidence.records:
        if not record.awaited or not record.runs:
            continue
        parents = [jobs.get(each) for each in record.awaited]
        free_at = _free_at(record, parents)
        began = record.runs[0].began
        starts = evidence.started.get((record.id, 1), ())
        ran = min((each.at for each in starts), default=began + CLAIM_AGE)
        if free_at is None:
            states = [None if each is None else each.state for each in parents]
            yield Violation("too_early", record.id, f"it ran behind {states}")
        elif began < free_at - CLAIM_AGE or ran < free_at - SKEW:
            detail = f"claimed at {began}, run at {ran}, let go at {free_at}"
            yield Violation("too_early", record.id, detail)


def _free_at(record: Record, parents: list[Record | None]) -> float | None:
    """Return when the last of them had ended, as it should; None if one did not."""
    wanted = TERMINAL if record.mode == Mode.ENDED else {State.COMPLETED}
    ends = [each.completed_at for each in parents if each and State(each.state) in wanted]
    known = [end for end in ends if end is not None]
    return max(known) if len(known) == len(parents) else None


def forgotten(evidence: Evidence) -> Iterator[Violation]:
    """No job is left waiting for those that have all ended."""
    jobs = {record.id: record for record in evidence.records}
    for record in evidence.records:
        states = [State(jobs[each].state) for each in record.awaited if each in jobs]
        if record.state == State.PENDING and all(state in TERMINAL for state in states):
            yield Violation("forgotten", record.id, f"still pending behind {states}")


def unjust(evidence: Evidence) -> Iterator[Violation]:
    """Who ended on account of another has not run, waited for it, and ended as it did."""
    jobs = {record.id: record for record in evidence.records}
    for record in evidence.records:
        if record.failed_dependency is None:
            continue
        failed = jobs.get(record.failed_dependency)
        if failed is None or failed.state != record.state or record.runs:
            state = None if failed is None else failed.state
            detail = f"{record.state} after {len(record.runs)} runs, for one that is {state}"
            yield Violation("unjust", record.id, detail)
        elif not _waits_for(record, record.failed_dependency, jobs):
            yield Violation("unjust", record.id, f"it never waited for {record.failed_dependency}")


def _waits_for(record: Record, other: str, jobs: dict[str, Record]) -> bool:
    return any(
        each == other or (each in jobs and _waits_for(jobs[each], other, jobs))
        for each in record.awaited
    )
