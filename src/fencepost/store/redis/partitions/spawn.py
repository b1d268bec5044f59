"""New jobs that a running job spawns, into queues of any partition.

Jobs for other partitions become an intent, in the commit that stores those of the job's own
partition under its lease: all are accepted, or none, and a stale lease spawns nothing. A job
that gathers them also waits for mirrors of those elsewhere, which are placed by the same commit.
A later attempt finds what was spawned by its keys, as in one partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from fencepost.core.flows.dependencies import check_places
from fencepost.core.job.job import NewJob
from fencepost.core.values.names import wanted_ids
from fencepost.errors import DependencyError
from fencepost.store.interface.queue import (
    Duplicate,
    EnqueueReply,
    LeaseLost,
    Moved,
    Spawn,
    Spawned,
    SpawnReply,
)
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.flows.spawn import gather_spawned
from fencepost.store.redis.jobs.catalog import Env
from fencepost.store.redis.jobs.enqueue import accept, store_plain
from fencepost.store.redis.jobs.lease import leased, with_states
from fencepost.store.redis.partitions.hub import LOOK, WRITE, Hub
from fencepost.store.redis.partitions.keys import holders, prepare
from fencepost.store.redis.partitions.leases import route, scatter, settled_moves
from fencepost.store.redis.partitions.numbers import HIDDEN, by_partition, gathering, partition_of
from fencepost.store.redis.partitions.outbox.delivery import (
    Replies,
    deliver_quietly,
    read_times,
    subscribe,
)
from fencepost.store.redis.partitions.outbox.entries import COMMIT_WITHIN_US, Part, intent_job
from fencepost.store.redis.partitions.outbox.mirrors import Mirror, PartUnit, place
from fencepost.store.redis.partitions.outbox.news import Wanted
from fencepost.store.redis.partitions.submit import SplitSubmission
from fencepost.store.redis.partitions.views.reader import dependencies, get


def spawn(hub: Hub, spawns: Sequence[Spawn]) -> Plan[list[SpawnReply]]:
    """Store what jobs spawn: within their partitions as one operation each, others as intents."""
    numbers = yield from route(hub, [(each.job_id, each.token) for each in spawns])
    replies: list[Any] = [None] * len(spawns)
    plain: list[int] = []
    for at, (each, number) in enumerate(zip(spawns, numbers, strict=True)):
        if (yield from _is_split(hub, each, number)):
            replies[at] = yield from _spawn_split(hub, each, number)
        else:
            own = [number] * len(each.jobs)
            yield from prepare(hub, each.jobs, own, each.job_id)
            plain.append(at)
    found = yield from scatter(
        hub,
        [spawns[at] for at in plain],
        [numbers[at] for at in plain],
        lambda store, part: store.queue.spawn(part),
    )
    for at, reply in zip(plain, found, strict=True):
        replies[at] = reply
    return (yield from settled_moves(hub, replies, numbers))


def _named(jobs: Sequence[NewJob]) -> list[str]:
    names = [on for job in jobs if job.after for on in job.after.on]
    return list(dict.fromkeys(on.lower() for on in names if isinstance(on, str)))


def _is_split(hub: Hub, spawn: Spawn, number: int) -> Plan[bool]:
    """Tell whether a spawn concerns another partition than that of its job."""
    if any(partition_of(job.queue) != number for job in spawn.jobs):
        return True
    places = yield from hub.whereabouts(_named(spawn.jobs))
    return any(place != number for place in places)


class _Standing(NamedTuple):
    """What a spawn needs to know of its parent; *lost* if the lease is not valid."""

    lost: LeaseLost | None = None
    flow: str | None = None
    is_awaited: bool = False


def _standing(env: Env, spawn: Spawn) -> Plan[_Standing]:
    unit = Unit(env)
    ((_, kept),) = yield from leased(unit, [spawn])
    if kept is not None:
        return _Standing(None, kept.document.flow, kept.document.children > 0)
    (lost,) = yield from with_states(unit, [LeaseLost(spawn.job_id)])
    return _Standing(lost)


def _spawn_split(hub: Hub, spawn: Spawn, number: int) -> Plan[SpawnReply]:
    """Store what a job spawns into several partitions, or raise DependencyError."""
    standing: _Standing = yield from hub.ask(number, LOOK, _standing, spawn)
    if standing.lost is not None:
        return standing.lost
    check_places(job.after for job in spawn.jobs)
    jobs = [replace(job, flow=standing.flow) for job in spawn.jobs]
    numbers = [partition_of(job.queue) for job in jobs]
    yield from prepare(hub, jobs, numbers, spawn.job_id)
    # Jobs that an earlier attempt spawned may not be stored yet, and their keys must be found.
    yield from deliver_quietly(hub, [number])
    held = yield from _held(hub, jobs, numbers, number)
    if standing.is_awaited:
        yield from _refuse_circles(hub, _named(jobs))
    is_awaited = standing.is_awaited
    while True:
        split = _SplitSpawn(hub, spawn, number, _Fresh(jobs, numbers, held))
        reply = yield from split.store(is_awaited=is_awaited)
        if reply is not None:
            return reply
        is_awaited = True


def _held(
    hub: Hub, jobs: Sequence[NewJob], numbers: Sequence[int], own: int
) -> Plan[dict[int, Duplicate]]:
    """Return which keys of jobs for other partitions are held, or raise DuplicateJobError."""
    found: dict[int, Duplicate] = {}
    for number, places in by_partition(numbers).items():
        keyed = [at for at in places if jobs[at].key is not None]
        if number == own or not keyed:
            continue
        replies = yield from hub.ask(number, WRITE, holders, [jobs[at] for at in keyed])
        for at, reply in zip(keyed, replies, strict=True):
            if reply is not None:
                if reply.is_rejected:
                    raise reply.error
                found[at] = reply
    return found


def _refuse_circles(hub: Hub, job_ids: Sequence[str]) -> Plan[None]:
    """Raise DependencyError if what is spawned waits for a job that gathers, however indirectly.

    That one may wait for what is spawned, which no single partition can tell.
    """
    seen: set[str] = set()
    level = list(job_ids)
    while level:
        seen.update(level)
        live = [job for job in (yield from get(hub, level)) if job and not job.state.is_terminal]
        for job in live:
            if job.waits is not None and job.waits.gathers:
                raise DependencyError(
                    f"with partition=queue, what a job spawns into other partitions cannot wait "
                    f"for job {job.id}, which may itself wait for all that is spawned"
                )
        found = yield from dependencies(hub, [job.id for job in live])
        level = sorted({each.job_id for own in found for each in own} - seen)


class _Fresh:
    """The jobs of a spawn whose keys are free, numbered among themselves."""

    def __init__(
        self, jobs: Sequence[NewJob], numbers: Sequence[int], held: Mapping[int, Duplicate]
    ) -> None:
        self.held = held
        self.count = len(jobs)
        self.places = [at for at in range(len(jobs)) if at not in held]
        self.jobs = [self._moved(jobs[at]) for at in self.places]
        self.numbers = [numbers[at] for at in self.places]
        self.holders = {held[at].job_id: numbers[at] for at in held}

    def _moved(self, job: NewJob) -> NewJob:
        """Return a job that waits for holders by their ids."""
        if job.after is None:
            return job
        on = tuple(
            each
            if isinstance(each, str)
            else self.held[each].job_id
            if each in self.held
            else self.places.index(each)
            for each in job.after.on
        )
        return replace(job, after=replace(job.after, on=on))

    def in_order(self, fresh: Sequence[EnqueueReply]) -> tuple[EnqueueReply, ...]:
        """Return the replies of all jobs, given those of the fresh ones."""
        by_place = dict(zip(self.places, fresh, strict=True))
        return tuple(by_place.get(at) or self.held[at] for at in range(self.count))


class _Accepted(NamedTuple):
    """The reply of a partition to a spawn; *lost* if the lease is not valid."""

    lost: LeaseLost | None = None
    replies: Sequence[EnqueueReply] = ()
    followed: tuple[Moved, ...] = ()
    intent_id: str | None = None


class _SplitSpawn:
    """What one job spawns into several partitions."""

    def __init__(self, hub: Hub, spawn: Spawn, number: int, fresh: _Fresh) -> None:
        self._hub = hub
        self._spawn = spawn
        self._number = number
        self._fresh = fresh
        self._submission = SplitSubmission(hub, fresh.jobs, fresh.numbers, is_atomic=False)

    def store(self, *, is_awaited: bool) -> Plan[SpawnReply | None]:
        """Store the jobs; None if another job has begun to wait for the parent meanwhile."""
        number, submission = self._number, self._submission
        times = yield from read_times(self._hub, {number, *self._fresh.numbers})
        parts = yield from submission.parts(times)
        own = next((part for part in parts if part.number == number), Part(number=number))
        others = [part for part in parts if part.number != number]
        gathered: list[Mirror] = []
        if is_awaited:
            others, gathered = submission.report_all(others, number)
            gathered += yield from self._held_mirrors()
        deadline = times[number] + COMMIT_WITHIN_US
        accepted: _Accepted | None = yield from self._hub.ask(
            number, WRITE, _store, self._spawn, own, others, gathered, deadline, is_awaited
        )
        if accepted is None or accepted.lost is not None:
            return None if accepted is None else accepted.lost
        stored: Replies = {number: list(accepted.replies)} if accepted.replies else {}
        if accepted.intent_id is not None:
            replies = yield from submission.finish(
                number, accepted.intent_id, others, times, stored
            )
        else:
            replies = submission.replies(stored)
        spawned = self._fresh.in_order(replies)
        return Spawned(self._spawn.job_id.lower(), spawned, accepted.followed)

    def _held_mirrors(self) -> Plan[list[Mirror]]:
        """Return mirrors of what an earlier attempt has spawned elsewhere."""
        wanted = [
            (at, Wanted(job_id, gathering(job_id), self._number))
            for job_id, at in self._fresh.holders.items()
        ]
        return list((yield from subscribe(self._hub, wanted)).values())


def _store(
    env: Env,
    spawn: Spawn,
    own: Part,
    others: Sequence[Part],
    gathered: Sequence[Mirror],
    deadline: int,
    is_awaited: bool,
) -> Plan[_Accepted | None]:
    """Store a spawn where its job is, under its lease, with the intent for other partitions."""
    unit = PartUnit(env)
    ((_, kept),) = yield from leased(unit, [spawn])
    if kept is None:
        (lost,) = yield from with_states(unit, [LeaseLost(spawn.job_id)])
        return _Accepted(lost)
    if kept.document.children and not is_awaited:
        return None
    unit.until(deadline)
    yield from place(unit, [*own.mirrors, *gathered])
    placed = yield from accept(unit, own.jobs, atomic=True)
    known = yield from unit.by_id(wanted_ids([each.id for each in gathered]))
    spawned = [each.kept for each in placed if each.kept.queue not in HIDDEN]
    followed = yield from gather_spawned(unit, kept, [*spawned, *known.values()])
    intents = yield from store_plain(unit, [intent_job(others)] if others else [])
    yield from unit.commit()
    intent_id = intents[0].id if intents else None
    return _Accepted(None, [each.reply for each in placed], followed, intent_id)
