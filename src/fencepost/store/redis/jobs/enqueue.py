"""Storing new jobs: plain ones, those that wait for others, and those whose key is held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from fencepost.core.flows.dependencies import Dependencies, check_places
from fencepost.core.flows.dependents import Entry, Parent, enter
from fencepost.core.job.idempotency import is_held
from fencepost.core.job.job import Body, NewJob
from fencepost.core.job.lifecycle import DEAD, State, first_state
from fencepost.core.job.timeouts import check_due
from fencepost.core.values.names import id_text, wanted_ids
from fencepost.core.values.payload import differences
from fencepost.core.values.times import seconds_to_us, to_us
from fencepost.errors import UnknownDependencyError
from fencepost.store.interface.queue import Duplicate, Enqueued, EnqueueReply
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.document import body_of
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.flows.dependents import call_back
from fencepost.store.redis.jobs.catalog import Env, field
from fencepost.store.redis.jobs.plain import enqueue_plain, is_plain
from fencepost.store.redis.jobs.rows import encode_waits, new_document
from fencepost.store.redis.limits.concurrency import admit, scope_of


class PlacedJob(NamedTuple):
    """The reply for one new job, and the job that its place in the submission refers to."""

    reply: EnqueueReply
    kept: Kept


def enqueue(env: Env, jobs: Sequence[NewJob], *, atomic: bool = False) -> Plan[list[EnqueueReply]]:
    """Store *jobs*, each unless its key is held."""
    if jobs and all(map(is_plain, jobs)):
        for job in jobs:
            check_due(job, 0)
        stored = yield from enqueue_plain(env, jobs)
        if stored is not None:
            return stored
    unit = Unit(env)
    accepted = yield from accept(unit, jobs, atomic=atomic)
    yield from unit.commit()
    return [each.reply for each in accepted]


def due_at(job: NewJob, now: int) -> int:
    """Return when *job* is to run; a time in the past means now."""
    if job.run_at is not None:
        return max(to_us(job.run_at), now)
    return now + seconds_to_us(job.delay)


def accept(unit: Unit, jobs: Sequence[NewJob], *, atomic: bool) -> Plan[list[PlacedJob]]:
    """Add *jobs* to the unit; return also the job that each place refers to."""
    yield from unit.reserve(len(jobs))
    now = yield from unit.start()
    check_places(job.after for job in jobs)
    for job in jobs:
        check_due(job, now)
    named = {on for job in jobs if job.after for on in job.after.on if isinstance(on, str)}
    known = yield from unit.by_id(wanted_ids(list(named)))
    keys = _Keys(unit)
    yield from keys.read((job.type, job.key.value) for job in jobs if job.key is not None)
    accepted: list[PlacedJob] = []
    for job, fresh in zip(jobs, unit.env.clock.new_ids(len(jobs)), strict=True):
        parents = [] if job.after is None else _parents(job.after, known, accepted)
        holder = None if job.key is None else (yield from keys.holder(job.type, job.key.value))
        if job.key is not None and holder is not None:
            differs = differences((yield from _payload(unit, holder)), job.payload)
            is_rejected = job.key.refuses(holder.queue)
            key = job.key.value
            reply = Duplicate(holder.id, job.type, key, holder.state, is_rejected, differs)
            if atomic and is_rejected:
                raise reply.error
            accepted.append(PlacedJob(reply, holder))
            continue
        yield from unit.open_lane(job.queue, job.type)
        kept = _store(unit, job, job.id or fresh, parents)
        if job.key is not None:
            keys.take(kept)
        accepted.append(PlacedJob(Enqueued(kept.id, job.type, kept.state), kept))
    new = [each.kept for each in accepted if isinstance(each.reply, Enqueued)]
    ended = [kept for kept in new if kept.state.is_terminal]
    yield from admit(unit, [scope_of(kept) for kept in new if kept.is_held])
    if ended:
        yield from call_back(unit, ended)
    return [_with_state(each) for each in accepted]


def _payload(unit: Unit, kept: Kept) -> Plan[Body]:
    """Return the payload of a job, which may be one of this unit."""
    data = kept.document.payload
    if data is None:
        data = yield from unit.large_payload(kept)
    return body_of(kept.document.payload_encoding, data)


def _with_state(placed: PlacedJob) -> PlacedJob:
    """Return the outcome of a job that may have got a slot of its key."""
    reply = placed.reply
    if reply.state is placed.kept.state:
        return placed
    return placed._replace(reply=replace(reply, state=placed.kept.state))


def store_plain(unit: Unit, jobs: Sequence[NewJob]) -> Plan[list[Kept]]:
    """Add jobs that have neither keys nor dependencies."""
    yield from unit.reserve(len(jobs))
    for job in jobs:
        yield from unit.open_lane(job.queue, job.type)
    ids = unit.env.clock.new_ids(len(jobs))
    return [_store(unit, job, job.id or id_, []) for job, id_ in zip(jobs, ids, strict=True)]


def _parents(
    after: Dependencies, known: dict[str, Kept], accepted: Sequence[PlacedJob]
) -> list[Kept]:
    found: dict[int, Kept] = {}  # each once: an id, a place and a key may name the same job
    for on in after.on:
        if isinstance(on, int):
            parent = accepted[on].kept
        elif on.lower() in known:
            parent = known[on.lower()]
        else:
            raise UnknownDependencyError(on)
        found[parent.seq] = parent
    return list(found.values())


def as_parent(kept: Kept) -> Parent:
    """Return what matters of a job to those that wait for it."""
    return Parent(kept.id, kept.state, kept.priority, kept.depth, kept.failure)


def _store(unit: Unit, job: NewJob, id: bytes, parents: Sequence[Kept]) -> Kept:
    now, run_at = unit.now, due_at(job, unit.now)
    state = first_state(is_due=run_at <= now)
    entry: Entry | None = None
    if job.after is not None and parents:
        behind = [as_parent(each) for each in parents]
        entry = enter(job.after.mode, job.priority, behind, gathers=job.after.gathers)
        if entry.decision is not None:
            state = entry.decision.state
        elif entry.waits.missing:
            state = State.PENDING
    if job.concurrency_key is not None and state is State.SCHEDULED:
        state = State.PENDING  # until it gets a slot
    digest = unit.digest(job.policy)
    document = new_document(id, job, policy=digest, state=state, run_at=run_at, now=now)
    kept = unit.add(document, job.policy, job.payload)
    if entry is not None:
        document.priority = int(entry.priority)
        document.waits = encode_waits(entry.waits)
        unit.link(kept, parents)
        if entry.decision is not None:
            document.completed_at = now
            document.is_dead_letter = state in DEAD
            kept.set_failure(entry.decision.failure)
    return kept


class _Keys:
    """The jobs that took the keys of a submission last."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit

    def read(self, pairs: object) -> Plan[None]:
        names = [field(*pair) for pair in dict.fromkeys(pairs)]  # type: ignore[call-overload]
        values = yield from self._unit.fields(self._unit.env.key("keys"), names)
        yield from self._unit.jobs(int(text.split()[0]) for text in values.values() if text)

    def holder(self, type: str, key: str) -> Plan[Kept | None]:
        return (yield from find_holder(self._unit, type, key))

    def take(self, kept: Kept) -> None:
        take_key(self._unit, kept)


def find_holder(unit: Unit, type: str, key: str) -> Plan[Kept | None]:
    """Return the job that holds a key now. Keys are released lazily, judged by their job."""
    text = yield from unit.field(unit.env.key("keys"), field(type, key))
    if text is None:
        return None
    seq, _, ends = text.decode().partition(" ")
    kept = (yield from unit.jobs([int(seq)])).get(int(seq))
    if kept is None:
        return None
    ends_at = int(ends) if ends else None
    is_live = not kept.state.is_terminal
    return kept if is_held(is_live=is_live, window_ends_us=ends_at, now_us=unit.now) else None


def take_key(unit: Unit, kept: Kept) -> None:
    """Give a job its key, which was read before, for its window from now or while it is live."""
    document = kept.document
    assert document.key is not None
    ends = "" if document.key_window is None else str(unit.now + document.key_window)
    name = field(document.type, document.key)
    unit.set_field(unit.env.key("keys"), name, f"{kept.seq} {ends}".encode())


__all__ = ["accept", "enqueue", "find_holder", "id_text", "store_plain", "take_key"]
