"""Jobs that wait for others: put behind them, let go, or ended on their account.

No count is kept: what a job still waits for is derived from the states of its dependencies, each
time one of them changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from fencepost.core.flows.dependencies import Dependencies, Waits
from fencepost.core.job.job import AttemptOutcome, Job
from fencepost.core.job.lifecycle import State
from fencepost.errors import DependencyDepthError
from fencepost.store.interface.queue import Moved
from lab.model import rules
from lab.model.webhooks import Delivering
from lab.model.world import Kept


class Waiting(Delivering):
    """Who waits for whom, and what comes of it."""

    def __init__(self, now: datetime) -> None:
        super().__init__(now)
        self._failed: set[str] = set()
        """Who has ended without success in this call, see ``open_failures``."""

    def _behind(self, job: Job, parents: Sequence[Kept], after: Dependencies) -> Job:
        """Return a job that is due as *job* is, behind *parents* (S1-37, S1-66, S1-70)."""
        depth = _checked(1 + max(parent.depth for parent in parents))
        missing, failed = rules.awaited(after.mode, [each.job.state for each in parents])
        job = replace(
            job,
            priority=min(job.priority, *(parent.job.priority for parent in parents)),
            waits=Waits(
                after.mode, missing if failed is None else 0, depth, after.gathers, job.priority
            ),
        )
        if failed is not None:
            return self._stillborn(job, parents[failed])
        if missing:
            return replace(job, state=State.PENDING, scheduled_at=None)
        return job

    def _stillborn(self, job: Job, parent: Kept) -> Job:
        """Return *job* as one that ends at once, as *parent* has before it."""
        failure = rules.dependency_failed(_first_failed(parent), parent.job.state)
        ended = {"state": parent.job.state, "failure": failure, "completed_at": self.now}
        return replace(job, scheduled_at=None, **ended)

    def follow(self, ended: Iterable[str]) -> tuple[Moved, ...]:
        """Let go, or end, those that waited for jobs that have ended, and those behind them.

        All that have ended are told of, if they asked for it.
        """
        moved: list[Moved] = []
        latest = list(ended)
        while latest:
            moved += [told for each in latest for told in self.tell_of(self.world.jobs[each])]
            self._failed |= {each for each in latest if not self._has_completed(each)}
            children = {
                kept.id: None
                for each in latest
                for kept in self.world.children(each)
                if kept.is_waiting
            }
            steps = [self.judge(self.world.jobs[job_id]) for job_id in children]
            moved += [step for step in steps if step is not None]
            latest = [step.job_id for step in steps if step and step.state in rules.ENDED]
        return tuple(moved)

    def judge(self, kept: Kept) -> Moved | None:
        """Have a job that waits for others do what their states say; tell it if it moves."""
        waits = kept.job.waits
        assert waits is not None
        assert kept.is_waiting
        parents = self.world.parents(kept.id)
        missing, failed = rules.awaited(waits.mode, [parent.job.state for parent in parents])
        if failed is not None:
            return self._end_with(kept, parents[failed])
        if missing:
            self._change(kept, waits=replace(waits, missing=missing))
            return None
        return self._let_go(kept)

    def _end_with(self, kept: Kept, parent: Kept) -> Moved:
        """End a job as *parent* did, for which it waits (S1-71 to S1-73)."""
        state = parent.job.state
        failure = rules.dependency_failed(_first_failed(parent), state)
        return self._end(kept, state, failure, AttemptOutcome.FAILED)

    def _let_go(self, kept: Kept) -> Moved | None:
        """Let a job take its place in line, or wait for its own time (S1-60, S1-101)."""
        run_at = max(kept.job.run_at, self.now)
        if rules.has_come(run_at, self.now):
            moved = self._move(kept, State.SCHEDULED, run_at=run_at, scheduled_at=self.now)
            if moved.is_held:  # told when it has its slot
                return None
            return Moved(kept.id, kept.job.type, State.SCHEDULED, State.PENDING)
        self._move(kept, State.DELAYED, run_at=run_at)
        return Moved(kept.id, kept.job.type, State.DELAYED, State.PENDING)

    def hold_up(self, reopened: Kept) -> None:
        """Have those wait again for a job that they had counted as ended."""
        for child in self.world.children(reopened.id):
            if child.is_waiting:
                self.judge(child)

    def waits_for(self, kept: Kept, other: str) -> bool:
        """Tell whether a job waits for *other*, itself or by way of those that it waits for."""
        parents = self.world.parents(kept.id)
        return any(each.id == other or self.waits_for(each, other) for each in parents)

    def gather(self, gatherer: Kept, spawned: Kept) -> Kept:
        """Have *gatherer* wait for one job more, but for one that waits for it (C29, S1-65)."""
        on = self.world.awaited[gatherer.id]
        if spawned.id in (*on, gatherer.id) or self.waits_for(spawned, gatherer.id):
            return gatherer
        self.world.awaited[gatherer.id] = (*on, spawned.id)
        waits = gatherer.job.waits
        assert waits is not None
        return self._change(
            gatherer,
            priority=min(gatherer.job.priority, spawned.job.priority),
            waits=replace(waits, depth=_checked(max(waits.depth, spawned.depth + 1))),
        )

    # What is left open.

    def begin_call(self) -> None:
        """Forget who has ended in the call before."""
        self._failed = set()

    def open_failures(self) -> list[str]:
        """Return on whose account jobs may have ended in this call, if there is a choice.

        When two end in one call for which a third waits, it is left open which of them ends it.
        """
        found: dict[str, None] = {}
        for job_id in self._failed & self.world.jobs.keys():
            parents = self.world.parents(job_id)
            failed = [each for each in parents if each.id in self._failed | {*self._dead()}]
            firsts = dict.fromkeys(_first_failed(each) for each in failed)
            failure = self.world.jobs[job_id].job.failure
            follows = failure is not None and failure.failed_dependency is not None
            if follows and len(firsts) > 1 and any(each.id in self._failed for each in failed):
                found |= firsts
        return [each for each in found if each in self._failed]

    def _dead(self) -> list[str]:
        return [kept.id for kept in self._in(rules.ENDED - {State.COMPLETED})]

    def _has_completed(self, job_id: str) -> bool:
        return self.world.jobs[job_id].job.state is State.COMPLETED


def _first_failed(parent: Kept) -> str:
    """Return who was the first to end so, however long the way from there is."""
    failure = parent.job.failure
    earlier = None if failure is None else failure.failed_dependency
    return parent.id if earlier is None else earlier


def _checked(depth: int) -> int:
    if depth > rules.DEPTH_MAX:
        raise DependencyDepthError(str(depth))
    return depth
