"""Concurrency keys: who is held up for a slot, and who is let into line when one is free.

A job takes up a slot of its type and key while it is claimable and while it runs. Nothing is
counted up or down: the slots that are taken are counted from the jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from fencepost.core.job.job import Job
from fencepost.core.job.lifecycle import State
from fencepost.store.interface.queue import Moved, Settled
from lab.model.world import Kept, World

Scope = tuple[str, str]
"""A type and a key."""


def scope_of(job: Job) -> Scope | None:
    return None if job.concurrency_key is None else (job.type, job.concurrency_key)


def is_active(job: Job) -> bool:
    return job.state in (State.SCHEDULED, State.RUNNING)


def held_up(job: Job) -> Job:
    """Return a job that would stand in line as one that waits for a slot, if it has a key."""
    if job.concurrency_key is None or job.state is not State.SCHEDULED:
        return job
    return replace(job, state=State.PENDING, scheduled_at=None)


class Admitting:
    """The slots of keys."""

    world: World
    now: datetime

    def touch(self, before: Kept | None, after: Kept) -> None:
        """Note whose slots have to be looked at when this call is nearly over."""
        scope = scope_of(after.job)
        if scope is not None and (before is None or _standing(before) != _standing(after)):
            self.world.freed_slots.add(scope)

    def has_room(self, job: Job) -> bool:
        """Tell whether the job could take a slot now; its own limit counts."""
        scope = scope_of(job)
        return scope is None or self.active(scope) < (job.policy.max_running_per_key or 1)

    def active(self, scope: Scope) -> int:
        """Count the slots of a key that are taken."""
        jobs = [kept.job for kept in self.world.jobs.values()]
        return sum(scope_of(job) == scope and is_active(job) for job in jobs)

    def admit(self) -> list[Moved]:
        """Give free slots to those who wait for them, first in line first; nobody overtakes."""
        moved: list[Moved] = []
        for scope in sorted(self.world.freed_slots):
            while (first := self._first(scope)) is not None and self.has_room(first.job):
                times = {"run_at": self.now, "scheduled_at": self.now, "updated_at": self.now}
                job = replace(first.job, state=State.SCHEDULED, **times)
                self.world.jobs[first.id] = replace(first, job=job)
                moved.append(Moved(first.id, job.type, State.SCHEDULED, State.PENDING))
        self.world.freed_slots.clear()
        return moved

    def _first(self, scope: Scope) -> Kept | None:
        held = [
            kept
            for kept in self.world.jobs.values()
            if kept.is_held and scope_of(kept.job) == scope
        ]
        return min(held, key=lambda kept: kept.place, default=None)

    def postpone(self) -> None:
        """Leave it to the next who looks what is due whether there are slots."""
        self.world.noted |= self.world.freed_slots
        self.world.freed_slots.clear()

    def recall(self) -> None:
        self.world.freed_slots |= self.world.noted
        self.world.noted.clear()

    def told(self, replies: Sequence[Any]) -> list[Any]:
        """Admit, and have it told: by its own reply, or else by the first that moved."""
        entered = {each.job_id: each for each in self.admit()}
        told: list[Any] = []
        for reply in replies:
            own = entered.pop(reply.job_id, None) if isinstance(reply, (Moved, Settled)) else None
            told.append(reply if own is None else replace(reply, state=own.state))
        for place, reply in enumerate(told):
            if isinstance(reply, (Moved, Settled)):
                told[place] = replace(reply, followed=(*reply.followed, *entered.values()))
                break
        return told

    def entered(self, replies: Sequence[Any]) -> list[Any]:
        """Admit, and tell in which state each job is now that was submitted."""
        self.admit()
        return [replace(reply, state=self.world.jobs[reply.job_id].job.state) for reply in replies]


def _standing(kept: Kept) -> tuple[bool, Any]:
    return is_active(kept.job), kept.place if kept.is_held else None
