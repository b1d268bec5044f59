"""Reads a history and says which promises were broken. Pure: the same history, the same verdict."""

from __future__ import annotations

from collections.abc import Sequence

from lab.simulation.history import (
    Acknowledged,
    Defect,
    Ended,
    Event,
    Healed,
    Limited,
    Operated,
    Paused,
    Started,
    Turn,
    Wrote,
)
from lab.simulation.promptness import PromptRules
from lab.simulation.store_rules import StoreRules
from lab.simulation.time_rules import TimeRules
from lab.simulation.verdict import Verdict


def check(history: Sequence[Event], *, concurrency: int, is_prompt: bool = False) -> Verdict:
    """Judge all of *history*; *concurrency* is how many slots each worker has.

    With *is_prompt*, also whether anything started that had been cancelled or paused (C42): of
    workers whose loop nothing blocks and whose handlers heed their interruption.
    """
    verdict = Verdict()
    storing = StoreRules(verdict)
    timing = TimeRules(verdict, storing.running, concurrency)
    prompt = PromptRules(verdict)
    acknowledged: set[str] = set()
    ledgers = _LedgerRules(verdict, storing)
    at = 0.0
    for event in history:
        at = event.at
        timing.pass_to(at)
        match event:
            case Operated():
                before = {
                    change.job_id: storing.jobs[change.job_id]
                    for change in event.changes
                    if change.job_id in storing.jobs
                }
                storing.note(event)
                timing.note_operation(event, before)
                prompt.note_operation(event)
            case Started():
                ledgers.note_start(event)
                timing.note_start(event)
                if is_prompt:
                    prompt.note_start(event, timing.well_since(event.process))
            case Ended():
                if event.how == "returned":
                    storing.returned.add(event.token)
                timing.note_end(event)
            case Wrote():
                ledgers.note_write(event)
            case Turn():
                timing.note_turn(event)
            case Acknowledged():
                acknowledged.add(event.job_id)
            case Paused():
                prompt.note_pause(event)
            case Limited():
                storing.note_limit(event)
            case Defect():
                verdict.accuse("defect", at, event.text)
            case Healed():
                timing.is_healed = True
            case _:
                pass
    verdict.acknowledged = len(acknowledged)
    storing.finish(at, acknowledged)
    timing.finish(at)
    return verdict


class _LedgerRules:
    """What handlers did outside agrees with whom the store gave the job."""

    def __init__(self, verdict: Verdict, storing: StoreRules) -> None:
        self._verdict = verdict
        self._storing = storing
        self._newest: dict[str, int] = {}

    def note_start(self, event: Started) -> None:
        job = self._storing.jobs.get(event.job_id)
        is_known = job is not None and event.version <= job.version
        if not is_known and event.job_id not in self._storing.removed:
            text = f"{event.process} runs {event.job_id} under a lease that was never given"
            self._verdict.accuse("unclaimed", event.at, text)

    def note_write(self, event: Wrote) -> None:
        newest = self._newest.get(event.job_id, 0)
        if event.is_accepted and event.is_fenced:
            if event.version < newest:
                text = f"version {event.version} of {event.job_id} wrote after {newest}"
                self._verdict.accuse("fence", event.at, text)
            self._newest[event.job_id] = max(newest, event.version)
        if not event.is_fenced:
            job = self._storing.jobs.get(event.job_id)
            if job is not None and event.version < job.version:
                self._verdict.superseded += 1
