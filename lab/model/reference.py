"""The reference: what every operation of a store does and answers, as an executable specification.

Plain dictionaries and rules, written to be read: ``control`` has what operators do,
``concurrency_keys`` their slots, ``webhooks``, ``events`` and ``crontab`` what they are named for,
``access`` the tokens and the audit log, ``ends`` what has ended, and this file what else can be
seen, and who works and leads. It shares no code with any store, is slow, and knows nothing of
transactions: an operation that must leave no trace puts a copy back. It has the methods of a
store's facets, but a method answers at once instead of returning an operation. The caller sets
``now``.

Left open, as stores may differ there: the order of jobs whose leases ran out in the same instant,
of dead letters that died in the same instant, and of the deliveries that one call stores; the
``run_at`` of a job that has ended; and whether a prune that deleted its fill says that the end was
reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import asdict, replace

from fencepost.core.bounds import WORKER_SILENCE
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Attempt, DeadLetter, Dependency, Job, JobRecord
from fencepost.core.job.lifecycle import State
from fencepost.core.job.why import Situation
from fencepost.core.limits.type_limits import NO_LIMITS
from fencepost.errors import (
    DependencyError,
    DuplicateJobError,
    StateConflictError,
    UnknownDependencyError,
)
from fencepost.store.interface.control import Selected
from fencepost.store.interface.queue import WorkerLease
from fencepost.store.interface.reader import DeadLetterPage, JobPage
from fencepost.store.interface.records.cluster import Term, WorkerInfo
from fencepost.store.interface.records.overview import QueueView, TypeView
from fencepost.store.interface.records.transfer import Dump, Loaded, LoadReply, Present
from fencepost.store.interface.settings import Scope
from lab.model import rules
from lab.model.access import Guarding
from lab.model.concurrency_keys import held_up
from lab.model.crontab import Crontab
from lab.model.ends import Endings
from lab.model.events import Eventing
from lab.model.rules import has_come, seconds
from lab.model.world import Held, Holding, Kept

AHEAD_MAX = 1_000
"""Jobs ahead of one are counted up to this many."""


class Reference(Eventing, Crontab, Guarding, Endings):
    """The whole store."""

    # Looking at jobs.

    def get(self, job_ids: Sequence[str]) -> list[Job | None]:
        found = [self.world.get(job_id) for job_id in job_ids]
        return [None if kept is None else kept.shown(self.now) for kept in found]

    def find(self, filter: JobFilter, page: PageRequest) -> JobPage:
        every, after = list(self.world.jobs.values()), page.after
        found = [
            kept
            for kept in (every if page.is_oldest_first else every[::-1])
            if self._matches(kept.job, filter)
            and (after is None or (kept.number > after) is page.is_oldest_first)
            and kept.number != after
        ]
        shown, rest = found[: page.limit], found[page.limit :]
        positions = [kept.number for kept in shown]
        return JobPage(
            [kept.shown(self.now) for kept in shown], positions[-1] if rest else None, positions
        )

    def select(self, filter: JobFilter, page: PageRequest) -> Selected:
        found = self.find(filter, page)
        return Selected([job.id for job in found.jobs], found.next)

    def count(self, filter: JobFilter) -> int:
        return sum(self._matches(kept.job, filter) for kept in self.world.jobs.values())

    def _matches(self, job: Job, filter: JobFilter) -> bool:
        if filter.key is not None:
            holding = self.world.keys.get((job.type, filter.key))
            if holding is None or holding.job_id != job.id:
                return False
        return _matches(job, filter)

    def attempts(self, job_id: str) -> list[Attempt] | None:
        kept = self.world.get(job_id)
        return None if kept is None else list(kept.attempts)

    def dependencies(
        self, job_ids: Sequence[str], *, with_results: bool = False
    ) -> list[list[Dependency]]:
        return [
            [
                Dependency(
                    job_id=parent.id,
                    type=parent.job.type,
                    state=parent.job.state,
                    node=parent.job.node,
                    result=parent.job.result_body if with_results else None,
                )
                for parent in self.world.parents(job_id.lower())
            ]
            for job_id in job_ids
        ]

    def dependents(self, job_ids: Sequence[str]) -> list[list[str]]:
        return [[kept.id for kept in self.world.children(job_id.lower())] for job_id in job_ids]

    def held(self, workers: Sequence[str]) -> list[WorkerLease]:
        return [
            WorkerLease(kept.id, kept.token or "", kept.job.lease.worker)
            for kept in self.world.jobs.values()
            if kept.job.lease is not None and kept.job.lease.worker in workers
        ]

    def locate(self, job_ids: Sequence[str]) -> list[str | None]:
        found = [self.world.get(job_id) for job_id in job_ids]
        return [None if kept is None else kept.job.queue for kept in found]

    def situation(self, job_id: str) -> Situation | None:
        kept = self.world.get(job_id)
        if kept is None:
            return None
        job, world = kept.job, self.world
        return Situation(
            job=kept.shown(self.now),
            now=self.now,
            is_type_paused=world.is_paused(Scope.TYPE, job.type),
            is_queue_paused=world.is_paused(Scope.QUEUE, job.queue),
            queue_limit=world.limits.get(job.queue),
            queue_running=world.running(self.now, job.queue),
            app_limit=self.app_limit(),
            app_running=world.running(self.now),
            key_active=self.active((job.type, job.concurrency_key or "")),
            limits=world.type_limits.get(job.type, NO_LIMITS),
            usage=self.usage(job.type),
            jobs_ahead=self._jobs_ahead(kept),
            workers=self.workers(),
            dependencies=tuple(self.dependencies([kept.id])[0])
            if job.state is State.PENDING
            else (),
        )

    def _jobs_ahead(self, kept: Kept) -> int:
        """Count those that come first; one that runs or has ended stands in no line."""
        if kept.job.state is not State.SCHEDULED:
            return 0
        line = self.world.claimable(kept.job.queue, kept.job.type)
        return min(sum(other.place < kept.place for other in line), AHEAD_MAX)

    def dead_letters(
        self, type: str | None, page: PageRequest, queues: Sequence[str] | None = None
    ) -> DeadLetterPage:
        dead = [self.world.jobs[job_id] for job_id in reversed(self.world.dead)]
        found = [
            kept
            for kept in dead
            if type in (None, kept.job.type)
            and (queues is None or kept.job.queue in queues)
            and (page.after is None or kept.number in _numbers_after(dead, page.after))
        ]
        shown, rest = found[: page.limit], found[page.limit :]
        letters = [_letter(kept.job) for kept in shown]
        return DeadLetterPage(letters, shown[-1].number if rest else None)

    # Looking at queues and settings.

    def queues(self) -> list[QueueView]:
        world = self.world
        paused = {name for scope, name in world.paused if scope is Scope.QUEUE}
        jobs = [kept.job for kept in world.jobs.values()]
        claimable = [job for job in jobs if job.state is State.SCHEDULED]
        return [
            QueueView(
                name=name,
                is_paused=world.is_paused(Scope.QUEUE, name),
                max_running=world.limits.get(name),
                counts=dict(
                    Counter(
                        kept.job.state for kept in world.jobs.values() if kept.job.queue == name
                    )
                ),
                claimable=dict(Counter(job.type for job in claimable if job.queue == name)),
                oldest_at=min((job.run_at for job in claimable if job.queue == name), default=None),
            )
            for name in sorted((world.queues | paused | world.limits.keys()) - {""})
        ]

    def types(self) -> list[TypeView]:
        world = self.world
        paused = {name for scope, name in world.paused if scope is Scope.TYPE}
        return [
            TypeView(
                name=name,
                is_paused=world.is_paused(Scope.TYPE, name),
                counts=dict(
                    Counter(kept.job.state for kept in world.jobs.values() if kept.job.type == name)
                ),
                **asdict(world.type_limits.get(name, NO_LIMITS)),
            )
            for name in sorted(world.types | paused | world.type_limits.keys())
        ]

    def app_limit(self) -> int | None:
        return self.world.limits.get("")

    # Moving to another store.

    def dump(self, after: int, limit: int) -> Dump:
        found = [kept for kept in self.world.jobs.values() if kept.number > after][:limit]
        return Dump([self._record(kept) for kept in found], found[-1].number if found else after)

    def _record(self, kept: Kept) -> JobRecord:
        holding = self.holding(kept)
        return JobRecord(
            job=kept.shown(self.now),
            attempts=kept.attempts,
            key_window=kept.key_window,
            holds_key=holding is not None,
            key_ends_at=None if holding is None else holding.until,
            is_dead_letter=kept.id in self.world.dead,
            dependencies=self.world.awaited.get(kept.id, ()),
        )

    def load(self, records: Sequence[JobRecord]) -> list[LoadReply]:
        for record in records:
            if record.job.state is State.RUNNING:
                raise StateConflictError("only a job that nobody runs can move")
        before = self.world.copy()
        try:
            replies = [self._load(record) for record in records]
            self._link(
                [
                    record
                    for record, reply in zip(records, replies, strict=True)
                    if isinstance(reply, Loaded)
                ]
            )
        except (DuplicateJobError, DependencyError):
            self.world = before
            raise
        self.postpone()
        by_death = sorted(self.world.dead, key=self._death)
        self.world.dead = dict.fromkeys(by_death)
        return replies

    def _load(self, record: JobRecord) -> LoadReply:
        job, world = record.job, self.world
        if world.get(job.id) is not None:
            return Present(job.id)
        holder = None if job.key is None else self._holder(job.type, job.key)
        if holder is not None and record.holds_key and job.state not in rules.ENDED:
            assert job.key is not None
            raise DuplicateJobError(type=job.type, key=job.key, existing_id=holder.id)
        world.submitted += 1
        world.jobs[job.id] = Kept(
            number=world.submitted,
            job=job if self.has_room(job) else held_up(job),
            key_window=record.key_window,
            attempts=record.attempts,
        )
        world.queues.add(job.queue)
        world.types.add(job.type)
        if job.key is not None and record.holds_key and holder is None:
            world.keys[job.type, job.key] = Holding(job.id, record.key_ends_at)
        if record.is_dead_letter:
            world.dead[job.id] = None
        self.touch(None, world.jobs[job.id])
        return Loaded(job.id)

    def _link(self, records: Sequence[JobRecord]) -> None:
        """Put jobs behind those that they wait for, which may have ended here since."""
        for record in records:
            known = [each for each in record.dependencies if self.world.get(each)]
            if self.world.jobs[record.job.id].is_waiting and len(known) < len(record.dependencies):
                raise UnknownDependencyError(str(record.dependencies))
            if known:
                self.world.awaited[record.job.id] = tuple(known)
        for record in records:
            kept = self.world.jobs[record.job.id]
            moved = self.judge(kept) if kept.is_waiting else None
            if moved is not None and moved.state in rules.ENDED:
                self.follow([moved.job_id])

    def _death(self, job_id: str) -> tuple[float, int]:
        kept = self.world.jobs[job_id]
        assert kept.job.completed_at is not None
        return kept.job.completed_at.timestamp(), kept.number

    # Workers and leading.

    def announce(self, worker: WorkerInfo) -> None:
        self.world.workers[worker.id] = replace(worker, seen_at=self.now)

    def retire(self, worker_id: str) -> None:
        self.world.workers.pop(worker_id, None)

    def workers(self) -> list[WorkerInfo]:
        return [
            worker
            for _, worker in sorted(self.world.workers.items())
            if worker.seen_at and not has_come(worker.seen_at + seconds(WORKER_SILENCE), self.now)
        ]

    def lead(self, name: str, worker: str, ttl: float) -> Term | None:
        held = self.world.terms.get(name)
        if held is not None and held.worker != worker and not has_come(held.until, self.now):
            return None
        self.world.terms[name] = Held(worker, self.now + seconds(ttl))
        return Term(name, worker, self.now + seconds(ttl))

    def resign(self, name: str, worker: str) -> None:
        held = self.world.terms.get(name)
        if held is not None and held.worker == worker:
            del self.world.terms[name]


def _matches(job: Job, filter: JobFilter) -> bool:
    return (
        (not filter.states or job.state in filter.states)
        and filter.type in (None, job.type)
        and filter.queue in (None, job.queue)
        and filter.correlation_id in (None, job.correlation_id)
        and filter.flow in (None, job.flow)
        and job.id.replace("-", "").startswith(filter.id_prefix or "")
        and (filter.created_after is None or filter.created_after <= job.created_at)
        and (filter.created_before is None or filter.created_before > job.created_at)
        and all(job.tags.get(name) == value for name, value in filter.tags.items())
    )


def _numbers_after(dead: Sequence[Kept], number: int) -> set[int]:
    """Return who stands on the list behind the one that a page ended with."""
    numbers = [kept.number for kept in dead]
    return set(numbers[numbers.index(number) + 1 :])


def _letter(job: Job) -> DeadLetter:
    assert job.failure is not None
    assert job.completed_at is not None
    return DeadLetter(
        job_id=job.id,
        type=job.type,
        queue=job.queue,
        state=job.state,
        attempts=job.attempt,
        failure=job.failure,
        completed_at=job.completed_at,
    )
