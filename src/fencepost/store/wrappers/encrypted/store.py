"""A store with encryption around it, so that no engine contains any.

An operation of this store is one of the store inside: its plan encrypts what it is given, runs the
other's plan, and decrypts what comes back, in one transaction. Name, effect and arguments are the
same, so that whoever observes operations or tells the news sees what they would see without.

Every operation of the protocol is named here: those with content in them are methods, the others
are listed in ``store.contentless``. One that is neither is refused when the class is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from fencepost.core.bounds import PAGE_MAX, REPLAY_BATCH
from fencepost.core.crypto.envelope import Owner
from fencepost.core.crypto.keyring import KeyRing
from fencepost.core.crypto.plain import REFUSE, Plain
from fencepost.core.events import NewEvent, SentEvent
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Attempt, Dependency, Encoding, Job, JobRecord, NewJob
from fencepost.core.job.lifecycle import DEAD, State
from fencepost.core.job.outcome import Settlement
from fencepost.core.job.why import Situation
from fencepost.core.values.ids import id_text
from fencepost.errors import EncryptionError
from fencepost.store.interface.crons import CronDefinition, CronFire, CronList, FireReply
from fencepost.store.interface.replies import (
    Claim,
    DeadLetterPage,
    Dump,
    Edited,
    EditReply,
    EnqueueReply,
    EventPage,
    EventReply,
    JobPage,
    LoadReply,
    ReplayReply,
    SaveReply,
    Sealed,
    SettleReply,
    SpawnReply,
)
from fencepost.store.interface.requests import ClaimRequest, Edit, Replay, Save, Spawn, as_replay
from fencepost.store.interface.store import Store
from fencepost.store.plan import Effect, Operation, Plan, operation, part_of
from fencepost.store.wrappers.encrypted.cipher import Cipher
from fencepost.store.wrappers.encrypted.contentless import CONTENTLESS, names_all_of
from fencepost.store.wrappers.encrypted.decrypt import Opener
from fencepost.store.wrappers.encrypted.encrypt import LeaseHolder, Sealer, owner_of

T = TypeVar("T")


def encrypted(store: Store, keys: KeyRing, plain: Plain = REFUSE) -> Store:
    """Return *store*, encrypting all that comes from users, and decrypting what *keys* can.

    What is stored unencrypted is refused, unless *plain* accepts it.
    """
    cipher = Cipher(keys, store.clock)
    opener = Opener(cipher, plain, store.clock)
    return cast(Store, EncryptedStore(store, keys, Sealer(cipher), opener))


@names_all_of(Store, CONTENTLESS)
class EncryptedStore:
    """Encrypts and decrypts what has content of users in it."""

    def __init__(self, store: Store, keys: KeyRing, sealer: Sealer, opener: Opener) -> None:
        self.keys = keys
        self._store = store
        self._sealer = sealer
        self._opener = opener

    # In a caller's own transaction.

    def run_in(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        return self._store.run_in(conn, self._making(make), must_be_open=must_be_open)

    async def run_in_async(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        return await self._store.run_in_async(conn, self._making(make), must_be_open=must_be_open)

    def _making(self, make: Callable[[Store], Operation[T]]) -> Callable[[Store], Operation[T]]:
        return lambda view: make(
            cast(Store, EncryptedStore(view, self.keys, self._sealer, self._opener))
        )

    # The data's way.

    @operation(Effect.WRITE)
    def enqueue(self, jobs: Sequence[NewJob], *, atomic: bool = False) -> Plan[list[EnqueueReply]]:
        return (yield from self._store.enqueue(self._seal(jobs), atomic=atomic).start())

    def _seal(self, jobs: Sequence[NewJob]) -> list[NewJob]:
        pairs = zip(jobs, self._store.clock.new_ids(len(jobs)), strict=True)
        return [self._sealer.seal_new(job, id_) for job, id_ in pairs]

    @operation(Effect.WRITE)
    def spawn(self, spawns: Sequence[Spawn]) -> Plan[list[SpawnReply]]:
        sealed = [replace(each, jobs=tuple(self._seal(each.jobs))) for each in spawns]
        return (yield from self._store.spawn(sealed).start())

    @operation(Effect.LEASE)
    def claim(self, request: ClaimRequest) -> Plan[Claim]:
        claim = yield from self._store.claim(request).start()
        return replace(claim, jobs=[self._opener.open_claimed(job) for job in claim.jobs])

    @operation(Effect.WRITE)
    def settle(self, settlements: Sequence[Settlement]) -> Plan[list[SettleReply]]:
        holders = yield from self._holders(settlements)
        sealed = [
            self._sealer.seal_settlement(each, _holder(holders, each.job_id))
            for each in settlements
        ]
        return (yield from self._store.settle(sealed).start())

    @operation(Effect.WRITE)
    def save(self, saves: Sequence[Save]) -> Plan[list[SaveReply]]:
        holders = yield from self._holders(saves)
        sealed = [self._sealer.seal_save(each, _holder(holders, each.job_id)) for each in saves]
        return (yield from self._store.save(sealed).start())

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

    def _get(self, job_ids: Iterable[str]) -> Plan[dict[str, Job]]:
        """Return those jobs that there are, as they are stored, by id."""
        asked = list(dict.fromkeys(job_ids))
        jobs: dict[str, Job] = {}
        for start in range(0, len(asked), PAGE_MAX):
            found = yield from part_of(self._store.get(asked[start : start + PAGE_MAX]))
            jobs |= {job.id: job for job in found if job is not None}
        return jobs

    # Events.

    @operation(Effect.WRITE)
    def send(self, event: NewEvent, jobs: Sequence[NewJob]) -> Plan[EventReply]:
        sealed = self._sealer.seal_event(event, self._store.clock.new_id())
        reply = yield from self._store.send(sealed, self._seal(jobs)).start()
        return replace(reply, event=self._opener.open_event(reply.event))

    @operation(Effect.READ)
    def events(self, name: str | None, page: PageRequest) -> Plan[EventPage]:
        found = yield from self._store.events(name, page).start()
        return replace(found, events=[self._opener.open_event(each) for each in found.events])

    @operation(Effect.WRITE)
    def load_events(self, events: Sequence[SentEvent]) -> Plan[int]:
        sealed = [self._sealer.seal_sent(each) for each in events]
        return (yield from self._store.load_events(sealed).start())

    # Crons.

    @operation(Effect.WRITE)
    def declare_crons(self, crons: Sequence[CronDefinition]) -> Plan[None]:
        found = yield from part_of(self._store.crons())
        known = {each.name: each.template for each in found.crons}
        sealed = [self._seal_cron(each, known.get(each.name)) for each in crons]
        return (yield from part_of(self._store.declare_crons(sealed)))

    def _seal_cron(self, cron: CronDefinition, known: NewJob | None) -> CronDefinition:
        """Keep what is written down if it says the same: encrypted anew, it would look changed."""
        if self._opener.open_template(known, cron.name) == cron.template:
            assert known is not None
            return replace(cron, template=known)
        return replace(cron, template=self._sealer.seal_template(cron.template, cron.name))

    @operation(Effect.WRITE)
    def fire(self, fires: Sequence[CronFire]) -> Plan[list[FireReply]]:
        sealed = [replace(each, jobs=tuple(self._seal(each.jobs))) for each in fires]
        return (yield from self._store.fire(sealed).start())

    @operation(Effect.READ)
    def crons(self) -> Plan[CronList]:
        found = yield from self._store.crons().start()
        opened = [
            replace(each, template=self._opener.open_template(each.template, each.name))
            for each in found.crons
        ]
        return replace(found, crons=opened)

    # Control.

    @operation(Effect.WRITE)
    def edit(self, edits: Sequence[Edit]) -> Plan[list[EditReply]]:
        """What is bound of a job never changes, so it may be read before the job is grasped."""
        with_content = [each.job_id.lower() for each in edits if _has_content(each)]
        jobs = yield from self._get(with_content)
        sealed = [self._seal_edit(each, jobs.get(each.job_id.lower())) for each in edits]
        replies = yield from self._store.edit(sealed).start()
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

    @operation(Effect.WRITE)
    def replay(self, requests: Sequence[str | Replay]) -> Plan[list[ReplayReply]]:
        """A dead letter cannot be edited, so it may be read before it is grasped."""
        replies: list[ReplayReply] = []
        for start in range(0, len(requests), REPLAY_BATCH):
            asked = [as_replay(request) for request in requests[start : start + REPLAY_BATCH]]
            jobs = yield from part_of(self._store.get([request.job_id for request in asked]))
            pairs = zip(asked, jobs, strict=True)
            fresh = [self._for_fresh(request, job) for request, job in pairs]
            sealed = [each for each in fresh if isinstance(each, Replay)]
            done = iter((yield from part_of(self._store.replay(sealed))))
            replies += [next(done) if isinstance(each, Replay) else each for each in fresh]
        return replies

    def _for_fresh(self, request: Replay, dead: Job | None) -> Replay | Sealed:
        """Give *request* the content of *dead*, encrypted for the fresh job, if it can be read."""
        if dead is None:
            return request
        fresh = request.id or self._store.clock.new_id()
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

    # Looking.

    @operation(Effect.READ)
    def get(self, job_ids: Sequence[str]) -> Plan[list[Job | None]]:
        jobs = yield from self._store.get(job_ids).start()
        return [None if job is None else self._opener.open_job(job) for job in jobs]

    @operation(Effect.READ)
    def find(self, filter: JobFilter, page: PageRequest) -> Plan[JobPage]:
        found = yield from self._store.find(filter, page).start()
        return replace(found, jobs=[self._opener.open_job(job) for job in found.jobs])

    @operation(Effect.READ)
    def attempts(self, job_id: str) -> Plan[list[Attempt] | None]:
        attempts = yield from self._store.attempts(job_id).start()
        if attempts is None or not any(each.failure for each in attempts):
            return attempts
        (job,) = yield from part_of(self._store.get([job_id]))
        if job is None:
            return None  # pruned between the two looks
        owner = owner_of(job)
        return [self._opener.open_attempt(each, owner) for each in attempts]

    @operation(Effect.READ)
    def dependencies(
        self, job_ids: Sequence[str], *, with_results: bool = False
    ) -> Plan[list[list[Dependency]]]:
        """A result opens only for the job that it belongs to, so that is read with it."""
        if not with_results:
            return (yield from self._store.dependencies(job_ids).start())
        found = yield from part_of(self._store.dependencies(job_ids))
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

    @operation(Effect.READ)
    def situation(self, job_id: str) -> Plan[Situation | None]:
        situation = yield from self._store.situation(job_id).start()
        if situation is None:
            return None
        return replace(situation, job=self._opener.open_job(situation.job))

    @operation(Effect.READ)
    def dead_letters(
        self, type: str | None, page: PageRequest, queues: Sequence[str] | None = None
    ) -> Plan[DeadLetterPage]:
        found = yield from self._store.dead_letters(type, page, queues).start()
        return replace(found, letters=[self._opener.open_letter(each) for each in found.letters])

    # Moving to another store.

    @operation(Effect.READ)
    def dump(self, after: int, limit: int) -> Plan[Dump]:
        dump = yield from self._store.dump(after, limit).start()
        return replace(dump, records=[self._opener.open_record(each) for each in dump.records])

    @operation(Effect.WRITE)
    def load(self, records: Sequence[JobRecord]) -> Plan[list[LoadReply]]:
        sealed = [self._sealer.seal_record(record) for record in records]
        return (yield from self._store.load(sealed).start())


def _holder(holders: Mapping[str, LeaseHolder], job_id: str) -> LeaseHolder:
    """Return what a write is bound to; to nothing if there is no such job: it will be refused."""
    return holders.get(job_id.lower()) or LeaseHolder(Owner(job_id.lower()), 0)


def _has_content(edit: Edit) -> bool:
    return edit.payload is not None or bool(edit.callback_url)
