"""What an observed store counts and logs of the jobs in replies.

Every operation that writes has a note here, or is listed as one of which nothing more is counted.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any, cast

from fencepost.core.job.job import ClaimedJob
from fencepost.core.job.lifecycle import TRANSITIONS, Event, State
from fencepost.core.job.outcome import Settlement
from fencepost.errors import DuplicateJobError
from fencepost.observe import names
from fencepost.observe.counters import Counters, Lane
from fencepost.observe.log import log, logger, write
from fencepost.store.interface.control import (
    Advanced,
    ControlFacet,
    Discarded,
    Edited,
    Replayed,
    ReplaysFacet,
)
from fencepost.store.interface.facet import Method
from fencepost.store.interface.joins import JoinsFacet
from fencepost.store.interface.queue import (
    AlreadySettled,
    Claim,
    Duplicate,
    Enqueued,
    LeaseLost,
    Moved,
    QueueFacet,
    Settled,
    Spawned,
)
from fencepost.store.interface.records.access import AccessFacet, AuditFacet
from fencepost.store.interface.records.cluster import ClusterFacet
from fencepost.store.interface.records.crons import CronsFacet, Fired
from fencepost.store.interface.records.events import EventReply, EventsFacet
from fencepost.store.interface.records.refusals import RefusalsFacet
from fencepost.store.interface.records.series import SeriesFacet
from fencepost.store.interface.records.transfer import TransferFacet
from fencepost.store.interface.settings import SettingsFacet
from fencepost.store.interface.upkeep import Pruned, UpkeepFacet
from fencepost.store.plan import Operation
from fencepost.store.wrappers.transitions import EVENT_NAMES, SUBMIT, Happening, count, count_moves

Note = Callable[[Counters, Operation[Any], Any], None]

_CLAIM = EVENT_NAMES[Event.CLAIM]
_STALE = {Event.SUCCEED: names.STALE_ACK, Event.RELEASE: names.STALE_RELEASE}
_EVENT_OF_SETTLEMENT = {
    **{state: EVENT_NAMES[event] for event, state in TRANSITIONS[State.RUNNING].items()},
    State.DEAD_LETTER: EVENT_NAMES[Event.EXHAUST],
    State.PENDING: EVENT_NAMES[Event.RELEASE],  # and blocked by its concurrency key
}
"""Each state that a settlement leads to stands for one event."""

# Batches have up to a thousand replies: these read all of one without a loop in Python.
_CORRELATION = attrgetter("correlation_id")
_REPLY = attrgetter("__class__", "state", "type")
_SETTLED = attrgetter("state", "type", "followed")
_LANE = attrgetter("type", "queue")
_WAITED = attrgetter("waited")


def _log_each(
    name: str, replies: Any, kind: type, correlations: Iterable[str | None] | None = None
) -> None:
    """Log an event per job, at DEBUG: there may be tens of thousands a second.

    With the correlation ids of the jobs, if they are known (S1-108).
    """
    if not logger.isEnabledFor(logging.DEBUG):
        return
    for reply, correlation_id in zip(replies, correlations or repeat(None), strict=False):
        if isinstance(reply, kind):
            reply = cast(Enqueued, reply)
            known = {} if correlation_id is None else {"correlation_id": correlation_id}
            fields = {"id": reply.job_id, "type": reply.type, "state": reply.state, **known}
            log(name, level=logging.DEBUG, **fields)


def _warn(name: str, move: Moved, level: int = logging.WARNING, text: str | None = None) -> None:
    fields = {"id": move.job_id, "type": move.type, "state": move.state}
    write(name, fields, level=level, text=text)


def _recovered(move: Moved) -> str:
    lost = f"{move.type} {move.job_id}: its worker died or was cut off, and its lease has expired"
    if not move.state.is_terminal:
        return f"{lost}; it is tried again ({move.state})"
    return f"{lost} on the last attempt; look with: fencepost jobs show {move.job_id}"


def _note_enqueue(counters: Counters, operation: Operation[Any], result: Any) -> None:
    _note_enqueued(counters, result, map(_CORRELATION, operation.given[0]))


def _note_enqueued(counters: Counters, result: Any, correlations: Iterable[str | None]) -> None:
    enqueued: dict[Happening, int] = {}
    for (kind, state, type_), times in Counter(map(_REPLY, result)).items():
        if kind is Duplicate:
            counters.add(names.JOB_DUPLICATE, times)
            note_differences(each.error for each in result if isinstance(each, Duplicate))
        else:
            enqueued[SUBMIT, state, type_] = times
    count(counters, names.JOB_ENQUEUED, enqueued)
    _log_each(names.JOB_ENQUEUED, result, Enqueued, correlations)


def note_differences(duplicates: Iterable[DuplicateJobError]) -> None:
    """Warn of keys that were used again for another payload; of that, nothing is logged."""
    for each in duplicates:
        if each.differs:
            fields = {"id": each.existing_id, "type": each.type, "key": each.key}
            log(names.JOB_DIFFERS, level=logging.WARNING, **fields)


def _note_send(counters: Counters, _: Operation[Any], result: EventReply) -> None:
    counters.add(names.EVENT_SENT)
    event = result.event
    log(names.EVENT_SENT, level=logging.DEBUG, id=event.id, name=event.name, jobs=len(event.jobs))
    _note_enqueued(counters, result.jobs, repeat(event.id))


def _note_fire(counters: Counters, operation: Operation[Any], result: Any) -> None:
    for fire, reply in zip(operation.given[0], result, strict=True):
        if isinstance(reply, Fired):
            counters.add(names.CRON_FIRED, len(reply.jobs), cron=reply.name)
            _note_enqueued(counters, reply.jobs, map(_CORRELATION, fire.jobs))


def _note_spawn(counters: Counters, operation: Operation[Any], result: Any) -> None:
    _note_lost(names.STALE_SPAWN)(counters, operation, result)
    for spawn, reply in zip(operation.given[0], result, strict=True):
        if isinstance(reply, Spawned):
            _note_followed(counters, reply.followed)
            _note_enqueued(counters, reply.replies, map(_CORRELATION, spawn.jobs))


def _note_claim(counters: Counters, operation: Operation[Any], result: Claim) -> None:
    # Nearly always there are jobs of one lane, and nothing else.
    for lane, waits in _waits(result.jobs).items():
        count(counters, names.JOB_CLAIMED, {(_CLAIM, State.RUNNING, lane[0]): len(waits)})
        counters.waits.note(lane, waits)
    if result.promoted:
        # The reply does not say of which types.
        ready = (EVENT_NAMES[Event.READY], State.SCHEDULED, "")
        held = (EVENT_NAMES[Event.BLOCK], State.PENDING, "")
        moved = {ready: result.promoted - result.held, held: result.held}
        count(counters, names.JOB_PROMOTED, moved)
    if result.recovered:
        _note_recover(counters, operation, result.recovered)
    if result.expired:
        _note_expire(counters, operation, result.expired)
    if result.corrupt:
        claimed = [(_CLAIM, State.RUNNING, move.type) for move in result.corrupt]
        count(counters, names.JOB_CLAIMED, claimed)
        _note_moves(counters, names.JOB_CORRUPT, result.corrupt)
    if result.followed:
        _note_followed(counters, result.followed)


def _waits(jobs: list[ClaimedJob]) -> dict[Lane, list[float]]:
    """Return how long the jobs of each type and queue have waited; mostly they are of one."""
    lanes = set(map(_LANE, jobs))
    if len(lanes) == 1:
        return {lanes.pop(): list(map(_WAITED, jobs))}
    waits: dict[Lane, list[float]] = {lane: [] for lane in lanes}
    for job in jobs:
        waits[job.type, job.queue].append(job.waited)
    return waits


def _note_followed(counters: Counters, followed: Sequence[Moved]) -> None:
    """Count jobs that moved because one that they waited for has ended."""
    count_moves(counters, names.JOB_FOLLOWED, followed)
    _log_each(names.JOB_FOLLOWED, followed, Moved)


def _note_recover(counters: Counters, _: Operation[Any], result: list[Moved]) -> None:
    for move in result:
        _note_followed(counters, move.followed)
        name, level = names.LEASE_RECOVERED, logging.WARNING
        if move.state.is_terminal:
            name, level = names.LEASE_EXHAUSTED, logging.ERROR
        count_moves(counters, name, [move])
        _warn(name, move, level, _recovered(move))


def _note_expire(counters: Counters, _: Operation[Any], result: list[Moved]) -> None:
    _note_moves(counters, names.JOB_EXPIRED, result, Event.EXPIRE)


def _note_moves(
    counters: Counters, name: str, moves: list[Moved], event: Event | None = None
) -> None:
    count_moves(counters, name, moves, event)
    for move in moves:
        _note_followed(counters, move.followed)
        _warn(name, move)


def _note_promote(counters: Counters, _: Operation[Any], result: list[Moved]) -> None:
    count_moves(counters, names.JOB_PROMOTED, result)
    for move in result:
        _note_followed(counters, move.followed)


def _note_pruned(name: str) -> Note:
    def note(counters: Counters, _: Operation[Any], result: int | Pruned) -> None:
        deleted = result.count if isinstance(result, Pruned) else result
        if deleted:
            counters.add(name, deleted)
            log(name, count=deleted)

    return note


def _note_settle(counters: Counters, operation: Operation[Any], result: Any) -> None:
    try:
        # Nearly always all are settled; this is twice as fast as to look at them one by one.
        replies = Counter(map(_SETTLED, result))
    except AttributeError:
        settled = _note_refused(counters, operation.given[0], result)
        replies = Counter(map(_SETTLED, settled))
    happened: Counter[Happening] = Counter()
    for (state, type_, followed), times in replies.items():
        happened[_EVENT_OF_SETTLEMENT[state], state, type_] += times
        if followed:
            _note_followed(counters, followed)
    count(counters, names.JOB_SETTLED, happened)
    _log_each(names.JOB_SETTLED, result, Settled, map(_CORRELATION, operation.given[0]))


def _note_refused(
    counters: Counters, settlements: Sequence[Settlement], result: Any
) -> list[Settled]:
    """Count settlements that were repeated or came too late; return the replies to the others."""
    settled: list[Settled] = []
    for settlement, reply in zip(settlements, result, strict=True):
        if isinstance(reply, Settled):
            settled.append(reply)
        elif isinstance(reply, AlreadySettled):
            counters.add(names.REPEATED_SETTLE)
        else:
            name = _STALE.get(settlement.decision.event, names.STALE_NACK)
            counters.add(name)
            log(name, level=logging.WARNING, id=reply.job_id, state=reply.state)
    return settled


def _note_lost(name: str) -> Note:
    def note(counters: Counters, _: Operation[Any], result: Any) -> None:
        for reply in result:
            if isinstance(reply, LeaseLost):
                counters.add(name)
                # A handler whose job is cancelled learns of it like this.
                is_usual = reply.state is State.CANCELLED
                level = logging.INFO if is_usual else logging.WARNING
                log(name, level=level, id=reply.job_id, state=reply.state)

    return note


def _note_done(name: str, kind: type) -> Note:
    def note(counters: Counters, _: Operation[Any], result: Any) -> None:
        done: list[Any] = [reply for reply in result if isinstance(reply, kind)]
        for reply in done:
            log(name, id=getattr(reply, "job_id", None))
        if issubclass(kind, Moved):
            # A job that waits for its time may be given another, and go on waiting.
            count_moves(counters, name, [each for each in done if each.state is not each.was])
            _note_followed(counters, [move for each in done for move in each.followed])
        elif issubclass(kind, Replayed):
            count(counters, name, [(SUBMIT, each.state, each.type) for each in done])
        elif done:
            counters.add(name, len(done))

    return note


def _note_edit(counters: Counters, _: Operation[Any], result: Any) -> None:
    for reply in result:
        if isinstance(reply, Edited):
            log(names.JOB_EDITED, id=reply.job.id)
            count_moves(counters, names.JOB_EDITED, reply.moved[:1])
            _note_followed(counters, reply.moved[1:])


_note_replay = _note_done(names.JOB_REPLAYED, Replayed)


def _note_advance(counters: Counters, operation: Operation[Any], result: Advanced | None) -> None:
    _note_replay(counters, operation, () if result is None else result.replies)


NOTES: dict[Method, Note] = {
    QueueFacet.enqueue: _note_enqueue,
    QueueFacet.claim: _note_claim,
    QueueFacet.settle: _note_settle,
    QueueFacet.heartbeat: _note_lost(names.STALE_HEARTBEAT),
    QueueFacet.save: _note_lost(names.STALE_SAVE),
    QueueFacet.spawn: _note_spawn,
    ControlFacet.cancel: _note_done(names.JOB_CANCELLED, Moved),
    ControlFacet.edit: _note_edit,
    ControlFacet.retry: _note_done(names.JOB_REOPENED, Moved),
    ControlFacet.replay: _note_replay,
    ControlFacet.discard: _note_done(names.JOB_DISCARDED, Discarded),
    ReplaysFacet.advance: _note_advance,
    UpkeepFacet.recover: _note_recover,
    UpkeepFacet.promote: _note_promote,
    UpkeepFacet.expire: _note_expire,
    UpkeepFacet.prune: _note_pruned(names.JOB_PRUNED),
    CronsFacet.fire: _note_fire,
    AuditFacet.prune: _note_pruned(names.AUDIT_PRUNED),
    EventsFacet.send: _note_send,
    EventsFacet.prune: _note_pruned(names.EVENT_PRUNED),
}
"""What is counted and logged of the replies; how often and how long, ``observed`` counts."""

COUNTED_ONLY: frozenset[Method] = frozenset(
    {
        ReplaysFacet.start,
        SettingsFacet.pause,
        SettingsFacet.resume,
        SettingsFacet.limit,
        SettingsFacet.limit_types,
        UpkeepFacet.tidy,
        CronsFacet.declare,
        CronsFacet.pause,
        CronsFacet.resume,
        CronsFacet.forget,
        AccessFacet.add,
        AccessFacet.revoke,
        AccessFacet.open_session,
        AccessFacet.close_session,
        AuditFacet.record,
        ClusterFacet.announce,
        ClusterFacet.retire,
        ClusterFacet.lead,
        ClusterFacet.resign,
        EventsFacet.load,
        SeriesFacet.record,
        RefusalsFacet.record,
        TransferFacet.load,
        TransferFacet.accept_jobs,
        JoinsFacet.mark,
    }
)
"""Operations that write, and of which nothing more is counted or logged."""
