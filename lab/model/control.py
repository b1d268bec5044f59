"""What operators do to jobs, to queues and to what is over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from fencepost.core.bounds import PRUNE_SCAN
from fencepost.core.job.job import AttemptOutcome, Job
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Priority
from fencepost.errors import ConfigurationError
from fencepost.store.interface.control import (
    CancelReply,
    Conflict,
    Discarded,
    DiscardReply,
    Edit,
    Edited,
    EditReply,
    NotFound,
    Replayed,
    ReplayReply,
    RetryReply,
    RetryRequest,
    TooLate,
)
from fencepost.store.interface.queue import Duplicate, Moved
from fencepost.store.interface.settings import Scope
from fencepost.store.interface.upkeep import Pruned, PruneRequest
from lab.model import rules
from lab.model.rules import has_come, seconds
from lab.model.spawns import Spawning
from lab.model.world import Kept


class Steering(Spawning):
    """Cancel, retry, replay, discard, edit; pause and limit; prune."""

    def cancel(self, job_ids: Sequence[str]) -> list[CancelReply]:
        found = [self.world.get(job_id) for job_id in job_ids]
        live = {kept.id: kept for kept in found if kept and kept.job.state not in rules.ENDED}
        ends = (State.CANCELLED, rules.CANCELLED, AttemptOutcome.CANCELLED)
        ended = self._end_all(list(live.values()), *ends)
        moved: dict[str, Moved | None] = {each.job_id: each for each in ended}
        return [
            reply if reply is not None else self._not_cancelled(job_id)
            for job_id in job_ids
            for reply in [moved.pop(job_id.lower(), None)]
        ]

    def _not_cancelled(self, job_id: str) -> CancelReply:
        kept = self.world.get(job_id)
        return NotFound(job_id) if kept is None else Conflict(job_id, kept.job.state)

    # Again.

    def retry(self, requests: Sequence[RetryRequest]) -> list[RetryReply]:
        return [self._retry(request) for request in requests]

    def _retry(self, request: RetryRequest) -> RetryReply:
        kept = self.world.get(request.job_id)
        if kept is None:
            return NotFound(request.job_id)
        was = kept.job.state
        if was in (State.DELAYED, State.RETRYING):
            return self._hasten(kept, request)
        if was not in rules.ENDED or was is State.COMPLETED:
            return Conflict(request.job_id, was)
        ends = self.now + seconds(kept.job.policy.lifetime)
        if has_come(ends, self.now + seconds(request.delay)):
            return TooLate(kept.id, ends)
        awaited = self._awaited_again(kept)
        if isinstance(awaited, Conflict):
            return awaited
        if taken := self._key_taken(kept):
            return taken
        job = kept.job
        changes: dict[str, object] = {
            "run_at": self.now + seconds(request.delay),
            "expires_at": self.now + seconds(job.policy.lifetime),
            "attempt": 0 if request.reset_attempts else job.attempt,
            "max_attempts": job.policy.max_attempts if request.reset_attempts else job.attempt + 1,
            "completed_at": None,
            "failure": None,
            "result_body": None,
        }
        state = State.DELAYED if request.delay else State.SCHEDULED
        if awaited:
            assert job.waits is not None
            state = State.PENDING
            changes["waits"] = replace(job.waits, missing=awaited)
        if state is State.SCHEDULED:
            changes["scheduled_at"] = self.now
        reopened = self._move(kept, state, **changes)
        self.world.dead.pop(kept.id, None)
        self._take_key(reopened)
        self.hold_up(reopened)
        reopened = self._set_priority(reopened, request.priority)
        [told] = self.told([Moved(job.id, job.type, reopened.job.state, was)])
        assert isinstance(told, Moved)
        return told

    def _hasten(self, kept: Kept, request: RetryRequest) -> RetryReply:
        """Have a job that waits for its time be due now, or after another delay (C45)."""
        job, due = kept.job, self.now + seconds(request.delay)
        if has_come(job.expires_at, due):
            return TooLate(kept.id, job.expires_at)
        if request.reset_attempts:
            kept = self._change(kept, attempt=0, max_attempts=job.policy.max_attempts)
        hastened = self._set_priority(self._be_due(kept, due), request.priority)
        [told] = self.told([Moved(job.id, job.type, hastened.job.state, job.state)])
        assert isinstance(told, Moved)
        return told

    def _be_due(self, kept: Kept, due: datetime) -> Kept:
        """Let a waiting job be due at another time; one that is in line keeps its place."""
        job, is_due = kept.job, has_come(due, self.now)
        if kept.is_waiting:
            return self._change(kept, run_at=max(due, self.now))
        if job.state in (State.DELAYED, State.RETRYING):
            if is_due:
                times = {"run_at": self.now, "scheduled_at": self.now}
                return self._move(kept, State.SCHEDULED, **times)
            return self._change(kept, run_at=due)
        return kept if is_due else self._move(kept, State.DELAYED, run_at=due)

    def _set_priority(self, kept: Kept, priority: Priority | None) -> Kept:
        """Give a job a priority by hand; those that inherited its own follow (S1-37)."""
        if priority is None:
            return kept
        waits = kept.job.waits and replace(kept.job.waits, own_priority=None)
        changed = self._change(kept, priority=priority, waits=waits)
        while any(self._inherit(child) for child in self._in({State.PENDING})):
            pass
        return changed

    def _inherit(self, kept: Kept) -> bool:
        """Let a job that waits for others be as urgent as those; tell whether it was not."""
        waits = kept.job.waits
        if not kept.is_waiting or waits is None or waits.own_priority is None:
            return False
        parents = self.world.parents(kept.id)
        urgent = min(waits.own_priority, *(parent.job.priority for parent in parents))
        if urgent is kept.job.priority:
            return False
        self._change(kept, priority=urgent)
        return True

    def _awaited_again(self, kept: Kept) -> int | Conflict:
        """Return for how many a job would wait now, or whose state forbids that it begin again."""
        if kept.job.waits is None:
            return 0
        parents = self.world.parents(kept.id)
        missing, failed = rules.awaited(kept.job.waits.mode, [each.job.state for each in parents])
        if failed is not None:
            return Conflict(kept.id, parents[failed].job.state, parents[failed].id)
        return missing

    def replay(self, job_ids: Sequence[str]) -> list[ReplayReply]:
        return [self._replay(job_id) for job_id in job_ids]

    def _replay(self, job_id: str) -> ReplayReply:
        dead = self.world.get(job_id)
        if dead is None or dead.id not in self.world.dead:
            return NotFound(job_id)
        awaited = self._awaited_again(dead)
        if isinstance(awaited, Conflict):
            return awaited
        if taken := self._key_taken(dead):
            return taken
        fresh = Job(
            id=self.new_id(),
            type=dead.job.type,
            queue=dead.job.queue,
            priority=dead.job.priority,
            state=State.PENDING if awaited else State.SCHEDULED,
            attempt=0,
            max_attempts=dead.job.policy.max_attempts,
            created_at=self.now,
            updated_at=self.now,
            run_at=self.now,
            expires_at=self.now + seconds(dead.job.policy.lifetime),
            scheduled_at=None if awaited else self.now,
            policy=dead.job.policy,
            payload_body=dead.job.payload_body,
            key=dead.job.key,
            tags=dict(dead.job.tags),
            correlation_id=dead.job.correlation_id,
            replay_of=dead.id,
            waits=dead.job.waits and replace(dead.job.waits, missing=awaited),
            flow=dead.job.flow,
            node=dead.job.node,
            callback_url=dead.job.callback_url,
            concurrency_key=dead.job.concurrency_key,
        )
        self._add(fresh, dead.key_window, self.world.parents(dead.id))
        del self.world.dead[dead.id]
        self.admit()
        return Replayed(dead.id, fresh.id, fresh.type, self.world.jobs[fresh.id].job.state)

    def _key_taken(self, kept: Kept) -> Duplicate | None:
        """Return who else holds the job's key, if anybody does."""
        job = kept.job
        holder = None if job.key is None else self._holder(job.type, job.key)
        if job.key is None or holder is None or holder.id == job.id:
            return None
        return Duplicate(holder.id, job.type, job.key, holder.job.state, is_rejected=True)

    def discard(self, job_ids: Sequence[str]) -> list[DiscardReply]:
        return [self._discard(job_id) for job_id in job_ids]

    def _discard(self, job_id: str) -> DiscardReply:
        if job_id.lower() not in self.world.dead:
            return NotFound(job_id)
        del self.world.dead[job_id.lower()]
        return Discarded(job_id)

    # Settings.

    def edit(self, edits: Sequence[Edit]) -> list[EditReply]:
        return [self._edit(edit) for edit in edits]

    def _edit(self, edit: Edit) -> EditReply:
        kept = self.world.get(edit.job_id)
        if kept is None:
            return NotFound(edit.job_id)
        job = kept.job
        others = (edit.priority, edit.run_at, edit.payload, edit.correlation_id, edit.callback_url)
        is_more_than_tags = any(each is not None for each in others)
        if is_more_than_tags and (job.state is State.RUNNING or job.state in rules.ENDED):
            return Conflict(edit.job_id, job.state)
        if edit.run_at is not None and has_come(job.expires_at, max(edit.run_at, self.now)):
            return TooLate(edit.job_id, job.expires_at)
        asked: dict[str, object] = {
            "tags": None if edit.tags is None else dict(edit.tags),
            "payload_body": edit.payload,
            "correlation_id": edit.correlation_id,
            "callback_url": edit.callback_url,
        }
        changes = {name: value or None for name, value in asked.items() if value is not None}
        if edit.tags is not None:
            changes["tags"] = dict(edit.tags)
        changed = self._set_priority(self._change(kept, **changes), edit.priority)
        if edit.run_at is not None:
            changed = self._be_due(changed, edit.run_at)
        moved: list[Moved] = []
        if changed.job.state is not job.state:
            own = Moved(kept.id, job.type, changed.job.state, job.state)
            [told] = self.told([own])
            moved = [replace(told, followed=()), *told.followed]
        self.world.freed_slots.clear()  # else nobody left a slot, and the order does not matter
        return Edited(self.world.jobs[kept.id].shown(self.now), tuple(moved))

    def pause(self, scope: Scope, name: str) -> None:
        self._pause(scope, name, is_paused=True)

    def resume(self, scope: Scope, name: str) -> None:
        self._pause(scope, name, is_paused=False)

    def _pause(self, scope: Scope, name: str, *, is_paused: bool) -> None:
        if scope is Scope.APP:
            raise ConfigurationError("a queue or a type can be paused")
        if is_paused:
            self.world.paused.add((scope, name))
        else:
            self.world.paused.discard((scope, name))

    def limit(self, scope: Scope, name: str, max_running: int | None) -> None:
        if scope is Scope.TYPE or (max_running is not None and max_running < 1):
            raise ConfigurationError("a queue or the app can be limited, to one or more")
        limited = "" if scope is Scope.APP else name
        self.world.limits.pop(limited, None)
        if max_running is not None:
            self.world.limits[limited] = max_running

    # What is over.

    def prune(self, request: PruneRequest) -> Pruned:
        later = [kept for kept in self.world.jobs.values() if kept.number > request.after]
        pruned = 0
        seen = request.after
        for looked, kept in enumerate(later):
            if looked == PRUNE_SCAN or pruned >= request.limit:
                return Pruned(pruned, seen)
            seen = kept.number
            if self._is_old(kept, request) and not self._is_awaited(kept):
                self._remove(kept)
                pruned += 1
        return Pruned(pruned, None)

    def _is_old(self, kept: Kept, request: PruneRequest) -> bool:
        job = kept.job
        keep = request.keep_by_type.get(job.type, request.keep)
        if job.state not in rules.ENDED or job.state not in keep:
            return False
        assert job.completed_at is not None
        holding = self.holding(kept)
        # The job is what a later submission under the same key is answered with.
        ends = [job.completed_at + seconds(keep[job.state])]
        ends += [holding.until] if holding and holding.until else []
        return all(has_come(end, self.now) for end in ends)

    def _is_awaited(self, kept: Kept) -> bool:
        """Tell whether somebody who has not ended may ask for its result."""
        return any(child.job.state not in rules.ENDED for child in self.world.children(kept.id))

    def _remove(self, kept: Kept) -> None:
        """Delete a job and everything of it."""
        for child in self.world.children(kept.id):
            rest = tuple(each for each in self.world.awaited[child.id] if each != kept.id)
            self.world.awaited[child.id] = rest
        self.world.awaited.pop(kept.id, None)
        if self.holding(kept) and kept.job.key is not None:
            del self.world.keys[kept.job.type, kept.job.key]
        self.world.dead.pop(kept.id, None)
        del self.world.jobs[kept.id]
