"""The SQLite store: the contract's operations, each one line over its plan."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, TypeVar

from fencepost.clock import Clock, SystemClock
from fencepost.core.access.audit import Action
from fencepost.core.access.tokens import TokenRecord
from fencepost.core.events import NewEvent, SentEvent
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Attempt, Dependency, Job, JobRecord, NewJob
from fencepost.core.job.outcome import Settlement
from fencepost.core.job.why import Situation
from fencepost.core.limits.rates import Rate
from fencepost.errors import StoreUnavailableError
from fencepost.store.chores import Chores
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
)
from fencepost.store.interface.store import Listener, Store, Topic
from fencepost.store.notify import topics_of
from fencepost.store.plan import Effect, Operation, Plan, operation
from fencepost.store.sqlite.engine.database import LOCK_TIMEOUT, Database
from fencepost.store.sqlite.engine.group_commit import GroupWriter
from fencepost.store.sqlite.engine.notification import Bell
from fencepost.store.sqlite.flows import enqueue as submission
from fencepost.store.sqlite.flows import read as graph
from fencepost.store.sqlite.flows import spawn as spawning
from fencepost.store.sqlite.jobs import claim as claiming
from fencepost.store.sqlite.jobs import control, upkeep
from fencepost.store.sqlite.jobs import edit as editing
from fencepost.store.sqlite.jobs import read as looking
from fencepost.store.sqlite.jobs import replay as replaying
from fencepost.store.sqlite.jobs import settle as settling
from fencepost.store.sqlite.jobs.catalog import Catalog, Env
from fencepost.store.sqlite.limits import rates as rates_
from fencepost.store.sqlite.records import access, audit
from fencepost.store.sqlite.records import cluster as roster
from fencepost.store.sqlite.records import crons as crontab
from fencepost.store.sqlite.records import doctor as examination
from fencepost.store.sqlite.records import dump as dumping
from fencepost.store.sqlite.records import ended as ended_
from fencepost.store.sqlite.records import events as events_
from fencepost.store.sqlite.records import load as loading

T = TypeVar("T")


class SqliteStore(Store):
    """Jobs in one SQLite file, shared by the processes of one machine."""

    def __init__(
        self,
        path: str,
        *,
        url: str | None = None,
        clock: Clock | None = None,
        durability: str = "power",
        patience: float = LOCK_TIMEOUT,
        group: str | None = None,
    ) -> None:
        self.url = url or f"sqlite:///{path}"
        self.clock = clock or SystemClock()
        # Writes run one at a time, reads beside them: each side remembers lanes for itself.
        self._env = Env(self.clock, Catalog())
        self._chores = Chores(self.clock)
        self._reading = Env(self.clock, Catalog())
        self._database = Database(
            path,
            clock=self.clock,
            durability=durability,
            patience=patience,
            group=group,
            on_rollback=self._env.catalog.forget,
        )
        try:
            self._bell = Bell(f"{self._database.path}.d", self._database.access)
        except OSError as error:
            self._database.close()
            raise StoreUnavailableError(f"cannot open {self._database.path}.d: {error}") from error
        self._writer = GroupWriter(self._database, self._ring)
        self._readers = ThreadPoolExecutor(1, thread_name_prefix="fencepost-sqlite-read")

    # Running operations.

    def run(self, operation: Operation[T]) -> T:
        if operation.effect is Effect.READ:
            return self._database.read(operation)
        result: T = self._database.transact([operation])[0]
        # Rung at the commit: whoever wakes sees the job now, and its own commit follows ours in
        # the log, so that nothing it records can outlive what it was based on.
        self._ring(operation, result)
        if operation.effect is Effect.WRITE:
            self._database.sync()
        return result

    async def run_async(self, operation: Operation[T]) -> T:
        self._database.check()
        if operation.effect is Effect.READ:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._readers, self._database.read, operation)
        result: T = await self._writer.run(operation)
        return result

    def _ring(self, operation: Operation[Any], result: Any) -> None:
        self._bell.ring(topics_of(operation, result))

    def close(self) -> None:
        self._writer.close()
        self._readers.shutdown()
        self._database.close()
        self._bell.close()

    def listen(self, topic: Topic) -> Listener:
        self._database.check()
        return self._bell.listen(topic, self.clock.new_id().hex())

    def migrate(self) -> list[str]:
        """Return nothing: opening the file has brought its schema up to date."""
        return []

    def pending_migrations(self) -> list[tuple[str, str]]:
        return self._database.pending_migrations()

    # The data's way.

    @operation(Effect.WRITE)
    def enqueue(self, jobs: Sequence[NewJob], *, atomic: bool = False) -> Plan[list[EnqueueReply]]:
        return submission.enqueue(self._env, jobs, atomic=atomic, now=self.clock.now_us())

    @operation(Effect.LEASE)
    def claim(self, request: ClaimRequest) -> Plan[Claim]:
        return claiming.claim(self._env, self._chores, request)

    @operation(Effect.LEASE)
    def heartbeat(self, beats: Sequence[Beat]) -> Plan[list[HeartbeatReply]]:
        return settling.heartbeat(self._env, beats)

    @operation(Effect.WRITE)
    def settle(self, settlements: Sequence[Settlement]) -> Plan[list[SettleReply]]:
        return settling.settle(self._env, settlements)

    @operation(Effect.WRITE)
    def save(self, saves: Sequence[Save]) -> Plan[list[SaveReply]]:
        return settling.save(self._env, saves)

    @operation(Effect.WRITE)
    def spawn(self, spawns: Sequence[Spawn]) -> Plan[list[SpawnReply]]:
        return spawning.spawn(self._env, spawns)

    # Events.

    @operation(Effect.WRITE)
    def send(self, event: NewEvent, jobs: Sequence[NewJob]) -> Plan[EventReply]:
        return events_.send(self._env, event, jobs)

    @operation(Effect.READ)
    def events(self, name: str | None, page: PageRequest) -> Plan[EventPage]:
        return events_.events(name, page)

    @operation(Effect.WRITE)
    def prune_events(self, keep: float, limit: int) -> Plan[int]:
        return events_.prune(self._env, keep, limit)

    @operation(Effect.WRITE)
    def load_events(self, events: Sequence[SentEvent]) -> Plan[int]:
        return events_.load(events)

    # Control.

    @operation(Effect.WRITE)
    def cancel(self, job_ids: Sequence[str]) -> Plan[list[CancelReply]]:
        return control.cancel(self._env, job_ids)

    @operation(Effect.WRITE)
    def retry(self, requests: Sequence[RetryRequest]) -> Plan[list[RetryReply]]:
        return control.retry(self._env, requests)

    @operation(Effect.WRITE)
    def edit(self, edits: Sequence[Edit]) -> Plan[list[EditReply]]:
        return editing.edit(self._env, edits)

    @operation(Effect.WRITE)
    def replay(self, requests: Sequence[str | Replay]) -> Plan[list[ReplayReply]]:
        return replaying.replay(self._env, requests)

    @operation(Effect.WRITE)
    def discard(self, job_ids: Sequence[str]) -> Plan[list[DiscardReply]]:
        return control.discard(job_ids)

    @operation(Effect.WRITE)
    def pause(self, scope: Scope, name: str) -> Plan[None]:
        return control.pause(scope, name, is_paused=True)

    @operation(Effect.WRITE)
    def resume(self, scope: Scope, name: str) -> Plan[None]:
        return control.pause(scope, name, is_paused=False)

    @operation(Effect.WRITE)
    def limit(self, scope: Scope, name: str, max_running: int | None) -> Plan[None]:
        return control.limit(scope, name, max_running)

    @operation(Effect.WRITE)
    def set_rates(self, rates: Mapping[str, Rate | None]) -> Plan[None]:
        return rates_.set_rates(self._env, rates)

    # Crons.

    @operation(Effect.WRITE)
    def declare_crons(self, crons: Sequence[CronDefinition]) -> Plan[None]:
        return crontab.declare(self._env, crons)

    @operation(Effect.WRITE)
    def fire(self, fires: Sequence[CronFire]) -> Plan[list[FireReply]]:
        return crontab.fire(self._env, fires)

    @operation(Effect.READ)
    def crons(self) -> Plan[CronList]:
        return crontab.crons(self._reading)

    @operation(Effect.WRITE)
    def pause_cron(self, name: str) -> Plan[bool]:
        return crontab.pause(name)

    @operation(Effect.WRITE)
    def resume_cron(self, name: str, next_tick: datetime | None) -> Plan[bool]:
        return crontab.resume(name, next_tick)

    @operation(Effect.WRITE)
    def forget_cron(self, name: str) -> Plan[bool]:
        return crontab.forget(name)

    # Tokens and the audit log.

    @operation(Effect.WRITE)
    def add_token(self, record: TokenRecord) -> Plan[None]:
        return access.add(self._env, record)

    @operation(Effect.READ)
    def tokens(self) -> Plan[list[TokenRecord]]:
        return access.tokens()

    @operation(Effect.WRITE)
    def revoke_token(self, token_id: str) -> Plan[bool]:
        return access.revoke(self._env, token_id)

    @operation(Effect.WRITE)
    def record_action(self, action: Action) -> Plan[None]:
        return audit.record(self._env, action)

    @operation(Effect.READ)
    def actions(self, page: PageRequest) -> Plan[ActionPage]:
        return audit.actions(page)

    @operation(Effect.WRITE)
    def prune_actions(self, keep: float, limit: int) -> Plan[int]:
        return audit.prune(self._env, keep, limit)

    # Upkeep.

    @operation(Effect.WRITE)
    def recover(self, limit: int) -> Plan[list[Moved]]:
        return upkeep.recover(self._env, limit, self.clock.now_us())

    @operation(Effect.LEASE)
    def promote(self, limit: int) -> Plan[list[Moved]]:
        return upkeep.promote(self._env, limit, self.clock.now_us())

    @operation(Effect.WRITE)
    def expire(self, limit: int) -> Plan[list[Moved]]:
        return upkeep.expire(self._env, limit, self.clock.now_us())

    @operation(Effect.WRITE)
    def prune(self, request: PruneRequest) -> Plan[Pruned]:
        return upkeep.prune(self._env, request)

    # Looking.

    @operation(Effect.READ)
    def get(self, job_ids: Sequence[str]) -> Plan[list[Job | None]]:
        return looking.get(self._reading, job_ids)

    @operation(Effect.READ)
    def locate(self, job_ids: Sequence[str]) -> Plan[list[str | None]]:
        return looking.locate(job_ids)

    @operation(Effect.READ)
    def find(self, filter: JobFilter, page: PageRequest) -> Plan[JobPage]:
        return looking.find(self._reading, filter, page)

    @operation(Effect.READ)
    def count(self, filter: JobFilter) -> Plan[int]:
        return looking.count(filter)

    @operation(Effect.READ)
    def attempts(self, job_id: str) -> Plan[list[Attempt] | None]:
        return looking.attempts(job_id)

    @operation(Effect.READ)
    def dependencies(
        self, job_ids: Sequence[str], *, with_results: bool = False
    ) -> Plan[list[list[Dependency]]]:
        return graph.dependencies(self._reading, job_ids, with_results=with_results)

    @operation(Effect.READ)
    def dependents(self, job_ids: Sequence[str]) -> Plan[list[list[str]]]:
        return graph.dependents(job_ids)

    @operation(Effect.READ)
    def situation(self, job_id: str) -> Plan[Situation | None]:
        return looking.situation(self._reading, job_id)

    @operation(Effect.READ)
    def dead_letters(
        self, type: str | None, page: PageRequest, queues: Sequence[str] | None = None
    ) -> Plan[DeadLetterPage]:
        return looking.dead_letters(self._reading, type, page, queues)

    @operation(Effect.READ)
    def ended(
        self, since: datetime, *, limit: int, after: int | None = None, newest_first: bool = False
    ) -> Plan[EndedPage]:
        return ended_.ended(
            self._reading, since, limit=limit, after=after, newest_first=newest_first
        )

    @operation(Effect.READ)
    def queues(self) -> Plan[list[QueueView]]:
        return looking.queues()

    @operation(Effect.READ)
    def types(self) -> Plan[list[TypeView]]:
        return looking.types()

    @operation(Effect.READ)
    def app_limit(self) -> Plan[int | None]:
        return looking.get_limit(Scope.APP, "")

    @operation(Effect.READ)
    def inspect(self) -> Plan[list[Finding]]:
        return examination.examine(self._reading, self._database)

    # Moving to another store.

    @operation(Effect.READ)
    def dump(self, after: int, limit: int) -> Plan[Dump]:
        return dumping.dump(self._reading, after, limit)

    @operation(Effect.WRITE)
    def load(self, records: Sequence[JobRecord]) -> Plan[list[LoadReply]]:
        return loading.load(self._env, records)

    @operation(Effect.WRITE)
    def accept_jobs(self, is_accepted: bool) -> Plan[None]:
        return loading.accept_jobs(is_accepted)

    # Workers and leading.

    @operation(Effect.LEASE)
    def announce(self, worker: WorkerInfo) -> Plan[None]:
        return roster.announce(self._env, worker)

    @operation(Effect.LEASE)
    def retire(self, worker_id: str) -> Plan[None]:
        return roster.retire(worker_id)

    @operation(Effect.READ)
    def workers(self) -> Plan[list[WorkerInfo]]:
        return roster.workers(self._reading)

    @operation(Effect.LEASE)
    def lead(self, name: str, worker: str, ttl: float) -> Plan[Term | None]:
        return roster.lead(self._env, name, worker, ttl)

    @operation(Effect.LEASE)
    def resign(self, name: str, worker: str) -> Plan[None]:
        return roster.resign(name, worker)
