"""The order inside a batch of settlements."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from fencepost.core.lifecycle import State
from fencepost.store.replies import Settled, SettleReply


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
