"""A job as the memory store keeps it: times in whole microseconds, changed in place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypedDict

from fencepost.core.flows.dependencies import Waits
from fencepost.core.job.job import Attempt, Body, Failure, Progress
from fencepost.core.job.lifecycle import ACTIVE, State
from fencepost.core.job.policy import Policy
from fencepost.core.job.priority import Priority
from fencepost.store.memory.engine.line import Entry


class IndexPlace(NamedTuple):
    """Where a job stands in every index; all of it follows from the record."""

    state: State | None = None
    lane: Entry | None = None
    """Among the claimable jobs of its queue and type."""
    due: Entry | None = None
    """Among those that wait for their time."""
    lease: Entry | None = None
    """Among those that run."""
    lifetime: Entry | None = None
    """Among the live."""
    dead_number: int | None = None
    """On the dead-letter list."""
    holds_key: bool = False
    is_active: bool = False
    """Takes up a slot of its concurrency key."""
    held: Entry | None = None
    """Among those of its concurrency key that wait for a slot."""


NOWHERE = IndexPlace()


@dataclass(slots=True, eq=False, kw_only=True)
class Record:
    """One job. Only ``JobTable`` may set its fields, so that the indexes follow and errors undo."""

    seq: int
    id: str
    type: str
    queue: str
    policy: Policy
    payload: Body
    key: str | None
    key_window: float | None
    correlation_id: str | None
    replay_of: str | None
    created_at: int
    flow: str | None = None
    node: str | None = None
    callback_url: str | None = None
    concurrency_key: str | None = None
    submitter: str | None = None

    priority: Priority
    tags: dict[str, str]
    state: State
    max_attempts: int
    updated_at: int
    run_at: int
    expires_at: int
    attempt: int = 0
    scheduled_at: int | None = None
    started_at: int | None = None
    completed_at: int | None = None
    lease_version: int = 0
    token: str | None = None
    worker: str | None = None
    lease_expires_at: int | None = None
    lease_ttl: float | None = None
    """What the claim, or the job itself, asked for."""
    deadline: int | None = None
    """When the lease runs out at the latest."""
    settled_token: str | None = None
    """The token under which the job was settled last: a repeat is told so."""
    result: Body | None = None
    failure: Failure | None = None
    progress: Progress | None = None
    checkpoint: Body | None = None
    holds_key: bool = False
    """False once another job has taken the key over."""
    key_ends_at: int | None = None
    """When the window of the key ends; None when it has no window."""
    dead_number: int | None = None
    waits: Waits | None = None

    past: list[Attempt] = field(default_factory=list)
    """The attempts that have ended; the one that runs is in the record itself."""
    place: IndexPlace = NOWHERE

    @property
    def line_entry(self) -> Entry:
        """Return what decides the job's place in its queue (C14)."""
        return (int(self.priority), self.run_at, self.seq)

    @property
    def is_held(self) -> bool:
        """Tell whether nothing but its concurrency key keeps the job from being claimable."""
        return (
            self.state is State.PENDING
            and self.concurrency_key is not None
            and (self.waits is None or not self.waits.missing)
        )

    @property
    def is_waiting_for_others(self) -> bool:
        """Tell whether the job waits for jobs that it depends on."""
        return self.state is State.PENDING and self.waits is not None and self.waits.missing > 0

    def is_leased_by(self, token: str, now: int) -> bool:
        """Tell whether *token* owns the job at *now*; at the very expiry nobody does (C10)."""
        return (
            self.state is State.RUNNING
            and self.token == token
            and self.lease_expires_at is not None
            and now < self.lease_expires_at
        )


class Changes(TypedDict, total=False):
    """The fields of a record that can change."""

    payload: Body
    correlation_id: str | None
    callback_url: str | None
    priority: Priority
    tags: dict[str, str]
    state: State
    max_attempts: int
    updated_at: int
    run_at: int
    expires_at: int
    attempt: int
    scheduled_at: int | None
    started_at: int | None
    completed_at: int | None
    lease_version: int
    token: str | None
    worker: str | None
    lease_expires_at: int | None
    lease_ttl: float | None
    deadline: int | None
    settled_token: str | None
    result: Body | None
    failure: Failure | None
    progress: Progress | None
    checkpoint: Body | None
    holds_key: bool
    key_ends_at: int | None
    dead_number: int | None
    waits: Waits | None


def place_of(record: Record) -> IndexPlace:
    """Return where *record* belongs."""
    state, seq = record.state, record.seq
    is_waiting = state is State.DELAYED or state is State.RETRYING
    return IndexPlace(
        state=state,
        lane=record.line_entry if state is State.SCHEDULED else None,
        due=(record.run_at, seq) if is_waiting else None,
        lease=_lease_entry(record) if state is State.RUNNING else None,
        lifetime=None if state.is_terminal else (record.expires_at, seq),
        dead_number=record.dead_number,
        holds_key=record.holds_key,
        is_active=record.concurrency_key is not None and state in ACTIVE,
        held=record.line_entry if record.is_held else None,
    )


def _lease_entry(record: Record) -> Entry:
    assert record.lease_expires_at is not None and record.token is not None
    return (record.lease_expires_at, record.seq)
