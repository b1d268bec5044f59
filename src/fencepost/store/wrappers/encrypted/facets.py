"""The facets of a store with encryption around it: one class each, which covers all of the facet.

The plan of an operation encrypts its arguments, runs the plan of the inner store, and decrypts the
reply, in one transaction. Declaration and arguments are the same, so that observers and listeners
see what they would see without encryption.

An operation that is declared to hold no content of users is passed on. One that may hold some is
written out here; a class that lacks one is refused when it is made (``interface.facet``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, get_type_hints

from msgspec.structs import replace

from fencepost.core.bounds import REPLAY_BATCH
from fencepost.core.encryption import Owner
from fencepost.core.events import NewEvent, SentEvent
from fencepost.core.job.job import Attempt, Dependency, Job, JobRecord, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement
from fencepost.core.job.replays import BulkReplay, counted
from fencepost.core.job.why import Situation
from fencepost.store.interface.control import (
    Advanced,
    ControlFacet,
    Edit,
    Edited,
    EditReply,
    Replay,
    ReplayReply,
    ReplaysFacet,
    as_replay,
)
from fencepost.store.interface.facet import Facet, planned
from fencepost.store.interface.queue import (
    EnqueueReply,
    QueueFacet,
    Save,
    SaveReply,
    SettleReply,
    Spawn,
    SpawnReply,
)
from fencepost.store.interface.reader import ReaderFacet
from fencepost.store.interface.records.crons import (
    CronDefinition,
    CronFire,
    CronList,
    CronsFacet,
    FireReply,
)
from fencepost.store.interface.records.events import EventReply, EventsFacet
from fencepost.store.interface.records.transfer import LoadReply, TransferFacet
from fencepost.store.interface.store import Facets, Store
from fencepost.store.plan import Plan, part_of
from fencepost.store.wrappers.encrypted.decrypt import Opener
from fencepost.store.wrappers.encrypted.encrypt import LeaseHolder, Sealer, owner_of
from fencepost.store.wrappers.encrypted.facet import Encrypting, opening


class EncryptedQueue(Encrypting[QueueFacet], QueueFacet):
    """Payloads, results, failures, checkpoints and progress."""

    @planned
    def enqueue(self, jobs: Sequence[NewJob], *, atomic: bool = False) -> Plan[list[EnqueueReply]]:
        new = self._new(jobs)
        storing = self._inner.enqueue(new.sealed, atomic=atomic).start()
        return (yield from new.compared((yield from new.stored(storing))))

    @planned
    def spawn(self, spawns: Sequence[Spawn]) -> Plan[list[SpawnReply]]:
        sealed = [replace(each, jobs=tuple(self._seal(each.jobs))) for each in spawns]
        return (yield from self._inner.spawn(sealed).start())

    claim = opening("claim", "jobs", Opener.open_claimed)

    @planned
    def settle(self, settlements: Sequence[Settlement]) -> Plan[list[SettleReply]]:
        holders = yield from self._holders(settlements)
        sealed = [
            self._sealer.seal_settlement(each, _holder(holders, each.job_id))
            for each in settlements
        ]
        return (yield from self._inner.settle(sealed).start())

    @planned
    def save(self, saves: Sequence[Save]) -> Plan[list[SaveReply]]:
        holders = yield from self._holders(saves)
        sealed = [self._sealer.seal_save(each, _holder(holders, each.job_id)) for each in saves]
        return (yield from self._inner.save(sealed).start())

    def _holders(self, writes: Iterable[Settlement | Save]) -> Plan[dict[str, LeaseHolder]]:
        """Return what writes are bound to, by the ids of jobs; read jobs that were not given.

        A lease that another attempt has taken over meanwhile is refused by its token.
        """
        holders: dict[str, LeaseHolder] = {}
        unknown: dict[str, None] = {}
        for write in writes:
            job = write.job
            if job is None:
                unknown[write.job_id.lower()] = None
            else:
                holders[write.job_id.lower()] = LeaseHolder(owner_of(job), job.lease.version)
        for found in (yield from self._get(unknown)).values():
            holders[found.id] = LeaseHolder(owner_of(found), found.lease_version)
        return holders


class EncryptedControl(Encrypting[ControlFacet], ControlFacet):
    """Payloads that are edited, or replayed as those of other jobs."""

    @planned
    def edit(self, edits: Sequence[Edit]) -> Plan[list[EditReply]]:
        """What content is bound to never changes, so it may be read before the job is locked."""
        with_content = [each.job_id.lower() for each in edits if _has_content(each)]
        jobs = yield from self._get(with_content)
        sealed = [self._seal_edit(each, jobs.get(each.job_id.lower())) for each in edits]
        replies = yield from self._inner.edit(sealed).start()
        return [
            replace(reply, job=self._opener.open_job(reply.job))
            if isinstance(reply, Edited)
            else reply
            for reply in replies
        ]

    def _seal_edit(self, edit: Edit, job: Job | None) -> Edit:
        if job is None:
            owner = Owner(edit.job_id.lower())  # of no job: the edit will be refused
        else:
            owner = owner_of(job)
        payload = edit.payload
        if payload is not None:
            payload = self._sealer.seal_payload(payload, owner)
        url = self._sealer.seal_callback(edit.callback_url, owner)
        return replace(edit, payload=payload, callback_url=url)

    @planned
    def replay(self, requests: Sequence[str | Replay]) -> Plan[list[ReplayReply]]:
        """A dead letter cannot be edited, so it may be read before it is locked."""
        replies: list[ReplayReply] = []
        for start in range(0, len(requests), REPLAY_BATCH):
            asked = [as_replay(request) for request in requests[start : start + REPLAY_BATCH]]
            jobs = yield from part_of(self._reader.get([request.job_id for request in asked]))
            pairs = zip(asked, jobs, strict=True)
            fresh = [self._for_fresh(request, job) for request, job in pairs]
            sealed = [each for each in fresh if isinstance(each, Replay)]
            done = iter((yield from part_of(self._inner.replay(sealed))))
            replies += [next(done) if isinstance(each, Replay) else each for each in fresh]
        return replies


class EncryptedReplays(Encrypting[ReplaysFacet], ReplaysFacet):
    """Patches, and payloads that are replayed as those of other jobs."""

    @planned
    def start(self, replay: BulkReplay) -> Plan[BulkReplay]:
        kept = yield from self._inner.start(self._sealer.seal_replay(replay)).start()
        return self._opener.open_replay(kept)

    list = opening("list", "replays", Opener.open_replay)

    @planned
    def advance(self, replay: BulkReplay, requests: Sequence[Replay] = ()) -> Plan[Advanced | None]:
        jobs = yield from part_of(self._reader.get([each.job_id for each in requests]))
        pairs = zip(requests, jobs, strict=True)
        fresh = [self._for_fresh(request, job) for request, job in pairs]
        sealed = [each for each in fresh if isinstance(each, Replay)]
        refused = counted(replay, (), {"sealed": len(fresh) - len(sealed)})
        given = self._sealer.seal_replay(refused if len(sealed) < len(fresh) else replay)
        result = yield from part_of(self._inner.advance(given, sealed))
        if result is None:
            return None
        return replace(result, replay=self._opener.open_replay(result.replay))


class EncryptedReader(Encrypting[ReaderFacet], ReaderFacet):
    """All that jobs hold."""

    @planned
    def get(self, job_ids: Sequence[str]) -> Plan[list[Job | None]]:
        jobs = yield from self._inner.get(job_ids).start()
        return [None if job is None else self._opener.open_job(job) for job in jobs]

    find = opening("find", "jobs", Opener.open_job)
    dead_letters = opening("dead_letters", "letters", Opener.open_letter)

    @planned
    def attempts(self, job_id: str) -> Plan[list[Attempt] | None]:
        attempts = yield from self._inner.attempts(job_id).start()
        if attempts is None or not any(each.failure for each in attempts):
            return attempts
        (job,) = yield from part_of(self._inner.get([job_id]))
        if job is None:
            return None  # pruned between the two looks
        owner = owner_of(job)
        return [self._opener.open_attempt(each, owner) for each in attempts]

    @planned
    def dependencies(
        self, job_ids: Sequence[str], *, with_results: bool = False
    ) -> Plan[list[list[Dependency]]]:
        """A result opens only with the job that it belongs to, so that job is read, too."""
        if not with_results:
            return (yield from self._inner.dependencies(job_ids).start())
        found = yield from part_of(self._inner.dependencies(job_ids))
        completed = [each.job_id for each in chain(*found) if each.state is State.COMPLETED]
        jobs = yield from self._get(completed)
        results = {job.id: self._opener.open_result(job) for job in jobs.values()}
        return [
            [
                replace(each, result=results.get(each.job_id))
                for each in of_job
                # One that is gone was pruned between the two looks.
                if each.state is not State.COMPLETED or each.job_id in results
            ]
            for of_job in found
        ]

    @planned
    def situation(self, job_id: str) -> Plan[Situation | None]:
        situation = yield from self._inner.situation(job_id).start()
        if situation is None:
            return None
        return replace(situation, job=self._opener.open_job(situation.job))


class EncryptedCrons(Encrypting[CronsFacet], CronsFacet):
    """The templates of crons."""

    @planned
    def declare(self, crons: Sequence[CronDefinition]) -> Plan[None]:
        found = yield from part_of(self._inner.list())
        known = {each.name: each.template for each in found.crons}
        sealed = [self._seal_cron(each, known.get(each.name)) for each in crons]
        return (yield from part_of(self._inner.declare(sealed)))

    def _seal_cron(self, cron: CronDefinition, known: NewJob | None) -> CronDefinition:
        """Keep the stored template if it is equal: encrypted again, it would look changed."""
        if self._opener.open_template(known, cron.name) == cron.template:
            assert known is not None
            return replace(cron, template=known)
        return replace(cron, template=self._sealer.seal_template(cron.template, cron.name))

    @planned
    def fire(self, fires: Sequence[CronFire]) -> Plan[list[FireReply]]:
        sealed = [replace(each, jobs=tuple(self._seal(each.jobs))) for each in fires]
        return (yield from self._inner.fire(sealed).start())

    @planned
    def list(self) -> Plan[CronList]:
        found = yield from self._inner.list().start()
        opened = [
            replace(each, template=self._opener.open_template(each.template, each.name))
            for each in found.crons
        ]
        return replace(found, crons=opened)


class EncryptedEvents(Encrypting[EventsFacet], EventsFacet):
    """Payloads of events, and of their handlers' jobs."""

    @planned
    def send(self, event: NewEvent, jobs: Sequence[NewJob]) -> Plan[EventReply]:
        sealed = self._sealer.seal_event(event, self._clock.new_id())
        new = self._new(jobs)
        reply = yield from new.stored(self._inner.send(sealed, new.sealed).start())
        compared = yield from new.compared(reply.jobs)
        return replace(reply, event=self._opener.open_event(reply.event), jobs=compared)

    @planned
    def load(self, events: Sequence[SentEvent]) -> Plan[int]:
        sealed = [self._sealer.seal_sent(each) for each in events]
        return (yield from self._inner.load(sealed).start())

    list = opening("list", "events", Opener.open_event)


class EncryptedTransfer(Encrypting[TransferFacet], TransferFacet):
    """Whole jobs."""

    dump = opening("dump", "records", Opener.open_record)

    @planned
    def load(self, records: Sequence[JobRecord]) -> Plan[list[LoadReply]]:
        sealed = [self._sealer.seal_record(record) for record in records]
        return (yield from self._inner.load(sealed).start())


def _holder(holders: Mapping[str, LeaseHolder], job_id: str) -> LeaseHolder:
    """Return what a write is bound to; if there is no such job, it will be refused anyway."""
    return holders.get(job_id.lower()) or LeaseHolder(Owner(job_id.lower()), 0)


def _has_content(edit: Edit) -> bool:
    return edit.payload is not None or bool(edit.callback_url)


_WRITTEN: list[type[Encrypting[Any]]] = [
    EncryptedQueue,
    EncryptedControl,
    EncryptedReplays,
    EncryptedReader,
    EncryptedCrons,
    EncryptedEvents,
    EncryptedTransfer,
]


def _class_for(interface: type[Facet]) -> type[Encrypting[Any]]:
    """Return the class around a facet; an empty one passes on what holds no content.

    If an operation with content is added to its facet, the empty class is refused at import.
    """
    for each in _WRITTEN:
        if issubclass(each, interface):
            return each
    return type(f"Encrypted{interface.__name__}", (Encrypting, interface), {})


_CLASSES = {name: _class_for(interface) for name, interface in get_type_hints(Facets).items()}


def facets(store: Store, sealer: Sealer, opener: Opener) -> Facets:
    """Return the operations of *store*, with encryption around them."""
    made: dict[str, Any] = {
        name: each(getattr(store.facets, name), store, sealer, opener)
        for name, each in _CLASSES.items()
    }
    return Facets(**made)
