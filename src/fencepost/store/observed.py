"""A store with counters and log events around it, so that no engine contains any.

Every operation passes through ``run`` or ``run_async``, and every reply says what happened to its
job: that is all there is to count.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar, cast

from fencepost.core.lifecycle import Event, State
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log, logger
from fencepost.store.crons import Fired
from fencepost.store.plan import Operation
from fencepost.store.protocol import Store
from fencepost.store.replies import (
    AlreadySettled,
    Claim,
    Discarded,
    Duplicate,
    Enqueued,
    EventReply,
    LeaseLost,
    Moved,
    Pruned,
    Replayed,
    Settled,
    Spawned,
)

T = TypeVar("T")


def observed(store: Store, counters: Counters) -> Store:
    """Return *store*, counting into *counters* all that is run on it."""
    return cast(Store, ObservedStore(store, counters))


class ObservedStore:
    """Passes everything on, and counts what comes back."""

    def __init__(self, store: Store, counters: Counters) -> None:
        self._store = store
        self._counters = counters

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def run(self, operation: Operation[T]) -> T:
        start = self._store.clock.monotonic()
        try:
            result = self._store.run(operation)
        except Exception as error:
            self._note_failure(operation, error)
            raise
        self._note(operation, result, start)
        return result

    async def run_async(self, operation: Operation[T]) -> T:
        start = self._store.clock.monotonic()
        try:
            result = await self._store.run_async(operation)
        except Exception as error:
            self._note_failure(operation, error)
            raise
        self._note(operation, result, start)
        return result

    def _note_failure(self, operation: Operation[Any], error: Exception) -> None:
        code = getattr(error, "code", type(error).__name__)
        self._counters.add(names.STORE_OPERATION_FAILED, operation=operation.name, code=code)

    def _note(self, operation: Operation[Any], result: Any, start: float) -> None:
        seconds = self._store.clock.monotonic() - start
        self._counters.add(names.STORE_OPERATION, operation=operation.name)
        self._counters.add(names.STORE_OPERATION_SECONDS, seconds, operation=operation.name)
        note = _NOTES.get(operation.name)
        if note is not None:
            note(self._counters, operation, result)


def _note_enqueue(counters: Counters, _: Operation[Any], result: Any) -> None:
    enqueued: Counter[State] = Counter()
    for reply in result:
        if isinstance(reply, Duplicate):
            counters.add(names.JOB_DUPLICATE)
        else:
            enqueued[reply.state] += 1
    for state, count in enqueued.items():
        counters.add(names.JOB_ENQUEUED, count, state=state)
    _log_each(names.JOB_ENQUEUED, result, Enqueued)


def _note_send(counters: Counters, operation: Operation[Any], result: EventReply) -> None:
    counters.add(names.EVENT_SENT)
    event = result.event
    log(names.EVENT_SENT, level=logging.DEBUG, id=event.id, name=event.name, jobs=len(event.jobs))
    _note_enqueue(counters, operation, result.jobs)


def _note_pruned(name: str) -> Callable[[Counters, Operation[Any], int], None]:
    def note(counters: Counters, _: Operation[Any], result: int) -> None:
        if result:
            counters.add(name, result)
            log(name, count=result)

    return note


def _note_fire(counters: Counters, operation: Operation[Any], result: Any) -> None:
    for reply in result:
        if isinstance(reply, Fired):
            counters.add(names.CRON_FIRED, len(reply.jobs), cron=reply.name)
            _note_enqueue(counters, operation, reply.jobs)


def _log_each(name: str, replies: Any, kind: type) -> None:
    """Write an event a job, if anybody listens: there may be tens of thousands a second."""
    if logger.isEnabledFor(logging.DEBUG):
        for reply in replies:
            if isinstance(reply, kind):
                reply = cast(Enqueued, reply)
                log(
                    name,
                    level=logging.DEBUG,
                    id=reply.job_id,
                    type=reply.type,
                    state=reply.state,
                )


def _note_claim(counters: Counters, _: Operation[Any], result: Claim) -> None:
    if result.jobs:
        counters.add(names.JOB_CLAIMED, len(result.jobs))
    if result.promoted:
        counters.add(names.JOB_PROMOTED, result.promoted)
    _note_recovered(counters, result.recovered)
    _note_moves(counters, names.JOB_EXPIRED, result.expired)
    _note_moves(counters, names.JOB_CORRUPT, result.corrupt)


def _note_recover(counters: Counters, _: Operation[Any], result: list[Moved]) -> None:
    _note_recovered(counters, result)


def _note_followed(counters: Counters, reply: Settled | Moved) -> None:
    """Count what became of those that waited for a job that has ended."""
    for state, count in Counter(each.state for each in reply.followed).items():
        counters.add(names.JOB_FOLLOWED, count, state=state)
    _log_each(names.JOB_FOLLOWED, reply.followed, Moved)


def _note_recovered(counters: Counters, moves: list[Moved]) -> None:
    for move in moves:
        _note_followed(counters, move)
        name = names.LEASE_EXHAUSTED if move.state.is_terminal else names.LEASE_RECOVERED
        counters.add(name)
        log(name, level=logging.WARNING, id=move.job_id, type=move.type, state=move.state)


def _note_moves(counters: Counters, name: str, moves: list[Moved]) -> None:
    for move in moves:
        _note_followed(counters, move)
        counters.add(name, state=move.state)
        log(name, level=logging.WARNING, id=move.job_id, type=move.type, state=move.state)


_STALE = {Event.SUCCEED: names.STALE_ACK, Event.RELEASE: names.STALE_RELEASE}


def _note_settle(counters: Counters, operation: Operation[Any], result: Any) -> None:
    settled: Counter[State] = Counter()
    for settlement, reply in zip(operation.given[0], result, strict=True):
        if isinstance(reply, Settled):
            settled[reply.state] += 1
            if reply.followed:
                _note_followed(counters, reply)
        elif isinstance(reply, AlreadySettled):
            counters.add(names.REPEATED_SETTLE)
        else:
            name = _STALE.get(settlement.decision.event, names.STALE_NACK)
            counters.add(name)
            log(name, level=logging.WARNING, id=reply.job_id, state=reply.state)
    for state, count in settled.items():
        counters.add(names.JOB_SETTLED, count, state=state)
    _log_each(names.JOB_SETTLED, result, Settled)


def _note_heartbeat(counters: Counters, _: Operation[Any], result: Any) -> None:
    _note_lost(counters, names.STALE_HEARTBEAT, result)


def _note_save(counters: Counters, _: Operation[Any], result: Any) -> None:
    _note_lost(counters, names.STALE_SAVE, result)


def _note_spawn(counters: Counters, operation: Operation[Any], result: Any) -> None:
    _note_lost(counters, names.STALE_SPAWN, result)
    stored = [each for reply in result if isinstance(reply, Spawned) for each in reply.replies]
    _note_enqueue(counters, operation, stored)


def _note_lost(counters: Counters, name: str, result: Any) -> None:
    for reply in result:
        if isinstance(reply, LeaseLost):
            counters.add(name)
            log(name, level=logging.WARNING, id=reply.job_id, state=reply.state)


def _note_promote(counters: Counters, _: Operation[Any], result: list[Moved]) -> None:
    if result:
        counters.add(names.JOB_PROMOTED, len(result))


def _note_expire(counters: Counters, _: Operation[Any], result: list[Moved]) -> None:
    _note_moves(counters, names.JOB_EXPIRED, result)


def _note_prune(counters: Counters, _: Operation[Any], result: Pruned) -> None:
    if result.count:
        counters.add(names.JOB_PRUNED, result.count)
        log(names.JOB_PRUNED, count=result.count)


def _note_done(name: str, kind: type) -> Callable[[Counters, Operation[Any], Any], None]:
    def note(counters: Counters, _: Operation[Any], result: Any) -> None:
        for reply in result:
            if isinstance(reply, kind):
                counters.add(name)
                log(name, id=getattr(reply, "job_id", None))
                if isinstance(reply, Moved):
                    _note_followed(counters, reply)

    return note


_NOTES: dict[str, Callable[[Counters, Operation[Any], Any], None]] = {
    "enqueue": _note_enqueue,
    "send": _note_send,
    "prune_events": _note_pruned(names.EVENT_PRUNED),
    "prune_actions": _note_pruned(names.AUDIT_PRUNED),
    "claim": _note_claim,
    "fire": _note_fire,
    "settle": _note_settle,
    "heartbeat": _note_heartbeat,
    "save": _note_save,
    "spawn": _note_spawn,
    "recover": _note_recover,
    "promote": _note_promote,
    "expire": _note_expire,
    "prune": _note_prune,
    "cancel": _note_done(names.JOB_CANCELLED, Moved),
    "retry": _note_done(names.JOB_REOPENED, Moved),
    "replay": _note_done(names.JOB_REPLAYED, Replayed),
    "discard": _note_done(names.JOB_DISCARDED, Discarded),
}
