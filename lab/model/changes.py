"""The few ways in which a job changes, each of them checked."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from fencepost.core.job.job import AttemptOutcome, Failure
from fencepost.core.job.lifecycle import Event, State
from fencepost.core.job.outcome import Decision
from fencepost.store.interface.queue import Moved
from lab.model import rules
from lab.model.concurrency_keys import Admitting
from lab.model.rules import seconds
from lab.model.world import Kept, World


class Changing(Admitting):
    """The world, the time, and how a job moves in them."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.world = World()
        self.issued = 0

    def _end_attempt(self, kept: Kept, decision: Decision) -> Kept:
        """Let a running job go where *decision* says."""
        job, event = kept.job, decision.event
        is_unread = decision.outcome is AttemptOutcome.UNREADABLE
        changes: dict[str, object] = {}
        if event is Event.SUCCEED:
            changes |= {"result_body": decision.result, "failure": None}
        if event in (Event.REJECT, Event.EXHAUST, Event.RETRY):
            changes["failure"] = decision.failure
        if event in (Event.RETRY, Event.SNOOZE):
            # Past its lifetime a job has nothing to wait for.
            changes["run_at"] = min(self.now + seconds(decision.delay), job.expires_at)
        if event is Event.RELEASE:
            changes["scheduled_at"] = self.now
        if event in (Event.RELEASE, Event.SNOOZE) or is_unread:
            changes["attempt"] = job.attempt - 1
        ended = self._with_ended_attempt(kept, decision.outcome, decision.failure)
        return self._move(ended, rules.AFTER[event], lease=None, **changes)

    def _end(self, kept: Kept, state: State, failure: Failure, outcome: AttemptOutcome) -> Moved:
        """End a job that has not ended, from outside; if it runs, its worker loses it."""
        was = kept.job.state
        if was is State.RUNNING:
            kept = self._with_ended_attempt(kept, outcome, failure)
        self._move(kept, state, lease=None, failure=failure)
        return Moved(kept.id, kept.job.type, state, was)

    def _with_ended_attempt(
        self, kept: Kept, outcome: AttemptOutcome, failure: Failure | None
    ) -> Kept:
        *past, last = kept.attempts
        assert last.outcome is AttemptOutcome.RUNNING
        ended = replace(last, outcome=outcome, failure=failure, ended_at=self.now)
        return replace(kept, attempts=(*past, ended), token=None)

    def _move(self, kept: Kept, state: State, **changes: object) -> Kept:
        """Put a job into another state, if it can get there from where it is.

        One with a concurrency key comes into line by way of ``admit`` only; who is released stays.
        """
        was = kept.job.state
        has_key = kept.job.concurrency_key is not None
        is_held = has_key and state is State.SCHEDULED and was is not State.RUNNING
        if is_held:
            state = State.PENDING
            changes.pop("scheduled_at", None)
        is_possible = state in rules.NEXT[was] or (is_held and was is State.PENDING)
        assert is_possible, f"{was} never leads to {state}"
        changes |= {"state": state, "updated_at": self.now}
        if state in rules.ENDED:
            changes["completed_at"] = self.now
        if (is_held or state is not State.PENDING) and kept.job.waits is not None:
            changes["waits"] = replace(kept.job.waits, missing=0)
        if state in rules.DEAD:
            self.world.dead[kept.id] = None
        moved = self._change(kept, **changes)
        assert (
            (moved.token is not None) == (state is State.RUNNING) == (moved.job.lease is not None)
        )
        assert moved.job.attempt <= moved.job.lease_version
        return moved

    def _change(self, kept: Kept, **changes: object) -> Kept:
        changed = replace(kept, job=replace(kept.job, **changes))
        self.touch(self.world.jobs[kept.id], changed)
        self.world.jobs[kept.id] = changed
        return changed

    def _in(self, states: set[State] | frozenset[State]) -> list[Kept]:
        return [kept for kept in self.world.jobs.values() if kept.job.state in states]

    # Names.

    def new_id(self) -> str:
        """Return an id that no job has."""
        self.issued += 1
        return f"abcdef00-0000-4000-8000-{self.issued:012x}"

    def _new_token(self) -> str:
        self.issued += 1
        return f"token {self.issued}"
