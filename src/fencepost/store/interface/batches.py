"""What the replies to a batch say together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from fencepost.core.job.lifecycle import State
from fencepost.store.interface.queue import Settled, SettleReply
from fencepost.store.interface.replies import Moved

Reply = TypeVar("Reply")
T = TypeVar("T")


def held_among(promoted: Iterable[Moved]) -> int:
    """Return how many jobs whose time had come are held up by their keys."""
    return sum(1 for move in promoted if move.state is State.PENDING)


def with_admitted(replies: Sequence[Reply], admitted: Sequence[Moved]) -> list[Reply]:
    """Return *replies* to a batch, with those told who got a slot of their key in the same breath.

    One that was moved by the batch itself is told by its own reply; the others by the first.
    """
    told = list(replies)
    if not admitted:
        return told
    entered = {each.job_id: each for each in admitted}
    first: int | None = None
    for place, reply in enumerate(told):
        if isinstance(reply, (Moved, Settled)):
            first = place if first is None else first
            own = entered.pop(reply.job_id, None)
            if own is not None:
                told[place] = replace(reply, state=own.state)
    teller = None if first is None else told[first]
    if first is not None and entered and isinstance(teller, (Moved, Settled)):
        told[first] = replace(teller, followed=(*teller.followed, *entered.values()))
    return told


def told_in_order(replies: Iterable[SettleReply]) -> list[SettleReply]:
    """Return *replies* as if each settlement had been made after the one before it.

    Stores write a batch first and then look at the jobs whose settlements they refused. One that
    is settled further on in the batch was still running when it was refused.
    """
    told = list(replies)
    settled_later: set[str] = set()
    for index in range(len(told) - 1, -1, -1):
        reply = told[index]
        if isinstance(reply, Settled):
            settled_later.add(reply.job_id.lower())
        elif reply.job_id.lower() in settled_later:
            told[index] = replace(reply, state=State.RUNNING)
    return told


def portions(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield *items* in their order, no more than *size* at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
