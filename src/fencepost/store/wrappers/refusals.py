"""Which writes a store refused, as an observed store sees them in replies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fencepost.core.bounds import REFUSALS_AT_ONCE, REFUSALS_RATE
from fencepost.core.job.lifecycle import Event, State
from fencepost.core.job.outcome import Settlement
from fencepost.core.limits.rates import Bucket
from fencepost.core.refusals import NewRefusal
from fencepost.store.interface.facet import Method
from fencepost.store.interface.queue import Beat, LeaseLost, QueueFacet, Save
from fencepost.store.plan import Declaration, Operation, declaration_of

_FENCED: tuple[Method, ...] = (QueueFacet.heartbeat, QueueFacet.settle, QueueFacet.save)
FENCED: dict[Declaration, str] = {declaration_of(each): each.__name__ for each in _FENCED}
_NAMES = {Event.SUCCEED: "ack", Event.RELEASE: "release"}


class RefusalMeter:
    """Lets so many records a second through: a stale token cannot keep a store busy."""

    def __init__(self) -> None:
        self._bucket: Bucket | None = None

    def is_free(self, now: float) -> bool:
        """Take one record from the budget; return whether there was one."""
        bucket = self._bucket or Bucket.full(REFUSALS_RATE, now)
        self._bucket, wait = bucket.take(REFUSALS_RATE, now)
        return wait == 0


def refused(operation: Operation[Any], result: Any) -> Sequence[NewRefusal]:
    """Return the writes of *operation* that were refused; none for nearly every operation."""
    if operation.declaration not in FENCED or LeaseLost not in map(type, result):
        return ()
    return list(_refused(FENCED[operation.declaration], operation.given[0], result))[
        :REFUSALS_AT_ONCE
    ]


def _refused(name: str, given: Sequence[Any], result: Any) -> Iterator[NewRefusal]:
    for each, reply in zip(given, result, strict=True):
        # Of a job that is not there nothing is kept. That a job was cancelled is how a worker
        # learns that it should stop: it has tried nothing.
        is_cancelled = name == "heartbeat" and getattr(reply, "state", None) is State.CANCELLED
        if isinstance(reply, LeaseLost) and reply.state is not None and not is_cancelled:
            yield NewRefusal(reply.job_id, _name_of(name, each), _fence_of(each))


def _name_of(name: str, each: Any) -> str:
    return _NAMES.get(each.decision.event, "nack") if isinstance(each, Settlement) else name


def _fence_of(each: Any) -> int | None:
    if isinstance(each, Beat):
        return each.version
    if isinstance(each, Settlement | Save) and each.job is not None:
        return each.job.lease.version
    return None
