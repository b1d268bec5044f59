"""The way of the data: jobs are submitted, claimed, kept under leases, settled, recovered."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from msgspec.structs import replace

from fencepost.core.idempotency import OnDuplicate
from fencepost.core.job import (
    Attempt,
    AttemptOutcome,
    ClaimedJob,
    Failure,
    Job,
    Lease,
    NewJob,
    Ownership,
)
from fencepost.core.lifecycle import Event, State
from fencepost.core.limits import CLAIM_MAX, EXPIRE_BATCH, PROMOTE_BATCH, RECOVER_BATCH
from fencepost.core.outcome import Decision, Failed, Settlement
from fencepost.errors import DuplicateJobError
from fencepost.store.replies import (
    AlreadySettled,
    Claim,
    Duplicate,
    Enqueued,
    EnqueueReply,
    Extended,
    HeartbeatReply,
    LeaseLost,
    Moved,
    Saved,
    SaveReply,
    Settled,
    SettleReply,
)
from fencepost.store.requests import Beat, ClaimRequest, Save, Scope
from lab.model import rules
from lab.model.rules import has_come, seconds
from lab.model.world import Holding, Kept, World


class Workings:
    """A job's way from its submission to its end, and the few ways in which it changes."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.world = World()
        self._issued = 0

    # Submitting.

    def enqueue(self, jobs: Sequence[NewJob], *, atomic: bool = False) -> list[EnqueueReply]:
        before = self.world.copy()
        try:
            return [self._enqueue(new, atomic=atomic) for new in jobs]
        except DuplicateJobError:
            self.world = before
            raise

    def _enqueue(self, new: NewJob, *, atomic: bool) -> EnqueueReply:
        holder = self._holder(new.type, new.key.value) if new.key else None
        if new.key is not None and holder is not None:
            is_rejected = new.key.on_duplicate is OnDuplicate.REJECT
            if is_rejected and atomic:
                raise DuplicateJobError(type=new.type, key=new.key.value, existing_id=holder.id)
            return Duplicate(holder.id, new.type, new.key.value, holder.job.state, is_rejected)
        due = max(new.run_at or self.now + seconds(new.delay), self.now)
        is_due = due <= self.now
        job = Job(
            id=self.new_id(),
            type=new.type,
            queue=new.queue,
            priority=new.priority,
            state=State.SCHEDULED if is_due else State.DELAYED,
            attempt=0,
            max_attempts=new.policy.max_attempts,
            created_at=self.now,
            updated_at=self.now,
            run_at=due,
            expires_at=self.now + seconds(new.policy.lifetime),
            scheduled_at=self.now if is_due else None,
            policy=new.policy,
            payload=new.payload,
            key=new.key.value if new.key else None,
            tags=dict(new.tags),
            correlation_id=new.correlation_id,
        )
        self._add(job, new.key.window if new.key else None)
        return Enqueued(job.id, job.type, job.state)

    def _add(self, job: Job, key_window: float | None) -> None:
        """Store a new job at the end of the order of submission; it takes its key."""
        self.world.submitted += 1
        kept = Kept(number=self.world.submitted, job=job, key_window=key_window)
        self.world.jobs[job.id] = kept
        self.world.queues.add(job.queue)
        self.world.types.add(job.type)
        self._take_key(kept)

    def _holder(self, type: str, key: str) -> Kept | None:
        """Return the job to which a key belongs now."""
        holding = self.world.keys.get((type, key))
        if holding is None:
            return None
        kept = self.world.jobs[holding.job_id]
        is_live = kept.job.state not in rules.ENDED
        return kept if rules.is_held(is_live=is_live, until=holding.until, now=self.now) else None

    def holding(self, kept: Kept) -> Holding | None:
        """Return how a job has its key, if it was the last to take it."""
        holding = self.world.keys.get((kept.job.type, kept.job.key or ""))
        return holding if holding is not None and holding.job_id == kept.id else None

    def _take_key(self, kept: Kept) -> None:
        """Give a job its key, from whoever had it; the window counts from now."""
        if kept.job.key is None:
            return
        until = None if kept.key_window is None else self.now + seconds(kept.key_window)
        self.world.keys[kept.job.type, kept.job.key] = Holding(kept.id, until)

    # Claiming.

    def claim(self, request: ClaimRequest) -> Claim:
        recovered = self.recover(RECOVER_BATCH)
        expired = self.expire(EXPIRE_BATCH)
        promoted = self.promote(PROMOTE_BATCH)
        jobs = [self._lease(kept, request) for kept in self._chosen(request)]
        return Claim(
            jobs=jobs,
            recovered=recovered,
            expired=expired,
            promoted=len(promoted),
            wait=self._wait(),
        )

    def _chosen(self, request: ClaimRequest) -> list[Kept]:
        """Return what a claim takes: by queue in turn, and within a queue in line."""
        lines = {queue: self._line(queue, request) for queue in sorted(self.world.queues)}
        weights = request.queues
        if weights is None:
            weights = {queue: 1 for queue, line in lines.items() if line}
        limit = min(request.limit, CLAIM_MAX, self._app_room(request.limit))
        if limit <= 0 or not weights:
            return []
        room = {queue: self._queue_room(queue, len(lines.get(queue, ()))) for queue in weights}
        shares = rules.shares(weights, room, turn=request.turn, limit=limit)
        return [
            kept for queue, share in shares.items() for kept in islice(lines.get(queue, ()), share)
        ]

    def _line(self, queue: str, request: ClaimRequest) -> list[Kept]:
        if self.world.is_paused(Scope.QUEUE, queue):
            return []
        allowed = [
            type
            for type in self.world.types
            if not self.world.is_paused(Scope.TYPE, type)
            and (request.types is None or type in request.types)
        ]
        found = [kept for type in allowed for kept in self.world.claimable(queue, type)]
        return sorted(found, key=lambda kept: kept.place)

    def _app_room(self, wanted: int) -> int:
        limit = self.world.limits.get("")
        return wanted if limit is None else limit - self.world.running(self.now)

    def _queue_room(self, queue: str, wanted: int) -> int:
        limit = self.world.limits.get(queue)
        if limit is None:
            return wanted
        return max(min(wanted, limit - self.world.running(self.now, queue)), 0)

    def _lease(self, kept: Kept, request: ClaimRequest) -> ClaimedJob:
        """Begin an attempt; it counts from here on, whatever becomes of the worker."""
        job, token = kept.job, self._new_token()
        ttl = job.policy.lease_ttl or request.lease_ttl
        version, number = job.lease_version + 1, job.attempt + 1
        expires_at = self.now + seconds(ttl)
        attempt = Attempt(
            id=f"{job.id}.{version}",
            job_id=job.id,
            previous_id=f"{job.id}.{version - 1}" if version > 1 else None,
            number=number,
            lease_version=version,
            worker=request.worker,
            outcome=AttemptOutcome.RUNNING,
            started_at=self.now,
        )
        running = self._move(
            replace(kept, token=token, attempts=(*kept.attempts, attempt)),
            State.RUNNING,
            attempt=number,
            lease_version=version,
            lease=Ownership(request.worker, version, expires_at, expired=False),
            started_at=self.now,
            progress=None,
        )
        return ClaimedJob(
            id=job.id,
            type=job.type,
            queue=job.queue,
            priority=job.priority,
            attempt=number,
            max_attempts=job.max_attempts,
            lease=Lease(token, version, expires_at),
            lease_ttl=ttl,
            payload=job.payload,
            policy=job.policy,
            key=job.key,
            tags=dict(job.tags),
            correlation_id=job.correlation_id,
            checkpoint=running.job.checkpoint,
        )

    def _wait(self) -> float | None:
        """Return the seconds until a job falls due or a lease runs out."""
        instants = [lease.expires_at for lease in self.world.leases()]
        instants += [kept.job.run_at for kept in self._in(rules.WAITING_FOR_TIME)]
        return max((min(instants) - self.now).total_seconds(), 0.0) if instants else None

    # Under a lease.

    def heartbeat(self, beats: Sequence[Beat]) -> list[HeartbeatReply]:
        return [self._extend(beat) for beat in beats]

    def _extend(self, beat: Beat) -> HeartbeatReply:
        kept = self.world.get(beat.job_id)
        if kept is None or not kept.is_owned_by(beat.token, self.now):
            return self._lost(beat.job_id)
        assert kept.job.lease is not None
        expires_at = max(kept.job.lease.expires_at, self.now + seconds(beat.lease_ttl))
        self._change(kept, lease=replace(kept.job.lease, expires_at=expires_at))
        return Extended(beat.job_id, expires_at)

    def settle(self, settlements: Sequence[Settlement]) -> list[SettleReply]:
        return [self._settle(settlement) for settlement in settlements]

    def _settle(self, settlement: Settlement) -> SettleReply:
        job_id, token, decision = settlement.job_id, settlement.token, settlement.decision
        kept = self.world.get(job_id)
        if kept is None:
            return LeaseLost(job_id)
        if kept.is_owned_by(token, self.now):
            ended = self._end_attempt(replace(kept, settled_token=token), decision)
            return Settled(job_id, ended.job.type, ended.job.state)
        if kept.settled_token == token:
            return AlreadySettled(job_id, kept.job.state)
        return self._lost(job_id)

    def save(self, saves: Sequence[Save]) -> list[SaveReply]:
        return [self._save(save) for save in saves]

    def _save(self, save: Save) -> SaveReply:
        kept = self.world.get(save.job_id)
        if kept is None or not kept.is_owned_by(save.token, self.now):
            return self._lost(save.job_id)
        self._change(
            kept,
            checkpoint=save.checkpoint or kept.job.checkpoint,
            progress=save.progress or kept.job.progress,
        )
        return Saved(save.job_id)

    def _lost(self, job_id: str) -> LeaseLost:
        kept = self.world.get(job_id)
        return LeaseLost(job_id, None if kept is None else kept.job.state)

    # Upkeep, which a claim does too.

    def recover(self, limit: int) -> list[Moved]:
        lost = [
            (lease.expires_at, kept.number, kept)
            for kept in self._in({State.RUNNING})
            if (lease := kept.job.lease) and has_come(lease.expires_at, self.now)
        ]
        return [self._take_back(kept) for _, _, kept in sorted(lost)[: max(limit, 0)]]

    def _take_back(self, kept: Kept) -> Moved:
        """End the attempt of a worker that was lost, as a failure like any other."""
        job = kept.job
        decision = rules.decision(
            attempt=job.attempt,
            max_attempts=job.max_attempts,
            policy=job.policy,
            outcome=Failed(rules.LEASE_EXPIRED),
        )
        state = self._end_attempt(kept, decision).job.state
        return Moved(job.id, job.type, state, State.RUNNING)

    def expire(self, limit: int) -> list[Moved]:
        old = [
            (kept.job.expires_at, kept.number, kept)
            for kept in self._in(set(State) - rules.ENDED)
            if has_come(kept.job.expires_at, self.now)
        ]
        ends = (State.DEAD_LETTER, rules.LIFETIME_EXCEEDED, AttemptOutcome.FAILED)
        return [self._end(kept, *ends) for _, _, kept in sorted(old)[: max(limit, 0)]]

    def promote(self, limit: int) -> list[Moved]:
        due = [
            (kept.job.run_at, kept.number, kept)
            for kept in self._in(rules.WAITING_FOR_TIME)
            if has_come(kept.job.run_at, self.now)
        ]
        return [
            Moved(kept.id, moved.job.type, moved.job.state, kept.job.state)
            for _, _, kept in sorted(due)[: max(limit, 0)]
            for moved in [self._move(kept, State.SCHEDULED, scheduled_at=self.now)]
        ]

    # The few ways in which a job changes.

    def _end_attempt(self, kept: Kept, decision: Decision) -> Kept:
        """Let a running job go where *decision* says."""
        job, event = kept.job, decision.event
        changes: dict[str, object] = {}
        if event is Event.SUCCEED:
            changes |= {"result": decision.result, "failure": None}
        if event in (Event.REJECT, Event.EXHAUST, Event.RETRY):
            changes["failure"] = decision.failure
        if event in (Event.RETRY, Event.SNOOZE):
            # Past its lifetime a job has nothing to wait for.
            changes["run_at"] = min(self.now + seconds(decision.delay), job.expires_at)
        if event is Event.RELEASE:
            changes["scheduled_at"] = self.now
        if event in (Event.RELEASE, Event.SNOOZE):
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
        """Put a job into another state, if it can get there from where it is."""
        assert state in rules.NEXT[kept.job.state], f"{kept.job.state} never leads to {state}"
        changes |= {"state": state, "updated_at": self.now}
        if state in rules.ENDED:
            changes["completed_at"] = self.now
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
        self.world.jobs[kept.id] = changed
        return changed

    def _in(self, states: set[State] | frozenset[State]) -> list[Kept]:
        return [kept for kept in self.world.jobs.values() if kept.job.state in states]

    # Names.

    def new_id(self) -> str:
        """Return an id that no job has."""
        self._issued += 1
        return f"abcdef00-0000-4000-8000-{self._issued:012x}"

    def _new_token(self) -> str:
        self._issued += 1
        return f"token {self._issued}"
