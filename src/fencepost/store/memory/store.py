"""The memory store's face: each operation is a plan without statements, run under one lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from msgspec.structs import replace

from fencepost.clock import Clock
from fencepost.core.access.audit import Action
from fencepost.core.access.tokens import TokenRecord
from fencepost.core.events import NewEvent, SentEvent
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Attempt, Dependency, Job, JobRecord, NewJob
from fencepost.core.job.outcome import Settlement
from fencepost.core.job.why import Situation
from fencepost.core.limits.rates import Rate
from fencepost.errors import ConfigurationError, ForkedStoreError, StoreUnavailableError
from fencepost.store.chores import Chores
from fencepost.store.interface.batches import with_admitted
from fencepost.store.interface.crons import CronDefinition, CronFire, CronList, FireReply
from fencepost.store.interface.replies import (
    ActionPage,
    CancelReply,
    Claim,
    DeadLetterPage,
    DiscardReply,
    Dump,
    EditReply,
    EndedPage,
    EnqueueReply,
    EventPage,
    EventReply,
    Finding,
    HeartbeatReply,
    JobPage,
    LoadReply,
    Moved,
    Pruned,
    QueueView,
    ReplayReply,
    RetryReply,
    SaveReply,
    SettleReply,
    SpawnReply,
    Term,
    TypeView,
)
from fencepost.store.interface.requests import (
    Beat,
    ClaimRequest,
    Edit,
    PruneRequest,
    Replay,
    RetryRequest,
    Save,
    Scope,
    Spawn,
    WorkerInfo,
    as_replay,
)
from fencepost.store.interface.store import Listener, Store, Topic
from fencepost.store.memory.engine.journal import Journal
from fencepost.store.memory.engine.notification import Bells
from fencepost.store.memory.flows import spawn as spawning
from fencepost.store.memory.jobs import claim as claiming
from fencepost.store.memory.jobs import control
from fencepost.store.memory.jobs import edit as editing
from fencepost.store.memory.jobs import enqueue as submission
from fencepost.store.memory.jobs import finish as moves
from fencepost.store.memory.jobs import read as search
from fencepost.store.memory.jobs import settle as leases
from fencepost.store.memory.jobs.rows import attempts_of, job_of
from fencepost.store.memory.jobs.table import JobTable
from fencepost.store.memory.limits.concurrency import admit
from fencepost.store.memory.limits.rates import Rates
from fencepost.store.memory.limits.settings import LaneSettings
from fencepost.store.memory.records import ended as ended_
from fencepost.store.memory.records import transfer as copying
from fencepost.store.memory.records.access import ActionTable, TokenTable
from fencepost.store.memory.records.cluster import Presence
from fencepost.store.memory.records.crons import CronTable
from fencepost.store.memory.records.events import EventTable
from fencepost.store.plan import Effect, Operation, Plan, Row, Statement, operation, run_plan

T = TypeVar("T")

EPHEMERAL = Finding(
    "warn",
    "ephemeral",
    "jobs are kept in this process only, and all are lost when it ends; for tests only",
)


class NoEngine:
    """Refuses statements: there is nothing beneath this store that could execute one."""

    def execute(self, statement: Statement) -> list[Row]:
        raise ConfigurationError("this operation was made by another store; run it there")


class MemoryStore(Store):
    """Jobs in this process's memory; another store, or another process, sees none of them."""

    def __init__(self, *, url: str = "memory://", clock: Clock) -> None:
        self.url = url
        self.clock = clock
        self._journal = Journal()
        self._chores = Chores(clock)
        self._jobs = JobTable(self._journal, clock)
        self._events = EventTable(self._journal)
        self._settings = LaneSettings()
        self._rates = Rates(self._journal)
        self._crons = CronTable(self._journal)
        self._tokens = TokenTable(self._journal)
        self._actions = ActionTable(self._journal)
        self._presence = Presence()
        self._bells = Bells()
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._is_closed = False

    # Running operations.

    def run(self, operation: Operation[T]) -> T:
        """Execute *operation*; whatever it raises, it has then changed nothing."""
        self._check_process()
        with self._lock:
            self._check_open()
            try:
                result = run_plan(operation.start(), NoEngine())
            except BaseException:
                self._journal.undo()
                self._jobs.slots.forget_touches()
                raise
            assert self._jobs.slots.is_quiet, "a slot may have come free, and nobody looked"
            topics = self._journal.keep()
        self._bells.ring(topics)
        return result

    async def run_async(self, operation: Operation[T]) -> T:
        """Execute *operation* at once: it takes microseconds and waits for nothing but the lock."""
        return self.run(operation)

    def close(self) -> None:
        self._is_closed = True
        self._bells.close()

    def listen(self, topic: Topic) -> Listener:
        self._check_process()
        self._check_open()
        return self._bells.listen(topic)

    def migrate(self) -> list[str]:
        """Return nothing: there is no schema."""
        return []

    def pending_migrations(self) -> list[tuple[str, str]]:
        """Return nothing: there is no schema."""
        return []

    def _check_process(self) -> None:
        # Looked at before the lock is: a child may have been forked while a thread held it.
        if os.getpid() != self._pid:
            raise ForkedStoreError("a memory store does not survive fork(); open one in the child")

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailableError("this memory store is closed, and its jobs are gone")

    # The data's way.

    @operation(Effect.WRITE)
    def enqueue(self, jobs: Sequence[NewJob], *, atomic: bool = False) -> Plan[list[EnqueueReply]]:
        yield from ()
        now = self.clock.now_us()
        return submission.enqueue(self._jobs, self.clock, jobs, atomic=atomic, now=now)

    @operation(Effect.LEASE)
    def claim(self, request: ClaimRequest) -> Plan[Claim]:
        yield from ()
        claim = claiming.claim(
            self._jobs, self._settings, self._rates, self.clock, request, self._do
        )
        return replace(claim, wait=self._chores.wait(claim.wait))

    def _do(self, name: str, chore: Callable[[], list[Moved]]) -> list[Moved]:
        """Do a chore of a claim's; should it fail, take it back and take note of it."""
        if not self._chores.may(name):
            return []
        mark = self._journal.mark()
        try:
            moved = chore()
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the claim is not
            self._journal.undo_to(mark)
            self._jobs.slots.postpone()
            self._chores.failed(name, repr(error))
            return []
        self._chores.done(name)
        return moved

    @operation(Effect.LEASE)
    def heartbeat(self, beats: Sequence[Beat]) -> Plan[list[HeartbeatReply]]:
        yield from ()
        now = self.clock.now_us()
        return [leases.extend(self._jobs, beat, now) for beat in beats]

    @operation(Effect.WRITE)
    def settle(self, settlements: Sequence[Settlement]) -> Plan[list[SettleReply]]:
        yield from ()
        now = self.clock.now_us()
        replies = [leases.settle(self._jobs, settlement, now) for settlement in settlements]
        self._announce_room()
        return with_admitted(replies, admit(self._jobs, now))

    @operation(Effect.WRITE)
    def save(self, saves: Sequence[Save]) -> Plan[list[SaveReply]]:
        yield from ()
        now = self.clock.now_us()
        return [leases.save(self._jobs, save, now) for save in saves]

    @operation(Effect.WRITE)
    def spawn(self, spawns: Sequence[Spawn]) -> Plan[list[SpawnReply]]:
        yield from ()
        now = self.clock.now_us()
        return [spawning.spawn(self._jobs, self.clock, spawn, now) for spawn in spawns]

    # Events.

    @operation(Effect.WRITE)
    def send(self, event: NewEvent, jobs: Sequence[NewJob]) -> Plan[EventReply]:
        yield from ()
        return self._events.send(self._jobs, self.clock, event, jobs)

    @operation(Effect.READ)
    def events(self, name: str | None, page: PageRequest) -> Plan[EventPage]:
        yield from ()
        return self._events.page(name, page)

    @operation(Effect.WRITE)
    def prune_events(self, keep: float, limit: int) -> Plan[int]:
        yield from ()
        return self._events.prune(keep, limit, self.clock.now_us())

    @operation(Effect.WRITE)
    def load_events(self, events: Sequence[SentEvent]) -> Plan[int]:
        yield from ()
        return self._events.load(events)

    # Control.

    @operation(Effect.WRITE)
    def cancel(self, job_ids: Sequence[str]) -> Plan[list[CancelReply]]:
        yield from ()
        now = self.clock.now_us()
        replies = control.cancel(self._jobs, job_ids, now)
        self._announce_room()
        return replies

    @operation(Effect.WRITE)
    def retry(self, requests: Sequence[RetryRequest]) -> Plan[list[RetryReply]]:
        yield from ()
        now = self.clock.now_us()
        return [submission.retry(self._jobs, request, now) for request in requests]

    @operation(Effect.WRITE)
    def edit(self, edits: Sequence[Edit]) -> Plan[list[EditReply]]:
        yield from ()
        now = self.clock.now_us()
        replies = [editing.edit(self._jobs, edit, now) for edit in edits]
        self._journal.announce(Topic.READY)  # a due time may have come nearer
        return replies

    @operation(Effect.WRITE)
    def replay(self, requests: Sequence[str | Replay]) -> Plan[list[ReplayReply]]:
        yield from ()
        now = self.clock.now_us()
        asked = [as_replay(request) for request in requests]
        return [submission.replay(self._jobs, request, now) for request in asked]

    @operation(Effect.WRITE)
    def discard(self, job_ids: Sequence[str]) -> Plan[list[DiscardReply]]:
        yield from ()
        return [control.discard(self._jobs, job_id) for job_id in job_ids]

    @operation(Effect.WRITE)
    def pause(self, scope: Scope, name: str) -> Plan[None]:
        yield from ()
        self._settings.pause(scope, name, True)

    @operation(Effect.WRITE)
    def resume(self, scope: Scope, name: str) -> Plan[None]:
        yield from ()
        self._settings.pause(scope, name, False)
        self._journal.announce(Topic.READY)

    @operation(Effect.WRITE)
    def limit(self, scope: Scope, name: str, max_running: int | None) -> Plan[None]:
        yield from ()
        self._settings.limit(scope, name, max_running)
        self._journal.announce(Topic.READY)

    @operation(Effect.WRITE)
    def set_rates(self, rates: Mapping[str, Rate | None]) -> Plan[None]:
        yield from ()
        self._rates.set(rates, self.clock.now_us())
        self._journal.announce(Topic.READY)

    # Crons.

    @operation(Effect.WRITE)
    def declare_crons(self, crons: Sequence[CronDefinition]) -> Plan[None]:
        yield from ()
        self._crons.declare(crons, self.clock.now_us())

    @operation(Effect.WRITE)
    def fire(self, fires: Sequence[CronFire]) -> Plan[list[FireReply]]:
        yield from ()
        now = self.clock.now_us()
        return [self._crons.fire(self._jobs, self.clock, each, now) for each in fires]

    @operation(Effect.READ)
    def crons(self) -> Plan[CronList]:
        yield from ()
        return self._crons.list(self.clock.now())

    @operation(Effect.WRITE)
    def pause_cron(self, name: str) -> Plan[bool]:
        yield from ()
        return self._crons.pause(name)

    @operation(Effect.WRITE)
    def resume_cron(self, name: str, next_tick: datetime | None) -> Plan[bool]:
        yield from ()
        return self._crons.resume(name, next_tick)

    @operation(Effect.WRITE)
    def forget_cron(self, name: str) -> Plan[bool]:
        yield from ()
        return self._crons.forget(name)

    # Tokens and the audit log.

    @operation(Effect.WRITE)
    def add_token(self, record: TokenRecord) -> Plan[None]:
        yield from ()
        self._tokens.add(record, self.clock.now())

    @operation(Effect.READ)
    def tokens(self) -> Plan[list[TokenRecord]]:
        yield from ()
        return self._tokens.list()

    @operation(Effect.WRITE)
    def revoke_token(self, token_id: str) -> Plan[bool]:
        yield from ()
        return self._tokens.revoke(token_id, self.clock.now())

    @operation(Effect.WRITE)
    def record_action(self, action: Action) -> Plan[None]:
        yield from ()
        self._actions.record(action, self.clock.now())

    @operation(Effect.READ)
    def actions(self, page: PageRequest) -> Plan[ActionPage]:
        yield from ()
        return self._actions.page(page)

    @operation(Effect.WRITE)
    def prune_actions(self, keep: float, limit: int) -> Plan[int]:
        yield from ()
        return self._actions.prune(keep, limit, self.clock.now_us())

    # Upkeep.

    @operation(Effect.WRITE)
    def recover(self, limit: int) -> Plan[list[Moved]]:
        yield from ()
        moved = moves.recover(self._jobs, limit, self.clock.rng, self.clock.now_us())
        self._announce_room()
        return moved

    @operation(Effect.WRITE)
    def promote(self, limit: int) -> Plan[list[Moved]]:
        yield from ()
        return moves.promote(self._jobs, limit, self.clock.now_us())

    @operation(Effect.WRITE)
    def expire(self, limit: int) -> Plan[list[Moved]]:
        yield from ()
        moved = moves.expire(self._jobs, limit, self.clock.now_us())
        self._announce_room()
        return moved

    @operation(Effect.WRITE)
    def prune(self, request: PruneRequest) -> Plan[Pruned]:
        yield from ()
        return control.prune(self._jobs, request, self.clock.now_us())

    # Looking.

    @operation(Effect.READ)
    def get(self, job_ids: Sequence[str]) -> Plan[list[Job | None]]:
        yield from ()
        now = self.clock.now_us()
        records = [self._jobs.get(job_id) for job_id in job_ids]
        return [None if record is None else job_of(record, now) for record in records]

    @operation(Effect.READ)
    def locate(self, job_ids: Sequence[str]) -> Plan[list[str | None]]:
        yield from ()
        records = [self._jobs.get(job_id) for job_id in job_ids]
        return [None if record is None else record.queue for record in records]

    @operation(Effect.READ)
    def find(self, filter: JobFilter, page: PageRequest) -> Plan[JobPage]:
        yield from ()
        return search.find(self._jobs, filter, page, self.clock.now_us())

    @operation(Effect.READ)
    def count(self, filter: JobFilter) -> Plan[int]:
        yield from ()
        return search.count(self._jobs, filter)

    @operation(Effect.READ)
    def attempts(self, job_id: str) -> Plan[list[Attempt] | None]:
        yield from ()
        record = self._jobs.get(job_id)
        return None if record is None else attempts_of(record)

    @operation(Effect.READ)
    def dependencies(
        self, job_ids: Sequence[str], *, with_results: bool = False
    ) -> Plan[list[list[Dependency]]]:
        yield from ()
        records = [self._jobs.get(job_id) for job_id in job_ids]
        return [search.dependencies(self._jobs, each, with_results) for each in records]

    @operation(Effect.READ)
    def dependents(self, job_ids: Sequence[str]) -> Plan[list[list[str]]]:
        yield from ()
        records = [self._jobs.get(job_id) for job_id in job_ids]
        return [search.dependents(self._jobs, each) for each in records]

    @operation(Effect.READ)
    def situation(self, job_id: str) -> Plan[Situation | None]:
        yield from ()
        record = self._jobs.get(job_id)
        if record is None:
            return None
        now = self.clock.now_us()
        workers = self._presence.workers(now)
        return search.situation(self._jobs, self._settings, self._rates, workers, record, now)

    @operation(Effect.READ)
    def dead_letters(
        self, type: str | None, page: PageRequest, queues: Sequence[str] | None = None
    ) -> Plan[DeadLetterPage]:
        yield from ()
        return search.dead_letters(self._jobs, type, page, queues)

    @operation(Effect.READ)
    def ended(
        self, since: datetime, *, limit: int, after: int | None = None, newest_first: bool = False
    ) -> Plan[EndedPage]:
        yield from ()
        return ended_.ended(self._jobs, since, limit=limit, after=after, newest_first=newest_first)

    @operation(Effect.READ)
    def queues(self) -> Plan[list[QueueView]]:
        yield from ()
        return search.queue_views(self._jobs, self._settings)

    @operation(Effect.READ)
    def types(self) -> Plan[list[TypeView]]:
        yield from ()
        return search.type_views(self._jobs, self._settings, self._rates)

    @operation(Effect.READ)
    def app_limit(self) -> Plan[int | None]:
        yield from ()
        return self._settings.app_limit

    @operation(Effect.READ)
    def inspect(self) -> Plan[list[Finding]]:
        yield from ()
        return [EPHEMERAL]

    # Moving to another store.

    @operation(Effect.READ)
    def dump(self, after: int, limit: int) -> Plan[Dump]:
        yield from ()
        return copying.dump(self._jobs, after, limit, self.clock.now_us())

    @operation(Effect.WRITE)
    def load(self, records: Sequence[JobRecord]) -> Plan[list[LoadReply]]:
        yield from ()
        return copying.load(self._jobs, records, self.clock.now_us())

    @operation(Effect.WRITE)
    def accept_jobs(self, is_accepted: bool) -> Plan[None]:
        yield from ()
        self._jobs.is_accepting = is_accepted

    # Workers and leading.

    @operation(Effect.LEASE)
    def announce(self, worker: WorkerInfo) -> Plan[None]:
        yield from ()
        self._presence.announce(worker, self.clock.now_us())

    @operation(Effect.LEASE)
    def retire(self, worker_id: str) -> Plan[None]:
        yield from ()
        self._presence.retire(worker_id)

    @operation(Effect.READ)
    def workers(self) -> Plan[list[WorkerInfo]]:
        yield from ()
        return self._presence.workers(self.clock.now_us())

    @operation(Effect.LEASE)
    def lead(self, name: str, worker: str, ttl: float) -> Plan[Term | None]:
        yield from ()
        return self._presence.lead(name, worker, ttl, self.clock.now_us())

    @operation(Effect.LEASE)
    def resign(self, name: str, worker: str) -> Plan[None]:
        yield from ()
        self._presence.resign(name, worker)

    def _announce_room(self) -> None:
        """Under a limit, the end of one job may make another claimable."""
        if self._settings.has_limits():
            self._journal.announce(Topic.READY)
