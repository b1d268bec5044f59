"""The outbox of a partition: messages to others, written in the same commit as their cause.

An entry is an internal job in a paused queue, so that it is kept as safely as any job. There are
three types:

- A *report* waits for the end of a job that has dependents in another partition. The commit that
  ends the job makes the report claimable, like any dependent. Delivering it updates the mirror in
  the other partition. Until then, the report keeps its job from being pruned.
- An *intent* holds accepted jobs for other partitions: a submission to several queues, the jobs of
  an event, the tick of a cron. Each partition stores its part together with a mark that names the
  entry.
- *News* name a job that was changed by hand, so that its mirrors follow; see ``news.py``.

An entry is delivered at least once, by any process, and deleted after it was applied. Applying it
twice changes nothing: a mirror ends only once, the mark of an intent is stored with its jobs, and a
mirror knows the revision of its job. If a process dies between two steps, the entry is still there,
and the next process delivers it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec

from fencepost.core.flows.dependencies import Dependencies, Mode
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import Body, Encoding, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy
from fencepost.core.values.names import wanted_ids
from fencepost.store.interface.queue import EnqueueReply, Moved
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.job import PRIORITIES, Kept
from fencepost.store.redis.documents.lines import first_due
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, field, number_of, read
from fencepost.store.redis.jobs.enqueue import accept
from fencepost.store.redis.partitions.numbers import OUTBOX, is_gathering
from fencepost.store.redis.partitions.outbox.mirrors import (
    Mirror,
    PartUnit,
    mirror_of_all,
    place,
    results_of,
    version_of,
)

REPORT, INTENT, NEWS = "fencepost.report", "fencepost.intent", "fencepost.news"
TYPES = (REPORT, INTENT, NEWS)
BATCH = 200
LIFETIME = 10 * 365 * 86_400.0
"""Entries do not expire before the jobs they are about."""
COMMIT_WITHIN_US = 300 * 1_000_000
"""A job that waits for one of another partition is stored this long after it was begun, or not."""
NEWS_US = 2 * COMMIT_WITHIN_US
"""News are delivered again when they are so old: what relied on what was before is stored then."""
ORPHAN_US = 3_600 * 1_000_000
"""A report that finds no mirror is kept this long: the mirror may be about to come."""
RETRY_US = 1_000_000
HELD = b"held"
"""The value of a mark while its intent may be delivered again."""
POLICY = Policy(max_attempts=1, lifetime=LIFETIME)
_NUMBER = 8


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one partition stores of a submission."""

    number: int
    jobs: list[NewJob] = []
    mirrors: list[Mirror] = []
    is_atomic: bool = False


class Intent(msgspec.Struct, frozen=True):
    """The parts of a submission that was accepted."""

    parts: list[Part]


class Subscription(msgspec.Struct, frozen=True):
    """To which partition the end of a job is reported, and under which id."""

    number: int
    mirror: str


_encoder = msgspec.msgpack.Encoder()
_intents = msgspec.msgpack.Decoder(Intent)
_subscriptions = msgspec.msgpack.Decoder(Subscription)


def report_job(on: str | int, mirror: str, number: int) -> NewJob:
    """Return the entry that tells partition *number* when a job has ended.

    If the mirror stands for what the job spawns, too, the entry also waits for that.
    """
    body = _encoder.encode(Subscription(number, mirror))
    return NewJob(
        type=REPORT,
        queue=OUTBOX,
        payload=Body(body, Encoding.BINARY),
        policy=POLICY,
        key=Key(f"{mirror} {number}", None),
        after=Dependencies((on,), Mode.ENDED, gathers=is_gathering(mirror)),
    )


def intent_job(parts: Sequence[Part], id: bytes | None = None) -> NewJob:
    """Return the entry that holds jobs for other partitions."""
    body = _encoder.encode(Intent(list(parts)))
    return NewJob(
        type=INTENT, queue=OUTBOX, payload=Body(body, Encoding.BINARY), policy=POLICY, id=id
    )


class OutboxEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that is to be delivered."""

    seq: int
    id: str
    is_orphan: bool
    """Whether it is so old that its mirror, if missing, will not be stored any more."""
    is_last: bool = True
    """Whether these news are old enough to be deleted."""
    job_id: str | None = None
    """The job of which news are."""
    parts: list[Part] | None = None
    target: int = 0
    report: Mirror | None = None

    @property
    def version(self) -> int:
        return 0 if self.report is None else self.report.version


def pending(env: Env, limit: int = BATCH) -> Plan[list[OutboxEntry]]:
    """Return entries to deliver, the oldest first."""
    unit = Unit(env)
    lanes = [field(int(each), OUTBOX, type_) for type_ in TYPES for each in PRIORITIES]
    answers = yield from unit.read(
        *([b"LRANGE", env.key("line", lane), 0, limit - 1] for lane in lanes),
        *([b"ZRANGE", env.key("early", lane), 0, limit - 1] for lane in lanes),
    )
    seqs = sorted({number_of(own[-_NUMBER:]) for answer in answers for own in answer})
    if not seqs:
        return []
    jobs = yield from unit.jobs(seqs[:limit])
    ready = [kept for kept in jobs.values() if _is_entry(kept)]
    reports = [kept for kept in ready if kept.type == REPORT]
    causes = yield from unit.jobs(seq for kept in reports for seq in kept.document.parents or ())
    results = yield from results_of(env, list(causes))
    found = []
    for kept in ready:
        payload = kept.document.payload
        if payload is None:
            payload = yield from unit.large_payload(kept)
        own = [causes[seq] for seq in kept.document.parents or () if seq in causes]
        age = unit.now - kept.document.created_at
        entry = OutboxEntry(
            seq=kept.seq, id=kept.id, is_orphan=age >= ORPHAN_US, is_last=age >= NEWS_US
        )
        # One that cannot be read was delivered and deleted meanwhile, or else `doctor` reports it.
        with suppress(msgspec.DecodeError):
            found.append(_decoded(entry, kept.type, payload, own, results))
    return found


def _decoded(
    entry: OutboxEntry,
    type: str,
    payload: bytes,
    causes: Sequence[Kept],
    results: Mapping[int, Body | None],
) -> OutboxEntry:
    """Return an entry with what it says, or raise msgspec.DecodeError."""
    if type == NEWS:
        return msgspec.structs.replace(entry, job_id=payload.decode())
    if type == INTENT:
        return msgspec.structs.replace(entry, parts=_intents.decode(payload).parts)
    subscription = _subscriptions.decode(payload)
    report = None
    if causes:
        known = mirror_of_all(causes, subscription.mirror, results[causes[0].seq])
        report = msgspec.structs.replace(known, is_forced=entry.is_orphan)
    return msgspec.structs.replace(entry, target=subscription.number, report=report)


def late(env: Env) -> Plan[bool]:
    """Tell whether an entry is overdue."""
    lanes = [field(int(each), OUTBOX, type_) for type_ in TYPES for each in PRIORITIES]
    first = yield from first_due(env, lanes)
    (now,) = yield from read(env)
    return any(at + ORPHAN_US <= now for at in first.values())


def _is_entry(kept: Kept) -> bool:
    return kept.queue == OUTBOX and kept.state is State.SCHEDULED


def delete(env: Env, reported: Mapping[int, int]) -> Plan[None]:
    """Delete entries that were applied, by number, with the revision that a report was about.

    If its job has changed since, the report is about something else now, and is delivered again.
    """
    unit = Unit(env)
    jobs = yield from unit.jobs(reported)
    for kept in jobs.values():
        causes = yield from unit.jobs(kept.document.parents or ())
        is_same = not causes or version_of(causes.values()) == reported[kept.seq]
        if _is_entry(kept) and is_same:
            yield from _remove(unit, kept)
    yield from unit.commit()


def delete_by_id(env: Env, job_ids: Sequence[str]) -> Plan[None]:
    """Delete intents that were applied."""
    unit = Unit(env)
    for kept in (yield from unit.by_id(wanted_ids(job_ids))).values():
        if _is_entry(kept):
            yield from _remove(unit, kept)
    yield from unit.commit()


def _remove(unit: Unit, kept: Kept) -> Plan[None]:
    unit.delete(kept)
    if kept.document.key is not None:
        keys, name = unit.env.key("keys"), field(kept.type, kept.document.key)
        text = yield from unit.field(keys, name)
        if text is not None and int(text.split()[0]) == kept.seq:
            unit.set_field(keys, name, None)


def postpone(env: Env, seqs: Sequence[int], delay: int = RETRY_US) -> Plan[None]:
    """Try entries again a little later; a report whose job runs again waits for its next end."""
    unit = Unit(env)
    now = yield from unit.start()
    jobs = yield from unit.jobs(seqs)
    for kept in [each for each in jobs.values() if _is_entry(each)]:
        causes = yield from unit.jobs(kept.document.parents or ())
        live = sum(not cause.state.is_terminal for cause in causes.values())
        if live:
            kept.set_state(State.PENDING)
            kept.missing = live
        else:
            kept.set_state(State.DELAYED)
            kept.document.run_at = now + delay
    yield from unit.commit()


def put(
    env: Env, part: Part, mark: str | None = None, deadline: int | None = None
) -> Plan[list[EnqueueReply] | None]:
    """Store a part of a submission; None if it was stored before, of which the mark is proof."""
    unit = PartUnit(env)
    unit.is_delivery = mark is not None
    yield from unit.start()
    if deadline is not None:
        unit.until(deadline)
    if mark is not None:
        applied = yield from unit.field(env.key("applied"), mark.encode())
        if applied is not None:
            return None
        unit.set_field(env.key("applied"), mark.encode(), HELD)
    yield from place(unit, part.mirrors)
    placed = yield from accept(unit, part.jobs, atomic=part.is_atomic)
    yield from unit.commit()
    return [each.reply for each in placed]


def has_entries(moves: Iterable[Moved]) -> bool:
    """Tell whether a move, or one that followed it, is that of an entry."""
    return any(
        each.type in TYPES or has_entries(each.followed)  # one level, in practice
        for each in moves
    )


def without_entries(moves: Sequence[Moved]) -> tuple[Moved, ...]:
    """Return moves without those of entries, which no caller needs."""
    return tuple(each for each in moves if each.type not in TYPES)


def mark_of(source: int, id: str) -> str:
    """Return the mark of an intent; it also names the partition whose outbox has the intent."""
    return f"{source} {id}"


def time_of(env: Env) -> Plan[int]:
    """Return the time by the clock of a partition."""
    (now,) = yield from read(env)
    return int(now)


def marks(env: Env) -> Plan[list[str]]:
    """Return some of the marks."""
    _, found = yield from read(env, [b"HRANDFIELD", env.key("applied"), BATCH])
    return [name.decode() for name in found]


def sweep(env: Env, gone: Sequence[str]) -> Plan[None]:
    """Record which intents are gone, and forget marks of those that have been gone for long.

    A process that still holds such an intent may store its part for COMMIT_WITHIN_US, no longer.
    """
    unit = Unit(env)
    now = yield from unit.start()
    key = env.key("applied")
    known = yield from unit.fields(key, [name.encode() for name in gone])
    for name, at in known.items():
        if at == HELD:
            unit.set_field(key, name, str(now).encode())
        elif at is not None and int(at) + ORPHAN_US <= now:
            unit.set_field(key, name, None)
    yield from unit.commit()
