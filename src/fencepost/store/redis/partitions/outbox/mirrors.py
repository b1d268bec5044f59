"""Mirrors: copies of a job's state in the partitions where other jobs wait for it.

A job that waits for a job of another partition waits for its mirror instead, which is in its own
partition: a document with the same id that is never claimable and that readers do not see. When
the job has ended, the outbox of its partition has a report of that (``entries.py``). Delivering it
ends the mirror, and the waiting jobs follow in the same commit, by the same rules as everywhere. A
mirror that has ended also records that the report was applied: a second delivery does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeGuard

import msgspec
from msgspec.structs import replace

from fencepost.core.flows.dependencies import Mode
from fencepost.core.job.job import EMPTY, Body, Failure
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import DEFAULT_POLICY, Priority
from fencepost.core.values.names import id_bytes, wanted_ids
from fencepost.errors import StoreUnavailableError
from fencepost.store.interface.queue import Moved
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.document import decode_body, document_of, revision_of
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.flows.dependents import follow, wait_again
from fencepost.store.redis.jobs.catalog import Env, field, number_text, read
from fencepost.store.redis.jobs.edit import set_priority
from fencepost.store.redis.partitions.numbers import HIDDEN, MIRRORS
from fencepost.store.sql.codec import ENCODING_NUMBER, MODE_NUMBER, NUMBER, encode_failure

CENTURY_US = 100 * 365 * 86_400 * 1_000_000
"""A mirror does not expire: the job for which it stands does."""


VERSION_BITS = 32
"""The bits of a version for revisions of spawned jobs; that of the job itself is above them."""


class Mirror(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job, as far as jobs that wait for it in another partition need it."""

    id: str
    type: str
    node: str | None = None
    state: State = State.PENDING
    priority: Priority = Priority.NORMAL
    depth: int = 1
    failure: Failure | None = None
    result: Body | None = None
    version: int = 0
    """The revision of the job of which this is known; a mirror never goes back to an older one."""
    is_forced: bool = False
    """Whether it counts all the same: a server that lost its last writes counts revisions again."""


def mirror_of(kept: Kept, id: str, result: Body | None) -> Mirror:
    """Return the mirror of a job, under an id."""
    is_over = kept.state.is_terminal
    return Mirror(
        id=id,
        type=kept.type,
        node=kept.document.node,
        state=kept.state if is_over else State.PENDING,
        priority=kept.priority,
        depth=kept.depth,
        failure=_failure(kept),
        result=result if is_over else None,
        version=version_of([kept]),
    )


def _failure(kept: Kept) -> Failure | None:
    """Return why a job failed, with its name: a mirror may have another."""
    failure = kept.failure if kept.state.is_terminal else None
    if failure is None or failure.failed_dependency is not None:
        return failure
    return replace(failure, failed_dependency=kept.id)


def mirror_of_all(jobs: Sequence[Kept], id: str, result: Body | None) -> Mirror:
    """Return what stands for a job, the first, together with those that it spawned.

    It has ended when all have, and failed if one has.
    """
    own = mirror_of(jobs[0], id, result)
    version = version_of(jobs)
    live = next((job for job in jobs if not job.state.is_terminal), None)
    if live is not None:
        return replace(own, state=State.PENDING, failure=None, result=None, version=version)
    failed = next((job for job in jobs if job.state is not State.COMPLETED), jobs[0])
    return replace(own, state=failed.state, failure=_failure(failed), version=version)


def version_of(jobs: Iterable[Kept]) -> int:
    """Return a number that rises with every change of a job, the first, or of what it spawned.

    The job counts before all others: when it runs again, a new report knows none of those.
    """
    first, *others = [int(revision_of(kept.read)) for kept in jobs if kept.read is not None] or [0]
    return first << VERSION_BITS | sum(others)


def results_of(env: Env, seqs: Sequence[int]) -> Plan[dict[int, Body | None]]:
    """Return the results of jobs."""
    if not seqs:
        return {}
    numbers = [number_text(seq) for seq in seqs]
    _, texts = yield from read(env, [b"HMGET", env.key("result"), *numbers])
    return dict(zip(seqs, map(decode_body, texts), strict=True))


def standing(env: Env, job_ids: Sequence[str]) -> Plan[list[Mirror | None]]:
    """Return the present state of jobs of this partition; None for those that are not there."""
    unit = Unit(env)
    found = yield from unit.by_id(wanted_ids(job_ids))
    own = {job_id: kept for job_id, kept in found.items() if kept.queue not in HIDDEN}
    results = yield from results_of(env, [kept.seq for kept in own.values()])
    return [
        None
        if (kept := own.get(job_id.lower())) is None
        else mirror_of(kept, kept.id, results[kept.seq])
        for job_id in job_ids
    ]


class PartUnit(Unit):
    """A unit of work on behalf of another partition."""

    def until(self, deadline: int) -> None:
        """Commit before this time by the clock of this partition, or not at all."""
        if self.now >= deadline:
            raise StoreUnavailableError("it took too long to store a job of several partitions")
        self._deadline = deadline if self._deadline is None else min(self._deadline, deadline)

    is_delivery = False
    """Whether its jobs were accepted before: then they are stored, whatever holds by now."""

    def open_lane(self, queue: str, type: str) -> Plan[None]:
        if not self.is_delivery:
            yield from super().open_lane(queue, type)
            return
        lanes, name = self.env.key("lanes"), field(queue, type)
        if (yield from self.field(lanes, name)) is None:
            self.set_field(lanes, name, b"1")

    def commit(self) -> Plan[None]:
        self.adds = self.adds and not self.is_delivery
        yield from super().commit()


def is_mirror(kept: Kept | None) -> TypeGuard[Kept]:
    return kept is not None and kept.queue == MIRRORS


def place(unit: Unit, mirrors: Sequence[Mirror]) -> Plan[tuple[Moved, ...]]:
    """Create or update these mirrors; return the moves of jobs that waited for one."""
    wanted = {each.id: each for each in mirrors}
    found = yield from unit.by_id(wanted_ids(list(wanted)))
    yield from unit.reserve(len(wanted) - len(found))
    followed: list[Moved] = []
    for job_id, mirror in wanted.items():
        kept = found.get(job_id)
        if kept is None:
            _add(unit, mirror)
        elif is_mirror(kept):
            followed += yield from _refresh(unit, kept, mirror)
    return tuple(followed)


def _add(unit: Unit, mirror: Mirror) -> Kept:
    now = unit.now
    is_over = mirror.state.is_terminal
    document = document_of(
        lease_version=mirror.version,
        attempt=0,
        lease_ttl=None,
        timeout=None,
        id=id_bytes(mirror.id),
        type=mirror.type,
        queue=MIRRORS,
        priority=int(mirror.priority),
        number=NUMBER[mirror.state],
        created_at=now,
        expires_at=now + CENTURY_US,
        run_at=now,
        updated_at=now,
        completed_at=now if is_over else None,
        payload_encoding=ENCODING_NUMBER[EMPTY.encoding],
        node=mirror.node,
        waits=[MODE_NUMBER[Mode.ENDED], 0 if is_over else 1, mirror.depth, 0, None],
        failure=encode_failure(mirror.failure),
    )
    kept = unit.add(document, DEFAULT_POLICY, EMPTY)
    if mirror.result is not None:
        unit.put_body("result", kept, mirror.result)
    return kept


def _refresh(unit: Unit, kept: Kept, mirror: Mirror) -> Plan[tuple[Moved, ...]]:
    """Update a mirror, unless it has a later revision."""
    if not _is_news(kept, mirror):
        return ()
    kept.document.lease_version = mirror.version
    if kept.document.priority != int(mirror.priority):
        yield from set_priority(unit, kept, mirror.priority)
    was_over, is_over = kept.state.is_terminal, mirror.state.is_terminal
    if was_over == is_over:
        return ()
    document = kept.document
    kept.set_state(mirror.state)
    kept.set_failure(mirror.failure)
    kept.missing = 0 if is_over else 1
    document.updated_at = unit.now
    document.completed_at = unit.now if is_over else None
    unit.put_body("result", kept, mirror.result)
    if not is_over:
        yield from wait_again(unit, kept)
        return ()
    return (yield from follow(unit, [kept], []))


def _is_news(kept: Kept, mirror: Mirror) -> bool:
    return mirror.is_forced or mirror.version > kept.document.lease_version


class Applied(msgspec.Struct, frozen=True):
    """The effect of reports: those that found no mirror, and the jobs that moved."""

    missing: frozenset[str]
    moves: tuple[Moved, ...] = ()


def apply(env: Env, reports: Sequence[Mirror]) -> Plan[Applied]:
    """Update the mirrors that exist, and the jobs that wait for them."""
    unit = Unit(env)
    yield from unit.start()
    found = yield from unit.by_id(wanted_ids([each.id for each in reports]))
    here = {each.id: kept for each in reports if is_mirror(kept := found.get(each.id))}
    moves = yield from place(unit, [each for each in reports if each.id in here])
    yield from unit.commit()
    missing = [
        each.id
        for each in reports
        if each.id not in here or (each.state.is_terminal and not here[each.id].state.is_terminal)
    ]
    return Applied(frozenset(missing), moves)


def place_alone(env: Env, mirrors: Sequence[Mirror], deadline: int) -> Plan[tuple[Moved, ...]]:
    """Create these mirrors, for jobs that are about to be stored."""
    unit = PartUnit(env)
    yield from unit.start()
    unit.until(deadline)
    moves = yield from place(unit, mirrors)
    yield from unit.commit()
    return moves


def needing(env: Env, ids: Sequence[str]) -> Plan[list[str]]:
    """Return those of these mirrors for which jobs still wait here."""
    unit = Unit(env)
    found = yield from unit.by_id(wanted_ids(ids))
    mirrors = [kept for kept in found.values() if is_mirror(kept)]
    families = yield from unit.children(mirrors)
    children = yield from unit.jobs(seq for family in families for seq in family)
    waiting = {seq for seq, child in children.items() if child.state is State.PENDING}
    return [
        kept.id
        for kept, family in zip(mirrors, families, strict=True)
        if not waiting.isdisjoint(family)
    ]
