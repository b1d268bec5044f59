"""The facets of a store with encryption around it: one class each, which covers all of the facet.

An operation here is one of the store inside: its plan encrypts what it is given, runs the other's
plan, and decrypts what comes back, in one transaction. Declaration and arguments are the same, so
that observers and listeners see what they would see without encryption.

An operation that is declared to hold no content of users is passed on. One that may hold some is
written out here; a class that lacks one is refused when it is made (``facet``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from fencepost.core.bounds import REPLAY_BATCH
from fencepost.core.crypto.envelope import Owner
from fencepost.core.events import NewEvent, SentEvent
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Attempt, Dependency, Encoding, Job, JobRecord, NewJob
from fencepost.core.job.lifecycle import DEAD, State
from fencepost.core.job.outcome import Settlement
from fencepost.core.job.why import Situation
from fencepost.core.values.ids import id_text
from fencepost.errors import EncryptionError
from fencepost.store.interface.access import AccessFacet
from fencepost.store.interface.audit import AuditFacet
from fencepost.store.interface.cluster import ClusterFacet
from fencepost.store.interface.control import (
    ControlFacet,
    Edit,
    Edited,
    EditReply,
    Replay,
    ReplayReply,
    Sealed,
    as_replay,
)
from fencepost.store.interface.crons import (
    CronDefinition,
    CronFire,
    CronList,
    CronsFacet,
    FireReply,
)
from fencepost.store.interface.events import EventPage, EventReply, EventsFacet
from fencepost.store.interface.facet import planned
from fencepost.store.interface.joins import JoinsFacet
from fencepost.store.interface.overview import OverviewFacet
from fencepost.store.interface.queue import (
    Claim,
    ClaimRequest,
    QueueFacet,
    Save,
    SaveReply,
    SettleReply,
    Spawn,
    SpawnReply,
)
from fencepost.store.interface.reader import DeadLetterPage, JobPage, ReaderFacet
from fencepost.store.interface.replies import EnqueueReply
from fencepost.store.interface.settings import SettingsFacet
from fencepost.store.interface.store import Facets, Store
from fencepost.store.interface.transfer import Dump, LoadReply, TransferFacet
from fencepost.store.interface.upkeep import UpkeepFacet
from fencepost.store.plan import Plan, part_of
from fencepost.store.wrappers.encrypted.decrypt import Opener
from fencepost.store.wrappers.encrypted.encrypt import LeaseHolder, Sealer, owner_of
from fencepost.store.wrappers.encrypted.facet import Encrypting


def facets(store: Store, sealer: Sealer, opener: Opener) -> Facets:
    """Return the operations of *store*, with encryption around them."""
    inner = store.facets
    return Facets(
        queue=EncryptedQueue(inner.queue, store, sealer, opener),
        control=EncryptedControl(inner.control, store, sealer, opener),
        reader=EncryptedReader(inner.reader, store, sealer, opener),
        settings=EncryptedSettings(inner.settings, store, sealer, opener),
        upkeep=EncryptedUpkeep(inner.upkeep, store, sealer, opener),
        crons=EncryptedCrons(inner.crons, store, sealer, opener),
        access=EncryptedAccess(inner.access, store, sealer, opener),
        audit=EncryptedAudit(inner.audit, store, sealer, opener),
        cluster=EncryptedCluster(inner.cluster, store, sealer, opener),
        overview=EncryptedOverview(inner.overview, store, sealer, opener),
        events=EncryptedEvents(inner.events, store, sealer, opener),
        transfer=EncryptedTransfer(inner.transfer, store, sealer, opener),
        joins=EncryptedJoins(inner.joins, store, sealer, opener),
    )


class EncryptedQueue(Encrypting[QueueFacet], QueueFacet):
    """Payloads, results, failures, checkpoints and progress."""

    @planned
    def enqueue(self, jobs: Sequence[NewJob], *, atomic: bool = False) -> Plan[list[EnqueueReply]]:
        return (yield from self._inner.enqueue(self._seal(jobs), atomic=atomic).start())

    @planned
    def spawn(self, spawns: Sequence[Spawn]) -> Plan[list[SpawnReply]]:
        sealed = [replace(each, jobs=tuple(self._seal(each.jobs))) for each in spawns]
        return (yield from self._inner.spawn(sealed).start())

    @planned
    def claim(self, request: ClaimRequest) -> Plan[Claim]:
        claim = yield from self._inner.claim(request).start()
        return replace(claim, jobs=[self._opener.open_claimed(job) for job in claim.jobs])

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
        """Return what writes are bound to, by the ids of jobs, looking for what was not given.

        A lease that has passed to another attempt meanwhile is refused by its token.
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
        """What is bound of a job never changes, so it may be read before the job is grasped."""
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
            owner = Owner(edit.job_id.lower())  # of nobody: the edit will be refused
        else:
            owner = owner_of(job)
        payload = edit.payload
        if payload is not None:
            payload = self._sealer.seal_payload(payload, owner)
        url = self._sealer.seal_callback(edit.callback_url, owner)
        return replace(edit, payload=payload, callback_url=url)

    @planned
    def replay(self, requests: Sequence[str | Replay]) -> Plan[list[ReplayReply]]:
        """A dead letter cannot be edited, so it may be read before it is grasped."""
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

    def _for_fresh(self, request: Replay, dead: Job | None) -> Replay | Sealed:
        """Give *request* the content of *dead*, encrypted for the fresh job, if it can be read."""
        if dead is None:
            return request
        fresh = request.id or self._clock.new_id()
        try:
            payload = request.payload or self._opener.open_payload(dead)
            url = request.callback_url or self._opener.open_callback(dead)
        except EncryptionError:
            # A store does not copy what is encrypted; what is not, it would.
            is_copied = dead.payload.encoding is not Encoding.ENCRYPTED and dead.state in DEAD
            return Sealed(dead.id) if is_copied else Replay(request.job_id)
        owner = owner_of(dead)._replace(id=id_text(fresh))
        return Replay(
            request.job_id,
            fresh,
            self._sealer.seal_payload(payload, owner),
            self._sealer.seal_callback(url, owner),
        )


class EncryptedReader(Encrypting[ReaderFacet], ReaderFacet):
    """All that jobs hold."""

    @planned
    def get(self, job_ids: Sequence[str]) -> Plan[list[Job | None]]:
        jobs = yield from self._inner.get(job_ids).start()
        return [None if job is None else self._opener.open_job(job) for job in jobs]

    @planned
    def find(self, filter: JobFilter, page: PageRequest) -> Plan[JobPage]:
        found = yield from self._inner.find(filter, page).start()
        return replace(found, jobs=[self._opener.open_job(job) for job in found.jobs])

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
        """A result opens only for the job that it belongs to, so that is read with it."""
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

    @planned
    def dead_letters(
        self, type: str | None, page: PageRequest, queues: Sequence[str] | None = None
    ) -> Plan[DeadLetterPage]:
        found = yield from self._inner.dead_letters(type, page, queues).start()
        return replace(found, letters=[self._opener.open_letter(each) for each in found.letters])


class EncryptedSettings(Encrypting[SettingsFacet], SettingsFacet):
    """Names of queues and types, and numbers."""


class EncryptedUpkeep(Encrypting[UpkeepFacet], UpkeepFacet):
    """Ids and states."""


class EncryptedCrons(Encrypting[CronsFacet], CronsFacet):
    """The templates of crons."""

    @planned
    def declare(self, crons: Sequence[CronDefinition]) -> Plan[None]:
        found = yield from part_of(self._inner.list())
        known = {each.name: each.template for each in found.crons}
        sealed = [self._seal_cron(each, known.get(each.name)) for each in crons]
        return (yield from part_of(self._inner.declare(sealed)))

    def _seal_cron(self, cron: CronDefinition, known: NewJob | None) -> CronDefinition:
        """Keep what is written down if it says the same: encrypted anew, it would look changed."""
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


class EncryptedAccess(Encrypting[AccessFacet], AccessFacet):
    """Hashes of tokens."""


class EncryptedAudit(Encrypting[AuditFacet], AuditFacet):
    """Who did what, by names."""


class EncryptedCluster(Encrypting[ClusterFacet], ClusterFacet):
    """Workers and terms."""


class EncryptedOverview(Encrypting[OverviewFacet], OverviewFacet):
    """Names, numbers, ids, states and times."""


class EncryptedEvents(Encrypting[EventsFacet], EventsFacet):
    """Payloads of events, and of their handlers' jobs."""

    @planned
    def send(self, event: NewEvent, jobs: Sequence[NewJob]) -> Plan[EventReply]:
        sealed = self._sealer.seal_event(event, self._clock.new_id())
        reply = yield from self._inner.send(sealed, self._seal(jobs)).start()
        return replace(reply, event=self._opener.open_event(reply.event))

    @planned
    def load(self, events: Sequence[SentEvent]) -> Plan[int]:
        sealed = [self._sealer.seal_sent(each) for each in events]
        return (yield from self._inner.load(sealed).start())

    @planned
    def list(self, name: str | None, page: PageRequest) -> Plan[EventPage]:
        found = yield from self._inner.list(name, page).start()
        return replace(found, events=[self._opener.open_event(each) for each in found.events])


class EncryptedTransfer(Encrypting[TransferFacet], TransferFacet):
    """Whole jobs."""

    @planned
    def dump(self, after: int, limit: int) -> Plan[Dump]:
        dump = yield from self._inner.dump(after, limit).start()
        return replace(dump, records=[self._opener.open_record(each) for each in dump.records])

    @planned
    def load(self, records: Sequence[JobRecord]) -> Plan[list[LoadReply]]:
        sealed = [self._sealer.seal_record(record) for record in records]
        return (yield from self._inner.load(sealed).start())


class EncryptedJoins(Encrypting[JoinsFacet], JoinsFacet):
    """Tokens of leases, and names of transactions."""


def _holder(holders: Mapping[str, LeaseHolder], job_id: str) -> LeaseHolder:
    """Return what a write is bound to; to nothing if there is no such job: it will be refused."""
    return holders.get(job_id.lower()) or LeaseHolder(Owner(job_id.lower()), 0)


def _has_content(edit: Edit) -> bool:
    return edit.payload is not None or bool(edit.callback_url)
