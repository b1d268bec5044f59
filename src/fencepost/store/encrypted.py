"""A store with encryption around it, so that no engine contains any.

An operation of this store is one of the store inside: its plan encrypts what it is given, runs the
other's plan, and decrypts what comes back, in one transaction. Name, effect and arguments are the
same, so that whoever observes operations or tells the news sees what they would see without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from fencepost.core.envelope import Owner, from_text
from fencepost.core.events import NewEvent, SentEvent
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.ids import id_text
from fencepost.core.job import Attempt, Dependency, Job, JobRecord, NewJob
from fencepost.core.keyring import KeyRing
from fencepost.core.limits import REPLAY_BATCH
from fencepost.core.outcome import Settlement
from fencepost.core.why import Situation
from fencepost.errors import EncryptionError
from fencepost.store.crons import CronDefinition, CronFire, CronList, FireReply
from fencepost.store.plan import Effect, Operation, Plan, operation, part_of
from fencepost.store.protocol import Store
from fencepost.store.replies import (
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
    SettleReply,
    SpawnReply,
)
from fencepost.store.requests import ClaimRequest, Edit, Replay, Save, Spawn, as_replay
from fencepost.store.sealing import Sealer

T = TypeVar("T")

NO_TYPE = ""
"""For a job that is not there: what is written to it will be refused, not stored."""


def encrypted(store: Store, keys: KeyRing) -> Store:
    """Return *store*, encrypting all that comes from users, and decrypting what *keys* can."""
    return cast(Store, EncryptedStore(store, keys, Sealer(keys, store.clock)))


class EncryptedStore:
    """Passes on everything that has no content of jobs in it."""

    def __init__(self, store: Store, keys: KeyRing, sealer: Sealer) -> None:
        self.keys = keys
        self._store = store
        self._sealer = sealer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

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
        return lambda view: make(cast(Store, EncryptedStore(view, self.keys, self._sealer)))

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
        return replace(claim, jobs=[self._sealer.open_claimed(job) for job in claim.jobs])

    @operation(Effect.WRITE)
    def settle(self, settlements: Sequence[Settlement]) -> Plan[list[SettleReply]]:
        types = yield from self._types(settlements)
        sealed = [
            self._sealer.seal_settlement(each, types.get(each.job_id, NO_TYPE))
            for each in settlements
        ]
        return (yield from self._store.settle(sealed).start())

    @operation(Effect.WRITE)
    def save(self, saves: Sequence[Save]) -> Plan[list[SaveReply]]:
        types = yield from self._types(saves)
        sealed = [self._sealer.seal_save(each, types.get(each.job_id, NO_TYPE)) for each in saves]
        return (yield from self._store.save(sealed).start())

    def _types(self, writes: Iterable[Settlement | Save]) -> Plan[dict[str, str]]:
        """Return the types of jobs by id, looking for those that were not given."""
        types: dict[str, str] = {}
        unknown: dict[str, None] = {}
        for write in writes:
            if write.type is None:
                unknown[write.job_id] = None
            else:
                types[write.job_id] = write.type
        return types | (yield from self._types_of(unknown))

    def _types_of(self, job_ids: Iterable[str]) -> Plan[dict[str, str]]:
        """Return the types of those jobs that there are."""
        asked = list(job_ids)
        jobs = (yield from part_of(self._store.get(asked))) if asked else []
        found = zip(asked, jobs, strict=True)
        return {job_id: job.type for job_id, job in found if job is not None}

    # Events.

    @operation(Effect.WRITE)
    def send(self, event: NewEvent, jobs: Sequence[NewJob]) -> Plan[EventReply]:
        sealed = self._sealer.seal_event(event, self._store.clock.new_id())
        reply = yield from self._store.send(sealed, self._seal(jobs)).start()
        return replace(reply, event=self._sealer.open_event(reply.event))

    @operation(Effect.READ)
    def events(self, name: str | None, page: PageRequest) -> Plan[EventPage]:
        found = yield from self._store.events(name, page).start()
        return replace(found, events=[self._sealer.open_event(each) for each in found.events])

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
        if self._sealer.open_template(known, cron.name) == cron.template:
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
            replace(each, template=self._sealer.open_template(each.template, each.name))
            for each in found.crons
        ]
        return replace(found, crons=opened)

    # Control.

    @operation(Effect.WRITE)
    def edit(self, edits: Sequence[Edit]) -> Plan[list[EditReply]]:
        """A job's type never changes, so it may be looked for before the job is grasped."""
        types = yield from self._types_of({each.job_id for each in edits if each.payload})
        sealed = [self._seal_edit(each, types) for each in edits]
        replies = yield from self._store.edit(sealed).start()
        return [
            replace(reply, job=self._sealer.open_job(reply.job))
            if isinstance(reply, Edited)
            else reply
            for reply in replies
        ]

    def _seal_edit(self, edit: Edit, types: Mapping[str, str]) -> Edit:
        if edit.payload is None:
            return edit
        owner = Owner(edit.job_id.lower(), types.get(edit.job_id, NO_TYPE))
        return replace(edit, payload=self._sealer.seal_payload(edit.payload, owner))

    @operation(Effect.WRITE)
    def replay(self, requests: Sequence[str | Replay]) -> Plan[list[ReplayReply]]:
        """A dead letter cannot be edited, so it may be read before it is grasped."""
        replies: list[ReplayReply] = []
        for start in range(0, len(requests), REPLAY_BATCH):
            asked = [as_replay(request) for request in requests[start : start + REPLAY_BATCH]]
            jobs = yield from part_of(self._store.get([request.job_id for request in asked]))
            pairs = zip(asked, jobs, strict=True)
            sealed = [self._for_fresh(request, job) for request, job in pairs]
            replies += yield from part_of(self._store.replay(sealed))
        return replies

    def _for_fresh(self, request: Replay, dead: Job | None) -> Replay:
        """Give *request* the payload of *dead*, encrypted for the fresh job, if it can be read."""
        if dead is None:
            return request
        fresh = request.id or self._store.clock.new_id()
        try:
            payload = request.payload or self._sealer.open_payload(dead)
        except EncryptionError:
            return request
        owner = Owner(id_text(fresh), dead.type)
        return Replay(request.job_id, fresh, self._sealer.seal_payload(payload, owner))

    # Looking.

    @operation(Effect.READ)
    def get(self, job_ids: Sequence[str]) -> Plan[list[Job | None]]:
        jobs = yield from self._store.get(job_ids).start()
        return [None if job is None else self._sealer.open_job(job) for job in jobs]

    @operation(Effect.READ)
    def find(self, filter: JobFilter, page: PageRequest) -> Plan[JobPage]:
        found = yield from self._store.find(filter, page).start()
        return replace(found, jobs=[self._sealer.open_job(job) for job in found.jobs])

    @operation(Effect.READ)
    def attempts(self, job_id: str) -> Plan[list[Attempt] | None]:
        attempts = yield from self._store.attempts(job_id).start()
        if not any(each.failure and from_text(each.failure.message) for each in attempts or ()):
            return attempts
        (job,) = yield from part_of(self._store.get([job_id]))
        if job is None or attempts is None:
            return None  # pruned between the two looks
        return [self._sealer.open_attempt(each, job.type) for each in attempts]

    @operation(Effect.READ)
    def dependencies(
        self, job_ids: Sequence[str], *, with_results: bool = False
    ) -> Plan[list[list[Dependency]]]:
        asked = self._store.dependencies(job_ids, with_results=with_results)
        found = yield from asked.start()
        return [[self._sealer.open_dependency(each) for each in of_job] for of_job in found]

    @operation(Effect.READ)
    def situation(self, job_id: str) -> Plan[Situation | None]:
        situation = yield from self._store.situation(job_id).start()
        if situation is None:
            return None
        return replace(situation, job=self._sealer.open_job(situation.job))

    @operation(Effect.READ)
    def dead_letters(
        self, type: str | None, page: PageRequest, queues: Sequence[str] | None = None
    ) -> Plan[DeadLetterPage]:
        found = yield from self._store.dead_letters(type, page, queues).start()
        return replace(found, letters=[self._sealer.open_letter(each) for each in found.letters])

    # Moving to another store.

    @operation(Effect.READ)
    def dump(self, after: int, limit: int) -> Plan[Dump]:
        dump = yield from self._store.dump(after, limit).start()
        return replace(dump, records=[self._sealer.open_record(each) for each in dump.records])

    @operation(Effect.WRITE)
    def load(self, records: Sequence[JobRecord]) -> Plan[list[LoadReply]]:
        sealed = [self._sealer.seal_record(record) for record in records]
        return (yield from self._store.load(sealed).start())
