"""Watches every answer of a store, and knows by itself who may write.

It keeps the leases that were handed out and says of each answer whether a store may give it. It
shares nothing with any store; it knows only requests, replies and the time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fencepost.core.job.job import ClaimedJob
from fencepost.core.job.lifecycle import State
from fencepost.core.values.times import seconds_to_us, to_us
from fencepost.store.interface.control import ControlFacet
from fencepost.store.interface.queue import (
    AlreadySettled,
    Beat,
    Claim,
    Extended,
    LeaseLost,
    Moved,
    QueueFacet,
    Saved,
    Settled,
    Spawned,
)
from fencepost.store.interface.upkeep import UpkeepFacet
from fencepost.store.plan import Operation


@dataclass(slots=True)
class Owned:
    """A lease that was handed out."""

    token: str
    version: int
    expires_at: int
    ttl: int
    deadline: int


class Auditor:
    """Keeps the books on leases; what does not fit them is a violation."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.tokens: dict[str, str] = {}
        """Every token that was ever handed out, and its job."""
        self.refused = 0
        """Writes that a store refused because the lease was stale."""
        self._owned: dict[str, Owned] = {}
        self._versions: dict[str, int] = {}
        self._settled: dict[str, str] = {}
        self._joined: set[str] = set()

    def note(self, operation: Operation[Any], answer: Any, now: int) -> None:
        """Compare an answer with the books, and bring them up to date."""
        if operation.is_a(QueueFacet.claim):
            self._claimed(answer, now, seconds_to_us(operation.given[0].timeout_grace))
        elif operation.is_a(QueueFacet.heartbeat):
            for beat, reply in zip(operation.given[0], answer, strict=True):
                self._beaten(beat, reply, now)
        elif operation.is_a(QueueFacet.save):
            for save, reply in zip(operation.given[0], answer, strict=True):
                self._written("save", save.job_id, save.token, isinstance(reply, Saved), now)
        elif operation.is_a(QueueFacet.spawn):
            for spawn, reply in zip(operation.given[0], answer, strict=True):
                is_done = isinstance(reply, Spawned)
                self._written("spawn", spawn.job_id, spawn.token, is_done, now)
        elif operation.is_a(QueueFacet.settle):
            for settlement, reply in zip(operation.given[0], answer, strict=True):
                self._settle(settlement.job_id, settlement.token, reply, now)
        elif operation.is_a(UpkeepFacet.recover):
            self._recovered(answer, now)
        elif operation.is_a(ControlFacet.cancel, UpkeepFacet.expire):
            self._taken(answer)

    def note_joined(self, job_id: str) -> None:
        """Leave out a job that is settled in a handler's transaction, which may be taken back."""
        self._joined.add(job_id)

    # What each operation may answer.

    def _claimed(self, claim: Claim, now: int, grace: int) -> None:
        self._recovered(claim.recovered, now)
        self._taken(claim.expired)
        self._taken(claim.corrupt)
        for job in claim.jobs:
            self._lease(job, now, grace)

    def _lease(self, job: ClaimedJob, now: int, grace: int) -> None:
        if job.lease.token in self.tokens:
            self._violated(f"one token was handed out twice, for {job.id}")
        if self._is_valid(job.id, now):
            self._violated(f"{job.id} was leased while another lease on it was valid")
        if job.lease.version <= self._versions.get(job.id, 0):
            self._violated(f"version {job.lease.version} of {job.id} was leased before")
        if job.lease.version < now:
            self._violated(f"version {job.lease.version} of {job.id} is behind the clock")
        if job.last_version != self._versions.get(job.id, 0):
            self._violated(f"{job.id} was told that version {job.last_version} was its last")
        if job.attempt > job.max_attempts:
            self._violated(f"{job.id} began attempt {job.attempt} of {job.max_attempts}")
        ttl, deadline = (
            seconds_to_us(job.lease_ttl),
            now + grace + seconds_to_us(job.policy.timeout),
        )
        if to_us(job.lease.expires_at) != min(now + ttl, deadline):
            self._violated(f"the lease of {job.id} does not last for its time")
        self.tokens[job.lease.token] = job.id
        self._versions[job.id] = job.lease.version
        expires_at = to_us(job.lease.expires_at)
        self._owned[job.id] = Owned(job.lease.token, job.lease.version, expires_at, ttl, deadline)

    def _beaten(self, beat: Beat, reply: Extended | LeaseLost, now: int) -> None:
        is_extended = isinstance(reply, Extended)
        self._written("heartbeat", reply.job_id, beat.token, is_extended, now)
        if isinstance(reply, Extended) and (owned := self._owned.get(reply.job_id)):
            ttl = owned.ttl if beat.lease_ttl is None else seconds_to_us(beat.lease_ttl)
            wanted = min(now + ttl, owned.deadline)
            if to_us(reply.expires_at) != max(owned.expires_at, wanted):
                self._violated(f"a heartbeat gave {reply.job_id} another time than it asked for")
            owned.expires_at = to_us(reply.expires_at)

    def _settle(
        self, job_id: str, token: str, reply: Settled | AlreadySettled | LeaseLost, now: int
    ) -> None:
        if isinstance(reply, AlreadySettled):
            if self._settled.get(job_id) != token and job_id not in self._joined:
                self._violated(f"a settlement of {job_id} was called a repeat, and was none")
            return
        self._written("settlement", job_id, token, isinstance(reply, Settled), now)
        if isinstance(reply, Settled):
            self._settled[job_id] = token
            self._owned.pop(job_id, None)

    def _recovered(self, moves: Iterable[Moved], now: int) -> None:
        for move in moves:
            if self._is_valid(move.job_id, now):
                self._violated(f"{move.job_id} was recovered from a valid lease")
            if move.job_id not in self._owned and move.job_id not in self._joined:
                self._violated(f"{move.job_id} was recovered, and nobody had it")
            self._owned.pop(move.job_id, None)

    def _taken(self, replies: Iterable[Any]) -> None:
        for reply in replies:
            if isinstance(reply, Moved) and reply.was in (State.RUNNING, State.SCHEDULED):
                self._owned.pop(reply.job_id, None)

    def _written(self, what: str, job_id: str, token: str, is_accepted: bool, now: int) -> None:
        is_owner = self._is_valid(job_id, now) and self._owned[job_id].token == token
        if job_id in self._joined:
            return
        if is_accepted and not is_owner:
            self._violated(f"a stale {what} of {job_id} was accepted")
        if not is_accepted and is_owner:
            self._violated(f"a {what} of {job_id} was refused under a valid lease")
        self.refused += not is_accepted

    def _is_valid(self, job_id: str, now: int) -> bool:
        owned = self._owned.get(job_id)
        return owned is not None and now < owned.expires_at and job_id not in self._joined

    def _violated(self, what: str) -> None:
        self.violations.append(what)
