"""Jobs that wait for others: how handlers spawn them, and the rules that they live by."""

from __future__ import annotations

from lab.simulation.history import Operated, Snapshot
from lab.simulation.verdict import Verdict

TERMINAL = frozenset({"completed", "failed", "dead_letter", "cancelled"})
FOLLOW = {("pending", state) for state in ("scheduled", "delayed", *TERMINAL - {"completed"})}
"""What may become of a job when those end that it waits for."""


class GraphRules:
    """No job starts before those that it waits for have let it go, and none is forgotten."""

    def __init__(self, verdict: Verdict, jobs: dict[str, Snapshot]) -> None:
        self._verdict = verdict
        self._jobs = jobs

    def judge(self, event: Operated, old: Snapshot | None, new: Snapshot) -> None:
        """Judge a change of a job that has dependencies."""
        was = "" if old is None else old.state
        if not new.awaited or was == new.state:
            return
        # Later on an operator may have begun one of them again, unless it has completed.
        is_let_go = was in ("pending", *TERMINAL) and new.state in ("scheduled", "delayed")
        is_started = new.state == "running" and new.mode == "all"
        if (is_let_go or is_started) and not self._is_free(new):
            states = [self._state(each) for each in new.awaited]
            self._accuse("too early", event, f"{event.name}: {old} became {new}, behind {states}")

    def _is_free(self, job: Snapshot) -> bool:
        states = [self._state(each) for each in job.awaited]
        match job.mode:
            case "all":
                return all(state == "completed" for state in states)
            case "any":
                return any(state in TERMINAL for state in states)
            case _:
                return all(state in TERMINAL for state in states)

    def _state(self, job_id: str) -> str:
        job = self._jobs.get(job_id)
        return "removed" if job is None else job.state

    def finish(self, at: float) -> None:
        """Judge who waits in vain when everything should have ended."""
        for job in self._jobs.values():
            is_pending = job.state == "pending"
            if is_pending and all(self._state(each) in TERMINAL for each in job.awaited):
                self._verdict.accuse("forgotten", at, f"{job}")

    def _accuse(self, rule: str, event: Operated, text: str) -> None:
        self._verdict.accuse(rule, event.at, text)
