"""The rule of promptness (C42): what was cancelled or paused does not start a moment later.

Judged of processes that run and are connected, and in simulated time, so to the millisecond.
"""

from __future__ import annotations

from lab.simulation.history import Operated, Paused, Started
from lab.simulation.verdict import Verdict

PROMPT = 0.1
"""Seconds after the store's answer within which a start against it is allowed."""


class PromptRules:
    """Knows what must not start, and since when."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict
        self._cancelled: dict[str, float] = {}
        self._paused: dict[str, float] = {}
        self._queues: dict[str, str] = {}

    def note_operation(self, event: Operated) -> None:
        for change in event.changes:
            self._queues[change.job_id] = change.queue
            if change.state == "cancelled":
                self._cancelled.setdefault(change.job_id, event.at)
            else:
                self._cancelled.pop(change.job_id, None)

    def note_pause(self, event: Paused) -> None:
        if event.is_paused:
            self._paused.setdefault(event.queue, event.at)
        else:
            self._paused.pop(event.queue, None)

    def note_start(self, event: Started, well_since: float) -> None:
        """Judge a start in a process that has been well since *well_since*."""
        self._judge(event, "cancelled", self._cancelled.get(event.job_id), well_since)
        queue = self._queues.get(event.job_id, "")
        self._judge(event, "paused", self._paused.get(queue), well_since)

    def _judge(self, event: Started, why: str, since: float | None, well_since: float) -> None:
        if since is not None and well_since <= since and event.at - since > PROMPT:
            text = f"{event.process} started {event.job_id}, {why} {event.at - since:.3f} s before"
            self._verdict.accuse("not prompt", event.at, text)
