"""Storing new jobs in partitions.

What concerns one partition is one operation of its store, as atomic and as fast as ever. Otherwise
a submission is taken apart:

- A job that waits for one of another partition waits for its mirror. The report is stored first,
  where the other job is, and keeps it; then the job is stored with the mirror, in one commit. If it
  takes longer than a report waits for its mirror, it is not stored.
- Jobs of several partitions become an intent: from the moment it is stored, all of them are
  accepted. Their parts are stored at once by the caller, or else by the next one to deliver.

Keys and concurrency keys are judged within a partition. A type that uses one is bound to the
partition of its first such job; its jobs with keys are refused in queues of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from fencepost.core.flows.dependencies import check_depth, check_places
from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import State, first_state
from fencepost.core.job.timeouts import check_due
from fencepost.core.values.names import RESERVED_TYPES, id_text
from fencepost.core.values.payload import differences
from fencepost.errors import DependencyError, InvalidJobError, StoreError, UnknownDependencyError
from fencepost.store.interface.queue import Duplicate, Enqueued, EnqueueReply
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.document import body_of
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env
from fencepost.store.redis.jobs.enqueue import find_holder
from fencepost.store.redis.partitions.delivery import (
    Replies,
    deliver_quietly,
    read_times,
    store_parts,
)
from fencepost.store.redis.partitions.hub import HOME, LOOK, WRITE, Hub, bind
from fencepost.store.redis.partitions.mirrors import Mirror, standing
from fencepost.store.redis.partitions.numbers import (
    by_partition,
    gathering,
    is_gathering,
    is_stamped,
    partition_of,
    stamped,
)
from fencepost.store.redis.partitions.outbox import (
    COMMIT_WITHIN_US,
    Part,
    delete_by_id,
    intent_job,
    put,
    report_job,
)


def enqueue(hub: Hub, jobs: Sequence[NewJob], *, atomic: bool = False) -> Plan[list[EnqueueReply]]:
    """Store *jobs*: those of one partition as one operation, others as an intent."""
    if not jobs:
        return []
    numbers = [partition_of(job.queue) for job in jobs]
    yield from prepare(hub, jobs, numbers)
    first = numbers[0]
    is_whole = numbers.count(first) == len(numbers)
    if is_whole and all(job.after is None for job in jobs):
        store = hub.at(first)
        return (yield from hub.on(first, store.queue.enqueue(jobs, atomic=atomic)))
    return (yield from SplitSubmission(hub, jobs, numbers, is_atomic=atomic).store())


def prepare(hub: Hub, jobs: Sequence[NewJob], numbers: Sequence[int]) -> Plan[None]:
    """Found the partitions of jobs, bind types, and note ids that a caller has chosen."""
    yield from hub.found(numbers)
    pairs = list(zip(jobs, numbers, strict=True))
    yield from bind_types(hub, [(job.type, number) for job, number in pairs if _is_bound(job)])
    strays = {
        id_text(job.id): number
        for job, number in pairs
        if job.id is not None and not is_stamped(job.id, number)
    }
    yield from hub.note_strays(strays)


def _is_bound(job: NewJob) -> bool:
    """Tell whether a job has what is judged within one partition."""
    has_any = job.key is not None or job.concurrency_key is not None
    return has_any and not job.type.startswith(RESERVED_TYPES)


def bind_types(hub: Hub, pairs: Sequence[tuple[str, int]]) -> Plan[None]:
    """Bind types to partitions, or raise InvalidJobError if one is bound to another."""
    first: dict[str, int] = {}
    for type_, number in pairs:
        first.setdefault(type_, number)
    lacking = {type_: number for type_, number in first.items() if type_ not in hub.bound}
    if lacking:
        hub.bound |= yield from hub.ask(HOME, WRITE, bind, lacking)
    for type_, number in pairs:
        if hub.bound[type_] != number:
            raise InvalidJobError(
                f"with partition=queue, jobs of type {type_!r} that have a key or a concurrency "
                f"key must all be in queues of one partition, and some were submitted to another; "
                f"give them one queue, or leave the key out"
            )


class _New(NamedTuple):
    """A new job of a submission to several partitions."""

    id: str
    number: int
    depth: int
    job: NewJob


class SplitSubmission:
    """Jobs that concern several partitions."""

    def __init__(
        self, hub: Hub, jobs: Sequence[NewJob], numbers: Sequence[int], *, is_atomic: bool
    ) -> None:
        self._hub = hub
        self._jobs = jobs
        self._numbers = numbers
        self._is_atomic = is_atomic
        self._places = by_partition(numbers)
        self._new: list[_New] = []
        self._known: dict[str, tuple[int, Mirror]] = {}
        """Jobs that were there before, and their partitions."""

    def store(self) -> Plan[list[EnqueueReply]]:
        """Store the jobs; return a reply each."""
        check_places(job.after for job in self._jobs)
        if len(self._places) == 1 and not (yield from self._has_foreign()):
            store = self._hub.at(self._numbers[0])
            enqueue_ = store.queue.enqueue(self._jobs, atomic=self._is_atomic)
            return (yield from self._hub.on(self._numbers[0], enqueue_))
        if len(self._places) > 1:
            yield from self.refuse_rejected()
        times = yield from read_times(self._hub, self._places)
        parts = yield from self.parts(times)
        if len(parts) == 1:
            (part,) = parts
            deadline = times[part.number] + COMMIT_WITHIN_US
            stored = yield from self._hub.ask(part.number, WRITE, put, part, None, deadline)
            return list(stored[: len(self._jobs)])
        source = self._numbers[0]
        intent = intent_job(parts)
        store = self._hub.at(source)
        (reply,) = yield from self._hub.on(source, store.queue.enqueue([intent]))
        return (yield from self.finish(source, reply.job_id, parts, times))

    def finish(
        self, source: int, intent_id: str, parts: list[Part], times: dict[int, int]
    ) -> Plan[list[EnqueueReply]]:
        """Store the parts of an intent that was stored, and delete it; all of it may come later."""
        stored: Replies = {}
        try:
            stored = yield from store_parts(self._hub, source, intent_id, parts, times)
            yield from self._hub.ask(source, WRITE, delete_by_id, [intent_id])
        except StoreError:
            pass  # it is accepted: who delivers next stores what is missing
        yield from deliver_quietly(self._hub, stored)
        return self.replies(stored)

    def replies(self, stored: Replies) -> list[EnqueueReply]:
        """Return a reply for each job: what its partition said, or will say."""
        found: list[EnqueueReply] = [
            Enqueued(each.id, each.job.type, _first_state(each.job)) for each in self._new
        ]
        for number, replies in stored.items():
            for place, reply in zip(self._places[number], replies or (), strict=False):
                found[place] = reply
        return found

    # What is looked up before.

    def _has_foreign(self) -> Plan[bool]:
        """Tell whether a job waits for one of another partition."""
        named = self._named()
        numbers = yield from self._hub.whereabouts(named)
        return any(number != self._numbers[0] for number in numbers)

    def _named(self) -> list[str]:
        names = [on for job in self._jobs if job.after for on in job.after.on]
        return list(dict.fromkeys(on.lower() for on in names if isinstance(on, str)))

    def _look_up(self) -> Plan[None]:
        """Look at the jobs that are waited for, or raise UnknownDependencyError."""
        named = self._named()
        numbers = yield from self._hub.whereabouts(named)
        for number, places in by_partition(numbers).items():
            asked = [named[place] for place in places]
            found = yield from self._hub.ask(number, LOOK, standing, asked)
            for job_id, mirror in zip(asked, found, strict=True):
                if mirror is None:
                    raise UnknownDependencyError(job_id)
                self._known[job_id] = (number, mirror)

    def refuse_rejected(self) -> Plan[None]:
        """Raise DuplicateJobError if a key is held whose submission asks to be refused.

        The keys of several partitions cannot be taken at once: a job whose key is taken a moment
        later is left out when its part is stored, and those that wait for it wait for the holder.
        """
        if not self._is_atomic:
            return
        for number, places in self._places.items():
            keyed = [self._jobs[place] for place in places if self._jobs[place].key is not None]
            if keyed:
                held = yield from self._hub.ask(number, LOOK, holders, keyed)
                for reply in held:
                    if reply.is_rejected:
                        raise reply.error

    # Taking it apart.

    def parts(self, times: Mapping[int, int]) -> Plan[list[Part]]:
        """Return what each partition is to store; reports about jobs that are there are stored.

        Whatever makes a job invalid is found here: what was accepted must be stored.
        """
        for job, number in zip(self._jobs, self._numbers, strict=True):
            check_due(job, times[number])
        yield from self._look_up()
        self._name()
        wanted = yield from self._subscribe()
        found = []
        for number, places in self._places.items():
            jobs = [self._rewritten(place) for place in places]
            reports = self._reports(number, places)
            found.append(
                Part(
                    number=number,
                    jobs=[*jobs, *reports],
                    mirrors=[*wanted.get(number, ()), *self._mirrors(places)],
                    is_atomic=self._is_atomic and len(self._places) == 1,
                )
            )
        return found

    def _name(self) -> None:
        """Give every job an id, and find out how deep it is."""
        fresh = self._hub.clock.new_ids(len(self._jobs))
        for job, number, id_ in zip(self._jobs, self._numbers, fresh, strict=True):
            own = job.id or stamped(id_, number)
            depth = 1
            for on in job.after.on if job.after is not None else ():
                depth = check_depth(max(depth, 1 + self._depth(on)))
            self._new.append(_New(id_text(own), number, depth, replace(job, id=own)))

    def _depth(self, on: str | int) -> int:
        if isinstance(on, int):
            return self._new[on].depth
        return self._known[on.lower()][1].depth

    def _foreign(self, place: int) -> Iterable[str | int]:
        """Return those dependencies of a job that are in other partitions."""
        own = self._new[place]
        after = own.job.after
        return [on for on in (after.on if after else ()) if self._number(on) != own.number]

    def _kept(self, place: int) -> Iterable[str]:
        """Return those dependencies of a job in its own partition that may be pruned before it is
        stored: a report keeps them, and a mirror is in their place if they are gone."""
        own = self._new[place]
        if len(self._places) == 1 or own.job.after is None:
            return []
        named = [on.lower() for on in own.job.after.on if isinstance(on, str)]
        return [on for on in named if self._known[on][0] == own.number]

    def _mirror_id(self, place: int, on: str | int) -> str:
        """Return the id under which a job waits for one of another partition."""
        after = self._new[place].job.after
        job_id = self._new[on].id if isinstance(on, int) else on.lower()
        if after is None or not after.gathers:
            return job_id
        if is_gathering(job_id):
            raise DependencyError(
                f"job {job_id} was moved here from another store; with partition=queue, no job of "
                f"another partition can gather what it spawns"
            )
        return gathering(job_id)

    def _number(self, on: str | int) -> int:
        return self._numbers[on] if isinstance(on, int) else self._known[on.lower()][0]

    def _rewritten(self, place: int) -> NewJob:
        """Return a job as its partition is given it: places count within its part."""
        job = self._new[place].job
        if job.after is None:
            return job
        own, foreign = self._places[self._numbers[place]], set(self._foreign(place))
        on = tuple(
            self._mirror_id(place, each)
            if each in foreign
            else own.index(each)
            if isinstance(each, int)
            else each
            for each in job.after.on
        )
        return replace(job, after=replace(job.after, on=on))

    def _subscribe(self) -> Plan[dict[int, list[Mirror]]]:
        """Store reports about jobs that are there; return their mirrors, by partition."""
        wanted: dict[tuple[str, str, int], None] = {}
        for place, number in enumerate(self._numbers):
            for on in self._foreign(place):
                if isinstance(on, str):
                    wanted[on.lower(), self._mirror_id(place, on), number] = None
            for on in self._kept(place):
                wanted[on, on, number] = None
        mirrors: dict[int, list[Mirror]] = {}
        live = [at for at in wanted if not self._known[at[0]][1].state.is_terminal]
        yield from subscribe(self._hub, [(self._known[at[0]][0], *at) for at in live])
        for job_id, mirror_id, number in wanted:
            mirror = replace(self._known[job_id][1], id=mirror_id)
            mirrors.setdefault(number, []).append(mirror)
        return mirrors

    def _mirrors(self, places: Sequence[int]) -> list[Mirror]:
        """Return the mirrors of new jobs for which those at *places* wait."""
        wanted = {
            self._mirror_id(place, on): self._new[on]
            for place in places
            for on in self._foreign(place)
            if isinstance(on, int)
        }
        return [
            Mirror(
                id=mirror_id,
                type=new.job.type,
                node=new.job.node,
                priority=new.job.priority,
                depth=new.depth,
            )
            for mirror_id, new in wanted.items()
        ]

    def _reports(self, number: int, places: Sequence[int]) -> list[NewJob]:
        """Return the reports about new jobs of a partition, for the others that wait for them."""
        wanted: dict[tuple[int, str, int], None] = {}
        for place, other in enumerate(self._numbers):
            if other != number:
                for on in self._foreign(place):
                    if isinstance(on, int) and self._numbers[on] == number:
                        wanted[on, self._mirror_id(place, on), other] = None
        return [report_job(places.index(on), mirror_id, other) for on, mirror_id, other in wanted]


def subscribe(hub: Hub, wanted: Sequence[tuple[int, str, str, int]]) -> Plan[None]:
    """Store reports: of a job in a partition, under an id, for another partition.

    One that is there is kept.
    """
    by_number: dict[int, list[NewJob]] = {}
    for number, job_id, mirror_id, target in wanted:
        by_number.setdefault(number, []).append(report_job(job_id, mirror_id, target))
    for number, reports in by_number.items():
        yield from hub.on(number, hub.at(number).queue.enqueue(reports))


def _first_state(job: NewJob) -> State:
    if job.after is not None or job.concurrency_key is not None:
        return State.PENDING
    return first_state(is_due=job.run_at is None and job.delay <= 0)


def holders(env: Env, jobs: Sequence[NewJob]) -> Plan[list[Duplicate]]:
    """Return which keys of new jobs are held here, and by which jobs."""
    unit = Unit(env)
    yield from unit.start()
    found: list[Duplicate] = []
    for job in jobs:
        assert job.key is not None
        kept = yield from find_holder(unit, job.type, job.key.value)
        if kept is not None:
            data = kept.document.payload
            if data is None:
                data = yield from unit.large_payload(kept)
            differs = differences(body_of(kept.document.payload_encoding, data), job.payload)
            is_rejected, key = job.key.refuses(kept.queue), job.key.value
            found.append(Duplicate(kept.id, job.type, key, kept.state, is_rejected, differs))
    return found
