"""The way of the data: jobs are submitted, claimed, kept under leases, settled, recovered."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from fencepost.core.bounds import CLAIM_MAX, EXPIRE_BATCH, PROMOTE_BATCH, RECOVER_BATCH
from fencepost.core.job.idempotency import OnDuplicate
from fencepost.core.job.job import (
    Attempt,
    AttemptOutcome,
    ClaimedJob,
    Failure,
    Job,
    Lease,
    NewJob,
    Ownership,
)
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Failed, Released, Settlement
from fencepost.core.values.payload import differences
from fencepost.errors import (
    DependencyCycleError,
    DependencyError,
    DuplicateJobError,
    InvalidJobError,
    UnknownDependencyError,
)
from fencepost.store.interface.queue import (
    AlreadySettled,
    Beat,
    Claim,
    ClaimRequest,
    Duplicate,
    Enqueued,
    EnqueueReply,
    Extended,
    HeartbeatReply,
    LeaseLost,
    Moved,
    Save,
    Saved,
    SaveReply,
    Settled,
    SettleReply,
)
from fencepost.store.interface.settings import Scope
from lab.model import rules
from lab.model.concurrency_keys import held_up
from lab.model.dependencies import Waiting
from lab.model.rates import Rating
from lab.model.rules import has_come, seconds
from lab.model.world import Holding, Kept


class Workings(Waiting, Rating):
    """A job's way from its submission to its end."""

    # Submitting.

    def enqueue(self, jobs: Sequence[NewJob], *, atomic: bool = False) -> list[EnqueueReply]:
        before = self.world.copy()
        replies: list[EnqueueReply] = []
        self._check_places(jobs)
        self._check_times(jobs)
        try:
            for new in jobs:
                parents = self._awaited(new, [reply.job_id for reply in replies])
                replies.append(self._enqueue(new, parents, atomic=atomic))
        except (DuplicateJobError, DependencyError):
            self.world = before
            raise
        return self.entered(replies)

    def _check_places(self, jobs: Sequence[NewJob]) -> None:
        """Raise if one of *jobs* waits for a place that does not come before its own (S1-65)."""
        for own, new in enumerate(jobs):
            on = new.after.on if new.after is not None else ()
            if any(isinstance(place, int) and not 0 <= place < own for place in on):
                raise DependencyCycleError(f"job {own} is to wait for one of {on}")

    def _check_times(self, jobs: Sequence[NewJob]) -> None:
        """Raise if one of *jobs* would fall due when its lifetime is over (C48)."""
        for new in jobs:
            due = new.run_at or self.now + seconds(new.delay)
            if has_come(self.now + seconds(new.policy.lifetime), due):
                raise InvalidJobError("it could never run")

    def _awaited(self, new: NewJob, earlier: Sequence[str]) -> list[Kept]:
        """Return what a new job is to wait for, each once, or raise (S1-65, S1-68)."""
        found: dict[str, Kept] = {}
        for on in new.after.on if new.after is not None else ():
            parent = self.world.get(earlier[on] if isinstance(on, int) else on)
            if parent is None:
                raise UnknownDependencyError(str(on))
            found[parent.id] = parent
        return list(found.values())

    def _enqueue(self, new: NewJob, parents: Sequence[Kept], *, atomic: bool) -> EnqueueReply:
        holder = self._holder(new.type, new.key.value) if new.key else None
        if new.key is not None and holder is not None:
            is_rejected = new.key.on_duplicate is OnDuplicate.REJECT
            differs = differences(holder.job.payload_body, new.payload)
            found = Duplicate(
                holder.id, new.type, new.key.value, holder.job.state, is_rejected, differs
            )
            if is_rejected and atomic:
                raise found.error
            return found
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
            payload_body=new.payload,
            key=new.key.value if new.key else None,
            tags=dict(new.tags),
            correlation_id=new.correlation_id,
            flow=new.flow,
            node=new.node,
            callback_url=new.callback_url,
            concurrency_key=new.concurrency_key,
        )
        if new.after is not None and parents:
            job = self._behind(job, parents, new.after)
        self._add(job, new.key.window if new.key else None, parents)
        return Enqueued(job.id, job.type, job.state)

    def _add(self, job: Job, key_window: float | None, parents: Sequence[Kept]) -> None:
        """Store a new job at the end of the order of submission; it takes its key."""
        self.world.submitted += 1
        kept = Kept(number=self.world.submitted, job=held_up(job), key_window=key_window)
        self.world.jobs[job.id] = kept
        self.touch(None, kept)
        self.world.queues.add(job.queue)
        self.world.types.add(job.type)
        self._take_key(kept)
        if parents:
            self.world.awaited[job.id] = tuple(parent.id for parent in parents)
        if job.state in rules.DEAD:
            self.world.dead[job.id] = None
        if job.state in rules.ENDED:
            self.tell_of(kept)

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
        """Give a job its key, from the job that had it; the window counts from now."""
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
        for job in jobs:
            self.note_start(job.type)
        return Claim(
            jobs=jobs,
            recovered=recovered,
            expired=expired,
            promoted=len(promoted),
            held=sum(move.state is State.PENDING for move in promoted),
            wait=self._wait(request),
        )

    def _chosen(self, request: ClaimRequest) -> list[Kept]:
        """Return what a claim takes: by queue in turn, and within a queue in line."""
        lines = {queue: self._startable(queue, request) for queue in sorted(self.world.queues)}
        weights = request.queues
        if weights is None:
            weights = {queue: 1 for queue, line in lines.items() if line}
        limit = min(request.limit, CLAIM_MAX, self._app_room(request.limit))
        if limit <= 0 or not weights:
            return []
        chosen: dict[str, list[Kept]] = {queue: [] for queue in rules.order(weights, request.turn)}
        entitled = rules.entitled(weights, turn=request.turn, limit=limit)
        for most in (entitled, dict.fromkeys(entitled, limit)):  # the share, then what is left
            for queue, own in chosen.items():
                room = self._queue_room(queue, limit)
                for kept in lines.get(queue, ()):
                    taken = [each for line in chosen.values() for each in line]
                    is_full = len(own) >= min(most[queue], room) or len(taken) >= limit
                    if not is_full and kept not in own and self.may_start(kept.job.type, taken):
                        own.append(kept)
        return [kept for own in chosen.values() for kept in own]

    def _startable(self, queue: str, request: ClaimRequest) -> list[Kept]:
        """Return the line without the types of which none may start at all."""
        return [each for each in self._line(queue, request) if self.may_start(each.job.type, ())]

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
        version, number = max(job.lease_version + 1, rules.microseconds(self.now)), job.attempt + 1
        deadline = self.now + seconds(job.policy.timeout) + seconds(request.timeout_grace)
        expires_at = min(self.now + seconds(ttl), deadline)
        attempt = Attempt(
            id=f"{job.id}.{version}",
            job_id=job.id,
            previous_id=kept.attempts[-1].id if kept.attempts else None,
            number=number,
            lease_version=version,
            worker=request.worker,
            outcome=AttemptOutcome.RUNNING,
            started_at=self.now,
        )
        running = self._move(
            replace(
                kept,
                token=token,
                attempts=(*kept.attempts, attempt),
                lease_ttl=ttl,
                deadline=deadline,
            ),
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
            payload=job.payload_body,
            policy=job.policy,
            key=job.key,
            tags=dict(job.tags),
            correlation_id=job.correlation_id,
            checkpoint=running.job.checkpoint_body,
            flow=job.flow,
            has_dependencies=job.waits is not None,
            waited=(self.now - (job.scheduled_at or self.now)).total_seconds(),
            last_version=job.lease_version,
        )

    def _wait(self, request: ClaimRequest) -> float | None:
        """Return the seconds until a job falls due, a lease runs out or a rate lets one start."""
        instants = [lease.expires_at for lease in self.world.leases()]
        queues = self.world.queues if request.queues is None else request.queues
        held_up = {kept.job.type for queue in queues for kept in self._line(queue, request)}
        instants += [opens_at for type in held_up if (opens_at := self.opens_at(type))]
        instants += [kept.job.run_at for kept in self._in(rules.WAITING_FOR_TIME)]
        return max((min(instants) - self.now).total_seconds(), 0.0) if instants else None

    # Under a lease.

    def heartbeat(self, beats: Sequence[Beat]) -> list[HeartbeatReply]:
        return [self._extend(beat) for beat in beats]

    def _extend(self, beat: Beat) -> HeartbeatReply:
        kept = self.world.get(beat.job_id)
        if kept is None or not kept.is_owned_by(beat.token, self.now):
            return self._lost(beat.job_id)
        assert kept.job.lease is not None and kept.deadline is not None
        ttl = kept.lease_ttl if beat.lease_ttl is None else beat.lease_ttl
        wanted = min(self.now + seconds(ttl), kept.deadline)
        expires_at = max(kept.job.lease.expires_at, wanted)
        self._change(kept, lease=replace(kept.job.lease, expires_at=expires_at))
        return Extended(beat.job_id, expires_at)

    def settle(self, settlements: Sequence[Settlement]) -> list[SettleReply]:
        return self.told([self._settle(settlement) for settlement in settlements])

    def _settle(self, settlement: Settlement) -> SettleReply:
        job_id, token, decision = settlement.job_id, settlement.token, settlement.decision
        kept = self.world.get(job_id)
        if kept is None:
            return LeaseLost(job_id)
        if kept.is_owned_by(token, self.now):
            ended = self._end_attempt(replace(kept, settled_token=token), decision)
            return Settled(job_id, ended.job.type, ended.job.state, self._followed(ended))
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
            checkpoint_body=save.checkpoint or kept.job.checkpoint_body,
            progress=kept.job.progress
            if save.progress is None
            else {**save.progress, "at": self.now},
        )
        return Saved(save.job_id)

    def _lost(self, job_id: str) -> LeaseLost:
        kept = self.world.get(job_id)
        return LeaseLost(job_id, None if kept is None else kept.job.state)

    # Upkeep, which a claim does too.

    def recover(self, limit: int, unstarted: Collection[str] = ()) -> list[Moved]:
        lost = [
            (lease.expires_at, kept.number, kept)
            for kept in self._in({State.RUNNING})
            if (lease := kept.job.lease) and has_come(lease.expires_at, self.now)
        ]
        taken = [self._take_back(kept, unstarted) for _, _, kept in sorted(lost)[: max(limit, 0)]]
        return self.told(taken)

    def _take_back(self, kept: Kept, unstarted: Collection[str]) -> Moved:
        """End the attempt of a worker that was lost or too slow, as a failure like any other.

        Unless it has never started.
        """
        job = kept.job
        assert job.lease is not None
        is_overdue = job.lease.expires_at == kept.deadline
        failure = rules.too_slow(job.policy) if is_overdue else rules.LEASE_EXPIRED
        decision = rules.decision(
            attempt=job.attempt,
            max_attempts=job.max_attempts,
            policy=job.policy,
            outcome=Released() if kept.token in unstarted else Failed(failure),
        )
        ended = self._end_attempt(kept, decision)
        return Moved(job.id, job.type, ended.job.state, State.RUNNING, self._followed(ended))

    def _followed(self, kept: Kept) -> tuple[Moved, ...]:
        """Return what became of those that waited for a job, if it has ended."""
        return self.follow([kept.id]) if kept.job.state in rules.ENDED else ()

    def expire(self, limit: int) -> list[Moved]:
        old = [
            (kept.job.expires_at, kept.number, kept)
            for kept in self._in(set(State) - rules.ENDED)
            if has_come(kept.job.expires_at, self.now)
        ]
        ends = (State.DEAD_LETTER, rules.LIFETIME_EXCEEDED, AttemptOutcome.FAILED)
        return self._end_all([kept for _, _, kept in sorted(old)[: max(limit, 0)]], *ends)

    def _end_all(
        self, ended: Sequence[Kept], state: State, failure: Failure, outcome: AttemptOutcome
    ) -> list[Moved]:
        """End jobs from outside, each on its own account, and then those that waited for them."""
        moved = [self._end(kept, state, failure, outcome) for kept in ended]
        followed = self.follow([kept.id for kept in ended])
        moved = [replace(moved[0], followed=followed), *moved[1:]] if moved else []
        return self.told(moved)

    def promote(self, limit: int) -> list[Moved]:
        due = [
            (kept.job.run_at, kept.number, kept)
            for kept in self._in(rules.WAITING_FOR_TIME)
            if has_come(kept.job.run_at, self.now)
        ]
        self.recall()
        moves = [
            Moved(kept.id, moved.job.type, moved.job.state, kept.job.state)
            for _, _, kept in sorted(due)[: max(limit, 0)]
            for moved in [self._move(kept, State.SCHEDULED, scheduled_at=self.now)]
        ]
        return self.told(moves)
