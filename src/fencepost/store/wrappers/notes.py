"""What the replies of operations say of jobs: what an observed store counts and logs.

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
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.histograms import Lane
from fencepost.observe.log import log, logger
from fencepost.store.interface.access import AccessFacet
from fencepost.store.interface.audit import AuditFacet
from fencepost.store.interface.cluster import ClusterFacet
from fencepost.store.interface.control import ControlFacet, Discarded, Edited, Replayed
from fencepost.store.interface.crons import CronsFacet, Fired
from fencepost.store.interface.events import EventReply, EventsFacet
from fencepost.store.interface.facet import Method
from fencepost.store.interface.joins import JoinsFacet
from fencepost.store.interface.queue import AlreadySettled, Claim, QueueFacet, Settled, Spawned
from fencepost.store.interface.replies import Duplicate, Enqueued, LeaseLost, Moved
from fencepost.store.interface.settings import SettingsFacet
from fencepost.store.interface.transfer import TransferFacet
from fencepost.store.interface.upkeep import Pruned, UpkeepFacet
from fencepost.store.plan import Operation
from fencepost.store.wrappers.transitions import EVENT_NAMES, SUBMIT, Happening, count, count_moves

Note = Callable[[Counters, Operation[Any], Any], None]


def _note_enqueue(counters: Counters, operation: Operation[Any], result: Any) -> None:
    _note_enqueued(counters, result, map(_CORRELATION, operation.given[0]))


_CORRELATION = attrgetter("correlation_id")


def _note_enqueued(counters: Counters, result: Any, correlations: Iterable[str | None]) -> None:
    enqueued: dict[Happening, int] = {}
    for (kind, state, type_), times in Counter(map(_REPLY, result)).items():
        if kind is Duplicate:
            counters.add(names.JOB_DUPLICATE, times)
        else:
            enqueued[SUBMIT, state, type_] = times
    count(counters, names.JOB_ENQUEUED, enqueued)
    _log_each(names.JOB_ENQUEUED, result, Enqueued, correlations)


_REPLY = attrgetter("__class__", "state", "type")


def _note_send(counters: Counters, _: Operation[Any], result: EventReply) -> None:
    counters.add(names.EVENT_SENT)
    event = result.event
    log(names.EVENT_SENT, level=logging.DEBUG, id=event.id, name=event.name, jobs=len(event.jobs))
    _note_enqueued(counters, result.jobs, repeat(event.id))


def _note_pruned(name: str) -> Callable[[Counters, Operation[Any], int], None]:
    def note(counters: Counters, _: Operation[Any], result: int) -> None:
        if result:
            counters.add(name, result)
            log(name, count=result)

    return note


def _note_fire(counters: Counters, operation: Operation[Any], result: Any) -> None:
    for fire, reply in zip(operation.given[0], result, strict=True):
        if isinstance(reply, Fired):
            counters.add(names.CRON_FIRED, len(reply.jobs), cron=reply.name)
            _note_enqueued(counters, reply.jobs, map(_CORRELATION, fire.jobs))


def _log_each(
    name: str, replies: Any, kind: type, correlations: Iterable[str | None] | None = None
) -> None:
    """Write an event a job, if anybody listens: there may be tens of thousands a second.

    With the correlation ids of what each was the reply to, if they are known (S1-108).
    """
    if not logger.isEnabledFor(logging.DEBUG):
        return
    # Of those that give their ids, as many as there are replies; else None for each.
    for reply, correlation_id in zip(replies, correlations or repeat(None), strict=False):
        if isinstance(reply, kind):
            reply = cast(Enqueued, reply)
            known = {} if correlation_id is None else {"correlation_id": correlation_id}
            log(
                name,
                level=logging.DEBUG,
                id=reply.job_id,
                type=reply.type,
                state=reply.state,
                **known,
            )


def _note_claim(counters: Counters, _: Operation[Any], result: Claim) -> None:
    # Nearly always there are jobs of one lane, and nothing else.
    for lane, waits in _waits(result.jobs).items():
        count(counters, names.JOB_CLAIMED, {(_CLAIM, State.RUNNING, lane[0]): len(waits)})
        counters.waits.note(lane, waits)
    if result.promoted:
        _note_promoted(counters, result)
    if result.recovered:
        _note_recovered(counters, result.recovered)
    if result.expired:
        _note_moves(counters, names.JOB_EXPIRED, result.expired, Event.EXPIRE)
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


_LANE = attrgetter("type", "queue")
_WAITED = attrgetter("waited")


def _note_promoted(counters: Counters, result: Claim) -> None:
    """Count what a claim made claimable on its way; of which types that was, it does not say."""
    ready = (EVENT_NAMES[Event.READY], State.SCHEDULED, "")
    held = (EVENT_NAMES[Event.HOLD], State.PENDING, "")
    moved = {ready: result.promoted - result.held, held: result.held}
    count(counters, names.JOB_PROMOTED, moved)


def _note_recover(counters: Counters, _: Operation[Any], result: list[Moved]) -> None:
    _note_recovered(counters, result)


def _note_followed(counters: Counters, followed: Sequence[Moved]) -> None:
    """Count what became of those that waited for a job that has ended."""
    count_moves(counters, names.JOB_FOLLOWED, followed)
    _log_each(names.JOB_FOLLOWED, followed, Moved)


def _note_recovered(counters: Counters, moves: list[Moved]) -> None:
    for move in moves:
        _note_followed(counters, move.followed)
        name = names.LEASE_EXHAUSTED if move.state.is_terminal else names.LEASE_RECOVERED
        count_moves(counters, name, [move])
        log(name, level=logging.WARNING, id=move.job_id, type=move.type, state=move.state)


def _note_moves(
    counters: Counters, name: str, moves: list[Moved], event: Event | None = None
) -> None:
    count_moves(counters, name, moves, event)
    for move in moves:
        _note_followed(counters, move.followed)
        log(name, level=logging.WARNING, id=move.job_id, type=move.type, state=move.state)


_CLAIM = EVENT_NAMES[Event.CLAIM]
_STALE = {Event.SUCCEED: names.STALE_ACK, Event.RELEASE: names.STALE_RELEASE}


def _note_settle(counters: Counters, operation: Operation[Any], result: Any) -> None:
    try:
        # Nearly always all are settled; this is twice as fast as to look at them one by one.
        replies = Counter(map(_SETTLED, result))
    except AttributeError:
        settled = _note_refused(counters, operation.given[0], result)
        replies = Counter(map(_SETTLED, settled))
    happened: Counter[Happening] = Counter()
    for (state, type_, followed), times in replies.items():
        happened[_EVENTS[state], state, type_] += times
        if followed:
            _note_followed(counters, followed)
    count(counters, names.JOB_SETTLED, happened)
    _log_each(names.JOB_SETTLED, result, Settled, map(_CORRELATION, operation.given[0]))


_SETTLED = attrgetter("state", "type", "followed")
_EVENTS = {
    **{state: EVENT_NAMES[event] for event, state in TRANSITIONS[State.RUNNING].items()},
    State.DEAD_LETTER: EVENT_NAMES[Event.EXHAUST],
    State.PENDING: EVENT_NAMES[Event.RELEASE],  # and held up by its key
}
"""What a settlement that led to a state was: each leads to one of its own."""


def _note_refused(
    counters: Counters, settlements: Sequence[Settlement], result: Any
) -> list[Settled]:
    """Count and tell what was settled before or by somebody else; return the rest."""
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


def _note_heartbeat(counters: Counters, _: Operation[Any], result: Any) -> None:
    _note_lost(counters, names.STALE_HEARTBEAT, result)


def _note_save(counters: Counters, _: Operation[Any], result: Any) -> None:
    _note_lost(counters, names.STALE_SAVE, result)


def _note_spawn(counters: Counters, operation: Operation[Any], result: Any) -> None:
    _note_lost(counters, names.STALE_SPAWN, result)
    for spawn, reply in zip(operation.given[0], result, strict=True):
        if isinstance(reply, Spawned):
            _note_followed(counters, reply.followed)
            _note_enqueued(counters, reply.replies, map(_CORRELATION, spawn.jobs))


def _note_lost(counters: Counters, name: str, result: Any) -> None:
    for reply in result:
        if isinstance(reply, LeaseLost):
            counters.add(name)
            log(name, level=logging.WARNING, id=reply.job_id, state=reply.state)


def _note_promote(counters: Counters, _: Operation[Any], result: list[Moved]) -> None:
    count_moves(counters, names.JOB_PROMOTED, result)
    for move in result:
        _note_followed(counters, move.followed)


def _note_expire(counters: Counters, _: Operation[Any], result: list[Moved]) -> None:
    _note_moves(counters, names.JOB_EXPIRED, result, Event.EXPIRE)


def _note_prune(counters: Counters, _: Operation[Any], result: Pruned) -> None:
    if result.count:
        counters.add(names.JOB_PRUNED, result.count)
        log(names.JOB_PRUNED, count=result.count)


def _note_done(name: str, kind: type) -> Callable[[Counters, Operation[Any], Any], None]:
    def note(counters: Counters, _: Operation[Any], result: Any) -> None:
        for reply in result:
            if not isinstance(reply, kind):
                continue
            log(name, id=getattr(reply, "job_id", None))
            if isinstance(reply, Moved):
                # A job that waits for its time may be given another, and go on waiting.
                count_moves(counters, name, [reply] if reply.state is not reply.was else [])
                _note_followed(counters, reply.followed)
            elif isinstance(reply, Replayed):
                count(counters, name, [(SUBMIT, reply.state, reply.type)])
            else:
                counters.add(name)

    return note


def _note_edit(counters: Counters, _: Operation[Any], result: Any) -> None:
    for reply in result:
        if isinstance(reply, Edited):
            log(names.JOB_EDITED, id=reply.job.id)
            own, followed = reply.moved[:1], reply.moved[1:]
            count_moves(counters, names.JOB_EDITED, own)
            _note_followed(counters, followed)


NOTES: dict[Method, Note] = {
    QueueFacet.enqueue: _note_enqueue,
    QueueFacet.claim: _note_claim,
    QueueFacet.settle: _note_settle,
    QueueFacet.heartbeat: _note_heartbeat,
    QueueFacet.save: _note_save,
    QueueFacet.spawn: _note_spawn,
    ControlFacet.cancel: _note_done(names.JOB_CANCELLED, Moved),
    ControlFacet.edit: _note_edit,
    ControlFacet.retry: _note_done(names.JOB_REOPENED, Moved),
    ControlFacet.replay: _note_done(names.JOB_REPLAYED, Replayed),
    ControlFacet.discard: _note_done(names.JOB_DISCARDED, Discarded),
    UpkeepFacet.recover: _note_recover,
    UpkeepFacet.promote: _note_promote,
    UpkeepFacet.expire: _note_expire,
    UpkeepFacet.prune: _note_prune,
    CronsFacet.fire: _note_fire,
    AuditFacet.prune: _note_pruned(names.AUDIT_PRUNED),
    EventsFacet.send: _note_send,
    EventsFacet.prune: _note_pruned(names.EVENT_PRUNED),
}
"""What the replies of operations say, beside that they were done and how long it took."""

COUNTED_ONLY: frozenset[Method] = frozenset(
    {
        SettingsFacet.pause,
        SettingsFacet.resume,
        SettingsFacet.limit,
        SettingsFacet.set_rates,
        UpkeepFacet.tidy,
        CronsFacet.declare,
        CronsFacet.pause,
        CronsFacet.resume,
        CronsFacet.forget,
        AccessFacet.add,
        AccessFacet.revoke,
        AuditFacet.record,
        ClusterFacet.announce,
        ClusterFacet.retire,
        ClusterFacet.lead,
        ClusterFacet.resign,
        EventsFacet.load,
        TransferFacet.load,
        TransferFacet.accept_jobs,
        JoinsFacet.mark,
    }
)
"""Operations that write, and of which nothing more is counted or logged."""
