"""All that a store knows, as plain values in plain dictionaries."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, fields
from datetime import datetime

import msgspec

from fencepost.core.access.audit import Action
from fencepost.core.access.tokens import TokenRecord
from fencepost.core.events import SentEvent
from fencepost.core.job.job import Attempt, Job, Ownership
from fencepost.core.job.lifecycle import State
from fencepost.core.limits.type_limits import TypeLimits
from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.store.interface.records.crons import CronView
from fencepost.store.interface.settings import Scope
from lab.model.rules import has_come, seconds


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """One job and what nobody is shown of it."""

    number: int
    """The place in the order of submission."""
    job: Job
    """As it is shown, but for ``lease.expired``, which depends on who looks when."""
    token: str | None = None
    """What a worker must show to write; there is one exactly while the job runs."""
    settled_token: str | None = None
    """Under which token the job was last settled."""
    key_window: float | None = None
    attempts: tuple[Attempt, ...] = ()
    """Oldest first, the running one included."""
    lease_ttl: float = 0.0
    """What its last claim, or it itself, asked for."""
    deadline: datetime | None = None
    """When the lease of its last claim runs out at the latest."""

    @property
    def id(self) -> str:
        return self.job.id

    @property
    def depth(self) -> int:
        """The number of jobs on the longest way to it, itself included."""
        return 1 if self.job.waits is None else self.job.waits.depth

    @property
    def place(self) -> tuple[int, datetime, int]:
        """What decides the place in line: priority, due time, submission."""
        return int(self.job.priority), self.job.run_at, self.number

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for other jobs."""
        waits = self.job.waits
        return self.job.state is State.PENDING and waits is not None and waits.missing > 0

    @property
    def is_held(self) -> bool:
        """Whether it waits for nothing but a slot of its concurrency key."""
        return self.job.state is State.PENDING and not self.is_waiting

    def is_owned_by(self, token: str, now: datetime) -> bool:
        """Tell whether *token* entitles to write at *now*."""
        lease = self.job.lease
        return lease is not None and self.token == token and not has_come(lease.expires_at, now)

    def is_running_at(self, now: datetime) -> bool:
        """Tell whether somebody owns the job."""
        return self.job.lease is not None and not has_come(self.job.lease.expires_at, now)

    def shown(self, now: datetime) -> Job:
        """Return the job as it is seen at *now*."""
        lease = self.job.lease
        if lease is None:
            return self.job
        seen = msgspec.structs.replace(lease, expired=has_come(lease.expires_at, now))
        return msgspec.structs.replace(self.job, lease=seen)


class Holding(msgspec.Struct, frozen=True):
    """Who took a key last, and until when it keeps others out even after its end."""

    job_id: str
    until: datetime | None


class Sent(msgspec.Struct, frozen=True):
    """The record of an event, and its place in the order of sending."""

    number: int
    event: SentEvent


class Logged(msgspec.Struct, frozen=True):
    """What was recorded of an action, and its place in the log."""

    number: int
    at: datetime
    action: Action


class Held(msgspec.Struct, frozen=True):
    """A term of leadership."""

    worker: str
    until: datetime


@dataclass
class World:
    """The whole state; every value in it is immutable, so that a copy costs little."""

    jobs: dict[str, Kept] = field(default_factory=dict)
    """By id, in the order of submission."""
    keys: dict[tuple[str, str], Holding] = field(default_factory=dict)
    """By type and key."""
    awaited: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By a job's id, those that it waits for or waited for, in order."""
    dead: dict[str, None] = field(default_factory=dict)
    """The ids on the dead-letter list, in the order of death."""
    queues: set[str] = field(default_factory=set)
    """Every queue that has had a job."""
    types: set[str] = field(default_factory=set)
    paused: set[tuple[Scope, str]] = field(default_factory=set)
    limits: dict[str, int] = field(default_factory=dict)
    """By queue; the app's has no name. What was paused or limited once, but is no more, is not."""
    type_limits: dict[str, TypeLimits] = field(default_factory=dict)
    starts: dict[str, tuple[datetime, ...]] = field(default_factory=dict)
    """By type, if it has a rate: when its jobs started, oldest first."""
    freed_slots: set[tuple[str, str]] = field(default_factory=set)
    """The types and concurrency keys whose slots the call that is under way has to look at."""
    noted: set[tuple[str, str]] = field(default_factory=set)
    """Those that a later call has to look at."""
    workers: dict[str, WorkerInfo] = field(default_factory=dict)
    terms: dict[str, Held] = field(default_factory=dict)
    events: dict[str, Sent] = field(default_factory=dict)
    """By id, in the order of sending."""
    sent: int = 0
    """How many events there have been."""
    crons: dict[str, CronView] = field(default_factory=dict)
    tokens: dict[str, TokenRecord] = field(default_factory=dict)
    """By id."""
    actions: dict[str, Logged] = field(default_factory=dict)
    """By id, in the order of recording."""
    recorded: int = 0
    """How many actions there have been."""
    submitted: int = 0
    """How many jobs there have been."""

    def copy(self) -> World:
        """Return a world that goes its own way from here."""
        return World(**{each.name: copy(getattr(self, each.name)) for each in fields(self)})

    def get(self, job_id: str) -> Kept | None:
        """Return a job; text that is no id names none, and case does not matter."""
        return self.jobs.get(job_id.lower())

    def parents(self, job_id: str) -> list[Kept]:
        """Return what a job waits for or waited for, in order."""
        return [self.jobs[each] for each in self.awaited.get(job_id, ())]

    def children(self, job_id: str) -> list[Kept]:
        """Return who waits for a job or waited for it, oldest first."""
        found = [self.jobs[child] for child, on in self.awaited.items() if job_id in on]
        return sorted(found, key=lambda kept: kept.number)

    def claimable(self, queue: str, type: str) -> list[Kept]:
        """Return the jobs of a type that a claim could take from a queue, first in line first."""
        found = [
            kept
            for kept in self.jobs.values()
            if kept.job.state is State.SCHEDULED
            and (kept.job.queue, kept.job.type) == (queue, type)
        ]
        return sorted(found, key=lambda kept: kept.place)

    def running(self, now: datetime, queue: str | None = None) -> int:
        """Count the jobs that somebody owns; an expired lease takes up no room."""
        return sum(
            kept.is_running_at(now) and queue in (None, kept.job.queue)
            for kept in self.jobs.values()
        )

    def is_paused(self, scope: Scope, name: str) -> bool:
        return (scope, name) in self.paused

    def instants(self) -> list[datetime]:
        """Return every time at which something begins or ends by itself, earliest first."""
        found = [kept.job.run_at for kept in self.jobs.values()]
        found += [kept.job.expires_at for kept in self.jobs.values()]
        found += [lease.expires_at for lease in self.leases()]
        found += [holding.until for holding in self.keys.values() if holding.until is not None]
        found += [term.until for term in self.terms.values()]
        found += [
            start + seconds(limits.rate.window)
            for type, limits in self.type_limits.items()
            for start in self.starts.get(type, ())
            if limits.rate is not None
        ]
        return sorted(set(found))

    def leases(self) -> list[Ownership]:
        """Return the leases of running jobs, valid or not."""
        return [kept.job.lease for kept in self.jobs.values() if kept.job.lease is not None]
