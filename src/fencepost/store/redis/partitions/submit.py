"""Storing new jobs in partitions.

Jobs of one partition are one operation of its store, as atomic and as fast as ever. Other
submissions are split:

- A job that waits for a job of another partition waits for a mirror of it. A report is stored with
  that other job first, and keeps it from being pruned; then the new job and the mirror are stored,
  in one commit. If that takes longer than a report waits for its mirror, the job is not stored.
- Jobs of several partitions become an intent: once it is stored, all of them are accepted. The
  caller stores the parts at once; if it cannot, the next process that delivers does.

Keys and concurrency keys are checked within one partition. A type that uses them is bound to the
partition of its first such job, and its jobs with keys are refused in queues of other partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from fencepost.core.flows.dependencies import check_depth, check_places
from fencepost.core.job.job import NewJob
from fencepost.core.job.policy import Priority
from fencepost.core.job.timeouts import check_due
from fencepost.core.values.names import id_text
from fencepost.errors import (
    DependencyError,
    StoreError,
    UnknownDependencyError,
    UnknownOutcomeError,
)
from fencepost.store.interface.queue import Duplicate, Enqueued, EnqueueReply
from fencepost.store.plan import Plan
from fencepost.store.redis.partitions.hub import WRITE, Hub
from fencepost.store.redis.partitions.keys import fates, first_state_of, holders, prepare, rivals
from fencepost.store.redis.partitions.numbers import (
    by_partition,
    gathering,
    is_gathering,
    partition_of,
    stamped,
)
from fencepost.store.redis.partitions.outbox.delivery import (
    Replies,
    deliver_quietly,
    read_times,
    store_parts,
    subscribe,
)
from fencepost.store.redis.partitions.outbox.entries import (
    COMMIT_WITHIN_US,
    Part,
    delete_by_id,
    intent_job,
    put,
    report_job,
)
from fencepost.store.redis.partitions.outbox.mirrors import Mirror, standing
from fencepost.store.redis.partitions.outbox.news import Wanted


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


class _New(NamedTuple):
    """A new job of a submission to several partitions."""

    id: str
    number: int
    depth: int
    priority: Priority
    """Its own, or that of the most urgent for which it waits."""
    job: NewJob


def _mirror(new: _New, id: str) -> Mirror:
    """Return the mirror, for another partition, of a job that is about to be stored."""
    job = new.job
    return Mirror(id=id, type=job.type, node=job.node, priority=new.priority, depth=new.depth)


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
        fresh = zip(jobs, numbers, hub.clock.new_ids(len(jobs)), strict=True)
        self.ids = [job.id or stamped(id_, number) for job, number, id_ in fresh]
        """The ids of the new jobs."""
        self._is_open = False
        """Whether a partition is away, so that it is open which keys were held there."""
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
        replies = yield from self.finish(source, reply.job_id, parts, times)
        if self._is_open:
            raise UnknownOutcomeError(
                "the jobs were accepted, but a partition is not available; its jobs are stored "
                "when it is back; repeat it with the same keys to learn which jobs have them"
            )
        return replies

    def finish(
        self,
        source: int,
        intent_id: str,
        parts: list[Part],
        times: dict[int, int],
        before: Replies | None = None,
    ) -> Plan[list[EnqueueReply]]:
        """Store the parts of an intent that was stored, and delete it; all of it may come later.

        What partitions answered *before* counts too.
        """
        stored: Replies = {}
        try:
            stored = yield from store_parts(self._hub, source, intent_id, parts, times)
            yield from self._hub.ask(source, WRITE, delete_by_id, [intent_id])
        except StoreError:
            pass  # it is accepted: the next delivery stores what is missing
        yield from deliver_quietly(self._hub, stored)
        return self.replies((yield from self._completed({**(before or {}), **stored})))

    def _completed(self, stored: Replies) -> Plan[Replies]:
        """Add the replies to the parts that another process has stored."""
        found = dict(stored)
        for number, places in self._places.items():
            if found.get(number) is None:
                jobs = [self._new[place].job for place in places]
                try:
                    replies = yield from self._hub.ask(number, WRITE, fates, jobs)
                except StoreError:
                    replies = [None]  # it comes later
                found[number] = None if None in replies else replies
                self._is_open |= None in replies and any(job.key is not None for job in jobs)
        return found

    def replies(self, stored: Replies) -> list[EnqueueReply]:
        """Return a reply for each job: that of its partition, or the one that it will give."""
        found: list[EnqueueReply] = [
            Enqueued(each.id, each.job.type, first_state_of(each.job)) for each in self._new
        ]
        for number, replies in stored.items():
            for place, reply in zip(self._places[number], replies or (), strict=False):
                found[place] = reply
        return found

    # What is looked up before.

    def _has_foreign(self) -> Plan[bool]:
        """Tell whether any job waits for a job of another partition."""
        named = self._named()
        numbers = yield from self._hub.whereabouts(named)
        return any(number != self._numbers[0] for number in numbers)

    def _named(self) -> list[str]:
        names = [on for job in self._jobs if job.after for on in job.after.on]
        return list(dict.fromkeys(on.lower() for on in names if isinstance(on, str)))

    def _look_up(self) -> Plan[None]:
        """Read the stored jobs that these wait for, or raise UnknownDependencyError."""
        named = self._named()
        numbers = yield from self._hub.whereabouts(named)
        for number, places in by_partition(numbers).items():
            asked = [named[place] for place in places]
            # Read as a write is: no job may start because of an end that a failover could undo.
            found = yield from self._hub.ask(number, WRITE, standing, asked)
            for job_id, mirror in zip(asked, found, strict=True):
                if mirror is None:
                    raise UnknownDependencyError(job_id)
                self._known[job_id] = (number, mirror)

    def refuse_rejected(self) -> Plan[None]:
        """Raise DuplicateJobError if a key is held whose submission asks to be refused.

        The keys of several partitions cannot be taken at once: a job whose key is taken a moment
        later is left out when its part is stored, and those that wait for it wait for the holder.
        """
        if self._is_atomic:
            yield from self.held()

    def held(self) -> Plan[dict[int, Duplicate]]:
        """Return the jobs whose key is held, by a stored job or by an earlier one of these.

        Raises DuplicateJobError for the first whose submission asks to be refused.
        """
        found: dict[int, Duplicate] = {}
        for number, places in self._places.items():
            keyed = [place for place in places if self._jobs[place].key is not None]
            if keyed:
                asked = [self._jobs[place] for place in keyed]
                replies = yield from self._hub.ask(number, WRITE, holders, asked)
                pairs = zip(keyed, replies, strict=True)
                found |= {place: reply for place, reply in pairs if reply is not None}
        found = dict(sorted({**rivals(self._jobs, self.ids, found), **found}.items()))
        for reply in found.values():
            if reply.is_rejected:
                raise reply.error
        return found

    def report_all(self, parts: Sequence[Part], to: int) -> tuple[list[Part], list[Mirror]]:
        """Return parts that report the ends of their new jobs to a partition, with what those
        spawn, and the mirrors that this one needs."""
        reporting: list[Part] = []
        mirrors: list[Mirror] = []
        for part in parts:
            places = self._places[part.number]
            own = [_mirror(self._new[place], gathering(self._new[place].id)) for place in places]
            reports = [report_job(at, mirror.id, to) for at, mirror in enumerate(own)]
            reporting.append(replace(part, jobs=[*part.jobs, *reports]))
            mirrors += own
        return reporting, mirrors

    # Taking it apart.

    def parts(self, times: Mapping[int, int]) -> Plan[list[Part]]:
        """Return the part of each partition; reports about stored jobs are written on the way.

        Every reason to refuse a job is found here, because an accepted job must be stored.
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
        """Give every job its id, its depth in the graph and its inherited priority."""
        for job, number, own in zip(self._jobs, self._numbers, self.ids, strict=True):
            depth, priority = 1, job.priority
            for on in job.after.on if job.after is not None else ():
                before = self._new[on] if isinstance(on, int) else self._known[on.lower()][1]
                depth = check_depth(max(depth, 1 + before.depth))
                priority = min(priority, before.priority)
            new = _New(id_text(own), number, depth, priority, replace(job, id=own))
            self._new.append(new)

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
        """Return a job as its partition gets it, with places counted within that part."""
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
        live = [at for at in wanted if not self._known[at[0]][1].state.is_terminal]
        known = yield from subscribe(
            self._hub, [(self._known[at[0]][0], Wanted(*at)) for at in live]
        )
        mirrors: dict[int, list[Mirror]] = {}
        for job_id, mirror_id, number in wanted:
            mirror = known.get((mirror_id, number)) or self._known[job_id][1]
            mirrors.setdefault(number, []).append(replace(mirror, id=mirror_id))
        return mirrors

    def _mirrors(self, places: Sequence[int]) -> list[Mirror]:
        """Return the mirrors of new jobs for which those at *places* wait."""
        wanted = {
            self._mirror_id(place, on): self._new[on]
            for place in places
            for on in self._foreign(place)
            if isinstance(on, int)
        }
        return [_mirror(new, mirror_id) for mirror_id, new in wanted.items()]

    def _reports(self, number: int, places: Sequence[int]) -> list[NewJob]:
        """Return the reports about new jobs of a partition, for the others that wait for them."""
        wanted: dict[tuple[int, str, int], None] = {}
        for place, other in enumerate(self._numbers):
            if other != number:
                for on in self._foreign(place):
                    if isinstance(on, int) and self._numbers[on] == number:
                        wanted[on, self._mirror_id(place, on), other] = None
        return [report_job(places.index(on), mirror_id, other) for on, mirror_id, other in wanted]
