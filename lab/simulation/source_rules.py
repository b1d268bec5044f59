"""The rules of what makes jobs beside callers, judged by what changed in the store."""

from __future__ import annotations

from collections import defaultdict

from fencepost.core.webhooks.delivery import DELIVERY_TYPE
from lab.simulation.graphs import TERMINAL
from lab.simulation.history import Operated, Snapshot
from lab.simulation.scenes import HANDLERS, RATE
from lab.simulation.verdict import Verdict

WINDOW_US = 1_000_000
MINUTE_US = 60_000_000
RATED = "rated"


class VariedRules:
    """Events have all their jobs or none, ticks one, ends a webhook; keys and rates are kept."""

    def __init__(
        self, verdict: Verdict, jobs: dict[str, Snapshot], running: dict[str, Snapshot]
    ) -> None:
        self._verdict = verdict
        self._jobs = jobs
        self._running = running
        self._ticks: set[str] = set()
        self._first_minute = 0
        self._starts: dict[str, int] = {}
        """When each lease of the rated type was given, unless it was given back unrun."""

    def note(self, event: Operated) -> None:
        """Judge an operation before its changes are kept."""
        if not self._first_minute:
            self._first_minute = event.now // MINUTE_US
        if event.error:
            return
        entered = [
            new for new in event.changes if new.job_id not in self._jobs and not new.is_removed
        ]
        match event.name:
            case "send":
                self._judge_event(event, entered)
            case "fire":
                self._judge_ticks(event, entered)
            case "settle":
                self._forget_released(event)
        self._judge_webhooks(event, entered)

    def note_claim(self, event: Operated) -> None:
        """Judge a claim after its changes were kept."""
        self._judge_keys(event)
        for new in event.changes:
            if new.type == RATED and new.state == "running" and new.token is not None:
                self._starts[new.token] = event.now
        recent = [at for at in self._starts.values() if at > event.now - WINDOW_US]
        if len(recent) > RATE:
            self._accuse("rate", event, f"{len(recent)} starts within a second")

    def _judge_event(self, event: Operated, entered: list[Snapshot]) -> None:
        plain = {new.type for new in entered if new.key is None}
        if plain and plain != set(HANDLERS):
            self._accuse("half an event", event, f"jobs for {sorted(plain)} alone")
        self._verdict.events += bool(entered)

    def _judge_ticks(self, event: Operated, entered: list[Snapshot]) -> None:
        """Allow as many jobs as there were minutes, each with a key of its own: one cron ticks."""
        for new in {new.job_id: new for new in entered}.values():
            self._verdict.ticks += 1
            minutes = event.now // MINUTE_US - self._first_minute + 1
            if new.key in self._ticks or self._verdict.ticks > minutes:
                self._accuse("tick twice", event, f"number {self._verdict.ticks}: {new}")
            if new.key is not None:
                self._ticks.add(new.key)

    def _judge_webhooks(self, event: Operated, entered: list[Snapshot]) -> None:
        """Hold ends and deliveries against each other: stored by the same operation, or lost."""
        states = {job_id: job.state for job_id, job in self._jobs.items() if job.has_callback}
        ended = 0
        for new in event.changes:
            if not new.has_callback or new.is_removed:
                continue
            if new.state in TERMINAL and states.get(new.job_id) not in TERMINAL:
                ended += 1
            states[new.job_id] = new.state
        told = len({new.job_id for new in entered if new.type == DELIVERY_TYPE})
        if ended != told:
            self._accuse("untold", event, f"{event.name}: {ended} ended, {told} webhooks")
        self._verdict.webhooks += told

    def _forget_released(self, event: Operated) -> None:
        for asked in event.asked:
            if asked.event == "RELEASE" and asked.answer == "Settled":
                self._starts.pop(asked.token, None)

    def _judge_keys(self, event: Operated) -> None:
        counts: dict[tuple[str, str], int] = defaultdict(int)
        for job in self._running.values():
            if job.concurrency_key is not None and (job.ends_at or 0) > event.now:
                counts[job.type, job.concurrency_key] += 1
                if counts[job.type, job.concurrency_key] > job.per_key:
                    self._accuse("concurrency key", event, f"one more than may run: {job}")

    def _accuse(self, rule: str, event: Operated, text: str) -> None:
        self._verdict.accuse(rule, event.at, text)
