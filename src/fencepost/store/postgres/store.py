"""The PostgreSQL store: the contract's operations, each one line over its plan."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from datetime import datetime
from math import ceil
from typing import Any, ClassVar, TypeVar
from weakref import WeakSet

import psycopg
from msgspec.structs import replace

from fencepost.clock import Clock, SystemClock
from fencepost.core.access.audit import Action
from fencepost.core.access.tokens import TokenRecord
from fencepost.core.events import NewEvent, SentEvent
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Attempt, Dependency, Job, JobRecord, NewJob
from fencepost.core.job.outcome import Settlement
from fencepost.core.job.why import Situation
from fencepost.core.limits.rates import Rate
from fencepost.store.chores import Chores
from fencepost.store.group_commit import Answer
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
    Fate,
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
    Joined,
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
from fencepost.store.postgres.engine import schema
from fencepost.store.postgres.engine.connections import Connections
from fencepost.store.postgres.engine.errors import STALE_NUMBERS, translate
from fencepost.store.postgres.engine.group_commit import GroupRunner, Runner, run_in, run_in_async
from fencepost.store.postgres.engine.notification import Bell
from fencepost.store.postgres.engine.notifier import Ringer
from fencepost.store.postgres.engine.session import Session
from fencepost.store.postgres.engine.url import parse
from fencepost.store.postgres.flows import enqueue as graphs
from fencepost.store.postgres.flows import spawn as spawning
from fencepost.store.postgres.jobs import claim as claiming
from fencepost.store.postgres.jobs import control, upkeep
from fencepost.store.postgres.jobs import edit as editing
from fencepost.store.postgres.jobs import enqueue as enqueueing
from fencepost.store.postgres.jobs import read as looking
from fencepost.store.postgres.jobs import settle as settling
from fencepost.store.postgres.jobs.catalog import Catalog, Env, Numbers
from fencepost.store.postgres.joins import connections as callers
from fencepost.store.postgres.joins import operations as joining
from fencepost.store.postgres.limits import rates as rates_
from fencepost.store.postgres.records import access, audit
from fencepost.store.postgres.records import cluster as roster
from fencepost.store.postgres.records import crons as crontab
from fencepost.store.postgres.records import doctor as examination
from fencepost.store.postgres.records import dump as dumping
from fencepost.store.postgres.records import ended as ended_
from fencepost.store.postgres.records import events as events_
from fencepost.store.postgres.records import load as loading
from fencepost.store.sql.events import new_jobs

T = TypeVar("T")

PATIENCE = 10.0
TIDY_INTERVAL = 0.5
THOROUGH_EVERY = 20
"""One tidying in so many looks below the marks, or fewer."""
THOROUGH_SHARE = 0.01
"""Of the time, at the most: beside an old snapshot, there is more to look at every time."""
THOROUGH_EVERY_MAX = 1_200


class PostgresStore(Store):
    """Jobs in one PostgreSQL database, shared by workers on many machines."""

    tidy_interval: ClassVar[float | None] = TIDY_INTERVAL

    def __init__(self, url: str, *, clock: Clock | None = None, patience: float = PATIENCE) -> None:
        address = parse(url)
        self.url = url
        self.clock = clock or SystemClock()
        self._env = Env(self.clock, Catalog())
        self._chores = Chores(self.clock)
        self._connections = Connections(address, clock=self.clock, patience=patience)
        self._ringer = Ringer(self._connections)
        postscript, forget = self._ringer.postscript, self._env.catalog.forget
        self._runner = Runner(self._connections, postscript=postscript, forget=forget)
        self._group = GroupRunner(
            self._connections, postscript=postscript, forget=forget, note=self._tell
        )
        self._bell = Bell(self._connections)
        self._is_checked = False
        self._is_joined = False
        self._places: set[joining.Place] = set()
        """Where connections of callers have led that are known to lead to this database."""
        self._joined_by: WeakSet[Any] = WeakSet()
        """Connections of callers that have been used."""
        self._until_thorough = THOROUGH_EVERY

    # Running operations.

    def run(self, operation: Operation[T]) -> T:
        self._check_schema()
        try:
            result = self._runner.run(operation)
        except BaseException:
            self._ringer.forget(operation)
            raise
        self._ringer.ring(operation, topics_of(operation, result))
        return result

    async def run_async(self, operation: Operation[T]) -> T:
        if not self._is_checked:
            await asyncio.to_thread(self._check_schema)
        return await self._group.run(operation)

    def _tell(self, answer: Answer) -> None:
        """Have news told of what was awaited, also if whoever did has been cancelled meanwhile."""
        operation = answer.posted.operation
        if answer.error is not None:
            self._ringer.forget(operation)
        else:
            self._ringer.ring(operation, topics_of(operation, answer.result))

    # In a caller's own transaction.

    def run_in(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        connection = callers.connection_of(conn)
        view = self._view()
        operation = make(view)
        with callers.whole(connection, must_be_open=must_be_open):
            place = joining.place_of(connection)
            if place not in self._places:
                theirs = run_in(connection, joining.IDENTIFY)
                self._admit(place, self.run(joining.IDENTIFY), theirs)
            for before in self._beforehand(operation, connection):
                self.run(before)
            view._env = Env(self.clock, self._env.catalog.fork(), is_joined=True)
            with self._forgetting():
                return run_in(connection, joining.joined(operation))

    async def run_in_async(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        connection = await callers.async_connection_of(conn)
        view = self._view()
        operation = make(view)
        async with callers.whole_async(connection, must_be_open=must_be_open):
            place = joining.place_of(connection)
            if place not in self._places:
                theirs = await run_in_async(connection, joining.IDENTIFY)
                self._admit(place, await self.run_async(joining.IDENTIFY), theirs)
            for before in self._beforehand(operation, connection):
                await self.run_async(before)
            view._env = Env(self.clock, self._env.catalog.fork(), is_joined=True)
            with self._forgetting():
                return await run_in_async(connection, joining.joined(operation))

    def _view(self) -> PostgresStore:
        """Return this store as one transaction sees it: what is new there may be rolled back."""
        view = copy(self)
        view._is_joined = True
        return view

    def _beforehand(self, operation: Operation[Any], connection: Any) -> Iterator[Operation[Any]]:
        """Yield what is done apart from the caller's transaction, which would keep others waiting.

        If that is rolled back then, it has done no harm.
        """
        if new := new_jobs(operation):
            yield self._number(new, afresh=self._is_new(connection))
        if operation.name == "settle":
            yield self._isolate(*operation.given)

    @operation(Effect.LEASE)
    def _isolate(self, settlements: Sequence[Settlement]) -> Plan[None]:
        return settling.isolate(self._env, settlements)

    @operation(Effect.WRITE)
    def _number(self, jobs: Sequence[NewJob], *, afresh: bool) -> Plan[Numbers]:
        """Number what is to be stored, apart from the caller's transaction.

        Whoever made a lane there would keep all others waiting who need it, until the commit.
        """
        urgent = graphs.inherited(jobs)
        parents = yield from graphs.priorities(jobs)
        more = [replace(job, priority=each) for job in urgent for each in parents if job.after]
        wanted = graphs.with_delivery([*urgent, *more])
        now = self.clock.monotonic()
        return (yield from self._env.catalog.number(wanted, afresh=afresh, sure_at=now))

    def _is_new(self, connection: Any) -> bool:
        """Tell whether *connection* is used for the first time, perhaps after a failover.

        Numbers that were lost are asked for then, since a statement that is refused for them takes
        the caller's transaction with it.
        """
        is_new = connection not in self._joined_by
        self._joined_by.add(connection)
        return is_new

    @contextmanager
    def _forgetting(self) -> Iterator[None]:
        """Forget what the server has lost, so that the caller's next transaction succeeds."""
        try:
            yield
        except psycopg.Error as error:
            if error.sqlstate != STALE_NUMBERS:
                raise
            self._env.catalog.forget()
            where = self._connections.address.shown
            raise translate(error, sent_commit=False, where=where) from error

    def _admit(
        self, place: joining.Place, ours: joining.Identity, theirs: joining.Identity
    ) -> None:
        joining.check_same(ours, theirs, place, self._connections.address.shown)
        self._places.add(place)

    @operation(Effect.WRITE)
    def mark(self) -> Plan[str]:
        return joining.mark()

    @operation(Effect.READ)
    def fates(self, asked: Sequence[Joined]) -> Plan[list[Fate]]:
        return joining.fates(asked)

    def _check_schema(self) -> None:
        if not self._is_checked:
            self._on_session(schema.check)
            self._is_checked = True

    def _on_session(self, act: Callable[[Session], T]) -> T:
        try:
            with self._connections.lend() as session:
                return act(session)
        except psycopg.Error as error:
            where = self._connections.address.shown
            raise translate(error, sent_commit=False, where=where) from error

    def close(self) -> None:
        self._group.close()
        self._bell.close()
        self._ringer.close()
        self._connections.close()

    def listen(self, topic: Topic) -> Listener:
        return self._bell.listen(topic)

    def migrate(self) -> list[str]:
        return self._on_session(schema.apply)

    def pending_migrations(self) -> list[tuple[str, str]]:
        return self._on_session(schema.pending)

    # The data's way.

    @operation(Effect.WRITE)
    def enqueue(self, jobs: Sequence[NewJob], *, atomic: bool = False) -> Plan[list[EnqueueReply]]:
        plan = enqueueing.enqueue(self._env, jobs, atomic=atomic)
        can_refuse = atomic or graphs.is_graph(jobs)
        return joining.all_or_none(plan) if can_refuse and self._is_joined else plan

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
        plan = events_.send(self._env, event, jobs)
        return joining.all_or_none(plan) if self._is_joined else plan

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
        return control.replay(self._env, requests)

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
        return crontab.crons(self._env)

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
        return upkeep.recover(self._env, limit)

    @operation(Effect.LEASE)
    def promote(self, limit: int) -> Plan[list[Moved]]:
        return upkeep.promote(self._env, limit)

    @operation(Effect.WRITE)
    def expire(self, limit: int) -> Plan[list[Moved]]:
        return upkeep.expire(self._env, limit)

    @operation(Effect.WRITE)
    def prune(self, request: PruneRequest) -> Plan[Pruned]:
        return upkeep.prune(self._env, request)

    @operation(Effect.LEASE)
    def tidy(self) -> Plan[None]:
        self._until_thorough -= 1
        is_thorough = self._until_thorough <= 0
        seconds = yield from upkeep.tidy(self._env, is_thorough)
        if is_thorough:
            every = ceil(seconds / THOROUGH_SHARE / TIDY_INTERVAL)
            self._until_thorough = min(max(every, THOROUGH_EVERY), THOROUGH_EVERY_MAX)

    # Looking.

    @operation(Effect.READ)
    def get(self, job_ids: Sequence[str]) -> Plan[list[Job | None]]:
        return looking.get(self._env, job_ids)

    @operation(Effect.READ)
    def locate(self, job_ids: Sequence[str]) -> Plan[list[str | None]]:
        return looking.locate(job_ids)

    @operation(Effect.READ)
    def find(self, filter: JobFilter, page: PageRequest) -> Plan[JobPage]:
        return looking.find(self._env, filter, page)

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
        return looking.dependencies(job_ids, with_results=with_results)

    @operation(Effect.READ)
    def dependents(self, job_ids: Sequence[str]) -> Plan[list[list[str]]]:
        return looking.dependents(job_ids)

    @operation(Effect.READ)
    def situation(self, job_id: str) -> Plan[Situation | None]:
        return looking.situation(self._env, job_id)

    @operation(Effect.READ)
    def dead_letters(
        self, type: str | None, page: PageRequest, queues: Sequence[str] | None = None
    ) -> Plan[DeadLetterPage]:
        return looking.dead_letters(self._env, type, page, queues)

    @operation(Effect.READ)
    def ended(
        self, since: datetime, *, limit: int, after: int | None = None, newest_first: bool = False
    ) -> Plan[EndedPage]:
        return ended_.ended(self._env, since, limit=limit, after=after, newest_first=newest_first)

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
        # Whether news arrive can be told only by connections of its own, opened by whoever runs it.
        with self._connections.open(self._connections.address.listen) as listening:
            telling = self._connections.open()
            with telling:
                channel = f"fencepost_doctor_{self.clock.new_id().hex()}"
                heard = examination.hear(listening, telling, channel=channel)
        findings = yield from examination.examine(self._env, is_pooled=telling.is_pooled)
        return [*findings, heard]

    # Moving to another store.

    @operation(Effect.READ)
    def dump(self, after: int, limit: int) -> Plan[Dump]:
        return dumping.dump(self._env, after, limit)

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
        return roster.workers(self._env)

    @operation(Effect.LEASE)
    def lead(self, name: str, worker: str, ttl: float) -> Plan[Term | None]:
        return roster.lead(self._env, name, worker, ttl)

    @operation(Effect.LEASE)
    def resign(self, name: str, worker: str) -> Plan[None]:
        return roster.resign(name, worker)
