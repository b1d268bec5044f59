"""What operators do with jobs, where these are; news for mirrors are delivered at once."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from fencepost.core.job.replays import BulkReplay
from fencepost.core.values.names import id_text
from fencepost.store.interface.control import (
    Advanced,
    CancelReply,
    DiscardReply,
    Edit,
    Edited,
    EditReply,
    NotFound,
    Replay,
    Replayed,
    ReplayReply,
    RetryReply,
    RetryRequest,
    advanced,
    as_replay,
)
from fencepost.store.interface.queue import Moved
from fencepost.store.plan import Plan
from fencepost.store.redis.partitions.hub import HOME, Hub
from fencepost.store.redis.partitions.leases import scatter, settled_moves
from fencepost.store.redis.partitions.numbers import is_stamped
from fencepost.store.redis.partitions.outbox.delivery import deliver_quietly
from fencepost.store.redis.partitions.outbox.entries import has_entries, without_entries
from fencepost.store.redis.partitions.views.reader import get


def cancel(hub: Hub, job_ids: Sequence[str]) -> Plan[list[CancelReply]]:
    """Cancel jobs where they are."""
    numbers = yield from hub.whereabouts(job_ids)
    replies = yield from scatter(
        hub, job_ids, numbers, lambda store, part: store.control.cancel(part)
    )
    return (yield from settled_moves(hub, replies, numbers))


def retry(hub: Hub, requests: Sequence[RetryRequest]) -> Plan[list[RetryReply]]:
    """Run jobs again, with news for mirrors of those that had ended."""
    numbers = yield from hub.whereabouts([each.job_id for each in requests])
    replies = yield from scatter(
        hub, requests, numbers, lambda store, part: store.control.retry(part)
    )
    changed = [
        number
        for each, reply, number in zip(requests, replies, numbers, strict=True)
        if isinstance(reply, Moved) and (reply.was.is_terminal or each.priority is not None)
    ]
    yield from deliver_quietly(hub, changed)
    return (yield from settled_moves(hub, replies, numbers))


def edit(hub: Hub, edits: Sequence[Edit]) -> Plan[list[EditReply]]:
    """Change jobs where they are, with news of a new priority for mirrors."""
    numbers = yield from hub.whereabouts([each.job_id for each in edits])
    replies = yield from scatter(hub, edits, numbers, lambda store, part: store.control.edit(part))
    changed: list[int] = []
    for place, (each, reply) in enumerate(zip(edits, replies, strict=True)):
        if isinstance(reply, Edited):
            if each.priority is not None or has_entries(reply.moved):
                changed.append(numbers[place])
            replies[place] = replace(reply, moved=without_entries(reply.moved))
    yield from deliver_quietly(hub, changed)
    return replies


def replay(hub: Hub, requests: Sequence[str | Replay]) -> Plan[list[ReplayReply]]:
    """Replace dead letters where they are; the fresh job is in the same partition."""
    asked = [as_replay(each) for each in requests]
    numbers = yield from hub.whereabouts([each.job_id for each in asked])
    strays = {
        id_text(each.id): number
        for each, number in zip(asked, numbers, strict=True)
        if each.id is not None and not is_stamped(each.id, number)
    }
    yield from hub.note_strays(strays)
    return (yield from scatter(hub, asked, numbers, lambda store, part: store.control.replay(part)))


def discard(hub: Hub, job_ids: Sequence[str]) -> Plan[list[DiscardReply]]:
    """Take dead letters off the list where they are."""
    numbers = yield from hub.whereabouts(job_ids)
    return (
        yield from scatter(hub, job_ids, numbers, lambda store, part: store.control.discard(part))
    )


def advance(hub: Hub, replay: BulkReplay, requests: Sequence[Replay] = ()) -> Plan[Advanced | None]:
    """Replay dead letters, and keep the replay with what became of them.

    No transaction spans partitions. So the home first records which dead letters become which new
    jobs; then they are replayed in their partitions; then the home counts them. A leader that finds
    such a record repeats it. If a dead letter is gone by then, and there is a job with its new id,
    it was replayed because of this record: each is replayed once, and counted once.
    """
    if not requests:
        return (yield from _keep(hub, replay))
    numbers = yield from hub.whereabouts([each.job_id for each in requests])
    named = [
        each if each.id else replace(each, id=hub.at(number).clock.new_id())
        for each, number in zip(requests, numbers, strict=True)
    ]
    pending = tuple((each.job_id, id_text(each.id or b"")) for each in named)
    noted = yield from _keep(hub, replace(replay, pending=pending))
    if noted is None:
        return None
    replies = yield from _replies(hub, named)
    result = advanced(replace(replay, version=replay.version + 1, pending=()), replies)
    kept = yield from _keep(hub, result.replay)
    return None if kept is None else result


def _keep(hub: Hub, bulk: BulkReplay) -> Plan[Advanced | None]:
    """Keep what *bulk* says, if it has not changed."""
    return (yield from hub.on(HOME, hub.home.replays.advance(bulk)))


def _replies(hub: Hub, requests: Sequence[Replay]) -> Plan[list[ReplayReply]]:
    """Replay dead letters; one that is gone counts as replayed if its new job is there."""
    replies = yield from replay(hub, requests)
    asked = [
        id_text(each.id or b"")
        for each, reply in zip(requests, replies, strict=True)
        if isinstance(reply, NotFound)
    ]
    found = (yield from get(hub, asked)) if asked else []
    made = {job.id: job for job in found if job is not None}
    checked: list[ReplayReply] = []
    for each, reply in zip(requests, replies, strict=True):
        job = made.get(id_text(each.id or b""))
        if isinstance(reply, NotFound) and job is not None:
            reply = Replayed(each.job_id, job.id, job.type, job.state)
        checked.append(reply)
    return checked
