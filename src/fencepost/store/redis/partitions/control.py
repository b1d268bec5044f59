"""What operators do with jobs, where these are; and what mirrors elsewhere have to know of it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from fencepost.core.values.names import id_text
from fencepost.store.interface.control import (
    CancelReply,
    DiscardReply,
    Edit,
    Edited,
    EditReply,
    Replay,
    ReplayReply,
    RetryReply,
    RetryRequest,
    as_replay,
)
from fencepost.store.interface.queue import Moved
from fencepost.store.plan import Plan
from fencepost.store.redis.partitions.delivery import deliver_quietly
from fencepost.store.redis.partitions.hub import LOOK, WRITE, Hub
from fencepost.store.redis.partitions.leases import scatter, settled_moves
from fencepost.store.redis.partitions.mirrors import apply, needing, standing
from fencepost.store.redis.partitions.numbers import gathering, is_stamped
from fencepost.store.redis.partitions.outbox import has_entries, without_entries
from fencepost.store.redis.partitions.submit import subscribe


def cancel(hub: Hub, job_ids: Sequence[str]) -> Plan[list[CancelReply]]:
    """Cancel jobs where they are."""
    numbers = yield from hub.whereabouts(job_ids)
    replies = yield from scatter(
        hub, job_ids, numbers, lambda store, part: store.control.cancel(part)
    )
    return (yield from settled_moves(hub, replies, numbers))


def retry(hub: Hub, requests: Sequence[RetryRequest]) -> Plan[list[RetryReply]]:
    """Run jobs again; mirrors of those that had ended follow."""
    numbers = yield from hub.whereabouts([each.job_id for each in requests])
    replies = yield from scatter(
        hub, requests, numbers, lambda store, part: store.control.retry(part)
    )
    for reply, number in zip(replies, numbers, strict=True):
        if isinstance(reply, Moved) and reply.was.is_terminal:
            yield from _tell(hub, number, reply.job_id)
    return (yield from settled_moves(hub, replies, numbers))


def edit(hub: Hub, edits: Sequence[Edit]) -> Plan[list[EditReply]]:
    """Change jobs where they are; mirrors get a new priority too."""
    numbers = yield from hub.whereabouts([each.job_id for each in edits])
    replies = yield from scatter(hub, edits, numbers, lambda store, part: store.control.edit(part))
    for place, (each, reply) in enumerate(zip(edits, replies, strict=True)):
        if isinstance(reply, Edited):
            if each.priority is not None:
                yield from _tell(hub, numbers[place], reply.job.id)
            if has_entries(reply.moved):
                replies[place] = replace(reply, moved=without_entries(reply.moved))
                yield from deliver_quietly(hub, [numbers[place]])
    return replies


def _tell(hub: Hub, number: int, job_id: str) -> Plan[None]:
    """Bring mirrors of a live job up to date that jobs wait for.

    The report comes first: a mirror that waits again must learn of the next end.
    """
    others = sorted((yield from hub.refresh()) - {number})
    names = list(dict.fromkeys([job_id, gathering(job_id)]))
    asked = [(name, other) for name in names for other in others]
    calls = [hub.at(other).plan(LOOK, needing, name) for name, other in asked]
    needed = (yield from hub.each(calls)) if calls else []
    targets = [pair for pair, is_needed in zip(asked, needed, strict=True) if is_needed]
    if not targets:
        return
    yield from subscribe(hub, [(number, job_id, name, target) for name, target in targets])
    (mirror,) = yield from hub.ask(number, LOOK, standing, [job_id])
    if mirror is not None:
        news = [(replace(mirror, id=name), target) for name, target in targets]
        yield from hub.each([hub.at(target).plan(WRITE, apply, [own]) for own, target in news])


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
