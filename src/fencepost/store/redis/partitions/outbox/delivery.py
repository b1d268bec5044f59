"""Delivers the entries of outboxes (``entries.py``) to other partitions; any process may do it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from fencepost.errors import FencepostError, StoreError, UnknownDependencyError
from fencepost.observe import names
from fencepost.observe.log import log
from fencepost.store.interface.queue import EnqueueReply
from fencepost.store.plan import Plan
from fencepost.store.redis.partitions.hub import HOME, LOOK, WRITE, Hub
from fencepost.store.redis.partitions.numbers import gathering
from fencepost.store.redis.partitions.outbox.entries import (
    COMMIT_WITHIN_US,
    NEWS_US,
    OutboxEntry,
    Part,
    delete,
    delete_by_id,
    has_entries,
    mark_of,
    marks,
    pending,
    postpone,
    put,
    sweep,
    time_of,
)
from fencepost.store.redis.partitions.outbox.mirrors import Applied, Mirror, apply, needing
from fencepost.store.redis.partitions.outbox.news import Wanted, report_to

ROUNDS_MAX = 200
"""How often one delivery may cause another: a chain through partitions is no longer."""

Replies = dict[int, list[EnqueueReply] | None]
"""What each partition answered; None if it had its part before."""


def deliver(hub: Hub, numbers: Iterable[int]) -> Plan[None]:
    """Deliver the outboxes of some partitions, and the entries that this causes."""
    waiting = list(dict.fromkeys(numbers))
    for _ in range(ROUNDS_MAX):
        if not waiting:
            return
        number = waiting.pop(0)
        caused = yield from _deliver(hub, number)
        waiting += [each for each in caused if each not in waiting]


def deliver_quietly(hub: Hub, numbers: Iterable[int]) -> Plan[None]:
    """Do the same, but raise nothing: what cannot be delivered now is delivered later."""
    try:
        yield from deliver(hub, numbers)
    except StoreError:
        return


def deliver_all(hub: Hub) -> Plan[None]:
    """Deliver every outbox; a partition that is not available is skipped."""
    numbers = [HOME, *sorted((yield from hub.refresh(is_needed=False)))]
    calls = [hub.at(number).plan(LOOK, pending, 1) for number in numbers if hub.is_well(number)]
    replies = yield from hub.attempt(calls)
    for call, reply in zip(calls, replies, strict=True):
        assert hasattr(call.store, "number")
        number: int = call.store.number
        hub.judge(number, reply)
        if isinstance(reply, list) and reply:
            yield from deliver_quietly(hub, [number])


def _deliver(hub: Hub, number: int) -> Plan[list[int]]:
    """Deliver entries of one partition; return in which others that made new ones.

    They are read as one who writes does: if replicas are waited for, they have confirmed what is
    reported to others, who would not learn that a failover took it back.
    """
    entries: list[OutboxEntry] = yield from hub.ask(number, WRITE, pending)
    targets = {part.number for entry in entries for part in entry.parts or ()}
    caused: set[int] = set()
    if targets:
        times = yield from read_times(hub, targets)
        # Read again: an intent that is there now is not forgotten before those times are over.
        entries = yield from hub.ask(number, WRITE, pending)
        for entry in entries:
            if entry.parts is not None and times.keys() >= {each.number for each in entry.parts}:
                yield from _store(hub, number, entry, times)
                caused |= {part.number for part in entry.parts}
    news = [entry for entry in entries if entry.job_id is not None]
    caused |= yield from _tell(hub, number, news)
    reports = [entry for entry in entries if entry.parts is None and entry.job_id is None]
    caused |= yield from _report(hub, number, reports)
    return sorted(caused)


def _store(hub: Hub, number: int, entry: OutboxEntry, times: dict[int, int]) -> Plan[None]:
    """Store the parts of an intent; if a partition refuses its part, log it and try later."""
    assert entry.parts is not None
    try:
        yield from store_parts(hub, number, entry.id, entry.parts, times)
    except StoreError:
        raise
    except FencepostError as error:
        log(names.CHORE_FAILED, level=logging.ERROR, chore="outbox", error=repr(error), pause=1)
        yield from hub.ask(number, WRITE, postpone, [entry.seq])
        return
    yield from hub.ask(number, WRITE, delete_by_id, [entry.id])


def read_times(hub: Hub, numbers: Iterable[int]) -> Plan[dict[int, int]]:
    """Return the time in each partition, before steps that have to be done within a limit."""
    asked = sorted(numbers)
    found = yield from hub.each([hub.at(each).plan(LOOK, time_of) for each in asked])
    return dict(zip(asked, found, strict=True))


def store_parts(
    hub: Hub, source: int, id: str, parts: list[Part], times: dict[int, int]
) -> Plan[Replies]:
    """Store the parts of an intent where they belong, each unless it was stored before."""
    yield from hub.found(part.number for part in parts)
    replies: Replies = {}
    for part in parts:
        deadline = times[part.number] + COMMIT_WITHIN_US
        replies[part.number] = yield from hub.ask(
            part.number, WRITE, put, part, mark_of(source, id), deadline
        )
    return replies


def _tell(hub: Hub, number: int, entries: list[OutboxEntry]) -> Plan[set[int]]:
    """Bring mirrors of jobs that were changed by hand up to date; return where any were.

    The report comes first: a mirror that waits again must learn of the next end. News that did not
    reach a partition which is away are kept.
    """
    informed: set[int] = set()
    if not entries:
        return informed
    ids = dict.fromkeys(entry.job_id for entry in entries if entry.job_id is not None)
    names = {name: job_id for job_id in ids for name in (job_id, gathering(job_id))}
    others = sorted((yield from hub.refresh()) - {number})
    calls = [hub.at(other).plan(LOOK, needing, list(names)) for other in others]
    answers = (yield from hub.attempt(calls)) if calls else []
    failure = next((each for each in answers if isinstance(each, BaseException)), None)
    for other, answer in zip(others, answers, strict=True):
        if isinstance(answer, list) and answer:
            wanted = [Wanted(names[name], name, other) for name in answer]
            found = yield from hub.ask(number, WRITE, report_to, wanted)
            known = [mirror for mirror in found if mirror is not None]
            yield from hub.ask(other, WRITE, apply, known)
            informed.add(other)
    if failure is not None:
        raise failure
    done = {entry.seq: entry.version for entry in entries if entry.is_last}
    again = [entry.seq for entry in entries if not entry.is_last]
    if done:
        yield from hub.ask(number, WRITE, delete, done)
    if again:
        yield from hub.ask(number, WRITE, postpone, again, NEWS_US)
    return informed


def _report(hub: Hub, number: int, entries: list[OutboxEntry]) -> Plan[set[int]]:
    """Bring mirrors up to date, then delete the reports; return where that ended other jobs."""
    by_target: dict[int, list[OutboxEntry]] = {}
    for entry in entries:
        by_target.setdefault(entry.target, []).append(entry)
    caused: set[int] = set()
    for target, own in by_target.items():
        ended: dict[str, Mirror] = {
            each.report.id: each.report
            for each in own
            if each.report is not None and each.report.state.is_terminal
        }
        applied = Applied(frozenset())
        if ended:
            applied = yield from hub.ask(target, WRITE, apply, list(ended.values()))
        later = [each.seq for each in own if _is_for_later(each, applied)]
        done = {each.seq: each.version for each in own if each.seq not in later}
        if done:
            yield from hub.ask(number, WRITE, delete, done)
        if later:
            yield from hub.ask(number, WRITE, postpone, later)
        if has_entries(applied.moves):
            caused.add(target)
    return caused


def _is_for_later(entry: OutboxEntry, applied: Applied) -> bool:
    """Tell whether an entry was not applied, and may be."""
    report = entry.report
    if report is None:
        return False  # its job is gone, which it would have kept: there is nothing to tell
    if not report.state.is_terminal:
        return True
    return report.id in applied.missing and not entry.is_orphan


def sweep_marks(hub: Hub, number: int) -> Plan[None]:
    """Forget the marks of intents in a partition that were delivered, and deleted, long ago."""
    found = yield from hub.ask(number, LOOK, marks)
    by_source: dict[int, list[str]] = {}
    for mark in found:
        by_source.setdefault(int(mark.partition(" ")[0]), []).append(mark)
    for source, marked in by_source.items():
        ids = [name.partition(" ")[2] for name in marked]
        queues = yield from hub.on(source, hub.at(source).reader.locate(ids))
        gone = [name for name, queue in zip(marked, queues, strict=True) if queue is None]
        if gone:
            yield from hub.ask(number, WRITE, sweep, gone)


def subscribe(
    hub: Hub, wanted: Sequence[tuple[int, Wanted]]
) -> Plan[dict[tuple[str, int], Mirror]]:
    """Store reports of jobs in their partitions; return how these stand, by mirror and partition.

    A report that is there is kept. What happens to a job from now on is reported.
    """
    by_number: dict[int, list[Wanted]] = {}
    for number, each in wanted:
        by_number.setdefault(number, []).append(each)
    mirrors: dict[tuple[str, int], Mirror] = {}
    for number, own in by_number.items():
        found = yield from hub.ask(number, WRITE, report_to, own)
        for each, mirror in zip(own, found, strict=True):
            if mirror is None:
                raise UnknownDependencyError(each.job_id)
            mirrors[each.mirror_id, each.number] = mirror
    return mirrors
